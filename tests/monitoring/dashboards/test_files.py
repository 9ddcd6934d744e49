# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dashboards' files: what the code makes, in a form that Grafana 10 shows, with names that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.module_utils.metrics.catalogue import METRICS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.monitoring import scrape
from railyard.base import paths
from railyard.dashboards import __main__ as program
from support import promql
from support.monitoring import dashboard_queries
from support.monitoring.dashboard_queries import FILES
from support.monitoring.server import CONSOLES, delivered_rules

REPO = paths.repo_root()
BOARDS = {path.stem: dashboard_queries.load(path) for path in FILES}
# Panels that Grafana 10.0 has built in (its folder public/app/plugins/panel).
GRAFANA_10 = {"row", "stat", "bargauge", "table", "timeseries", "state-timeline"}
RULES = [rule for text in delivered_rules().values() for group in text["groups"] for rule in group["rules"]]
RECORDS = {rule["record"] for rule in RULES if "record" in rule}
LISTED = yaml.safe_load((REPO / "tests/monitoring/foreign_metrics.yml").read_text(encoding="utf-8"))
FOREIGN = {name for exporter in LISTED.values() for name in exporter["metrics"]}
THRESHOLD = re.compile(r"railyard:threshold:\w+")


def test_the_files_are_what_the_code_makes() -> None:
    assert {path.name: path.read_text(encoding="utf-8") for path in FILES} == program.render()


def test_a_file_that_somebody_edited_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main([], tmp_path) == 0
    assert program.main(["--check"], tmp_path) == 0
    edited = tmp_path / "railyard-node.json"
    edited.write_text(edited.read_text(encoding="utf-8").replace("GPUs", "Graphics"), encoding="utf-8")
    (tmp_path / "railyard-old.json").write_text("{}", encoding="utf-8")
    assert program.main(["--check"], tmp_path) == 1
    told = capsys.readouterr().err
    assert "railyard-node.json" in told
    assert "railyard-old.json" in told
    assert "railyard-rails.json" not in told


@pytest.mark.parametrize("name", BOARDS)
def test_panels_are_of_types_that_grafana_10_has_and_do_not_overlap(name: str) -> None:
    panels = BOARDS[name]["panels"]
    assert {one["type"] for one in panels} <= GRAFANA_10
    assert len({one["id"] for one in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for one in panels:
        place = one["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _y in cells) < 24, one["title"]
        assert not taken & cells, one["title"]
        taken |= cells


@pytest.mark.parametrize("name", BOARDS)
def test_a_panel_says_what_it_shows_and_a_link_leads_to_a_dashboard(name: str) -> None:
    for one in BOARDS[name]["panels"]:
        assert one["type"] == "row" or len(one["description"]) > 20, one["title"]
        for link in re.findall(r"/d/([\w-]+)", str(one)):
            assert link in BOARDS


def names_in_boards() -> dict[str, set[str]]:
    """Return the names of metrics in each dashboard."""
    found = {}
    for path in FILES:
        texts = [one.expr for one in dashboard_queries.panel_queries(path)]
        texts += [selector for selector, _label in dashboard_queries.variables(path).values()]
        found[path.stem] = set().union(*map(promql.metrics, texts))
    return found


def console_names() -> set[str]:
    """Return the names of metrics in the queries of the console page."""
    found: set[str] = set()
    for path in CONSOLES.glob("*.html"):
        for quoted in re.findall(r'"((?:[^"\\]|\\.)*)"|`([^`]*)`', path.read_text(encoding="utf-8")):
            text = "".join(quoted)
            if re.search(r"railyard[:_]|\bup\b|ALERTS", text):
                found |= promql.metrics(text)
    return found


def known(name: str) -> bool:
    """Return whether a name is in the catalogue, in a rule, of a run's numbers, or of another program."""
    numbers = {f"railyard_{metric}" for check in CHECKS.values() for metric in check.bounded}
    return (
        name in METRICS
        or name in RECORDS
        or name in FOREIGN
        or name in numbers
        or bool(THRESHOLD.fullmatch(name))
    )


def test_every_metric_of_a_dashboard_is_in_a_catalogue() -> None:
    for name, names in names_in_boards().items():
        assert len(names) > 5
        assert {one for one in names if not known(one)} == set(), name


def test_every_metric_of_another_program_is_read() -> None:
    """A list that only grows tells a Prometheus to keep what no dashboard or rule uses."""
    of_rules = set().union(*(promql.metrics(rule["expr"]) for rule in RULES))
    assert FOREIGN - of_rules - console_names() - set().union(*names_in_boards().values()) == set()


def test_our_prometheus_keeps_every_metric_of_node_exporter_that_is_read() -> None:
    kept = re.compile("|".join(scrape.KEPT))
    assert [name for name in LISTED["node_exporter"]["metrics"] if not kept.fullmatch(name)] == []
