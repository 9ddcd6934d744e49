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
OFF = {"node_metrics_state": "ignored"}
# A password in the inventory is reported by another check; an expression is as of a vault.
BMCS = {
    "bmc_exporter_state": "present",
    "bmc_exporter_user": "monitor",
    "bmc_exporter_password": "{{ vault_bmc_password }}",
}
WITH_BMC = {"gpu1": {"bmc_address": "192.0.2.101"}}
WRONG = [
    # variables; the file that says so, host, part of the message, part of the fix
    (
        {"monitor1": {"ansible_host": "10.0.7.7"}},
        "hosts.yml:",
        "monitor1",
        "network of rail rail0",
        "management",
    ),
    (
        {"monitoring_listen": "10.0.7.7"},
        "monitoring.yml:2",
        "monitor1",
        "network of rail rail0",
        "management",
    ),
    ({"monitoring_listen": "0.0.0.0"}, "monitoring.yml:2", "monitor1", "every interface", "management"),
    ({"monitoring_listen": "::"}, "monitoring.yml:2", "monitor1", "every interface", "management"),
    ({"monitoring_alertmanager_listen": "10.0.7.7"}, "monitoring.yml:2", "monitor1", "rail0", "management"),
    (
        {"monitor1": {"ansible_host": "monitor1.example.org"}},
        "hosts.yml:",
        "monitor1",
        "monitor1.example",
        "address",
    ),
    ({"monitoring_scrape_interval_s": 14}, "monitoring.yml:2", "monitor1", "14", "15 to 60"),
    # rate() takes at least two samples, and the shortest window of a rule is 2 minutes.
    ({"monitoring_scrape_interval_s": 61}, "monitoring.yml:2", "monitor1", "61", "15 to 60"),
    ({"monitoring_retention": "a month"}, "monitoring.yml:2", "monitor1", "no duration", "30d"),
    ({"monitoring_alertmanager_port": 0}, "monitoring.yml:2", "monitor1", "0", "port"),
    (
        {"monitoring_listen": "127.0.0.1", "monitoring_port": 9093},
        "monitoring.yml:3",
        "monitor1",
        "same",
        "apart",
    ),
    (
        {"monitoring_rule_overrides": {"RailDwon": {"enabled": False}}},
        "monitoring.yml:3",
        "monitor1",
        "no alert RailDwon",
        "did you mean RailDown?",
    ),
    (
        {"monitoring_rule_overrides": {"RailDown": {"severity": "bad"}}},
        "monitoring.yml:4",
        "monitor1",
        "'bad'",
        "severity: warning",
    ),
    (
        {"monitoring_thresholds": {"pause_ration": 0.3}},
        "monitoring.yml:3",
        "monitor1",
        "no threshold pause_ration",
        "did you mean pause_ratio?",
    ),
    ({"monitoring_thresholds": {"pause_ratio": "much"}}, "monitoring.yml:3", "monitor1", "'much'", "0.2"),
    (CERTIFICATE, "monitoring.yml:3", "monitor1", "no file on the controller", "PEM"),
    ({"monitoring_tls": "self_signed"}, "monitoring.yml:2", "monitor1", "neither none nor files", "files"),
    ({"nodes": {"node_metrics_interval_s": 5}}, "hosts.yml:", "gpu[1-2]", "5", "15 to 3600"),
    ({"nodes": {"node_metrics_port": 70000}}, "hosts.yml:", "gpu[1-2]", "70000", "9100"),
    (
        {"gpu2": {"node_metrics_listen": "10.0.0.2"}},
        "hosts.yml:",
        "gpu2",
        "network of rail rail0",
        "management",
    ),
    (
        {"gpu2": {"node_metrics_listen": "192.0.2.1"}},
        "hosts.yml:",
        "gpu2",
        "192.0.2.1:9100 is where Prometheus would find gpu1",
        "own",
    ),
    ({"gpu2": {"node_metrics_listen": "{{ x }}"}}, "hosts.yml:", "gpu2", "Jinja", "address"),
    (
        {"nodes": {"monitoring_dcgm_port": 9100}},
        "hosts.yml:",
        "gpu[1-2]",
        "port of node_exporter too",
        "9400",
    ),
    ({"nodes": {"node_metrics_tls": "yes"}}, "hosts.yml:", "gpu[1-2]", "'yes'", "none or files"),
    (
        {
            "gpu1": {
                "node_metrics_tls": "files",
                "node_metrics_tls_certificate": "/no/{{ inventory_hostname }}.crt",
            }
        },
        "hosts.yml:",
        "gpu1",
        "/no/gpu1.crt is no file",
        "certificate",
    ),
    ({"nodes": {"node_metrics_tls": "files"}}, "hosts.yml:", "gpu[1-2]", "it is missing", "PEM"),
    ({"monitoring_node_ca_file": "ca.pem"}, "monitoring.yml:", "monitor1", "no file", "PEM"),
    (
        {"nodes": {"node_metrics_basic_auth": {"user": "p", "password_hash": "{{ x }}"}}},
        "hosts.yml:",
        "monitor1",
        "a hash alone",
        "monitoring_node_basic_auth",
    ),
    (
        {"nodes": {"node_metrics_state": "ignored"}},
        "monitoring.yml:1",
        "monitor1",
        "no node publishes metrics",
        "node_metrics_state: present",
    ),
    (
        {"everyone": {"monitoring_state": "present"}, "without_monitors": True},
        "all.yml:",
        "gpu1",
        "group monitoring has no host",
        "monitor1: {ansible_host",
    ),
    (
        {"everyone": {"bmc_exporter_state": "present"}, "without_monitors": True, "nodes": OFF},
        "all.yml:",
        "gpu1",
        "bmc_exporter_state: it is present, and group monitoring has no host",
        "monitor1: {ansible_host",
    ),
    (BMCS, "monitoring.yml:2", "monitor1", "no node has a bmc_address", "bmc_address of the nodes"),
    (
        {**BMCS, **WITH_BMC, "bmc_exporter_password": ""},
        "monitoring.yml:2",
        "monitor1",
        "bmc_exporter_password is not set",
        "ansible-vault",
    ),
    (
        {**BMCS, **WITH_BMC, "bmc_exporter_port": 9101},
        "monitoring.yml:5",
        "monitor1",
        "9101 is the port of the exporter of runs",
        "9290",
    ),
    (
        {**BMCS, **WITH_BMC, "bmc_exporter_port": 9999, "monitoring_alertmanager_port": 9999},
        "monitoring.yml:5",
        "monitor1",
        "9999 is the port of Alertmanager",
        "9290",
    ),
    ({**BMCS, **WITH_BMC, "bmc_exporter_port": 0}, "monitoring.yml:5", "monitor1", "0", "9290"),
]


