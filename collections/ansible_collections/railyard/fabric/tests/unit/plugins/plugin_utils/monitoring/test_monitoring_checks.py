# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with the variables of monitoring is named with file, line, host and fix."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load, plan
from ansible_collections.railyard.fabric.plugins.plugin_utils.monitoring import checks


def problems(inventory, **changes):
    made = inventory(**changes)
    assert load.validate(made) == []
    return checks.check(made)


def test_a_sound_inventory_has_no_problem_and_a_monitoring_host_is_no_node(inventory):
    made = inventory(monitoring_receivers=[{"name": "ops", "webhook": {"url": "http://192.0.2.9:5001/x"}}])
    assert load.validate(made) == []
    assert checks.check(made) == []
    assert [one.name for one in made.monitors] == ["monitor1"]
    assert list(plan.build_plan(made)["nodes"]) == ["gpu1", "gpu2"]


def test_a_limit_may_leave_the_monitoring_host_alone_and_then_there_is_no_node(inventory):
    sources = inventory().sources
    alone = load.load(sources, "monitor1")
    assert (load.validate(alone), alone.selected_nodes(), checks.check(alone)) == ([], [], [])


def test_nothing_is_looked_at_where_nothing_is_turned_on(inventory):
    off = {"node_metrics_state": "ignored", "node_metrics_port": "many"}
    assert problems(inventory, nodes=off, monitoring_state="ignored", monitoring_port=0) == []


def test_a_misspelt_variable_of_the_monitoring_host_is_found(inventory):
    [problem] = load.validate(inventory(monitoring_retenton="30d"))
    assert (problem.host, "monitoring.yml:2" in problem.file) == ("monitor1", True)
    assert "did you mean monitoring_retention?" in problem.fix


CERTIFICATE = {
    "monitoring_tls": "files",
    "monitoring_tls_cert_file": "no.crt",
    "monitoring_tls_key_file": "no.key",
}
NO_CERTIFICATE = {
    "node_metrics_tls": "files",
    "node_metrics_tls_certificate": "/no/{{ inventory_hostname }}.crt",
}
TAKEN = "192.0.2.1:9100 is where Prometheus would find gpu1"
HASH = {"user": "p", "password_hash": "{{ x }}"}
OFF = {"node_metrics_state": "ignored"}
# A password in the inventory is reported by another check; an expression is as of a vault.
BMCS = {
    "bmc_exporter_state": "present",
    "bmc_exporter_user": "monitor",
    "bmc_exporter_password": "{{ vault_bmc_password }}",
}


def override(alert, **changes):
    return {"monitoring_rule_overrides": {alert: changes}}


BMC_AT_GPU1 = {**BMCS, "gpu1": {"bmc_address": "192.0.2.101"}}
# Variables of the monitoring host; which line of its file is wrong, parts of the message and of the fix.
WRONG = [
    ({"monitoring_listen": "10.0.7.7"}, 2, "network of rail rail0", "management"),
    ({"monitoring_listen": "0.0.0.0"}, 2, "every interface", "management"),
    ({"monitoring_listen": "::"}, 2, "every interface", "management"),
    ({"monitoring_alertmanager_listen": "10.0.7.7"}, 2, "rail0", "management"),
    ({"monitoring_scrape_interval_s": 14}, 2, "14", "15 to 60"),
    # rate() takes at least two samples, and the shortest window of a rule is 2 minutes.
    ({"monitoring_scrape_interval_s": 61}, 2, "61", "15 to 60"),
    ({"monitoring_retention": "a month"}, 2, "no duration", "30d"),
    ({"monitoring_alertmanager_port": 0}, 2, "0", "port"),
    ({"monitoring_listen": "127.0.0.1", "monitoring_port": 9093}, 3, "same", "apart"),
    (override("RailDwon", enabled=False), 3, "no alert RailDwon", "did you mean RailDown?"),
    (override("RailDown", severity="bad"), 4, "'bad'", "severity: warning"),
    (
        {"monitoring_thresholds": {"pause_ration": 0.3}},
        3,
        "no threshold pause_ration",
        "did you mean pause_ratio?",
    ),
    ({"monitoring_thresholds": {"pause_ratio": "much"}}, 3, "'much'", "0.2"),
    (CERTIFICATE, 3, "no file on the controller", "PEM"),
    ({"monitoring_tls": "self_signed"}, 2, "neither none nor files", "files"),
    ({"monitoring_node_ca_file": "ca.pem"}, 2, "no file", "PEM"),
    ({"nodes": OFF}, 1, "no node publishes metrics", "node_metrics_state: present"),
    (BMCS, 2, "no node has a bmc_address", "bmc_address of the nodes"),
    ({**BMC_AT_GPU1, "bmc_exporter_password": ""}, 2, "bmc_exporter_password is not set", "ansible-vault"),
    ({**BMC_AT_GPU1, "bmc_exporter_port": 9101}, 5, "9101 is the port of the exporter of runs", "9290"),
    (
        {**BMC_AT_GPU1, "bmc_exporter_port": 9999, "monitoring_alertmanager_port": 9999},
        5,
        "9999 is the port of Alertmanager",
        "9290",
    ),
    ({**BMC_AT_GPU1, "bmc_exporter_port": 0}, 5, "0", "9290"),
]


