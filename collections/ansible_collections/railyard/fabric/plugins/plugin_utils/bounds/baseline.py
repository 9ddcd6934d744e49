# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limits that a saved baseline sets to the same link's numbers. Pure."""

from __future__ import annotations

from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import significance
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.baseline import Figure, Saved


def limits(figure: Figure, tolerance: float) -> tuple[float, float]:
    """Return the least and the most that is no other number than a baseline's.

    Args:
        figure: the link's.
        tolerance: the policy's share; 0 for what `railyard compare` takes for noise.
    """
    margin = significance.margin(figure.like["check"], figure.like["hardware"] == str(True))
    share, value = tolerance or margin.apart, figure.value
    least = max(min(value / (1 + share), value - margin.least), 0.0)
    return round(least, 4), round(max(value * (1 + share), value + margin.least), 4)


def for_node(told: dict[str, Any], saved: Saved, node: str, tolerance: float) -> dict[str, Any]:
    """Return the bounds of a node's work order with those of its links, where no authority has one.

    Args:
        told: check -> rail -> metric -> least and most, as all nodes have it.
        saved: the run's baseline.
        node: whose order it is.
        tolerance: the policy's.

    Returns:
        The same, each check also with `NODE PEER RAIL` in place of the rail (`confirm.link`).
    """
    bounds = {check: dict(rails) for check, rails in told.items()}
    for (check, *ends, rail), figure in saved.figures.items():
        if node in ends and rail is not None:
            own = bounds.setdefault(check, {})
            known = own.get(rail, {}).get(figure.metric, (None, None))
            least, most = limits(figure, tolerance)
            worse = (least, None) if significance.higher_is_better(figure.metric) else (None, most)
            both = [mine if mine is not None else its for mine, its in zip(known, worse, strict=True)]
            own[" ".join((*ends, rail))] = {**own.get(rail, {}), figure.metric: both}
    return bounds
