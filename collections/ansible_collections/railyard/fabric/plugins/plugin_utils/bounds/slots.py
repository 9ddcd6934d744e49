# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bandwidth of the PCI Express links between a card and the processor, for one rail and for several. Pure.

A lane carries its GT/s less the line code: 8b/10b up to 5 GT/s, 128b/130b up to 32, FLITs of 236 in 256 bytes
at 64. The kernel prints the same figure ("252.048 Gb/s available PCIe bandwidth", drivers/pci/pci.h:
PCIE_SPEED2MBS_ENC). About a tenth of that is headers and acknowledgements of packets of 256 bytes: 63.0 of
PCIe 3.0 x8 are 57 Gbit/s.

Each link counts with the maximum that both of its ends support: a link that is trained lower is a separate
fault and lowers no floor. Rails that run at once get a max-min fair share of each shared link (Bertsekas,
Gallager: Data Networks, 6.5.2), as switches with round-robin arbitration give it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.rails import pci_links
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.rails.pci_links import Link
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import figures

#: (maximum GT/s of a line code, share of bits that are data).
_CODES = tuple((float(gts), figures.read_value(f"pcie_code_to_{gts}_gts")) for gts in (5, 32, 64))
#: Payload share for packets of 256 bytes: 256 / (256 + 24), less acknowledgements and credits.
PACKETS_SHARE = figures.read_value("pcie_packets_share")
_WIRE_KEY = "shares_wire_with"


class Share(NamedTuple):
    """A rail's bandwidth while the other rails of its node run.

    Attributes:
        gbps: its part of the narrowest shared link; None if that link's bandwidth is unknown.
        basis: which rails share what.
    """

    gbps: float | None
    basis: str


class GpuPath(NamedTuple):
    """Payload bandwidth of the path between a card and a GPU below one port of the root complex.

    Attributes:
        gpu_gbps: of the GPU's part, up to the common switch.
        card_gbps: of the card's part; None if unknown.
    """

    gpu_gbps: float
    card_gbps: float | None


class _Shared(NamedTuple):
    """A shared link: `gbps` of payload, None if unknown."""

    rails: tuple[str, ...]
    gbps: float | None
    name: str


def calculate_raw_gbps(link: Link) -> float | None:
    """Return a link's bandwidth each way after its line code, at the maximum that both ends support."""
    speed, width = link.max_speed_gts, link.max_width
    if speed is None or width is None:
        return None
    return speed * width * next(share for up_to, share in _CODES if speed <= up_to)


def find_narrowest_gbps(path: Iterable[Link]) -> float | None:
    """Return the payload bandwidth of the narrowest known link; None if none is known."""
    known = [raw for link in path if (raw := calculate_raw_gbps(link)) is not None]
    return min(known) * PACKETS_SHARE if known else None


def find_narrowest_link(path: Iterable[Link]) -> dict[str, float | None] | None:
    """Return the narrowest known link in the form of the facts, None if none is known."""
    known = [(raw, link) for link in path if (raw := calculate_raw_gbps(link)) is not None]
    if not known:
        return None
    _raw, link = min(known, key=lambda one: one[0])
    return {"max_speed_gts": link.max_speed_gts, "max_width": link.max_width}


def find_slot_gbps(end: Bound) -> float | None:
    """Return the payload bandwidth of a rail's links up to the processor, None if unknown."""
    return find_narrowest_gbps(pci_links.of_end(end))


def drop_common_links(one: Sequence[Link], other: Sequence[Link]) -> list[Link]:
    """Return the links of one device up to the switch that it has in common with another."""
    common = {link.key for link in other}
    return [link for link in one if link.key not in common]


def find_shared_port(rail: Mapping[str, Any]) -> str | None:
    """Return the name of the rail on the same port, or None."""
    other = rail.get(_WIRE_KEY)
    return other if isinstance(other, str) else None


def find_shares(ends: Mapping[str, Bound], rates_gbps: Mapping[str, float | None]) -> dict[str, Share]:
    """Return rail -> share, for a node's rails that are slower while all of them run than alone.

    Args:
        ends: rail -> its end.
        rates_gbps: rail -> the rate of its port, None if unknown.
    """
    shared = [*_find_shared_links(ends), *_find_shared_ports(ends, rates_gbps)]
    if not shared:
        return {}
    alone = {name: _find_alone_gbps(end, rates_gbps.get(name)) for name, end in ends.items()}
    fair = _share_fairly(alone, [one for one in shared if one.gbps is not None])
    found = {name: Share(gbps, limit) for name, (gbps, limit) in fair.items() if limit}
    for one in shared:
        if one.gbps is None:
            found |= {
                name: Share(None, f"{_describe_shared(one)}, whose bandwidth is not known")
                for name in one.rails
            }
    return found


