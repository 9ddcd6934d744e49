# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thresholds from a saved baseline of the same link. Pure."""

from __future__ import annotations

from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import significance
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.baseline import Figure, Saved


def find_limits(figure: Figure, tolerance: float) -> tuple[float, float]:
    """Return the range of values that count as equal to a baseline's.

    Args:
        figure: the link's saved value.
        tolerance: the policy's relative tolerance; 0 for the noise margin of `railyard compare`.
    """
    margin = significance.find_margin(figure.like["check"], figure.like["hardware"] == str(True))
    share, value = tolerance or margin.apart, figure.value
    least = max(min(value / (1 + share), value - margin.least), 0.0)
    return round(least, 4), round(max(value * (1 + share), value + margin.least), 4)


def add_link_limits(common: dict[str, Any], saved: Saved, node: str, tolerance: float) -> dict[str, Any]:
    """Return the thresholds of a node's test schedule, with the baseline's where no other exists.

    Args:
        common: check -> rail -> metric -> minimum and maximum, the same for all nodes.
        saved: the run's baseline.
        node: the node.
        tolerance: the policy's.

    Returns:
        The same mapping, with `NODE PEER RAIL` in place of the rail for single links (`confirm.link`).
    """
    bounds = {check: dict(rails) for check, rails in common.items()}
    for (check, *ends, rail), figure in saved.figures.items():
        if node in ends and rail is not None:
            own = bounds.setdefault(check, {})
            known = own.get(rail, {}).get(figure.metric, (None, None))
            least, most = find_limits(figure, tolerance)
            worse = (least, None) if significance.higher_is_better(figure.metric) else (None, most)
            both = [mine if mine is not None else its for mine, its in zip(known, worse, strict=True)]
            own[" ".join((*ends, rail))] = {**own.get(rail, {}), figure.metric: both}
    return bounds
