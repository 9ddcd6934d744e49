# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a Grafana dashboard asks its data source: the queries of its panels and variables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from railyard.base import paths

from support.monitoring.fake_cluster import FAULTS

FOLDER = paths.repo_root() / "roles/monitoring/files/dashboards"
FILES = sorted(FOLDER.glob("*.json"))
#: Grafana's own variables in queries, as they are for a view of six hours.
BUILT_IN = {"__rate_interval": "2m", "__range": "6h", "__interval": "30s"}
ALL = ".*"
#: The node of the stand-in cluster that the Node dashboard shows: one that has what a panel is about.
_NODE_OF_PANEL = {
    "Paused share of the time": "paused",
    "Error counters": "physical",
    "Errors in an hour": "physical",
    "GPU errors (XID)": "xid_fatal",
    "Findings of the quick check": "quick_wrong",
}
_LABEL_VALUES = re.compile(r"label_values\((?P<series>.*), (?P<label>\w+)\)")


class PanelQuery(NamedTuple):
    """One query of a panel."""

    board: str
    panel: Mapping[str, Any]
    expr: str
    instant: bool
    legend: str

    @property
    def place(self) -> str:
        """Return the board, the panel and its number: titles may come twice."""
        return f"{self.board} {self.panel['id']}: {self.panel['title']}"


def load(path: Path) -> dict[str, Any]:
    """Return a dashboard."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def panel_queries(path: Path) -> Iterator[PanelQuery]:
    """Yield the queries of a dashboard's panels."""
    for panel in load(path)["panels"]:
        for target in panel.get("targets", []):
            yield PanelQuery(
                path.stem, panel, target["expr"], target.get("instant", False), target.get("legendFormat", "")
            )


def variables(path: Path) -> dict[str, tuple[str, str]]:
    """Return the series selector and the label of each variable that is read from the data source."""
    found = {}
    for variable in load(path)["templating"]["list"]:
        if variable["type"] == "query":
            matched = _LABEL_VALUES.fullmatch(variable["query"])
            if not matched:
                raise ValueError(
                    f"{path.name}: variable {variable['name']}: {variable['query']} is no label_values()"
                )
            found[variable["name"]] = (matched["series"], matched["label"])
    return found


def choice(board: str, title: str, cluster: str = "fake") -> dict[str, str]:
    """Return what a person has chosen in the lists of a dashboard to look at a panel."""
    node = ALL
    if board == "railyard-node":
        node = f"gpu{FAULTS[_NODE_OF_PANEL.get(title, 'no_link')].node + 1:04d}"
    return {"cluster": cluster, "node": node, "rail": ALL}


def fill(expr: str, values: Mapping[str, str]) -> str:
    """Return a query with variables replaced as Grafana does it; `$name` and `${name}` are the same."""
    for name, value in {**BUILT_IN, **values}.items():
        expr = re.sub(rf"\${name}\b|\${{{name}}}", lambda _match, text=value: text, expr)
    return expr


def unfilled(expr: str) -> list[str]:
    """Return the variables that are left in a query."""
    return re.findall(r"\$\w+|\$\{[^}]*\}|\[\[\w+\]\]", expr)