@pytest.mark.parametrize(("changes", "line", "message", "fix"), WRONG)
def test_what_is_wrong_of_the_monitoring_host_is_named(inventory, changes, line, message, fix):
    check_problem(problems(inventory, **changes), f"monitoring.yml:{line}", "monitor1", message, fix)


def check_problem(found, file, host, message, fix):
    [problem] = found
    assert (file in problem.file, problem.host) == (True, host), problem
    assert message in problem.message
    assert fix in problem.fix


# Variables of a host or of nodes; the host that is named, parts of the message and of the fix.
WRONG_HOSTS = [
    ({"monitor1": {"ansible_host": "10.0.7.7"}}, "monitor1", "network of rail rail0", "management"),
    ({"monitor1": {"ansible_host": "monitor1.example.org"}}, "monitor1", "monitor1.example", "address"),
    ({"nodes": {"node_metrics_interval_s": 5}}, "gpu[1-2]", "5", "15 to 3600"),
    ({"nodes": {"node_metrics_port": 70000}}, "gpu[1-2]", "70000", "9100"),
    ({"gpu2": {"node_metrics_listen": "10.0.0.2"}}, "gpu2", "network of rail rail0", "management"),
    ({"gpu2": {"node_metrics_listen": "192.0.2.1"}}, "gpu2", TAKEN, "own"),
    ({"gpu2": {"node_metrics_listen": "{{ x }}"}}, "gpu2", "Jinja", "address"),
    ({"nodes": {"monitoring_dcgm_port": 9100}}, "gpu[1-2]", "port of node_exporter too", "9400"),
    ({"nodes": {"node_metrics_tls": "yes"}}, "gpu[1-2]", "'yes'", "none or files"),
    ({"gpu1": NO_CERTIFICATE}, "gpu1", "/no/gpu1.crt is no file", "certificate"),
    ({"nodes": {"node_metrics_tls": "files"}}, "gpu[1-2]", "it is missing", "PEM"),
    ({"nodes": {"node_metrics_basic_auth": HASH}}, "monitor1", "a hash alone", "monitoring_node_basic_auth"),
]


@pytest.mark.parametrize(("changes", "host", "message", "fix"), WRONG_HOSTS)
def test_what_is_wrong_of_a_host_is_named(inventory, changes, host, message, fix):
    check_problem(problems(inventory, **changes), "hosts.yml:", host, message, fix)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("monitoring_state", "group monitoring has no host"),
        ("bmc_exporter_state", "bmc_exporter_state: it is present, and group monitoring has no host"),
    ],
)
def test_without_a_monitoring_host_nothing_can_be_turned_on(inventory, state, message):
    nodes = OFF if state == "bmc_exporter_state" else None
    found = problems(inventory, everyone={state: "present"}, without_monitors=True, nodes=nodes)
    check_problem(found, "all.yml:", "gpu1", message, "monitor1: {ansible_host")


@pytest.mark.parametrize("more", [{}, {"monitoring_mode": "export"}, {"monitoring_state": "ignored"}])
def test_an_exporter_of_bmcs_that_is_sound_has_no_problem(inventory, more):
    assert problems(inventory, **BMC_AT_GPU1, **more) == []


def test_for_a_prometheus_of_the_site_its_rules_alone_are_checked(inventory):
    wrong = {"monitoring_listen": "10.0.7.7", **override("RailDwon", enabled=False)}
    [problem] = problems(inventory, nodes=OFF, monitoring_mode="export", **wrong)
    assert (problem.host, "no alert RailDwon" in problem.message) == ("monitor1", True)


def test_a_key_of_another_certificate_is_found(inventory, tmp_path):
    for name in ("one", "other"):
        argv = [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-subj", "/CN=x", "-keyout", tmp_path / f"{name}.key", "-out", tmp_path / f"{name}.crt",
        ]  # fmt: skip
        subprocess.run(argv, check=True, capture_output=True)
    files = {
        "monitoring_tls": "files",
        "monitoring_tls_cert_file": str(tmp_path / "one.crt"),
        "monitoring_tls_key_file": str(tmp_path / "other.key"),
    }
    made = inventory(**files)
    [problem] = checks.check(made)
    assert (problem.host, "monitoring.yml:4" in problem.file) == ("monitor1", True)
    assert "do not belong together" in problem.message
    good = made.monitors[0].variables | {"monitoring_tls_key_file": str(tmp_path / "one.key")}
    made.monitors[0] = type(made.monitors[0])("monitor1", "192.0.2.9", made.monitors[0].groups, good)
    assert checks.check(made) == []


def test_targets_are_checked_whatever_is_turned_on_where_they_are_exported(inventory):
    wrong = {"nodes": OFF, "gpu2": {"node_metrics_listen": "10.0.0.2"}, "monitoring_state": "ignored"}
    made = inventory(**wrong)
    assert checks.check(made) == []
    [problem] = checks.check(made, export=True)
    assert "network of rail rail0" in problem.message
