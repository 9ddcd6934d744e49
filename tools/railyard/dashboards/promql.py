# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the PromQL that several panels share: selectors, limits of alerts, the greatest few."""

from __future__ import annotations

from functools import cache

import yaml

from railyard.base.paths import repo_root

# Selectors, from wide to narrow.
CLUSTER = 'cluster="$cluster"'
NODE = f'{CLUSTER},node=~"$node"'
RAIL = f'{NODE},rail=~"$rail"'
#: Labels that name a rail.
BY_RAIL = "cluster, node, rail"

#: Limits of alerts that are our choice, with their defaults; a site changes one by recording a series.
_LIMITS = repo_root() / "roles" / "monitoring" / "files" / "thresholds.yml"


@cache
def default_limit(name: str) -> float:
    """Return the default of an alert's limit: a colour of a panel cannot read the site's own."""
    return float(yaml.safe_load(_LIMITS.read_text(encoding="utf-8"))[name]["default"])


def limit(name: str) -> str:
    """Return an alert's limit as PromQL, in the form that the rules use."""
    return f"scalar(railyard:threshold:{name} or vector({default_limit(name):.12g}))"


def count(expr: str) -> str:
    """Return an expression that counts series, and gives 0 where there is none."""
    return f"count({expr}) or vector(0)"


def metrics_age(selector: str) -> str:
    """Return the age of Railyard's metrics by the node's own clock: one that is off makes no old metrics."""
    return (
        f"max by (cluster, node) (node_time_seconds{{{selector}}}) - on (cluster, node) group_right () "
        f'node_textfile_mtime_seconds{{file=~"(.*/)?railyard_node[.]prom",{selector}}}'
    )


def firing_since(labels: str, selector: str) -> str:
    """Return since when alerts fire, as Unix time in milliseconds."""
    firing = f'ALERTS{{alertstate="firing",{selector}}}'
    return f"max by ({labels}) (1000 * ALERTS_FOR_STATE{{{selector}}} and ignoring (alertstate) {firing})"


def top(number: int, selector: str, condition: str = "") -> str:
    """Return the series with the greatest mean over the time shown: the same ones at each point of it."""
    return f"{selector} and topk({number}, avg_over_time({selector}[$__range] @ end()){condition})"
