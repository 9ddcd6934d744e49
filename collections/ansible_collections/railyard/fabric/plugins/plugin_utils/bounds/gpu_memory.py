# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bandwidth of the PCIe path between a GPU and its NIC, for RDMA with GPU memory. Pure.

The published floor for GPU memory only applies if GPU and card are below one port of the root complex: a path
through the root complex depends on the processor.
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

#: PCIe generation, as nvidia-smi reports it -> GT/s of a lane.
_GTS = {1: 2.5, 2: 5, 3: 8, 4: 16, 5: 32, 6: 64}


def find_gpu_path(fleet: BoundFacts, nodes: Iterable[str], rail: str) -> slots.GpuPath | None:
    """Return the bandwidth of the paths between nodes' GPUs and a rail's cards; None without a reference."""
    found = [_find_node_path(fleet.gpus.get(node), fleet.bound[node][rail]) for node in nodes]
    ways = [one for one in found if one is not None]
    if not ways or len(ways) < len(found):
        return None
    cards = [one.card_gbps for one in ways if one.card_gbps is not None]
    return slots.GpuPath(min(one.gpu_gbps for one in ways), min(cards, default=None))


def describe_gpu_distance(fleet: BoundFacts, nodes: Iterable[str], rail: str) -> str:
    """Return how near a rail's cards and GPUs are at both ends; comparable tests have this in common."""
    found = (find_nearest_gpus(fleet.gpus.get(node), fleet.bound[node][rail])[0] for node in nodes)
    return " and ".join(sorted(map(str, found)))


def find_nearest_gpus(facts: Gpus | None, end: Bound) -> tuple[str | None, Sequence[str]]:
    """Return how the nearest GPUs are connected to the rail's card, and which; all GPUs if unknown."""
    card = (end.hca or {}).get("pci")
    if facts is None:
        return None, ()
    for one in facts["near"]:
        if one["nic"] == card and one["gpus"]:
            return one["by"], one["gpus"]
    return None, facts["pci"]


def _find_node_path(facts: Gpus | None, end: Bound) -> slots.GpuPath | None:
    """Return the smallest bandwidth between a card and the GPUs below the same root port.

    Traffic between the two turns at their common switch, and does not use that switch's link to the
    processor.
    """
    by, near = find_nearest_gpus(facts, end)
    if by != gpus.SWITCH or facts is None:
        return None
    own = _read_gpu_links(facts)
    card, found, cards = pci_links.of_end(end), [], []
    for gpu in near:
        way = pci_links.of_device({"pci_path": facts["pci_paths"].get(gpu)})
        link = own.get(gpu)
        if link is None or slots.calculate_raw_gbps(link) is None:
            return None
        found.append(slots.find_narrowest_gbps([link, *slots.drop_common_links(way, card)]) or 0.0)
        cards.append(slots.find_narrowest_gbps(slots.drop_common_links(card, way)))
    return slots.GpuPath(min(found), min((one for one in cards if one is not None), default=None))


def _read_gpu_links(facts: Gpus) -> dict[str, pci_links.Link]:
    """Return GPU -> its link with the maximum speed and width that nvidia-smi reports."""
    found = {}
    for row in facts["rows"]:
        generation, width = row.get("pcie.link.gen.max"), row.get("pcie.link.width.max")
        speed = _GTS.get(generation) if is_whole(generation) else None
        link = {"max_speed_gts": speed, "max_width": width}
        found[str(row.get("pci"))] = pci_links.of_device({"pci_link": link})[0]
    return found
