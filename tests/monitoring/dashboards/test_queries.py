# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every query of every dashboard has an answer from a real Prometheus that has one fault of each kind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from support.monitoring import dashboard_queries
from support.monitoring.dashboard_queries import FILES, PanelQuery
from support.monitoring.server import Prometheus

QUERIES = [one for path in FILES for one in dashboard_queries.panel_queries(path)]
VARIABLES = {path.stem: dashboard_queries.variables(path) for path in FILES}


def ask(prometheus: Prometheus, query: PanelQuery, cluster: str = "fake") -> list[dict[str, Any]]:
    """Return what Grafana would show in a panel."""
    # The faults are there, so that a number must come from a series and not from what stands in for none.
    expr = dashboard_queries.fill(
        query.expr.removesuffix(" or vector(0)"),
        dashboard_queries.choice(query.board, query.panel["title"], cluster),
    )
    assert dashboard_queries.unfilled(expr) == [], "a variable that the dashboard does not have"
    return prometheus.query(expr) if query.instant else prometheus.query_range(expr, 60, 5)


def test_there_are_five_dashboards_with_queries() -> None:
    assert sorted(VARIABLES) == [f"railyard-{name}" for name in ("cluster", "gpus", "node", "rails", "runs")]
    assert len(QUERIES) > 100


@pytest.mark.parametrize("query", QUERIES, ids=lambda one: one.place)
def test_a_query_has_an_answer_and_its_labels(watched: Prometheus, query: PanelQuery) -> None:
    series = ask(watched, query)
    assert series, f"no data: {query.expr}"
    numbers = [number for one in series for _time, number in one.get("values") or [one["value"]]]
    assert set(numbers) - {"NaN", "+Inf", "-Inf"}, f"no number: {query.expr}"
    for label in re.findall(r"{{\s*(\w+)\s*}}", query.legend):
        without = [one["metric"] for one in series if label not in one["metric"]]
        # An alert of a node has no rail, and one of a rail no GPU: Grafana then writes nothing.
        assert len(without) < len(series), f"no series has label {label}: {without[0]}"


@pytest.mark.parametrize(
    ("board", "name"), [(board, name) for board, found in VARIABLES.items() for name in found]
)
def test_a_variable_has_values(watched: Prometheus, board: str, name: str) -> None:
    selector, label = VARIABLES[board][name]
    selector = dashboard_queries.fill(selector, {"cluster": "fake"})
    assert dashboard_queries.unfilled(selector) == []
    assert {one["metric"].get(label) for one in watched.query(selector)} - {None, ""}


def test_all_dashboards_have_the_same_variables() -> None:
    for path in FILES:
        names = [one["name"] for one in dashboard_queries.load(path)["templating"]["list"]]
        more = ["reports"] if path.stem == "railyard-runs" else []
        assert names == ["datasource", "cluster", "node", "rail", *more], path.name


TABLES = {
    f"{path.stem} {panel['id']}: {panel['title']}": (path.stem, panel)
    for path in FILES
    for panel in dashboard_queries.load(path)["panels"]
    if panel["type"] == "table"
}


@pytest.mark.parametrize("place", TABLES)
def test_the_columns_that_a_table_names_are_there(watched: Prometheus, place: str) -> None:
    """A column that a transformation names and no query gives is left out by Grafana without a word."""
    _board, panel = TABLES[place]
    queries = [one for one in QUERIES if one.place == place]
    columns = {"Time"} | (
        {"Value"} if len(queries) == 1 else {f"Value #{one['refId']}" for one in panel["targets"]}
    )
    for query in queries:
        columns |= {label for one in ask(watched, query) for label in one["metric"]}
    named = set()
    for one in panel["transformations"]:
        named |= columns_of(one["id"], one.get("options", {}))
    assert named, "a table without columns that are named shows all labels"
    assert named <= columns
    shown = next(
        (one["options"]["renameByName"] for one in panel["transformations"] if one["id"] == "organize"), None
    )
    if shown is not None:
        overridden = {one["matcher"]["options"] for one in panel["fieldConfig"]["overrides"]}
        sorted_by = {one["displayName"] for one in panel["options"].get("sortBy", [])}
        assert overridden | sorted_by <= set(shown.values())


