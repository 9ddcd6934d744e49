# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Targets and rule files: made from the inventory, with what a site changes of them."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.plugin_utils.monitoring import (
    bmc_checks,
    rules,
    scrape,
    server,
    targets,
)


def test_a_node_is_found_at_its_own_address_by_the_first_that_is_there(inventory):
    made = inventory(
        nodes={"node_metrics_port": 9500},
        gpu1={"management_address": "192.0.2.101"},
        gpu2={
            "management_address": "192.0.2.102",
            "node_metrics_listen": "2001:db8::2",
            "node_metrics_tls": "files",
        },
    )
    found = targets.target_files("big", targets.nodes_to_scrape(made, only_ours=True))
    assert found["railyard-node"] == [
        {
            "targets": ["192.0.2.101:9500"],
            "labels": {"cluster": "big", "node": "gpu1", "scalable_unit": "su1"},
        },
        {
            "targets": ["[2001:db8::2]:9500"],
            "labels": {"cluster": "big", "node": "gpu2", "__scheme__": "https"},
        },
    ]
    assert found["railyard-gpu"] == []


def test_a_name_is_left_to_the_resolver(inventory):
    made = inventory(gpu1={"ansible_host": "gpu1.example.org"})
    assert targets.scrape_address(made.nodes[0]) == "gpu1.example.org"


def test_which_nodes_are_targets_depends_on_who_runs_their_exporters(inventory):
    made = inventory(
        nodes={"node_metrics_state": "ignored"},
        gpu1={"node_metrics_state": "absent"},
        gpu2={"monitoring_dcgm_port": 9400},
    )
    assert [one.name for one in targets.nodes_to_scrape(made, only_ours=False)] == ["gpu2"]
    assert targets.nodes_to_scrape(made, only_ours=True) == []
    files = targets.target_files("big", made.nodes)
    assert [one["targets"] for one in files["railyard-gpu"]] == [["192.0.2.2:9400"]]


def test_each_bmc_is_a_target_whether_or_not_the_node_publishes_metrics(inventory):
    made = inventory(
        gpu1={"bmc_address": "192.0.2.101"},
        gpu2={"bmc_address": "2001:db8::102", "node_metrics_state": "ignored"},
    )
    assert targets.bmc_targets(made) == [
        {"targets": ["192.0.2.101"], "labels": {"cluster": "big", "node": "gpu1", "scalable_unit": "su1"}},
        {"targets": ["2001:db8::102"], "labels": {"cluster": "big", "node": "gpu2"}},
    ]


def test_the_exporter_of_bmcs_gets_the_target_as_a_parameter(inventory):
    """As the README of prometheus-community/ipmi_exporter shows it, "Remote metrics"."""
    [job] = [one for one in scrape.jobs("", [], bmc_exporter="127.0.0.1:9290") if "bmc" in one["job_name"]]
    assert job["metrics_path"] == "/ipmi"
    assert job["scrape_interval"] == "60s"
    steps = [(one.get("source_labels"), one["target_label"]) for one in job["relabel_configs"]]
    assert steps == [
        (["__address__"], "__param_target"),
        (["__param_target"], "instance"),
        (None, "__address__"),
    ]
    assert job["relabel_configs"][-1]["replacement"] == "127.0.0.1:9290"
    assert [one for one in scrape.jobs("", []) if "bmc" in one["job_name"]] == []


def test_the_port_of_the_exporter_of_bmcs_is_in_both_roles_and_in_preflight():
    roles = rules.files_folder().parents[1]
    of_role = yaml.safe_load((roles / "bmc_exporter/defaults/main.yml").read_text())
    of_monitoring = yaml.safe_load((roles / "monitoring/defaults/main.yml").read_text())
    assert of_role["bmc_exporter_port"] == bmc_checks.DEFAULT_PORT
    assert f"default({bmc_checks.DEFAULT_PORT})" in of_monitoring["monitoring_bmc_exporter_port"]


def test_two_scrapes_are_in_each_window_of_the_rules():
    """Prometheus' documentation, "Query functions": rate() takes at least two samples in its range."""
    windows = re.findall(r"\[([0-9]+)([mhd])\]", "".join(rules.rule_texts().values()))
    assert windows
    seconds = {"m": 60, "h": 3600, "d": 86400}
    least, most = scrape.INTERVAL_S
    assert min(int(number) * seconds[unit] for number, unit in windows) >= 2 * most
    defaults = yaml.safe_load((rules.files_folder().parent / "defaults/main.yml").read_text())
    assert least <= defaults["monitoring_scrape_interval_s"] <= most


def test_a_target_file_is_json_whatever_a_label_holds():
    hostile = [{"targets": ["192.0.2.1:9100"], "labels": {"node": 'a"b\\n</script>', "cluster": "c\n\u2028"}}]
    assert json.loads(targets.to_json(hostile)) == hostile
    assert json.loads(targets.to_json([])) == []


