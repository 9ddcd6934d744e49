# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Grafana's own transformations turn the answers of Prometheus into the tables that the dashboards mean.

They are those of @grafana/data 10.1 (npm, Apache-2.0): the oldest Grafana that the dashboards are for.
Without npm or a registry these tests are skipped.
"""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.monitoring import dashboard_queries, npm
from support.monitoring.dashboard_queries import FILES
from support.monitoring.server import Prometheus

FOLDER = Path(__file__).parent / "transformations"
TABLES = [
    (path.stem, panel)
    for path in FILES
    for panel in dashboard_queries.load(path)["panels"]
    if panel["type"] == "table"
]


def frames(prometheus: Prometheus, board: str, panel: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the answers to a table's queries in the form of Grafana's Prometheus data source."""
    chosen = dashboard_queries.choice(board, panel["title"])
    found = []
    for target in panel["targets"]:
        series = prometheus.query(dashboard_queries.fill(target["expr"], chosen))
        if not series:
            continue
        # Prometheus promises no order.
        random.Random(1).shuffle(series)
        labels = sorted({label for one in series for label in one["metric"]})
        fields = [{"name": "Time", "type": "time", "values": [1000 * one["value"][0] for one in series]}]
        fields += [
            {"name": label, "type": "string", "values": [one["metric"].get(label, "") for one in series]}
            for label in labels
        ]
        numbers = [float(one["value"][1]) for one in series]
        found.append({"refId": target["refId"], "fields": fields, "numbers": numbers})
    # The number's column has the query's letter where several queries have an answer.
    for one in found:
        name = f"Value #{one['refId']}" if len(found) > 1 else "Value"
        one["fields"].append({"name": name, "type": "number", "values": one.pop("numbers")})
    return found


Table = dict[str, list[Any]]


@pytest.fixture(scope="module")
def tables(watched: Prometheus) -> dict[tuple[str, str], Table]:
    """Return each table as it is shown: the values of each column by its name, in order."""
    place = npm.fetch(FOLDER)
    asked = [
        {"transformations": panel["transformations"], "frames": frames(watched, board, panel)}
        for board, panel in TABLES
    ]
    argv = ["node", str(FOLDER / "run.cjs"), str(place)]
    done = subprocess.run(argv, input=json.dumps(asked), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    made = json.loads(done.stdout)
    return {
        (board, panel["title"]): {field["name"]: field["values"] for field in shown[0]} if shown else {}
        for (board, panel), shown in zip(TABLES, made, strict=True)
    }


@pytest.mark.parametrize(
    ("board", "panel"), TABLES, ids=lambda one: one if isinstance(one, str) else one["title"]
)
def test_a_table_has_the_columns_that_it_names(
    tables: dict[tuple[str, str], Table], board: str, panel: dict[str, Any]
) -> None:
    named = [one for one in panel["transformations"] if one["id"] == "organize"]
    if not named:
        pytest.skip("a map of nodes and rails: its columns are the rails, below")
    order, names = named[0]["options"]["indexByName"], named[0]["options"]["renameByName"]
    wanted = [names[column] for column in sorted(order, key=lambda one: order[one])]
    assert list(tables[board, panel["title"]]) == wanted


def test_the_map_of_nodes_and_rails_is_in_order(tables: dict[tuple[str, str], Table]) -> None:
    shown = tables["railyard-rails", "All nodes"]
    assert list(shown) == ["node\\rail", *(f"rail{number}" for number in range(8))]
    # Of gpu0010 and gpu0012 there are no metrics of rails.
    nodes = [f"gpu{number:04d}" for number in range(1, 17) if number not in (10, 12)]
    assert shown["node\\rail"] == nodes
    at = nodes.index("gpu0002")
    assert [shown[f"rail{number}"][at] for number in range(8)] == [0, 2, 0, 0, 0, 2, 0, 0]
    worse = tables["railyard-rails", "Nodes with a rail that is not good"]
    assert worse["node\\rail"] == ["gpu0002", "gpu0003", "gpu0004", "gpu0005", "gpu0007", "gpu0008"]


def test_the_rails_of_a_node_are_one_row_each(tables: dict[tuple[str, str], Table]) -> None:
    shown = tables["railyard-node", "Rails"]
    order = sorted(range(8), key=lambda place: shown["Rail"][place])
    assert [shown["Rail"][place] for place in order] == [f"rail{number}" for number in range(8)]
    assert [shown["State"][place] for place in order] == [0, 2, 0, 0, 0, 2, 0, 0]
    assert [shown["Rate"][place] for place in order] == [400e9, 0, 400e9, 400e9, 400e9, 0, 400e9, 400e9]
    assert shown["Declared"] == [400e9] * 8
    assert [shown["RDMA device"][place] for place in order] == [f"mlx5_{number}" for number in range(8)]


def test_errors_of_a_gpu_are_one_row(tables: dict[tuple[str, str], Table]) -> None:
    shown = tables["railyard-gpus", "XIDs"]
    rows = set(zip(*shown.values(), strict=True))
    assert rows == {("gpu0013", "0000:4b:00.0", "79", 1, 3), ("gpu0013", "0000:5b:00.0", "48", 1, 3)}
