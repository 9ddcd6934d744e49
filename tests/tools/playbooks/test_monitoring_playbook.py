"""playbooks/monitoring.yml by plain Ansible: off by default; what is wrong is named before any connection."""

from __future__ import annotations

import pytest
from support import programs
from support.inventories.on_disk import make_hosts, write_groups


@pytest.fixture
def run(tmp_path):
    """Run the playbook on an inventory with these variables of group monitoring; None: without that group."""

    def go(variables, *options, hosts=None, **of_all):
        group = {"hosts": {"monitor1": {"ansible_host": "192.0.2.9"}}, "vars": variables}
        write_groups(tmp_path, hosts, {} if variables is None else {"monitoring": group}, **of_all)
        done = programs.playbook("playbooks/monitoring.yml", tmp_path / "hosts.yml", *options)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    return go


@pytest.mark.parametrize("variables", [None, {}])
def test_by_default_no_host_is_touched(run, variables):
    status, said = run(variables)
    assert (status, "UNREACHABLE" in said, "WARNING" in said) == (0, False, False), said


@pytest.mark.parametrize("options", [(), ("--limit", "monitor1")])
def test_a_wrong_variable_is_named_before_any_connection(run, options):
    on = {"monitoring_state": "present", "monitoring_listen": "10.0.9.9"}
    status, said = run(on, *options, node_metrics_state="present")
    assert status != 0
    assert "host monitor1: monitoring_listen: 10.0.9.9 is in the network of rail rail0" in said
    assert "UNREACHABLE" not in said


def test_the_role_s_own_types_are_checked_for_the_monitoring_host(run):
    on = {"monitoring_state": "present", "monitoring_basic_auth": "admin"}
    status, said = run(on, node_metrics_state="present")
    assert status != 0
    assert "role monitoring, host monitor1: argument 'monitoring_basic_auth'" in said


def test_without_the_group_it_cannot_be_turned_on(run):
    status, said = run(None, monitoring_state="present", node_metrics_state="present")
    assert status != 0
    assert "group monitoring has no host" in said


BMCS = {"bmc_exporter_state": "present", "bmc_exporter_user": "monitor"}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "host monitor1: bmc_exporter_state: it is present, and bmc_exporter_password is not set"),
        (
            {"bmc_exporter_password": "{{ 'of' ~ 'vault' }}", "bmc_exporter_driver": "SERIAL"},
            "role bmc_exporter, host monitor1: value of bmc_exporter_driver must be one of: LAN, LAN_2_0",
        ),
    ],
)
def test_the_exporter_of_bmcs_is_checked_before_any_connection(run, more, message):
    hosts = make_hosts()
    hosts["gpu1"]["bmc_address"] = "192.0.2.101"
    status, said = run({**BMCS, **more}, hosts=hosts)
    assert status != 0
    assert message in said
    assert "UNREACHABLE" not in said