def columns_of(transformation: str, options: Mapping[str, Any]) -> set[str]:
    """Return the columns that a transformation of a table names."""
    if transformation == "filterFieldsByName":
        return set(options["include"]["names"])
    if transformation == "organize":
        return {*options["indexByName"], *options["renameByName"]}
    if transformation == "sortBy":
        return {one["field"] for one in options["sort"]}
    if transformation == "groupingToMatrix":
        return {options["rowField"], options["columnField"], options["valueField"]}
    assert transformation == "merge", transformation
    return set()


#: What the large numbers of the dashboards must be, counted from the faults by hand.
NUMBERS = {
    ("railyard-cluster", "Nodes that answer"): [15, 16],
    ("railyard-cluster", "Rails without a link"): [2],
    ("railyard-cluster", "Rails below their rate"): [1],
    # no_link, netdev_gone, rdma_port_down, below_rate, mtu; physical, symbol, loss, flap, paused
    ("railyard-cluster", "Rails that are not good"): [5, 5],
    ("railyard-cluster", "GPUs missing"): [1],
    ("railyard-cluster", "Last validation"): [1],
    ("railyard-cluster", "Nodes not proven lately"): [1],
    ("railyard-cluster", "Nodes drained in Slurm"): [1, 1],
    ("railyard-cluster", "CPUs with a wrong governor"): [128],
    ("railyard-cluster", "Metrics that are old"): [1],
    # Two nodes give no metrics of Railyard, and DCGM is silent on two nodes.
    ("railyard-gpus", "GPUs"): [14 * 8 - 1, 14 * 8, 14 * 8 - 1],
    ("railyard-gpus", "Nodes with too few GPUs"): [1],
    ("railyard-gpus", "dcgm-exporter silent"): [2],
    ("railyard-gpus", "GPUs with an XID since reset"): [2],
    ("railyard-gpus", "Uncorrected ECC errors"): [1],
    ("railyard-gpus", "Row remaps to do"): [1],
    ("railyard-gpus", "NVLinks down"): [2],
    ("railyard-runs", "Complete"): [1],
    ("railyard-runs", "Duration"): [1500],
}


@pytest.mark.parametrize(("place", "wanted"), NUMBERS.items(), ids=str)
def test_a_large_number_counts_the_faults(
    watched: Prometheus, place: tuple[str, str], wanted: Sequence[float]
) -> None:
    queries = [
        one for one in QUERIES if (one.board, one.panel["title"]) == place and one.panel["type"] == "stat"
    ]
    found = [
        watched.query(
            dashboard_queries.fill(one.expr, dashboard_queries.choice(one.board, one.panel["title"]))
        )
        for one in queries
    ]
    assert [[float(one["value"][1]) for one in series] for series in found] == [[one] for one in wanted]


def test_each_number_panel_of_one_series_has_a_number_here() -> None:
    """What is counted belongs into the table above; ages and alerts do not."""
    stats = {(one.board, one.panel["title"]) for one in QUERIES if one.panel["type"] == "stat"}
    ages = {"Its age", "Age", "Age of the metrics", "Last proven", "Up for", "Alerts firing", "Result"}
    counted = {one for one in stats if one[0] != "railyard-node" and one[1] not in ages}
    assert counted == set(NUMBERS)


def test_the_bandwidth_of_a_large_run_is_shown_by_rail(watched: Prometheus) -> None:
    """A run of many nodes exports least, median and greatest of each rail instead of a series a test."""
    queries = [one for one in QUERIES if (one.board, one.panel["title"]) == ("railyard-runs", "Bandwidth")]
    found = [{one["value"][1] for one in ask(watched, query, "folded")} for query in queries]
    assert found == [{"190"}, {"391"}, {"394"}]
    # The small run has one slow rail, below the 390 to 394 of the others.
    least = {one["metric"]["rail"]: one["value"][1] for one in ask(watched, queries[0])}
    assert {rail for rail, value in least.items() if float(value) < 390} == {"rail3"}
