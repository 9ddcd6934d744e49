# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bounds that a measured number is held against, and what each rests on. Pure.

A fault never lowers a floor: bounds rest on the rate that the inventory declares, else on the most that the
port can do, never on the speed that a link happened to train to. Where nothing of that is known, or no
authority says what TCP should reach, there is no floor, and the number is recorded instead of passed. Every
bound says its basis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import BANDWIDTH, BI, CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number

#: Share of a link's rate that several TCP streams must reach.
TCP_FLOOR_SHARE = 0.80
#: How far above the physical limit a reading may lie: the ends of an interval are cut between two readings.
CEILING_TOLERANCE = 1.02
#: Up to this rate one core feeds the link, whatever iperf3's version: the least that ESnet has of a stream.
ONE_CORE_GBPS = 15.0
_ONE_CORE_AUTHORITY = "ESnet fasterdata reports 15 to 35 Gbit/s of a single stream, so of one core"
#: Above it, up to 100 Gbit/s, ESnet's figures hold: about 12 streams, and a thread for each (iperf3 3.16).
_THREADS_AUTHORITY = "ESnet fasterdata reports 0.90 of 100 Gbit/s with about 12 streams on an untuned host"
MANY_STREAMS = 12
THREADED_IPERF3 = (3, 16)
FEW_STREAMS = 4
MOST_GBPS = 100.0

# Bytes around each TCP payload of a full packet: IPv4 20 or IPv6 40, TCP 20, its timestamps 12; Ethernet
# header 14; on a real wire FCS 4, preamble 8, gap 12 as well. A software link has no wire.
_TCP_HEADERS = {4: 52, 6: 72}
_ETHERNET_HEADER = 14
_WIRE_EXTRA = 24


@dataclass
class Bounds:
    """What a check's numbers are held against.

    Attributes:
        floor: metric -> least value; empty when nothing is known.
        ceiling: metric -> greatest value; empty when nothing is known.
        basis: why these.
    """

    floor: dict[str, float] = field(default_factory=dict)
    ceiling: dict[str, float] = field(default_factory=dict)
    basis: str = ""


@dataclass(frozen=True)
class Capability:
    """What a rail between two nodes can do.

    Attributes:
        rate_gbps: the slower end's rate, or None where it is not known.
        basis: where the rate comes from, or why there is none.
        software: at least one end is no hardware port, so the frames may never meet a wire.
        payload_share: share of the rate that TCP payload can be.
        frame_share: share of the rate that a netdev's byte counters can show.
    """

    rate_gbps: float | None
    basis: str
    software: bool
    payload_share: float
    frame_share: float


def capability(client: Bound, server: Bound) -> Capability:
    """Return what a rail can do between two bound ends."""
    rates, words = [], []
    for end in (client, server):
        rate, basis = end_rate(end)
        rates.append(rate)
        if basis not in words:
            words.append(basis)
    known = [rate for rate in rates if rate is not None]
    # The reason for a missing rate explains the missing floor; the known end's does not.
    missing = [end_rate(end)[1] for end, rate in zip((client, server), rates, strict=True) if rate is None]
    rate = min(known) if len(known) == len(rates) else None
    software = any((end.netdev or {}).get("driver_class") != "hardware" for end in (client, server))
    mtu = min((int(end.rail["mtu"]) for end in (client, server) if end.rail.get("mtu")), default=1500)
    family = 4 if client.rail.get("address") and server.rail.get("address") else 6
    frame = mtu + _ETHERNET_HEADER
    wire = frame if software else frame + _WIRE_EXTRA
    return Capability(
        rate_gbps=rate,
        basis="; ".join(missing[:1] if missing else words),
        software=software,
        payload_share=(mtu - _TCP_HEADERS[family]) / wire,
        frame_share=frame / wire,
    )


