"""What bmc_exporter leaves: an exporter on loopback that reads a BMC, and its password for root alone."""

import json

import pytest

testinfra_hosts = ["ansible://monitor1"]

TARGETS = "/etc/prometheus/railyard/file_sd/railyard_bmc.json"


@pytest.fixture
def metrics(host):
    """What Prometheus gets of the BMC that the targets name."""
    [target] = json.loads(host.file(TARGETS).content_string)
    assert target["labels"] == {"cluster": "inventory", "node": "gpuserver1"}
    return host.check_output(f"curl -sf 'http://127.0.0.1:9290/ipmi?target={target['targets'][0]}'")


def test_sensors_and_event_log_of_the_bmc_are_metrics(metrics):
    for line in (
        'ipmi_up{collector="ipmi"} 1',
        'ipmi_up{collector="sel"} 1',
        'ipmi_temperature_celsius{id="1",name="Inlet1"} 32',
        'ipmi_temperature_state{id="1",name="Inlet1"} 0',
    ):
        assert line in metrics.splitlines()
    entries = [line for line in metrics.splitlines() if line.startswith("ipmi_sel_logs_count ")]
    assert float(entries[0].split()[1]) >= 1


def test_prometheus_has_them_by_node(host):
    address = host.check_output("ip -4 -o address show dev enp5s0").split()[3].split("/")[0]
    wanted = 'ipmi_temperature_celsius{cluster="inventory",node="gpuserver1",instance="192.0.2.20"}'
    asks = f"promtool query instant http://{address}:9090 '{wanted}'"
    # The job runs every minute.
    script = f'until test -n "$({asks})"; do sleep 2; done'
    host.check_output("timeout 150 sh -c %s", script)
    assert "=> 32 " in host.check_output(asks)


def test_a_bmc_that_does_not_answer_is_down_and_no_error_of_the_exporter(host):
    told = host.check_output("curl -sf 'http://127.0.0.1:9290/ipmi?target=192.0.2.21'")
    assert 'ipmi_up{collector="ipmi"} 0' in told.splitlines()


def test_only_root_reads_the_password_and_nobody_sees_it_in_a_command_line(host):
    config = host.file("/etc/prometheus/railyard-ipmi.yml")
    assert (config.user, config.mode) == ("root", 0o600)
    assert "secret-pw" in config.content_string
    copy = host.file("/run/railyard-ipmi/ipmi.yml")
    assert (copy.user, copy.mode) == ("prometheus", 0o400)
    assert "secret-pw" not in host.check_output("ps -ef; systemctl show prometheus-ipmi-exporter.service")


def test_it_listens_on_loopback_alone(host):
    listening = host.check_output("ss -Hlnt 'sport = :9290'").split()
    assert "127.0.0.1:9290" in listening
    assert not host.socket("tcp://0.0.0.0:9290").is_listening
    assert not host.socket("tcp://:::9290").is_listening
