# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bounds that a measured number is held against, and what each rests on. Pure.

A fault never lowers a floor: bounds rest on the rate that the inventory declares, else on the most that the
port can do, never on the speed or RDMA MTU that a link happened to negotiate. Where nothing of that is known,
or no authority says what should be reached, there is no floor, and the number is recorded instead of passed.
Every bound says its basis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import (
    DEFAULT_CLASS,
    GPU_MEMORY,
    class_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils.rails import lag
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import packets, slots
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import figures
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    BANDWIDTH,
    BI,
    CHECKS,
    RDMA_LATENCY,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number

#: Share of a link's rate that several TCP streams must reach.
TCP_FLOOR_SHARE = figures.value("tcp_floor_share")
#: How far above the physical limit a reading may lie: the ends of an interval are cut between two readings.
CEILING_TOLERANCE = figures.value("ceiling_tolerance")
#: Up to this rate one core feeds the link, whatever iperf3's version: the least that ESnet has of a stream.
ONE_CORE_GBPS = figures.value("tcp_one_core_gbps")
_ONE_CORE_AUTHORITY = figures.source("tcp_one_core_gbps")
#: Above it, up to 100 Gbit/s, ESnet's figures hold: about 12 streams, and a thread for each (iperf3 3.16).
_THREADS_AUTHORITY = figures.source("tcp_many_streams")
MANY_STREAMS = int(figures.value("tcp_many_streams"))
THREADED_IPERF3 = (3, 16)
FEW_STREAMS = int(figures.value("tcp_few_streams"))
MOST_GBPS = figures.value("tcp_most_gbps")

#: Share of the data rate that RDMA must reach: what ngc_multinode_perf asks of ib_{write,read,send}_bw.
RDMA_FLOOR_SHARE = figures.value("rdma_floor_share")
_RDMA_AUTHORITY = figures.source("rdma_floor_share")
#: The same of GPU memory.
_GPU_FLOOR_SHARE = figures.value("rdma_gpu_floor_share")
_GPU_AUTHORITY = figures.source("rdma_gpu_floor_share")
#: perftest's own default; smaller messages are bounded by the message rate and not by the link.
LEAST_MESSAGE_BYTES = int(figures.value("rdma_least_message_bytes"))
#: Up to FDR the name of an InfiniBand rate counts the line code too (IBTA volume 2: 8b/10b, then 64b/66b of
#: 56.25); FDR10 is called 40 as well, and carries them.
_INFINIBAND_DATA_GBPS = {
    float(row["rate_gbps"]): float(row["value"])
    for row in figures.FIGURES.values()
    if row["group"] == "infiniband" and row["read_by"] != figures.NOTHING
}
_NO_RDMA_LATENCY = (
    f"no authority bounds it here: published figures ({figures.value('ngc_write_send_latency_us'):g} us for "
    f"write and send, {figures.value('ngc_read_latency_us'):g} us for read in ngc_multinode_perf; "
    f"{figures.value('oci_latency_us'):g} us in oci-hpc) name neither the switch hops nor this message size; "
    "a site may, with fabric_policy.floors"
)
#: Of what a rail carries alone: each direction while both do, all rails of one slot at once.
BOTH_WAYS_SHARE, SHARED_SLOT_SHARE = figures.value("both_ways_share"), figures.value("shared_slot_share")


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


class Conditions(NamedTuple):
    """What bounds depend on beside the check and its rails.

    Attributes:
        policy: the merged policy; its `floors` come before any other bound, but for the physical ceiling.
        iperf3_versions: both nodes' iperf3, None where unknown.
        share: what the rail is left with while the nodes' other rails run, where that is less than alone.
        transport: what the plan declares.
        gpu: of GPU memory, what the way between card and GPU carries, where a source knows what is reached.
    """

    policy: Mapping[str, Any]
    iperf3_versions: Sequence[str | None] = ()
    share: slots.Share | None = None
    transport: str = ""
    gpu: slots.GpuWay | None = None


@dataclass(frozen=True)
class Capability:
    """What a rail between two nodes can do.

    Attributes:
        rate_gbps: the slower end's rate, or None where it is not known.
        basis: where the rate comes from, or why there is none.
        packet: the full packet that it carries.
        slot_gbps: what the PCIe links of both ends carry of it; None where that is not known, or more.
        share: what it is left with while other rails run, where that is less.
        links: how many ports of a bond may carry at once; nobody promises more than one.
    """

    rate_gbps: float | None
    basis: str
    packet: packets.Packet
    slot_gbps: float | None = None
    share: slots.Share | None = None
    links: int = 1

    @property
    def nominal_gbps(self) -> float:
        """Return what is to be reached alone: never more than the PCIe links carry."""
        rate = self.rate_gbps or 0.0
        return rate if self.slot_gbps is None else min(rate, self.slot_gbps)


def capability(
    check: str, client: Bound, server: Bound, transport: str = "", gpu: slots.GpuWay | None = None
) -> Capability:
    """Return what a rail can do between two bound ends, for the check's kind of packet.

    Args:
        check: one of CHECKS that runs between nodes.
        client: the sender's rail.
        server: the receiver's rail.
        transport: what the plan declares.
        gpu: of GPU memory, the way between card and GPU; the link to the processor is no part of it.
    """
    told = [end_rate(end) for end in (client, server)]
    rates = [rate for rate, _words in told if rate is not None]
    # The reason for a missing rate explains the missing floor; the known end's does not.
    missing = [words for rate, words in told if rate is None]
    words = missing[:1] or list(dict.fromkeys(words for _rate, words in told))
    rdma = CHECKS[check].rdma
    packet = packets.rdma(client, server, transport) if rdma else packets.tcp(client, server)
    rate = min(rates) if len(rates) == len(told) else None
    known = [slots.carries_gbps(end) for end in (client, server)] if gpu is None else [gpu.card_gbps]
    slot = min((one for one in known if one is not None), default=None)
    held = "the PCIe slot carries"
    if rate is not None and any(slots.wire_of(end.rail) for end in (client, server)):
        # Published of DGX Spark: 92.6 to 111.9 Gbit/s on one of the two functions of a 200G port.
        half = rate / 2
        slot, held = (
            (half, "one of the wire's two functions carries") if slot is None or half < slot else (slot, held)
        )
    links = min(lag.links(end.rail) for end in (client, server))
    if links > 1:
        words = [f"{'; '.join(words)} of each of {links} ports, of which a queue pair or stream uses one"]
    if rate is None or slot is None or slot >= rate:
        return Capability(rate, "; ".join(words), packet, links=links)
    return Capability(rate, f"{'; '.join(words)}, of which {held} {slot:.4g}", packet, slot, links=links)


def end_rate(end: Bound) -> tuple[float | None, str]:
    """Return one end's rate in Gbit/s, declared or the port's maximum, or None; and its basis, or why not."""
    declared = end.rail.get("rate_gbps")
    if is_number(declared) and declared > 0:
        return float(declared), f"declared rate {declared:g} Gbit/s"
    device = end.netdev or {}
    if device.get("driver_class") == "software":
        return None, (
            "the speed that a software link reports means nothing, and no rate_gbps is declared, "
            "so no authority bounds it"
        )
    most = device.get("speed_max_mbps")
    if device.get("driver_class") == "hardware" and is_number(most) and most > 0:
        gbps = most / 1000
        return gbps, f"port's maximum {gbps:g} Gbit/s"
    return None, (
        "neither a declared rate_gbps nor the port's maximum is known; "
        "the speed that the link trained to may itself be the fault"
    )


def shares(ends: Mapping[str, Bound]) -> dict[str, slots.Share]:
    """Return which of a node's rails get less while all of them run than each gets alone.

    Args:
        ends: rail -> its end.
    """
    return slots.shares(ends, {name: end_rate(end)[0] for name, end in ends.items()})


def for_test(check: str, client: Bound, server: Bound, on: Conditions) -> Bounds:
    """Return the bounds of one test between two nodes.

    Args:
        check: one of CHECKS that runs between nodes.
        client: the sender's rail.
        server: the receiver's rail.
        on: the conditions of the test.
    """
    if check in ("path_mtu", "path_mtu_one_way"):
        mtu = _agreed_mtu(client, server)
        if mtu is None:
            return Bounds(basis="the two ends are planned with different MTUs, or none")
        exact = {"path_mtu_bytes": float(mtu)}
        return Bounds(dict(exact), dict(exact), f"the inventory's MTU {mtu}, exactly")
    gpu = on.gpu if check == GPU_MEMORY else None
    able = [replace(capability(check, client, server, on.transport, gpu), share=on.share)]
    if check in RDMA_LATENCY:
        own = Bounds(basis=_NO_RDMA_LATENCY)
    elif CHECKS[check].rdma or check in (*BANDWIDTH, *BI):
        own = _bandwidth(check, able, [one.packet.payload_share for one in able], on)
    else:
        own = Bounds(
            basis="no authority bounds it on this link; a site may, with fabric_policy.floors"
            + (" (loss must be 0)" if check == "ping_rtt" else "")
        )
    return with_site_policy(check, own, on.policy)


def for_aggregate(check: str, able: Sequence[Capability], on: Conditions) -> Bounds:
    """Return the bounds for all rails of a pair together: of TCP's frames, or of RDMA's payload."""
    own = _bandwidth(check, able, [one.packet.counted_share for one in able], on)
    if CHECKS[check].rdma:
        own.basis = (
            "sum over the rails of payload: the byte counters over their common window, less headers and "
            f"what was sent again: {own.basis}"
        )
    elif own.floor:
        own.basis = "sum over the rails, from byte counters over their common window: " + own.basis
    return with_site_policy(check, own, on.policy)


def each_way(own: Bounds, alone_gbps: Sequence[float | None], hardware: bool = False) -> Bounds:
    """Add to the bounds of both directions at once that each carries most of what it carries alone.

    Args:
        own: the bounds of their sum; without a ceiling the link's rate is not known, and nothing is added but
            to cards, which carry both ways what they do one way, whatever that is.
        alone_gbps: what the forward and the reverse direction carry alone.
        hardware: both ends are cards.
    """
    most = own.ceiling.get("bandwidth_gbps")
    forward, reverse = alone_gbps
    if (most is None and not hardware) or forward is None or reverse is None:
        return own
    ways = {"forward_gbps": forward, "reverse_gbps": reverse}
    floor = {way: round(BOTH_WAYS_SHARE * rate, 4) for way, rate in ways.items()}
    told = (
        f"each way at least {BOTH_WAYS_SHARE:.2f} of the {forward:.4g} and {reverse:.4g} Gbit/s of it alone"
    )
    return Bounds(
        {"bandwidth_gbps": round(sum(floor.values()), 4), **floor, **own.floor},
        {**({} if most is None else dict.fromkeys(ways, round(most / 2, 4))), **own.ceiling},
        f"{own.basis}; {told}",
    )


def of_shared_slot(own: Bounds, best_gbps: float) -> Bounds:
    """Add a floor to the bounds of rails that share links and run at once, where they have none by the links.

    Args:
        own: what they were without it.
        best_gbps: what the best rail of each group was proven to carry alone, added up; 0 if it is not known.
    """
    if own.floor or "bandwidth_gbps" not in own.ceiling or not best_gbps:
        return own
    told = f"all at once at least {SHARED_SLOT_SHARE:.2f} of {best_gbps:.4g}, each group's best alone"
    floor = {"bandwidth_gbps": round(SHARED_SLOT_SHARE * best_gbps, 4)}
    return Bounds(floor, dict(own.ceiling), f"{own.basis}; {told}")


def data_gbps(able: Sequence[Capability], transport: str) -> float:
    """Return the data that rails carry together, after line code and headers at the declared MTU.

    A port that says it can do no more would have a lower floor. The headers of the network do not cross PCIe,
    so what a rail is left with there is data.
    """
    return sum(
        min(_data_gbps(one.nominal_gbps, transport) * one.packet.declared_share, _left_gbps(one))
        for one in able
    )


def _left_gbps(one: Capability) -> float:
    return math.inf if one.share is None or one.share.gbps is None else one.share.gbps


def carried(rates_gbps: Sequence[float], shares: Sequence[float]) -> tuple[float, float]:
    """Return what rails carry together, in Gbit/s, and its share of their rates: each has its own packets."""
    together = sum(rate * share for rate, share in zip(rates_gbps, shares, strict=True))
    return together, together / sum(rates_gbps)


def _bandwidth(check: str, able: Sequence[Capability], shares: Sequence[float], on: Conditions) -> Bounds:
    """Return the bounds of a bandwidth; a full-duplex link carries its rate each way."""
    unknown = next((one for one in able if one.rate_gbps is None), None)
    if unknown is not None or not able:
        return Bounds(basis=unknown.basis if unknown else "no rail")
    rates = [(one.rate_gbps or 0.0) * one.links for one in able]
    ways = 2 if check in BI else 1
    most, share = carried(rates, shares)
    limit = most * CEILING_TOLERANCE
    bounds = Bounds(ceiling={"bandwidth_gbps": round(ways * limit, 4)})
    bounds.basis = "; ".join(dict.fromkeys(one.basis for one in able))
    if CHECKS[check].rdma:
        packet = able[0].packet
        around = packet.link_bytes - packet.payload_bytes
        bounds.basis += ", both ways" if ways > 1 else ""
        bounds.basis += class_of(check, on.policy).text()
        fits = f"with packets of {packet.payload_bytes} bytes of payload and {around} around them"
        of_gpu = check == GPU_MEMORY
        least = _GPU_FLOOR_SHARE if of_gpu else RDMA_FLOOR_SHARE
        authority = f" ({_GPU_AUTHORITY if of_gpu else _RDMA_AUTHORITY})"
    else:
        wire = "the link's frames" if any(one.packet.software for one in able) else "the wire"
        fits = f"fits {wire if ways == 1 else 'each way'} at this MTU"
        tcp_authority = _ONE_CORE_AUTHORITY if max(rates) <= ONE_CORE_GBPS else _THREADS_AUTHORITY
        least, authority = TCP_FLOOR_SHARE, f", a margin for the host's TCP ({tcp_authority})"
        if ways > 1:
            bounds.ceiling |= dict.fromkeys(("forward_gbps", "reverse_gbps"), round(limit, 4))
    bounds.basis += f"; ceiling: {share:.4f} of it {fits}, +2 % for the window's ends"
    if why_not := _no_floor(check, able, on):
        bounds.basis += f"; no floor: {why_not}"
    else:
        data, of = sum(one.nominal_gbps for one in able), "it"
        if CHECKS[check].rdma:
            data = data_gbps(able, on.transport)
            of = f"{data:.4g} Gbit/s of data, after line code and headers at the declared MTU"
            together = dict.fromkeys(one.share.basis for one in able if one.share is not None)
            of += "".join(f", while {basis}" for basis in together)
        bounds.floor = {"bandwidth_gbps": round(ways * data * least, 4)}
        bounds.basis += f"; floor: {least:.2f} of {of}{authority}"
    return bounds


def _data_gbps(rate_gbps: float, transport: str) -> float:
    return _INFINIBAND_DATA_GBPS.get(rate_gbps, rate_gbps) if transport == "infiniband" else rate_gbps


def _no_floor(check: str, able: Sequence[Capability], on: Conditions) -> str | None:
    """Return why no authority says what should be reached here, or None when one does."""
    if CHECKS[check].rdma:
        found = (_no_rdma_floor(check, one, on) for one in able)
        return next((why for why in found if why), None)
    if check in BI:
        return "no authority says what TCP reaches both ways at once"
    streams = int(on.policy["iperf3_streams"])
    if any(one.packet.payload_share <= TCP_FLOOR_SHARE for one in able):
        return "at this MTU the headers alone take more than the floor leaves"
    rate_gbps = max((one.rate_gbps or 0.0 for one in able), default=0.0)
    if on.transport == "infiniband":
        return "no authority says what TCP reaches over InfiniBand (IPoIB)"
    if shared := next((one.share for one in able if one.share is not None), None):
        return f"no authority says what TCP reaches while {shared.basis}"
    if rate_gbps > MOST_GBPS:
        return f"no authority says what iperf3 reaches at {rate_gbps:g} Gbit/s"
    if rate_gbps > ONE_CORE_GBPS:
        if streams < MANY_STREAMS:
            return (
                f"at {rate_gbps:g} Gbit/s ESnet's figure holds for about 12 streams; this run used {streams}"
            )
        if not on.iperf3_versions or any(not threaded(version) for version in on.iperf3_versions):
            return (
                f"at {rate_gbps:g} Gbit/s iperf3 needs a thread for each stream (3.16 or newer on both nodes)"
            )
        return None
    if streams < FEW_STREAMS:
        return f"the floor holds for {FEW_STREAMS} streams or more; this run used {streams}"
    return None


def _no_rdma_floor(check: str, able: Capability, on: Conditions) -> str | None:
    if able.packet.unknown:
        return "no authority says what an unknown RDMA device reaches"
    if check in BI:
        # imbue's 300 without and 720 with GPUDirect of 2 x 400: a dead direction would pass the lower one
        return "the authorities for both ways at once differ by more than one direction's rate"
    if check == DEFAULT_CLASS:
        return "it shows whether the port's default class carries as much as the class of the other tests"
    if check == "rdma_bandwidth_unpinned":
        return "it shows what pinning to the NIC's NUMA node gains"
    if check == GPU_MEMORY and (on.gpu is None or on.gpu.gpu_gbps < able.nominal_gbps):
        return "it holds for a GPU below the card's own port of the root complex, whose link carries the rate"
    if able.share is not None and able.share.gbps is None:
        return able.share.basis
    if int(on.policy["rdma_message_bytes"]) < LEAST_MESSAGE_BYTES:
        return f"it holds for messages of {LEAST_MESSAGE_BYTES} bytes or more"
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