def end_rate(end: Bound) -> tuple[float | None, str]:
    """Return one end's rate in Gbit/s, declared or the port's maximum, or None; and its basis, or why not."""
    declared = end.rail.get("rate_gbps")
    if is_number(declared) and float(declared or 0) > 0:
        return float(declared or 0), f"declared rate {float(declared or 0):g} Gbit/s"
    device = end.netdev or {}
    if device.get("driver_class") == "software":
        return None, (
            "software link: the speed it reports means nothing, and no rate_gbps is declared, "
            "so no authority bounds it"
        )
    most = device.get("speed_max_mbps")
    if device.get("driver_class") == "hardware" and is_number(most) and float(most or 0) > 0:
        gbps = float(most or 0) / 1000
        return gbps, f"port's maximum {gbps:g} Gbit/s"
    return None, (
        "neither a declared rate_gbps nor the port's maximum is known; "
        "the speed that the link trained to may itself be the fault"
    )


def slots_shared(bounds: Sequence[Bound]) -> bool:
    """Tell whether two rails of a node share a PCIe device: its slot may be slower than the ports' sum."""
    slots = [
        str(one.netdev["pci"]).rsplit(".", 1)[0] for one in bounds if one.netdev and one.netdev.get("pci")
    ]
    return len(set(slots)) < len(slots)


def for_test(
    check: str,
    client: Bound,
    server: Bound,
    policy: Mapping[str, Any],
    iperf3_versions: Sequence[str | None] = (),
    shared_slot: bool = False,
    transport: str = "",
) -> Bounds:
    """Return the bounds of one test between two nodes.

    Args:
        check: one of CHECKS that runs between nodes and is not RDMA's (expectations_rdma has those).
        client: the sender's rail.
        server: the receiver's rail.
        policy: the merged policy; its `floors` come before any other bound.
        iperf3_versions: both nodes' iperf3, None where unknown.
        shared_slot: rails that run at once share a PCIe device on one of the nodes.
        transport: what the plan declares.
    """
    if check in ("path_mtu", "path_mtu_one_way"):
        mtu = _agreed_mtu(client, server)
        if mtu is None:
            return Bounds(basis="the two ends are planned with different MTUs, or none")
        exact = {"path_mtu_bytes": float(mtu)}
        return Bounds(dict(exact), dict(exact), f"the inventory's MTU {mtu}, exactly")
    able = capability(client, server)
    if check in BI:
        own = _tcp_both_ways(able)
    elif check in BANDWIDTH:
        why_not = _no_floor([able], policy, iperf3_versions, shared_slot, transport)
        own = _tcp_bandwidth([able], [able.payload_share], why_not)
    else:
        own = Bounds(
            basis="no authority bounds it on this link; a site may, with fabric_policy.floors"
            + (" (loss must be 0)" if check == "ping_rtt" else "")
        )
    return with_site_policy(check, own, policy)


def for_aggregate(
    able: Sequence[Capability],
    policy: Mapping[str, Any],
    iperf3_versions: Sequence[str | None],
    shared_slot: bool,
    transport: str = "",
) -> Bounds:
    """Return the bounds for all rails of a pair together, as the netdevs' byte counters show it."""
    why_not = _no_floor(able, policy, iperf3_versions, shared_slot, transport)
    own = _tcp_bandwidth(able, [one.frame_share for one in able], why_not)
    if own.floor:
        own.basis = "sum over the rails, from byte counters over their common window: " + own.basis
    return with_site_policy("aggregate_bandwidth", own, policy)


def carried(rates_gbps: Sequence[float], shares: Sequence[float]) -> tuple[float, float]:
    """Return what rails carry together, in Gbit/s, and its share of their rates: each has its own packets."""
    together = sum(rate * share for rate, share in zip(rates_gbps, shares, strict=True))
    return together, together / sum(rates_gbps)


def _tcp_bandwidth(able: Sequence[Capability], shares: Sequence[float], why_not: str | None) -> Bounds:
    unknown = next((one for one in able if one.rate_gbps is None), None)
    if unknown is not None or not able:
        return Bounds(basis=unknown.basis if unknown else "no rail")
    total = sum(one.rate_gbps or 0.0 for one in able)
    sources = "; ".join(dict.fromkeys(one.basis for one in able))
    wire = "the link's frames" if any(one.software for one in able) else "the wire"
    most, share = carried([one.rate_gbps or 0.0 for one in able], shares)
    limit = round(most * CEILING_TOLERANCE, 4)
    bounds = Bounds(
        ceiling={"bandwidth_gbps": limit},
        basis=f"{sources}; ceiling: {share:.4f} of it fits {wire} at this MTU, +2 % for the window's ends",
    )
    if why_not:
        bounds.basis += f"; no floor: {why_not}"
    else:
        bounds.floor = {"bandwidth_gbps": round(total * TCP_FLOOR_SHARE, 4)}
        one_core = all((one.rate_gbps or 0.0) <= ONE_CORE_GBPS for one in able)
        bounds.basis += (
            f"; floor: {TCP_FLOOR_SHARE:.2f} of it, a margin for the host's TCP "
            f"({_ONE_CORE_AUTHORITY if one_core else _THREADS_AUTHORITY})"
        )
    return bounds