@pytest.mark.parametrize(("changes", "file", "host", "message", "fix"), WRONG)
def test_what_is_wrong_is_named_with_its_place_and_fix(inventory, changes, file, host, message, fix):
    [problem] = problems(inventory, **changes)
    assert (file in problem.file, problem.host) == (True, host), problem
    assert message in problem.message
    assert fix in problem.fix


@pytest.mark.parametrize("more", [{}, {"monitoring_mode": "export"}, {"monitoring_state": "ignored"}])
def test_an_exporter_of_bmcs_that_is_sound_has_no_problem(inventory, more):
    assert problems(inventory, **BMCS, **WITH_BMC, **more) == []


def test_for_a_prometheus_of_the_site_its_rules_alone_are_checked(inventory):
    off = {"node_metrics_state": "ignored"}
    wrong = {"monitoring_listen": "10.0.7.7", "monitoring_rule_overrides": {"RailDwon": {"enabled": False}}}
    [problem] = problems(inventory, nodes=off, monitoring_mode="export", **wrong)
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
    off = {"node_metrics_state": "ignored"}
    wrong = {"nodes": off, "gpu2": {"node_metrics_listen": "10.0.0.2"}, "monitoring_state": "ignored"}
    made = inventory(**wrong)
    assert checks.check(made) == []
    [problem] = checks.check(made, export=True)
    assert "network of rail rail0" in problem.message
