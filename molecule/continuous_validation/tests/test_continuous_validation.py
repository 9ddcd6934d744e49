"""What continuous_validation leaves on a controller: three timers whose services systemd can start."""

import pytest

testinfra_hosts = ["ansible://gpu_nodes"]

TIMERS = ("railyard-validate", "railyard-run-metrics", "railyard-prune-runs")


@pytest.mark.parametrize("unit", TIMERS)
def test_timers_are_there_where_they_are_wanted(host, is_configured, unit):
    assert host.file(f"/etc/systemd/system/{unit}.timer").exists == is_configured
    assert (host.run(f"systemctl is-enabled {unit}.timer").rc == 0) == is_configured
    assert (host.run(f"systemctl is-active {unit}.timer").rc == 0) == is_configured


@pytest.mark.parametrize("unit", TIMERS)
def test_systemd_takes_the_units_and_starts_the_service(host, is_configured, unit):
    if not is_configured:
        return
    verified = host.run(f"systemd-analyze verify /etc/systemd/system/{unit}.service")
    assert [line for line in verified.stderr.splitlines() if unit in line] == []
    host.check_output(f"systemctl start {unit}.service")


def test_the_weekly_service_is_called_with_what_was_asked(host, is_configured):
    if not is_configured:
        return
    said = host.check_output("systemctl show --property=ExecStart --value railyard-validate.service")
    assert "validate --idle --limit-time 30m -i /opt/inventories/mine --reports-dir /srv" in said
    assert "--drain --most-drained 2%" in said
    environment = host.check_output("systemctl show --property=Environment --value railyard-validate.service")
    assert environment == "RAILYARD_TEXTFILE_DIR=/srv"
    elapses = host.check_output("systemctl show --property=TimersCalendar --value railyard-validate.timer")
    assert "OnCalendar=Sun *-*-* 03:00:00" in elapses
