# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the PCI Express links between a card and the processor carry, for one rail and for several. Pure.

A lane carries its GT/s less the line code: 8b/10b up to 5 GT/s, 128b/130b up to 32, FLITs of 236 in 256 bytes
at 64. The kernel prints the same figure ("252.048 Gb/s available PCIe bandwidth", drivers/pci/pci.h:
PCIE_SPEED2MBS_ENC). About a tenth of that is headers and acknowledgements of packets of 256 bytes: 63.0 of
PCIe 3.0 x8 are 57 Gbit/s.

Each link counts with the most that both of its ends can do: one that is trained lower is a fault of its own
and lowers no floor. Rails that run at once get a max-min fair share of each link that they share (Bertsekas,
Gallager: Data Networks, 6.5.2), as switches that serve their ports in turn give it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.rails import pci_links
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.rails.pci_links import Link
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import figures

#: GT/s up to which a code holds -> the share of bits that it leaves.
_CODES = tuple((float(gts), figures.value(f"pcie_code_to_{gts}_gts")) for gts in (5, 32, 64))
#: What packets of 256 bytes leave of a link: 256 / (256 + 24), and some for acknowledgements and credits.
PACKETS_SHARE = figures.value("pcie_packets_share")
_WIRE_KEY = "shares_wire_with"


class Share(NamedTuple):
    """What a rail is left with while the other rails of its node run.

    Attributes:
        gbps: its part of the narrowest link that it shares; None where what that carries is not known.
        basis: which rails share what.
    """

    gbps: float | None
    basis: str


class GpuWay(NamedTuple):
    """What the way between a card and a GPU below one port of the root complex carries of payload.

    Attributes:
        gpu_gbps: the GPU's part of it, up to the switch that both are below.
        card_gbps: the card's part; None where it is not known.
    """

    gpu_gbps: float
    card_gbps: float | None


class _Shared(NamedTuple):
    """Something that rails share: `gbps` of payload, None where it is not known."""

    rails: tuple[str, ...]
    gbps: float | None
    name: str


def raw_gbps(link: Link) -> float | None:
    """Return what a link carries each way after its line code, with the most that both of its ends can do."""
    speed, width = link.max_speed_gts, link.max_width
    if speed is None or width is None:
        return None
    return speed * width * next(share for up_to, share in _CODES if speed <= up_to)


def narrowest_gbps(path: Iterable[Link]) -> float | None:
    """Return what the narrowest of the links that are known carries of payload; None where none is."""
    known = [raw for link in path if (raw := raw_gbps(link)) is not None]
    return min(known) * PACKETS_SHARE if known else None


def narrowest(path: Iterable[Link]) -> dict[str, float | None] | None:
    """Return the narrowest of the links that are known as facts have one, None where none is."""
    known = [(raw, link) for link in path if (raw := raw_gbps(link)) is not None]
    if not known:
        return None
    _raw, link = min(known, key=lambda one: one[0])
    return {"max_speed_gts": link.max_speed_gts, "max_width": link.max_width}


def carries_gbps(end: Bound) -> float | None:
    """Return what the links of a rail up to the processor carry of payload, None where it is not known."""
    return narrowest_gbps(pci_links.of_end(end))


def below_common(one: Sequence[Link], other: Sequence[Link]) -> list[Link]:
    """Return the links of one device up to the switch that it and another are below."""
    common = {link.key for link in other}
    return [link for link in one if link.key not in common]


def wire_of(rail: Mapping[str, Any]) -> str | None:
    """Return the name of the rail whose port is on the same wire, or None."""
    other = rail.get(_WIRE_KEY)
    return other if isinstance(other, str) else None


def shares(ends: Mapping[str, Bound], rates_gbps: Mapping[str, float | None]) -> dict[str, Share]:
    """Return which of a node's rails get less while all of them run than each gets alone.

    Args:
        ends: rail -> its end.
        rates_gbps: rail -> the rate of its port, None where it is not known.
    """
    shared = [*_shared_links(ends), *_shared_wires(ends, rates_gbps)]
    if not shared:
        return {}
    alone = {name: _alone_gbps(end, rates_gbps.get(name)) for name, end in ends.items()}
    fair = _fair(alone, [one for one in shared if one.gbps is not None])
    found = {name: Share(gbps, limit) for name, (gbps, limit) in fair.items() if limit}
    for one in shared:
        if one.gbps is None:
            found |= {
                name: Share(None, f"{_named(one)}, whose capability is not known") for name in one.rails
            }
    return found


