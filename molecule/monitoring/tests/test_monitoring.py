"""What the role leaves on a monitoring host: daemons on one address, the nodes as targets, rules, a page."""

import json

testinfra_hosts = ["ansible://monitoring"]

FOLDER = "/etc/prometheus/railyard"
UNITS = ("prometheus", "prometheus-alertmanager", "railyard-runs")


def management_address(host):
    return host.check_output("ip -4 -o address show dev enp5s0").split()[3].split("/")[0]


def query(host, expression):
    url = f"http://{management_address(host)}:9090"
    return json.loads(host.check_output(f"promtool query instant -o json {url} '{expression}'"))


def wait_for(host, expression):
    """Return the answer to a query once it is not empty, for at most 90 s."""
    url = f"http://{management_address(host)}:9090"
    asks = f"promtool query instant {url} '{expression}'"
    host.check_output(f"timeout 90 sh -c 'until test -n \"$({asks})\"; do sleep 2; done'".replace("'{", "'{"))
    return query(host, expression)


def test_the_daemons_run_and_start_at_boot(host):
    for unit in UNITS:
        service = host.service(f"{unit}.service")
        assert (service.is_running, service.is_enabled) == (True, True), unit
    assert not host.service("prometheus-node-exporter.service").is_running


def test_nothing_of_it_listens_on_every_interface(host):
    own = management_address(host)
    lines = host.check_output("ss -Hltnp").splitlines()
    listening = {line.split()[3] for line in lines if "prometheus" in line}
    assert listening == {f"{own}:9090", "127.0.0.1:9093", "127.0.0.1:9101"}
    # Alertmanager's cluster, which is UDP too.
    assert "alertmanager" not in host.check_output("ss -Hlunp")


def test_a_rail_address_refuses_connections(host):
    host.check_output("ip address add 10.0.1.77/24 dev ens6; ip link set dev ens6 up")
    try:
        said = host.run("python3 -c 'import socket; socket.create_connection((\"10.0.1.77\", 9090), 3)'")
        assert "ConnectionRefusedError" in said.stderr
    finally:
        host.check_output("ip address del 10.0.1.77/24 dev ens6; ip link set dev ens6 down")


def test_the_targets_are_the_nodes_that_publish(host):
    file = host.file(f"{FOLDER}/file_sd/railyard_nodes.json")
    [target] = json.loads(file.content_string)
    assert target["labels"] == {"cluster": "inventory", "node": "gpuserver1"}
    assert target["targets"][0].endswith(":9100")


def test_the_configuration_is_good_and_its_secrets_are_not_for_everyone(host):
    host.check_output(f"promtool check config {FOLDER}/prometheus.yml")
    host.check_output(f"amtool check-config {FOLDER}/alertmanager.yml")
    secret = host.file(f"{FOLDER}/secrets/chat.slack")
    assert (secret.mode, secret.user, secret.group) == (0o640, "root", "prometheus")
    assert "5002" not in host.file(f"{FOLDER}/alertmanager.yml").content_string
    assert host.check_output("cat /etc/prometheus/prometheus.yml | head -1")  # the package's own is as it was


def test_the_node_is_scraped_and_only_what_is_needed_is_kept(host):
    url = f"http://{management_address(host)}:9090"
    script = f'until promtool query instant {url} up | grep -q "gpuserver1.*=> 1"; do sleep 2; done'
    host.check_output(f"timeout 90 sh -c '{script}'")
    [up] = [one for one in query(host, "up") if one["metric"].get("node") == "gpuserver1"]
    assert (up["metric"]["job"], up["metric"]["cluster"]) == ("railyard-node", "inventory")
    assert query(host, "node_network_carrier")
    assert query(host, "node_arp_entries") == []


def test_the_rules_and_the_site_s_threshold_are_loaded(host):
    said = host.check_output(
        f"promtool check rules {FOLDER}/rules/railyard.rails.yml {FOLDER}/rules/railyard.thresholds.yml"
    )
    assert "SUCCESS" in said
    assert "vector(0.3)" in host.file(f"{FOLDER}/rules/railyard.thresholds.yml").content_string
    url = f"http://{management_address(host)}:9090/api/v1/rules"
    said = host.check_output(
        f"python3 -c 'import urllib.request as u; print(u.urlopen(\"{url}\").read().decode())'"
    )
    names = {rule["name"] for group in json.loads(said)["data"]["groups"] for rule in group["rules"]}
    assert {"RailDown", "NodeMetricsGone", "railyard:threshold:pause_ratio"} <= names


def test_the_runs_have_an_exporter(host):
    script = 'import urllib.request as u; print(u.urlopen("http://127.0.0.1:9101/metrics").read().decode())'
    assert "node_textfile_scrape_error 0" in host.check_output(f"python3 -c '{script}'")
