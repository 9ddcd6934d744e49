"""`railyard size`: the switches and cables of a fabric, as text, as JSON, or as a drawing."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.present.wording import count

from railyard.plan import svg, svg_parts, svg_words
from railyard.plan.svg_model import Spines
from railyard.size.fabric import Fabric, Wanted, size


def run(wanted: Wanted, *, as_json: bool, file: str | None) -> int:
    """Print what a fabric takes, or draw it.

    Args:
        wanted: what it is to join.
        as_json: print one JSON object.
        file: file for a drawing; `-` is standard output, where nothing else is printed then.

    Returns:
        0: nothing was measured, so that it neither passes nor fails.

    Raises:
        UserError: there is no such fabric, or the drawing cannot be written.
    """
    fabric = size(wanted)
    if file is not None:
        svg_parts.write(draw(wanted, fabric), file)
    if as_json:
        print(json.dumps(document(wanted, fabric), indent=2))
    elif file is None:
        print("\n".join(_lines(wanted, fabric)))
    return 0


def document(wanted: Wanted, fabric: Fabric) -> dict[str, Any]:
    """Return what `--json` prints."""
    return {
        "gpus": wanted.gpus,
        "gpus_per_node": wanted.gpus // fabric.nodes,
        "rails": wanted.rails,
        "radix": wanted.radix,
        "nodes": fabric.nodes,
        "leaves": fabric.leaves,
        "spines": fabric.spines,
        "cables": fabric.node_cables + fabric.spine_cables,
        "node_leaf_cables": fabric.node_cables,
        "leaf_spine_cables": fabric.spine_cables,
        "nodes_per_leaf": fabric.nodes_per_leaf,
        "uplinks_per_leaf": fabric.uplinks,
        "oversubscription": fabric.oversubscription,
    }


def draw(wanted: Wanted, fabric: Fabric) -> str:
    """Draw a fabric as a plan is drawn.

    Returns:
        An SVG document.
    """
    width = max(len(str(fabric.nodes)), 3)
    nodes: dict[str, Any] = {}
    for group, size_of_group in enumerate(fabric.group_sizes()):
        # The nodes of a group share their rails: nothing of them is of one node alone.
        # What else a plan has of a rail is not decided yet.
        rails: list[dict[str, Any]] = [
            defaultdict(lambda: None, name=f"rail{rail}", leaf=f"rail{rail}-leaf{group}")
            for rail in range(fabric.rails)
        ]
        unit = f"su{group + 1}" if fabric.groups > 1 else None
        for _ in range(size_of_group):
            nodes[f"gpu{len(nodes) + 1:0{width}}"] = {"scalable_unit": unit, "rails": rails}
    plan = {
        "cluster": f"{wanted.gpus} GPUs, switches of {wanted.radix} ports",
        "transport": "rail-optimised",
        "cabling": "switched",
        "nodes": nodes,
    }
    return svg.draw(plan, {}, Spines(fabric.spines, fabric.uplinks) if fabric.spines > 0 else None)


def _lines(wanted: Wanted, fabric: Fabric) -> list[str]:
    each = wanted.gpus // fabric.nodes
    groups = f"{fabric.groups} for each rail, with up to {count(fabric.nodes_per_leaf, 'node')}"
    above = "one leaf joins all"
    if fabric.spines > 0:
        groups += f" and {count(fabric.uplinks, 'uplink')}"
        above = f"{count(fabric.uplinks // fabric.spines, 'link')} from each leaf to each"
    cables = f"{fabric.node_cables} between nodes and leaves, {fabric.spine_cables} between leaves and spines"
    return [
        f"{count(wanted.gpus, 'GPU')}: {count(fabric.nodes, 'node')} with {count(each, 'GPU')} and "
        f"{count(fabric.rails, 'rail')}, "
        f"switches of {wanted.radix} ports",
        f"  leaves {fabric.leaves:>7}  {groups}",
        f"  spines {fabric.spines:>7}  {above}",
        f"  cables {fabric.node_cables + fabric.spine_cables:>7}  {cables}",
        f"  {svg_words.oversubscribed(fabric.oversubscription)}",
    ]
