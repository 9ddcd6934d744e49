"""What node_metrics leaves: an exporter on the management address alone, and each rail's metrics in it."""

import re
import time

import pytest

testinfra_hosts = ["ansible://gpu_nodes"]

PROGRAM = "/usr/local/sbin/railyard-metrics"
FETCH = (
    'python3 -c "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=5).read().decode())"'
)
OURS = "/var/lib/prometheus/node-exporter/railyard_node.prom"
SITES = "/srv/textfiles/railyard_node.prom"


@pytest.fixture
def address(host, name):
    return host.ansible.get_variables()["ansible_host"]


@pytest.fixture
def scrape(host, is_configured, address):
    """Return what Prometheus would get."""

    def get():
        port = 9100 if is_configured else 9105
        return host.check_output(f"{FETCH} http://{address}:{port}/metrics")

    return get


def listening(host, port):
    """Return the addresses on which somebody listens, by another way than the role's."""
    lines = host.check_output(f"ss -Hltn 'sport = :{port}'").splitlines()
    return sorted(line.split()[3].rpartition(":")[0] for line in lines)


def test_it_listens_on_the_management_address_alone(host, is_configured, address):
    if is_configured:
        assert listening(host, 9100) == [address]
        refused = host.run(f"{FETCH} http://127.0.0.1:9100/metrics")
        assert refused.rc != 0
        assert "Connection refused" in refused.stderr


def test_a_rail_address_refuses(host, is_configured):
    if not is_configured:
        return
    host.check_output("ip address add 10.0.1.1/24 dev ens6")
    try:
        refused = host.run(f"{FETCH} http://10.0.1.1:9100/metrics")
    finally:
        host.check_output("ip address del 10.0.1.1/24 dev ens6")
    assert refused.rc != 0
    assert "Connection refused" in refused.stderr


def test_each_rail_is_in_a_scrape(host, scrape):
    # Of a netdev that is administratively down the kernel tells no carrier, and node_exporter has no series.
    for netdev in ("ens6", "ens6d1"):
        host.check_output(f"ip link set dev {netdev} up")
    text = scrape()
    for rail, netdev in (("rail0", "ens6"), ("rail1", "ens6d1")):
        assert f'railyard_rail_netdev_info{{device="{netdev}",rail="{rail}"}} 1' in text
        assert f'railyard_rail_expected_mtu_bytes{{layer="netdev",rail="{rail}"}} 9000' in text
        assert f'railyard_rail_errors_total{{kind="physical",rail="{rail}"}} 0' in text
        assert re.search(rf'node_network_carrier{{device="{netdev}"}} [01]', text)
    assert "node_textfile_scrape_error 0" in text
    assert re.search(r'railyard_node_metrics_info{version="[0-9.]+"} 1', text)


def test_the_timer_writes_by_itself(host, is_configured):
    path = OURS if is_configured else SITES
    before = host.file(path).mtime
    deadline = time.monotonic() + 90
    while host.file(path).mtime == before and time.monotonic() < deadline:
        time.sleep(2)
    assert host.file(path).mtime > before
    assert host.file(path).mode == 0o644
    timer = host.service("railyard-metrics.timer")
    assert (timer.is_enabled, timer.is_running) == (True, True)


def test_the_last_quick_check_is_in_it(host, scrape, is_configured):
    host.run("systemctl start railyard-quick.service")
    host.check_output("systemctl start railyard-metrics.service")
    text = scrape()
    # The rails have no addresses.
    assert "railyard_quick_status 1" in text
    assert 'railyard_quick_finding{cause="address_missing",rail="rail0"} 1' in text
    ended = float(re.search(r"(?m)^railyard_quick_timestamp_seconds (\S+)$", text).group(1))
    assert abs(ended - float(host.check_output("date +%s"))) < 60


def test_a_rail_whose_netdev_is_gone_keeps_its_series(host, scrape):
    host.check_output("ip link set dev ens6d1 down")
    host.check_output("ip link set dev ens6d1 name away0")
    try:
        host.check_output("systemctl start railyard-metrics.service")
        text = scrape()
    finally:
        host.check_output("ip link set dev away0 name ens6d1")
        host.check_output("ip link set dev ens6d1 up")
    assert 'railyard_rail_netdev_info{device="ens6d1",rail="rail1"} 1' in text
    assert 'node_network_carrier{device="ens6d1"}' not in text


def test_an_exporter_that_is_killed_comes_back_on_its_address(host, is_configured, scrape, address):
    if not is_configured:
        return
    before = host.check_output("systemctl show -P MainPID prometheus-node-exporter.service")
    host.check_output(f"kill -KILL {before}")
    # systemd keeps the socket: a scrape waits for the new process and is not refused.
    assert "railyard_rail_info" in scrape()
    assert host.check_output("systemctl show -P MainPID prometheus-node-exporter.service") != before
    assert listening(host, 9100) == [address]


def test_the_socket_does_not_wait_for_its_address(host, is_configured, scrape):
    """At boot the management address may come later: a second one, which no netdev has, is listened on."""
    if not is_configured:
        return
    folder = "/run/systemd/system/railyard-node-exporter.socket.d"
    restart = (
        "systemctl daemon-reload && systemctl stop prometheus-node-exporter.service && "
        "systemctl restart railyard-node-exporter.socket && systemctl start prometheus-node-exporter.service"
    )
    host.check_output(f"mkdir -p {folder}")
    host.check_output(f"printf '[Socket]\\nListenStream=198.51.100.77:9109\\n' > {folder}/late.conf")
    try:
        host.check_output(restart)
        assert listening(host, 9109) == ["198.51.100.77"]
        assert "railyard_rail_info" in scrape()
    finally:
        host.check_output(f"rm -r {folder}")
        host.check_output(restart)


def test_a_file_that_is_cut_off_does_no_harm(host, is_configured, scrape):
    """Nothing half-written is ever called *.prom; another program's broken file costs this one nothing."""
    if not is_configured:
        return
    host.check_output("printf 'broken{' > /var/lib/prometheus/node-exporter/other.prom")
    try:
        text = scrape()
    finally:
        host.check_output("rm /var/lib/prometheus/node-exporter/other.prom")
    assert "node_textfile_scrape_error 1" in text
    assert "railyard_rail_info" in text


def test_the_site_s_exporter_is_as_it_was(host, is_configured):
    if is_configured:
        return
    assert not host.package("prometheus-node-exporter").is_installed
    assert not host.file("/etc/systemd/system/prometheus-node-exporter.service.d").exists
    assert host.file(SITES).exists
    # Not started anew: as old as the picture, at least.
    started = host.check_output("stat -c %Y /proc/$(systemctl show -P MainPID site-exporter.service)")
    assert int(started) <= host.file("/root/picture.before").mtime.timestamp()


def test_it_costs_little(host):
    timed = host.run(
        f"bash -c 'TIMEFORMAT=\"%U %S\"; time {PROGRAM} --out /root/cost.prom --kept /root/cost.json'"
    )
    assert timed.rc == 0, timed.stderr
    assert sum(map(float, timed.stderr.split()[-2:])) <= 2.0
    assert host.file("/root/cost.prom").size < 40_000
    host.check_output("rm /root/cost.prom /root/cost.json")