def _tcp_both_ways(able: Capability) -> Bounds:
    """Return the bounds of both directions at once: a full-duplex link carries its rate each way."""
    if able.rate_gbps is None:
        return Bounds(basis=able.basis)
    limit = able.rate_gbps * able.payload_share * CEILING_TOLERANCE
    each = round(limit, 4)
    return Bounds(
        ceiling={"bandwidth_gbps": round(2 * limit, 4), "forward_gbps": each, "reverse_gbps": each},
        basis=(
            f"{able.basis}; ceiling: {able.payload_share:.4f} of it fits each way at this MTU, +2 % for the "
            "window's ends; no floor: no authority says what TCP reaches both ways at once"
        ),
    )


def _no_floor(
    able: Sequence[Capability],
    policy: Mapping[str, Any],
    iperf3_versions: Sequence[str | None],
    shared_slot: bool,
    transport: str,
) -> str | None:
    """Return why no authority says what TCP should reach here, or None when one does."""
    streams = int(policy["iperf3_streams"])
    if any(one.payload_share <= TCP_FLOOR_SHARE for one in able):
        return "at this MTU the headers alone take more than the floor leaves"
    rate_gbps = max((one.rate_gbps or 0.0 for one in able), default=0.0)
    if transport == "infiniband":
        return "no authority says what TCP reaches over InfiniBand (IPoIB)"
    if shared_slot:
        return "these rails share one PCIe device, and its slot's capability is not known"
    if rate_gbps > MOST_GBPS:
        return f"no authority says what iperf3 reaches at {rate_gbps:g} Gbit/s"
    if rate_gbps > ONE_CORE_GBPS:
        if streams < MANY_STREAMS:
            return (
                f"at {rate_gbps:g} Gbit/s ESnet's figure holds for about 12 streams; this run used {streams}"
            )
        if not iperf3_versions or any(not threaded(version) for version in iperf3_versions):
            return (
                f"at {rate_gbps:g} Gbit/s iperf3 needs a thread for each stream (3.16 or newer on both nodes)"
            )
        return None
    if streams < FEW_STREAMS:
        return f"the floor holds for {FEW_STREAMS} streams or more; this run used {streams}"
    return None


def threaded(version: str | None) -> bool:
    """Tell whether an iperf3 of this version runs each stream in a thread of its own."""
    parts = (version or "").split(".")
    try:
        return (int(parts[0]), int(parts[1])) >= THREADED_IPERF3
    except (ValueError, IndexError):
        return False


def with_site_policy(check: str, own: Bounds, policy: Mapping[str, Any]) -> Bounds:
    """Let the site's bounds replace the default ones, by metric; no site can raise the physical ceiling."""
    site = policy.get("floors", {}).get(check)
    if not site:
        return own
    floor, ceiling = dict(own.floor), dict(own.ceiling)
    basis = "site policy"
    for metric in CHECKS[check].bounded:
        if metric in site:
            floor[metric] = float(site[metric][0])
            if site[metric][1] is not None:
                ceiling[metric] = min(float(site[metric][1]), own.ceiling.get(metric, math.inf))
            # Every bandwidth is above 0; a latency's bound is its ceiling.
            if not floor[metric] and not metric.endswith("_us"):
                del floor[metric]
                basis += f", whose floor of 0 for {metric} holds nothing to account"
    return Bounds(floor, ceiling, basis + (f"; else {own.basis}" if own.floor or own.ceiling else ""))


def _agreed_mtu(client: Bound, server: Bound) -> int | None:
    mine, theirs = client.rail.get("mtu"), server.rail.get("mtu")
    return int(mine) if mine and mine == theirs else None