def find_smaller_share(found: Sequence[Share]) -> Share | None:
    """Return the smaller share of a test's two ends, or None if neither has one."""
    if not found:
        return None
    basis = " and ".join(dict.fromkeys(one.basis for one in found))
    known = [one.gbps for one in found if one.gbps is not None]
    return Share(min(known) if len(known) == len(found) else None, basis)


def sum_best_per_group(ends: Sequence[Bound], alone_gbps: Sequence[float | None]) -> float:
    """Return the sum of the best rails' bandwidth alone, one of each group that shares links; 0 if unknown.

    A bandwidth that one rail reached is a lower limit for its shared links.

    Args:
        ends: a node's rails.
        alone_gbps: the bandwidth of each of them alone.
    """
    names = [str(end.rail.get("name")) for end in ends]
    group = {name: name for name in names}
    for one in _find_shared_links(dict(zip(names, ends, strict=True))):
        joined = {group[name] for name in one.rails}
        group = {name: min(joined) if of in joined else of for name, of in group.items()}
    best: dict[str, float] = {}
    for name, alone in zip(names, alone_gbps, strict=True):
        best[group[name]] = max(best.get(group[name], 0.0), alone or 0.0)
    return sum(best.values())


def _find_alone_gbps(end: Bound, rate_gbps: float | None) -> float:
    known = [one for one in (rate_gbps, find_slot_gbps(end)) if one is not None]
    return min(known, default=math.inf)


def _find_shared_links(ends: Mapping[str, Bound]) -> list[_Shared]:
    users: dict[str, dict[str, Link]] = {}
    for name, end in ends.items():
        for link in pci_links.of_end(end):
            if link.key is not None:
                users.setdefault(link.key, {})[name] = link
    found = []
    for key, rails in users.items():
        if len(rails) > 1:
            # Functions of one card may report their common link differently: the maximum counts.
            raw, link = max(
                ((calculate_raw_gbps(link) or 0.0, link) for link in rails.values()), key=lambda one: one[0]
            )
            details = f", {link.max_speed_gts:g} GT/s x{link.max_width:g}, {raw:.3g} Gbit/s" if raw else ""
            found.append(_Shared(tuple(rails), raw * PACKETS_SHARE if raw else None, f"{key}{details}"))
    return found


def _find_shared_ports(ends: Mapping[str, Bound], rates_gbps: Mapping[str, float | None]) -> list[_Shared]:
    pairs = {
        tuple(sorted((name, other))) for name, end in ends.items() if (other := find_shared_port(end.rail))
    }
    found = []
    for pair in sorted(pairs):
        rates = [rate for name in pair if (rate := rates_gbps.get(name)) is not None]
        if all(name in ends for name in pair):
            rate = max(rates, default=None)
            found.append(_Shared(pair, rate, "one port" + (f" of {rate:g} Gbit/s" if rate else "")))
    return found


def _share_fairly(alone_gbps: Mapping[str, float], shared: Sequence[_Shared]) -> dict[str, tuple[float, str]]:
    """Return each rail's max-min fair part, and the link that limits it, empty if it is the rail itself."""
    found: dict[str, tuple[float, str]] = {}
    left = [one.gbps or 0.0 for one in shared]
    waiting = set(alone_gbps)
    while waiting:
        users = [[name for name in one.rails if name in waiting] for one in shared]
        parts = [(left[at] / len(names), at) for at, names in enumerate(users) if names]
        part, at = min(parts, default=(math.inf, -1))
        unlimited = [name for name in waiting if alone_gbps[name] <= part]
        for name in unlimited or users[at]:
            gbps = min(alone_gbps[name], part)
            found[name] = gbps, "" if unlimited else _describe_shared(shared[at])
            waiting.discard(name)
            for place, one in enumerate(shared):
                left[place] -= gbps if name in one.rails else 0.0
    return found


def _describe_shared(shared: _Shared) -> str:
    *others, last = shared.rails
    return f"{', '.join(others)} and {last} share {shared.name}"
