# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA between GPUs' memories: what the way between a GPU and its card carries. Pure.

The floor of host memory has an authority for GPU memory as well, but only where GPU and card are below
one port of the root complex: what passes the root complex may be as slow as the processor makes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ansible_collections.railyard.fabric.plugins.module_utils.facts import gpus
from ansible_collections.railyard.fabric.plugins.module_utils.rails import pci_links
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.records.facts import Gpus
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import slots
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.facts import BoundFacts
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_whole

#: GT/s of a lane, by the generation that nvidia-smi names.
_GTS = {1: 2.5, 2: 5, 3: 8, 4: 16, 5: 32, 6: 64}


def carries_gbps(fleet: BoundFacts, nodes: Iterable[str], rail: str) -> slots.GpuWay | None:
    """Return what the ways between nodes' GPUs and a rail's cards carry; None where no source has a floor."""
    found = [_way(fleet.gpus.get(node), fleet.bound[node][rail]) for node in nodes]
    ways = [one for one in found if one is not None]
    if not ways or len(ways) < len(found):
        return None
    cards = [one.card_gbps for one in ways if one.card_gbps is not None]
    return slots.GpuWay(min(one.gpu_gbps for one in ways), min(cards, default=None))


def way(fleet: BoundFacts, nodes: Iterable[str], rail: str) -> str:
    """Return how near a rail's cards and GPUs are at both ends, by which tests are alike."""
    found = (nearest(fleet.gpus.get(node), fleet.bound[node][rail])[0] for node in nodes)
    return " and ".join(sorted(map(str, found)))


def nearest(facts: Gpus | None, end: Bound) -> tuple[str | None, Sequence[str]]:
    """Return how near which GPUs are to the rail's card; all of the node where the kernel does not tell."""
    card = (end.hca or {}).get("pci")
    if facts is None:
        return None, ()
    for one in facts["near"]:
        if one["nic"] == card and one["gpus"]:
            return one["by"], one["gpus"]
    return None, facts["pci"]


def _way(facts: Gpus | None, end: Bound) -> slots.GpuWay | None:
    """Return what lies between a card and the GPUs near it, of GPUs below the card's port alone: the least.

    What goes between the two turns at the switch that both are below, and does not use that switch's own link
    to the processor.
    """
    by, near = nearest(facts, end)
    if by != gpus.SWITCH or facts is None:
        return None
    own = _own_links(facts)
    card, found, cards = pci_links.of_end(end), [], []
    for gpu in near:
        way = pci_links.of_device({"pci_path": facts["pci_paths"].get(gpu)})
        link = own.get(gpu)
        if link is None or slots.raw_gbps(link) is None:
            return None
        found.append(slots.narrowest_gbps([link, *slots.below_common(way, card)]) or 0.0)
        cards.append(slots.narrowest_gbps(slots.below_common(card, way)))
    return slots.GpuWay(min(found), min((one for one in cards if one is not None), default=None))


def _own_links(facts: Gpus) -> dict[str, pci_links.Link]:
    """Return of each GPU the link that nvidia-smi says its slot and it can have."""
    found = {}
    for row in facts["rows"]:
        generation, width = row.get("pcie.link.gen.max"), row.get("pcie.link.width.max")
        speed = _GTS.get(generation) if is_whole(generation) else None
        link = {"max_speed_gts": speed, "max_width": width}
        found[str(row.get("pci"))] = pci_links.of_device({"pci_link": link})[0]
    return found
