# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA between GPUs' memories: was it that memory, what is to be reached, how much of host memory's? Pure.

The floor of host memory has an authority for GPU memory as well, but only where GPU and card are below
one port of the root complex: what passes the root complex may be as slow as the processor makes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import GPU_MEMORY
from ansible_collections.railyard.fabric.plugins.module_utils.facts import gpus
from ansible_collections.railyard.fabric.plugins.module_utils.rails import pci_links
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.records.facts import Gpus
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import FAIL
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_whole
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import slots
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.draft import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.facts import BoundFacts

#: GT/s of a lane, by the generation that nvidia-smi names.
_GTS = {1: 2.5, 2: 5, 3: 8, 4: 16, 5: 32, 6: 64}


def unlike(
    row: Mapping[str, Any], end: Bound, facts: Gpus | None, policy: Mapping[str, Any]
) -> Iterator[str]:
    """Yield why a row is not of the GPU's memory that its rail has to use; the first counts.

    Args:
        row: the row; one of another check is none of this.
        end: the rail's end.
        facts: what the node's facts say of its GPUs, None where that is garbled.
        policy: the merged policy, which says where the site's perftest is.
    """
    if row.get("check") != GPU_MEMORY:
        return
    gpu, argvs = row.get("gpu"), row.get("argv")
    if gpu not in _nearest(facts, end)[1]:
        yield f"it was the memory of GPU {gpu!r}, which is not the nearest to the rail's card"
    if not isinstance(row.get("gpu_name"), str) or not row["gpu_name"]:
        yield f"perftest named no GPU: gpu_name is {row.get('gpu_name')!r}"
    program = os.path.join(policy["gpudirect_perftest_folder"], str(row.get("tool")))
    wanted = {f"--use_cuda_bus_id={gpu}", program}
    if not isinstance(argvs, list) or not argvs or not all(wanted.issubset(argv) for argv in argvs):
        yield f"argv is {argvs!r}, which lacks {' or '.join(sorted(wanted))}"


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
    found = (_nearest(fleet.gpus.get(node), fleet.bound[node][rail])[0] for node in nodes)
    return " and ".join(sorted(map(str, found)))


def left_out(check: str, nodes: Sequence[str], declared: Mapping[str, Mapping[str, Any]]) -> Answer | None:
    """Return the answer to a test with a node of which the inventory declares that it has no GPU."""
    without = next((node for node in nodes if declared[node].get("count") == 0), None)
    if check != GPU_MEMORY or without is None:
        return None
    return Answer.not_applicable(f"the inventory declares that {without} has no GPU")


def beside(answer: Answer, host_gbps: float | None) -> Answer:
    """Add what host memory carried the same way, and tell a slow way to the GPU from a slow rail.

    Args:
        answer: of GPU memory.
        host_gbps: what was measured from host memory; None where nothing was.
    """
    seen = answer.observed.get("bandwidth_gbps")
    if host_gbps is None or seen is None:
        return answer
    answer.observed |= {
        "host_memory_gbps": host_gbps,
        "of_host_memory_percent": round(100 * seen / host_gbps, 1),
    }
    least = answer.floor.get("bandwidth_gbps")
    slow = answer.outcome == FAIL and answer.cause.get("cause_class") == "below_floor"
    if slow and least is not None and host_gbps >= least:
        proof = answer.proof
        told = f"bandwidth_gbps {seen:g}, floor {least:g}; {host_gbps:g} from host memory"
        answer.failed("gpu_path_slow", told).proof = proof
    return answer


def _nearest(facts: Gpus | None, end: Bound) -> tuple[str | None, Sequence[str]]:
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
    by, near = _nearest(facts, end)
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