RULES = """\
# A comment that stays.
groups:
  - name: g
    rules:
      - alert: RailDown
        expr: up{job="railyard-node"} == 0 or up{job="railyard-gpu"} == 0
        for: 30s
        keep_firing_for: 2m
        labels: {severity: critical}
      - record: railyard:x
        expr: vector(1)
"""


def site(**changes):
    return rules.site_rules({"a.yml": RULES}, **changes)["a.yml"]


def test_a_rule_file_that_nothing_changes_keeps_its_text():
    assert site() == RULES
    assert site(overrides={"RailDown": {"severity": "critical"}}) == RULES


def test_a_sites_job_replaces_railyards_in_rules_and_dashboards():
    job = r'node|a"b\d'
    [down, _record] = yaml.safe_load(site(job=job))["groups"][0]["rules"]
    assert down["expr"] == 'up{job=~"node|a\\"b\\\\d"} == 0 or up{job="railyard-gpu"} == 0'
    panel = json.dumps({"expr": 'sum(up{job="railyard-node",cluster="$cluster"})'})
    changed = json.loads(rules.with_job_in_json(panel, job))
    assert changed["expr"] == 'sum(up{job=~"node|a\\"b\\\\d",cluster="$cluster"})'


def test_an_override_changes_severity_and_time_or_takes_the_alert_out():
    [down, record] = yaml.safe_load(site(overrides={"RailDown": {"for": "5m", "severity": "info"}}))[
        "groups"
    ][0]["rules"]
    assert (down["for"], down["labels"]) == ("5m", {"severity": "info"})
    assert record["record"] == "railyard:x"
    [only] = yaml.safe_load(site(overrides={"RailDown": {"enabled": False}}))["groups"][0]["rules"]
    assert only["record"] == "railyard:x"
    with pytest.raises(rules.RulesError, match="RailDwon is no alert; there are: RailDown"):
        site(overrides={"RailDwon": {"enabled": False}})


@pytest.mark.parametrize(
    ("version", "knows"),
    [
        ("2.31.2+ds1-1ubuntu1", False),
        ("2.42.0+ds-5+deb12u1", True),
        ("1:2.53.3+ds1-2", True),
        ("3.0.0", True),
        ("", True),
    ],
)
def test_an_older_prometheus_gets_rules_without_what_it_does_not_know(version, knows):
    assert server.knows_keep_firing(version) == knows
    [down, _record] = yaml.safe_load(site(keep_firing=knows))["groups"][0]["rules"]
    assert ("keep_firing_for" in down) == knows


def test_thresholds_become_series_and_unknown_ones_are_refused(tmp_path):
    (tmp_path / "thresholds.yml").write_text("pause_ratio: {default: 0.2}\n")
    [group] = yaml.safe_load(rules.threshold_rules({"pause_ratio": 0.3}, tmp_path))["groups"]
    assert group["rules"] == [{"record": "railyard:threshold:pause_ratio", "expr": "vector(0.3)"}]
    assert rules.threshold_rules({}, tmp_path) is None
    with pytest.raises(rules.RulesError, match="pauses is no threshold"):
        rules.threshold_rules({"pauses": 1}, tmp_path)


def test_the_operator_gets_the_same_groups():
    made = yaml.safe_load(rules.as_prometheus_rule("railyard.rails.yml", RULES))
    assert (made["kind"], made["metadata"]["name"]) == ("PrometheusRule", "railyard-rails")
    assert made["spec"]["groups"] == yaml.safe_load(RULES)["groups"]


def expressions(value):
    """Yield the queries of a rule file or a dashboard."""
    if isinstance(value, dict):
        yield from (text for key, text in value.items() if key == "expr" and isinstance(text, str))
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from expressions(one)


def test_every_series_that_rules_and_dashboards_read_is_kept():
    """Read from the files that ship, not from the list of what is kept."""
    folder = rules.files_folder()
    files = [*folder.glob("rules/*.yml"), *folder.glob("dashboards/*.json")]
    queries = [query for file in files for query in expressions(yaml.safe_load(file.read_text()))]
    queries += [file.read_text() for file in folder.glob("consoles/*.html")]
    read = {name for query in queries for name in re.findall(r"(?<![\w:])node_[a-z0-9_]+", query)}
    assert {"node_network_carrier", "node_textfile_mtime_seconds"} <= read
    kept = re.compile("|".join(scrape.KEPT))
    # Of a pattern in a query, `node_memory_(A|B)`, the part before its bracket was found.
    before_brackets = {piece.partition("(")[0] for one in scrape.KEPT for piece in one.split("|")}
    assert [name for name in sorted(read) if not kept.fullmatch(name) and name not in before_brackets] == []