def lesser(found: Sequence[Share]) -> Share | None:
    """Return the share of a test of which the two ends have these, or None where neither has one."""
    if not found:
        return None
    basis = " and ".join(dict.fromkeys(one.basis for one in found))
    known = [one.gbps for one in found if one.gbps is not None]
    return Share(min(known) if len(known) == len(found) else None, basis)


def best_gbps(ends: Sequence[Bound], alone_gbps: Sequence[float | None]) -> float:
    """Return what the best rail of each group that shares links carries alone, added up.

    0 where that is not known of any rail. What one rail was seen to carry, its shared links carry too.

    Args:
        ends: a node's rails.
        alone_gbps: what each of them carries alone.
    """
    names = [str(end.rail.get("name")) for end in ends]
    group = {name: name for name in names}
    for one in _shared_links(dict(zip(names, ends, strict=True))):
        joined = {group[name] for name in one.rails}
        group = {name: min(joined) if of in joined else of for name, of in group.items()}
    best: dict[str, float] = {}
    for name, alone in zip(names, alone_gbps, strict=True):
        best[group[name]] = max(best.get(group[name], 0.0), alone or 0.0)
    return sum(best.values())


def _alone_gbps(end: Bound, rate_gbps: float | None) -> float:
    known = [one for one in (rate_gbps, carries_gbps(end)) if one is not None]
    return min(known, default=math.inf)


def _shared_links(ends: Mapping[str, Bound]) -> list[_Shared]:
    users: dict[str, dict[str, Link]] = {}
    for name, end in ends.items():
        for link in pci_links.of_end(end):
            if link.key is not None:
                users.setdefault(link.key, {})[name] = link
    found = []
    for key, rails in users.items():
        if len(rails) > 1:
            # Functions of one card may tell differently of their common link: the most is what it can do.
            raw, link = max(
                ((raw_gbps(link) or 0.0, link) for link in rails.values()), key=lambda one: one[0]
            )
            told = f", {link.max_speed_gts:g} GT/s x{link.max_width:g}, {raw:.3g} Gbit/s" if raw else ""
            found.append(_Shared(tuple(rails), raw * PACKETS_SHARE if raw else None, f"{key}{told}"))
    return found


def _shared_wires(ends: Mapping[str, Bound], rates_gbps: Mapping[str, float | None]) -> list[_Shared]:
    pairs = {tuple(sorted((name, other))) for name, end in ends.items() if (other := wire_of(end.rail))}
    found = []
    for pair in sorted(pairs):
        rates = [rate for name in pair if (rate := rates_gbps.get(name)) is not None]
        if all(name in ends for name in pair):
            rate = max(rates, default=None)
            found.append(_Shared(pair, rate, "one wire" + (f" of {rate:g} Gbit/s" if rate else "")))
    return found


def _fair(alone_gbps: Mapping[str, float], shared: Sequence[_Shared]) -> dict[str, tuple[float, str]]:
    """Return each rail's max-min fair part, and what holds it back, nothing where that is the rail itself."""
    found: dict[str, tuple[float, str]] = {}
    left = [one.gbps or 0.0 for one in shared]
    waiting = set(alone_gbps)
    while waiting:
        users = [[name for name in one.rails if name in waiting] for one in shared]
        parts = [(left[at] / len(names), at) for at, names in enumerate(users) if names]
        part, at = min(parts, default=(math.inf, -1))
        content = [name for name in waiting if alone_gbps[name] <= part]
        for name in content or users[at]:
            gbps = min(alone_gbps[name], part)
            found[name] = gbps, "" if content else _named(shared[at])
            waiting.discard(name)
            for place, one in enumerate(shared):
                left[place] -= gbps if name in one.rails else 0.0
    return found


def _named(shared: _Shared) -> str:
    *others, last = shared.rails
    return f"{', '.join(others)} and {last} share {shared.name}"
