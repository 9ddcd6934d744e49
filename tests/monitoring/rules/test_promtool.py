"""Every alert fires in its bad situations and in no good one: promtool evaluates rules over made-up series.

In each case all alerts of the loaded files are looked at: those that are not expected must be silent.
promtool compares annotations literally, so each firing case says what its message is.
"""

from __future__ import annotations

import re
import resource
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import prometheus_tools

from .cases import gpus, nodes, rails
from .cases.series import Case
from .rule_files import ALERTS, FILES, RULES, alerts, load

CASES = [*rails.CASES, *nodes.CASES, *gpus.CASES]
#: Alerts of rails use recorded series; no other file does.
LOADED = {"rails": ("records", "rails"), "nodes": ("nodes",), "runs": ("runs",), "gpus": ("gpus",)}
#: It takes about 5 s. promtool evaluates every rule at every step, so that a case of days has a long step.
LIMIT_CPU_S = 60.0


def test_each_of_the_33_alerts_has_a_case_that_fires_and_one_that_must_not() -> None:
    assert len(ALERTS) == 33
    assert set(alerts()) == set(ALERTS)
    assert {alert for case in CASES for alert in case.expect} == set(ALERTS)
    assert {case.alert for case in CASES if case.alert not in case.expect} == set(ALERTS)


def test_no_case_is_listed_twice() -> None:
    names = [(case.alert, case.why) for case in CASES]
    assert len(set(names)) == len(names)


def rendered(text: str, labels: Mapping[str, str]) -> str:
    """Return an annotation without templates but labels, as Prometheus renders it."""
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], text)


def expected(alert: str, case: Case) -> dict[str, Any]:
    wanted, rule = ALERTS[alert], alerts()[alert]
    own = {"severity": wanted.severity, "scope": wanted.scope}
    if wanted.remedy:
        own["remedy"] = wanted.remedy
    found = []
    for labels, summary in case.expect.get(alert, []):
        annotations = {key: rendered(rule["annotations"][key], labels) for key in ("action", "runbook")}
        found.append(
            {"exp_labels": {**labels, **own}, "exp_annotations": {"summary": summary, **annotations}}
        )
    return {"eval_time": case.at, "alertname": alert, "exp_alerts": found}


def write(folder: Path) -> list[Path]:
    """Write promtool's files: one for each set of rule files and each step."""
    files: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for case in CASES:
        file = ALERTS[case.alert].file
        step, _slash, evaluated = case.step.partition("/")
        looked_at = [alert for alert, wanted in ALERTS.items() if wanted.file == file]
        test = {
            "name": f"{case.alert}: {case.why}",
            "interval": step,
            "input_series": case.series,
            "alert_rule_test": [expected(alert, case) for alert in looked_at],
        }
        files[file, evaluated or step].append(test)
    written = []
    for (file, evaluated), tests in files.items():
        path = folder / f"{file}-{evaluated}.test.yml"
        loaded = [str(RULES / f"railyard.{name}.yml") for name in LOADED[file]]
        # Records first. Without it the order differs from call to call, and a sample is seen for 5 min.
        order = [
            group["name"] for name in LOADED[file] for group in load(RULES / f"railyard.{name}.yml")["groups"]
        ]
        document = {
            "rule_files": loaded,
            "evaluation_interval": evaluated,
            "group_eval_order": order,
            "tests": tests,
        }
        path.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), encoding="utf-8")
        written.append(path)
    return written


def sample(rail_state: int) -> dict[str, Any]:
    return {"labels": 'railyard:rail_state{cluster="c1", node="gpu001", rail="rail3"}', "value": rail_state}


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what promtool says of the states of a rail; each must be as its case has it."""
    tests = [
        {
            "name": why,
            "interval": "1m",
            "input_series": series,
            "promql_expr_test": [
                {
                    "expr": "railyard:rail_state",
                    "eval_time": "30m",
                    "exp_samples": [] if state is None else [sample(state)],
                }
            ],
        }
        for why, state, series in rails.STATES
    ]
    path = tmp_path_factory.mktemp("states") / "states.test.yml"
    document = {
        "rule_files": [str(RULES / "railyard.records.yml")],
        "evaluation_interval": "1m",
        "tests": tests,
    }
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    promtool = prometheus_tools.find("promtool")
    done = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("why", [why for why, _state, _series in rails.STATES])
def test_a_rail_has_the_state_that_its_series_show(states: str, why: str) -> None:
    assert f"name: {why}," not in states, states


def test_promtool_understood_the_states(states: str) -> None:
    assert states.split() == ["Unit", "Testing:", states.split()[2], "SUCCESS"]


def test_promtool_finds_no_fault_in_the_rule_files() -> None:
    promtool = prometheus_tools.find("promtool")
    done = subprocess.run(
        [promtool, "check", "rules", "--lint=all", "--lint-fatal", *sorted(RULES.glob("*.yml"))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_case_alerts_as_it_says_and_within_a_minute(tmp_path: Path) -> None:
    promtool = prometheus_tools.find("promtool")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [promtool, "test", "rules", *write(tmp_path)], capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stdout + done.stderr
    # Processor time: how long it takes depends on what else this machine does.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < LIMIT_CPU_S


def test_a_case_that_is_wrong_makes_promtool_fail(tmp_path: Path) -> None:
    promtool = prometheus_tools.find("promtool")
    path = next(path for path in write(tmp_path) if path.name == "nodes-15s.test.yml")
    path.write_text(path.read_text().replace("found something wrong", "found nothing"))
    done = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "QuickCheckWrong" in done.stderr + done.stdout


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.glob("*.yml")))
def test_each_file_beside_the_rules_is_yaml(name: str) -> None:
    assert yaml.safe_load((FILES / name).read_text(encoding="utf-8"))
