"""The rule files name series that somebody writes, commands that exist, and sections that are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
from ansible_collections.railyard.fabric.plugins.module_utils.metrics import catalogue
from ansible_collections.railyard.fabric.plugins.module_utils.rules import xid
from railyard import cli
from railyard.base import paths
from support import promql

from .rule_files import ALERTS, FILES, RULES, alerts, load, rules

REPO = paths.repo_root()
FOREIGN = load(REPO / "tests/monitoring/foreign_metrics.yml")
THRESHOLDS = load(FILES / "thresholds.yml")
TROUBLESHOOTING = (REPO / "docs/troubleshooting.md").read_text(encoding="utf-8")
RECORDED = {rule["record"] for rule in rules() if "record" in rule}
TARGET_LABELS = {"cluster", "node", "scalable_unit", "instance", "job"}
IDS = [rule.get("alert") or rule["record"] for rule in rules()]

each_rule = pytest.mark.parametrize("rule", rules(), ids=IDS)
each_alert = pytest.mark.parametrize("alert", ALERTS)


def test_the_files_hold_the_33_alerts_and_the_nine_records() -> None:
    assert {name: alert["file"] for name, alert in alerts().items()} == {
        name: wanted.file for name, wanted in ALERTS.items()
    }
    suffixes = {
        "rail_carrier",
        "rail_receive_bytes:rate2m",
        "rail_transmit_bytes:rate2m",
        "rail_rdma_receive_bytes:rate2m",
        "rail_rdma_transmit_bytes:rate2m",
        "rail_errors:increase1h",
        "rail_pause_share",
        "rail_cnp:rate5m",
        "rail_state",
    }
    assert {f"railyard:{suffix}" for suffix in suffixes} == RECORDED


@each_rule
def test_every_metric_is_written_by_us_or_by_a_known_exporter(rule) -> None:
    foreign = {name for exporter in FOREIGN.values() for name in exporter["metrics"]}
    named = {name for name in promql.metrics(rule["expr"]) if not name.startswith("railyard:threshold:")}
    assert named
    assert named <= set(catalogue.METRICS) | foreign | RECORDED


def test_no_foreign_metric_is_listed_twice_and_each_has_its_version() -> None:
    listed = [name for exporter in FOREIGN.values() for name in exporter["metrics"]]
    assert len(set(listed)) == len(listed)
    assert all(exporter["version"] and exporter["seen"] for exporter in FOREIGN.values())


VALUES = {
    "kind": catalogue.ERROR_KINDS,
    "layer": catalogue.LAYERS,
    "direction": catalogue.DIRECTIONS,
    "counter": catalogue.CONGESTION_COUNTERS,
}


@each_rule
def test_every_label_of_our_metrics_is_one_that_the_writer_gives(rule) -> None:
    for metric, label, operator, value in promql.selectors(rule["expr"]):
        if metric not in catalogue.METRICS:
            continue
        assert label in catalogue.METRICS[metric].labels
        if label in VALUES:
            assert set(value.split("|") if operator == "=~" else [value]) <= set(VALUES[label])
    ours = [catalogue.METRICS[name] for name in promql.metrics(rule["expr"]) if name in catalogue.METRICS]
    known = TARGET_LABELS.union(
        *(metric.labels for metric in ours), ["device", "port", "gpu", "counter", "rail"]
    )
    assert promql.groupings(rule["expr"]) <= known


@each_rule
def test_growth_is_computed_for_counters_and_never_of_one_series_per_error_counter(rule) -> None:
    for function, metric in re.findall(r"\b(increase|rate)\((\w+)", rule["expr"]):
        assert metric.endswith("_total"), function
        assert metric not in catalogue.METRICS or catalogue.METRICS[metric].type == catalogue.COUNTER
    assert "railyard_rail_error_counter_total" not in rule["expr"]


def test_queries_of_every_15_seconds_have_no_range() -> None:
    """For 1,000 nodes with 8 rails such a group took 22 to 74 s with ranges in it, and 1.7 s without."""
    for path in RULES.glob("*.yml"):
        for group in load(path)["groups"]:
            if group["interval"] == "15s":
                assert [rule["alert"] for rule in group["rules"] if re.search(r"\[\d", rule["expr"])] == []


@each_alert
def test_severity_and_scope_are_those_of_the_design(alert: str) -> None:
    wanted = ALERTS[alert]
    labels = {"severity": wanted.severity, "scope": wanted.scope}
    assert alerts()[alert]["labels"] == labels | ({"remedy": wanted.remedy} if wanted.remedy else {})


@each_alert
def test_it_is_pending_as_long_as_the_design_says_and_outlasts_the_death_of_its_node(alert: str) -> None:
    rule = alerts()[alert]
    assert rule.get("for") == ALERTS[alert].hold
    # NodeMetricsGone takes 1 min, a scrape and an evaluation: until then what it silences must still fire.
    kept = None
    if ALERTS[alert].scope == "rail":
        kept = "5m" if "[" in rule["expr"] or "rate5m" in rule["expr"] else "2m"
    assert rule.get("keep_firing_for") == kept


NAMED = {
    "rail": ("cluster", "node", "rail"),
    "node": ("cluster", "node"),
    "gpu": ("cluster", "node"),
    "cluster": ("cluster",),
}


@each_alert
def test_an_alert_says_where_it_is_what_to_do_and_where_to_read_on(alert: str) -> None:
    annotations = alerts()[alert]["annotations"]
    assert list(annotations) == ["summary", "action", "runbook"]
    assert all("\n" not in text and text == text.strip() for text in annotations.values())
    for label in NAMED[ALERTS[alert].scope]:
        assert f"{{{{ $labels.{label} }}}}" in annotations["summary"]
    file, _hash, anchor = annotations["runbook"].partition("#")
    assert (file, anchor) == ("docs/troubleshooting.md", alert.lower())
    # An anchor is the heading in lower case.
    assert re.findall(rf"(?m)^### {alert}$", TROUBLESHOOTING) == [f"### {alert}"]


@each_alert
def test_its_section_tells_what_to_look_at_and_how_to_fix_it(alert: str) -> None:
    section = re.search(rf"(?ms)^### {alert}\n\n(.*?)(?=^#|\Z)", TROUBLESHOOTING)
    assert section
    assert re.fullmatch(r"(?s)\w.*?\.\n\n- Look at: .*?\n- Fix: .*?\n+", section[1])


def commands(text: str) -> list[list[str]]:
    """Return the arguments of each `railyard` command in a text, with its templates filled in."""
    filled = re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"\1", text)
    return [shlex.split(one) for one in re.findall(r"`((?:railyard|ansible-playbook) [^`]*)`", filled)]


OF_RAILYARD = [
    (name, words) for name, alert in alerts().items() for words in commands(alert["annotations"]["action"])
]


@pytest.mark.parametrize(
    ("alert", "words"), OF_RAILYARD, ids=[" ".join(words) for _alert, words in OF_RAILYARD]
)
def test_each_command_of_an_action_exists(alert: str, words: list[str]) -> None:
    if words[0] == "ansible-playbook":
        (playbook,) = [word for word in words if word.startswith("playbooks/")]
        assert (REPO / playbook).exists()
        return
    verb = typer.main.get_command(cli.app).commands[words[1]]
    known = {option for parameter in verb.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words if word.startswith("-")} <= known


def test_there_are_commands_to_check() -> None:
    assert len(OF_RAILYARD) >= 15
    assert {words[0] for _alert, words in OF_RAILYARD} == {"railyard", "ansible-playbook"}


def test_every_threshold_has_its_default_in_the_rule_and_says_that_it_has_no_source() -> None:
    used: dict[str, set[tuple[str, float]]] = {}
    for rule in rules():
        for name, default in re.findall(r"railyard:threshold:(\w+) or vector\(([\d.* ]+)\)", rule["expr"]):
            value = 1.0
            for factor in default.split("*"):
                value *= float(factor)
            used.setdefault(name, set()).add((rule.get("alert", "record"), value))
        assert rule["expr"].count("railyard:threshold:") == rule["expr"].count("scalar(railyard:threshold:")
    for name, row in THRESHOLDS.items():
        assert (row["alert"], row["default"]) in used.pop(name)
        assert row["source"].startswith("none; ")
        assert row["unit"]
    assert used == {}


def test_one_threshold_has_one_default() -> None:
    found: dict[str, set[str]] = {}
    for rule in rules():
        for name, default in re.findall(r"railyard:threshold:(\w+) or vector\((.*?)\)", rule["expr"]):
            found.setdefault(name, set()).add(default)
    assert [name for name, defaults in found.items() if len(defaults) != 1] == []


def xids(alert: str) -> set[str]:
    ((_metric, label, operator, value),) = promql.selectors(alerts()[alert]["expr"])
    assert (label, operator) == ("xid", "=~")
    return set(value.split("|"))


def test_the_xids_are_those_of_the_table_by_what_cures_them() -> None:
    resets = {str(number) for number, action in xid.CRITICAL.items() if action == "reset the GPU"}
    # 154 says what another one asks for, which is at least a reset.
    assert xids("GpuXidNeedsReset") == resets | {"154"}
    fatal = {f"{number}_fatal" for number in xid.SAID_TO_BE_FATAL}
    assert xids("GpuXidFatal") == {str(number) for number in xid.CRITICAL} - resets - {"154"} | fatal


def test_files_name_no_machine_of_the_developers() -> None:
    for path in (*RULES.glob("*.yml"), *FILES.glob("*.yml")):
        assert not re.search(r"/work|/home/|localhost:\d", Path(path).read_text(encoding="utf-8"))
