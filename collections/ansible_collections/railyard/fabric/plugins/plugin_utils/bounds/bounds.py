# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thresholds for measured results, each with its source. Pure.

A fault never lowers a floor: thresholds rest on the rate that the inventory declares, else on the port's
maximum, never on the speed or RDMA MTU that a link negotiated. If neither is known, or there is no published
reference, there is no floor, and the result is `recorded` instead of `pass`. Every threshold cites its basis.
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
TCP_FLOOR_SHARE = figures.read_value("tcp_floor_share")
#: Tolerance above the physical limit: the ends of an interval lie between two readings.
CEILING_TOLERANCE = figures.read_value("ceiling_tolerance")
#: Up to this rate one core saturates the link with any iperf3 version: ESnet's lowest figure for a stream.
ONE_CORE_GBPS = figures.read_value("tcp_one_core_gbps")
_ONE_CORE_SOURCE = figures.read_source("tcp_one_core_gbps")
#: Above it, up to 100 Gbit/s, ESnet's figures apply: about 12 streams with a thread each (iperf3 3.16).
_THREADS_SOURCE = figures.read_source("tcp_many_streams")
MANY_STREAMS = int(figures.read_value("tcp_many_streams"))
THREADED_IPERF3 = (3, 16)
FEW_STREAMS = int(figures.read_value("tcp_few_streams"))
MOST_GBPS = figures.read_value("tcp_most_gbps")

#: Share of the data rate that RDMA must reach: the threshold of ngc_multinode_perf for
#: ib_{write,read,send}_bw.
RDMA_FLOOR_SHARE = figures.read_value("rdma_floor_share")
_RDMA_SOURCE = figures.read_source("rdma_floor_share")
#: The same for GPU memory.
_GPU_FLOOR_SHARE = figures.read_value("rdma_gpu_floor_share")
_GPU_SOURCE = figures.read_source("rdma_gpu_floor_share")
#: perftest's default; smaller messages are limited by the message rate and not by the link.
LEAST_MESSAGE_BYTES = int(figures.read_value("rdma_least_message_bytes"))
#: Up to FDR the nominal InfiniBand rate includes the line code (IBTA volume 2: 8b/10b, then 64b/66b of
#: 56.25); FDR10 is also called 40, and its data rate is 40.
_INFINIBAND_DATA_GBPS = {
    float(row["rate_gbps"]): float(row["value"])
    for row in figures.FIGURES.values()
    if row["group"] == "infiniband" and row["read_by"] != figures.NOTHING
}
_NO_RDMA_LATENCY_FLOOR = (
    f"no published threshold: the figures ({figures.read_value('ngc_write_send_latency_us'):g} us for "
    f"write and send, {figures.read_value('ngc_read_latency_us'):g} us for read in ngc_multinode_perf; "
    f"{figures.read_value('oci_latency_us'):g} us in oci-hpc) state neither the switch hops nor this message "
    "size; set your own in fabric_policy.floors"
)
#: Shares of a rail's bandwidth alone: of each direction in a bidirectional test, of all rails of a slot at
#: once.
BOTH_WAYS_SHARE, SHARED_SLOT_SHARE = (
    figures.read_value("both_ways_share"),
    figures.read_value("shared_slot_share"),
)


@dataclass
class Bounds:
    """Thresholds of a check's metrics.

    Attributes:
        floor: metric -> minimum; empty if unknown.
        ceiling: metric -> maximum; empty if unknown.
        basis: their sources.
    """

    floor: dict[str, float] = field(default_factory=dict)
    ceiling: dict[str, float] = field(default_factory=dict)
    basis: str = ""


class Conditions(NamedTuple):
    """What thresholds depend on besides the check and its rails.

    Attributes:
        policy: the merged policy; its `floors` override all other thresholds except the physical ceiling.
        iperf3_versions: both nodes' iperf3 versions, None if unknown.
        share: the rail's bandwidth while the nodes' other rails run, if that is less than alone.
        transport: the plan's transport.
        gpu: for GPU memory, the bandwidth of the path between card and GPU, if there is a source for it.
    """

    policy: Mapping[str, Any]
    iperf3_versions: Sequence[str | None] = ()
    share: slots.Share | None = None
    transport: str = ""
    gpu: slots.GpuPath | None = None


@dataclass(frozen=True)
class Capability:
    """The capability of a rail between two nodes.

    Attributes:
        rate_gbps: the slower end's rate, or None if unknown.
        basis: the source of the rate, or why there is none.
        packet: a full packet on it.
        slot_gbps: the bandwidth of both ends' PCIe links; None if unknown, or not less than the rate.
        share: its bandwidth while other rails run, if that is less.
        links: number of ports of a bond that may carry traffic at once; only one is guaranteed.
    """

    rate_gbps: float | None
    basis: str
    packet: packets.Packet
    slot_gbps: float | None = None
    share: slots.Share | None = None
    links: int = 1

    @property
    def nominal_gbps(self) -> float:
        """Return the nominal bandwidth alone, limited by the PCIe links."""
        rate = self.rate_gbps or 0.0
        return rate if self.slot_gbps is None else min(rate, self.slot_gbps)


def find_capability(
    check: str, client: Bound, server: Bound, transport: str = "", gpu: slots.GpuPath | None = None
) -> Capability:
    """Return the capability of a rail between two bound ends, for the check's kind of packet.

    Args:
        check: one of CHECKS that runs between nodes.
        client: the sender's rail.
        server: the receiver's rail.
        transport: the plan's transport.
        gpu: for GPU memory, the path between card and GPU, which does not include the link to the processor.
    """
    both = [find_end_rate(end) for end in (client, server)]
    rates = [rate for rate, _basis in both if rate is not None]
    # The reason for a missing rate explains the missing floor; the other end's basis does not.
    missing = [basis for rate, basis in both if rate is None]
    sources = missing[:1] or list(dict.fromkeys(basis for _rate, basis in both))
    rdma = CHECKS[check].rdma
    packet = packets.build_rdma(client, server, transport) if rdma else packets.build_tcp(client, server)
    rate = min(rates) if len(rates) == len(both) else None
    known = [slots.find_slot_gbps(end) for end in (client, server)] if gpu is None else [gpu.card_gbps]
    slot = min((one for one in known if one is not None), default=None)
    limit = "the PCIe slot carries"
    if rate is not None and any(slots.find_shared_port(end.rail) for end in (client, server)):
        # Published for DGX Spark: 92.6 to 111.9 Gbit/s on one of the two functions of a 200G port.
        half = rate / 2
        if slot is None or half < slot:
            slot, limit = half, "one of the port's two functions carries"
    links = min(lag.links(end.rail) for end in (client, server))
    if links > 1:
        sources = [f"{'; '.join(sources)} of each of {links} ports; a queue pair or stream uses one of them"]
    if rate is None or slot is None or slot >= rate:
        return Capability(rate, "; ".join(sources), packet, links=links)
    return Capability(rate, f"{'; '.join(sources)}, of which {limit} {slot:.4g}", packet, slot, links=links)


def find_end_rate(end: Bound) -> tuple[float | None, str]:
    """Return one end's rate in Gbit/s (declared, else the port's maximum) and its source; or None and why."""
    declared = end.rail.get("rate_gbps")
    if is_number(declared) and declared > 0:
        return float(declared), f"declared rate {declared:g} Gbit/s"
    device = end.netdev or {}
    if device.get("driver_class") == "software":
        return None, (
            "no threshold: the speed that a software link reports is not meaningful, "
            "and no rate_gbps is declared"
        )
    most = device.get("speed_max_mbps")
    if device.get("driver_class") == "hardware" and is_number(most) and most > 0:
        gbps = most / 1000
        return gbps, f"port's maximum {gbps:g} Gbit/s"
    return None, (
        "no threshold: neither a declared rate_gbps nor the port's maximum is known, "
        "and the negotiated speed may itself be the fault"
    )


def find_shares(ends: Mapping[str, Bound]) -> dict[str, slots.Share]:
    """Return rail -> share, for a node's rails that are slower while all of them run than alone.

    Args:
        ends: rail -> its end.
    """
    return slots.find_shares(ends, {name: find_end_rate(end)[0] for name, end in ends.items()})


def bound_test(check: str, client: Bound, server: Bound, on: Conditions) -> Bounds:
    """Return the thresholds of one test between two nodes.

    Args:
        check: one of CHECKS that runs between nodes.
        client: the sender's rail.
        server: the receiver's rail.
        on: the conditions of the test.
    """
    if check in ("path_mtu", "path_mtu_one_way"):
        mtu = _find_agreed_mtu(client, server)
        if mtu is None:
            return Bounds(basis="the plan has different MTUs for the two ends, or none")
        exact = {"path_mtu_bytes": float(mtu)}
        return Bounds(dict(exact), dict(exact), f"the inventory's MTU {mtu}, exactly")
    gpu = on.gpu if check == GPU_MEMORY else None
    able = [replace(find_capability(check, client, server, on.transport, gpu), share=on.share)]
    if check in RDMA_LATENCY:
        own = Bounds(basis=_NO_RDMA_LATENCY_FLOOR)
    elif CHECKS[check].rdma or check in (*BANDWIDTH, *BI):
        own = _bound_bandwidth(check, able, [one.packet.payload_share for one in able], on)
    else:
        own = Bounds(
            basis="no published threshold for this link; set your own in fabric_policy.floors"
            + (" (loss must be 0)" if check == "ping_rtt" else "")
        )
    return apply_site_policy(check, own, on.policy)


def bound_aggregate(check: str, able: Sequence[Capability], on: Conditions) -> Bounds:
    """Return the thresholds for all rails of a pair together: of TCP frames, or of RDMA payload."""
    own = _bound_bandwidth(check, able, [one.packet.counted_share for one in able], on)
    if CHECKS[check].rdma:
        own.basis = (
            "payload summed over the rails, from byte counters over their common window, minus headers and "
            f"retransmissions: {own.basis}"
        )
    elif own.floor:
        own.basis = "sum over the rails, from byte counters over their common window: " + own.basis
    return apply_site_policy(check, own, on.policy)


def add_each_direction(own: Bounds, alone_gbps: Sequence[float | None], hardware: bool = False) -> Bounds:
    """Add to a bidirectional test's thresholds that each direction reaches a share of its rate alone.

    Args:
        own: the thresholds of the sum. Without a ceiling the link's rate is unknown, and only cards get
            floors, since they are full-duplex at any rate.
        alone_gbps: measured bandwidth of the forward and the reverse direction alone.
        hardware: both ends are cards.
    """
    most = own.ceiling.get("bandwidth_gbps")
    forward, reverse = alone_gbps
    if (most is None and not hardware) or forward is None or reverse is None:
        return own
    ways = {"forward_gbps": forward, "reverse_gbps": reverse}
    floor = {way: round(BOTH_WAYS_SHARE * rate, 4) for way, rate in ways.items()}
    basis = (
        f"each direction at least {BOTH_WAYS_SHARE:.2f} of its {forward:.4g} and {reverse:.4g} Gbit/s alone"
    )
    return Bounds(
        {"bandwidth_gbps": round(sum(floor.values()), 4), **floor, **own.floor},
        {**({} if most is None else dict.fromkeys(ways, round(most / 2, 4))), **own.ceiling},
        f"{own.basis}; {basis}",
    )


def add_shared_slot_floor(own: Bounds, best_gbps: float) -> Bounds:
    """Add a floor for rails that share PCIe links and run at once, if they have no other floor.

    Args:
        own: the thresholds without it.
        best_gbps: proven bandwidth of the best rail of each group alone, summed; 0 if unknown.
    """
    if own.floor or "bandwidth_gbps" not in own.ceiling or not best_gbps:
        return own
    basis = f"all at once at least {SHARED_SLOT_SHARE:.2f} of {best_gbps:.4g}, the best of each group alone"
    floor = {"bandwidth_gbps": round(SHARED_SLOT_SHARE * best_gbps, 4)}
    return Bounds(floor, dict(own.ceiling), f"{own.basis}; {basis}")


def sum_data_gbps(able: Sequence[Capability], transport: str) -> float:
    """Return the data rate of rails together, after line code and headers at the declared MTU.

    With the port's reported MTU a faulty port would have a lower floor. Network headers do not cross PCIe, so
    a rail's share there is data.
    """
    return sum(
        min(_find_data_gbps(one.nominal_gbps, transport) * one.packet.declared_share, _find_share_gbps(one))
        for one in able
    )


def _find_share_gbps(one: Capability) -> float:
    return math.inf if one.share is None or one.share.gbps is None else one.share.gbps


def _bound_bandwidth(
    check: str, able: Sequence[Capability], shares: Sequence[float], on: Conditions
) -> Bounds:
    """Return the thresholds of a bandwidth; a full-duplex link carries its rate in each direction."""
    unknown = next((one for one in able if one.rate_gbps is None), None)
    if unknown is not None or not able:
        return Bounds(basis=unknown.basis if unknown else "no rail")
    rates = [(one.rate_gbps or 0.0) * one.links for one in able]
    ways = 2 if check in BI else 1
    most = sum(rate * share for rate, share in zip(rates, shares, strict=True))
    share = most / sum(rates)
    limit = most * CEILING_TOLERANCE
    bounds = Bounds(ceiling={"bandwidth_gbps": round(ways * limit, 4)})
    bounds.basis = "; ".join(dict.fromkeys(one.basis for one in able))
    if CHECKS[check].rdma:
        packet = able[0].packet
        around = packet.link_bytes - packet.payload_bytes
        bounds.basis += ", both directions" if ways > 1 else ""
        bounds.basis += class_of(check, on.policy).text()
        fits = f"with packets of {packet.payload_bytes} bytes of payload and {around} around them"
        of_gpu = check == GPU_MEMORY
        least = _GPU_FLOOR_SHARE if of_gpu else RDMA_FLOOR_SHARE
        source = f" ({_GPU_SOURCE if of_gpu else _RDMA_SOURCE})"
    else:
        wire = "the link's frames" if any(one.packet.software for one in able) else "the wire"
        fits = f"fits {wire if ways == 1 else 'each direction'} at this MTU"
        tcp_source = _ONE_CORE_SOURCE if max(rates) <= ONE_CORE_GBPS else _THREADS_SOURCE
        least, source = TCP_FLOOR_SHARE, f", a margin for the host's TCP ({tcp_source})"
        if ways > 1:
            bounds.ceiling |= dict.fromkeys(("forward_gbps", "reverse_gbps"), round(limit, 4))
    bounds.basis += f"; ceiling: {share:.4f} of it {fits}, +2 % for the window's ends"
    if why_not := _explain_no_floor(check, able, on):
        bounds.basis += f"; no floor: {why_not}"
    else:
        data, of = sum(one.nominal_gbps for one in able), "it"
        if CHECKS[check].rdma:
            data = sum_data_gbps(able, on.transport)
            of = f"{data:.4g} Gbit/s of data, after line code and headers at the declared MTU"
            together = dict.fromkeys(one.share.basis for one in able if one.share is not None)
            of += "".join(f", while {basis}" for basis in together)
        bounds.floor = {"bandwidth_gbps": round(ways * data * least, 4)}
        bounds.basis += f"; floor: {least:.2f} of {of}{source}"
    return bounds


def _find_data_gbps(rate_gbps: float, transport: str) -> float:
    return _INFINIBAND_DATA_GBPS.get(rate_gbps, rate_gbps) if transport == "infiniband" else rate_gbps


def _explain_no_floor(check: str, able: Sequence[Capability], on: Conditions) -> str | None:
    """Return why there is no reference for a floor here, or None if there is one."""
    if CHECKS[check].rdma:
        found = (_explain_no_rdma_floor(check, one, on) for one in able)
        return next((why for why in found if why), None)
    if check in BI:
        return "no published reference for TCP in both directions at once"
    streams = int(on.policy["iperf3_streams"])
    if any(one.packet.payload_share <= TCP_FLOOR_SHARE for one in able):
        return "at this MTU the headers alone exceed the floor's margin"
    rate_gbps = max((one.rate_gbps or 0.0 for one in able), default=0.0)
    if on.transport == "infiniband":
        return "no published reference for TCP over InfiniBand (IPoIB)"
    if shared := next((one.share for one in able if one.share is not None), None):
        return f"no published reference for TCP while {shared.basis}"
    if rate_gbps > MOST_GBPS:
        return f"no published reference for iperf3 at {rate_gbps:g} Gbit/s"
    if rate_gbps > ONE_CORE_GBPS:
        if streams < MANY_STREAMS:
            return f"at {rate_gbps:g} Gbit/s ESnet's figure is for about 12 streams; this run used {streams}"
        if not on.iperf3_versions or any(not is_threaded(version) for version in on.iperf3_versions):
            return (
                f"at {rate_gbps:g} Gbit/s iperf3 needs a thread for each stream (3.16 or newer on both nodes)"
            )
        return None
    if streams < FEW_STREAMS:
        return f"the floor is for {FEW_STREAMS} streams or more; this run used {streams}"
    return None


def _explain_no_rdma_floor(check: str, able: Capability, on: Conditions) -> str | None:
    if able.packet.unknown:
        return "no published reference for an unknown RDMA device"
    if check in BI:
        # imbue: 300 without and 720 with GPUDirect of 2 x 400; a dead direction would pass the lower one
        return "the published references for both directions at once differ by more than one direction's rate"
    if check == DEFAULT_CLASS:
        return "it shows whether the port's default class is as fast as the class of the other tests"
    if check == "rdma_bandwidth_unpinned":
        return "it shows the gain of pinning to the NIC's NUMA node"
    if check == GPU_MEMORY and (on.gpu is None or on.gpu.gpu_gbps < able.nominal_gbps):
        return (
            "it is for a GPU below the card's own port of the root complex, with a link that carries the rate"
        )
    if able.share is not None and able.share.gbps is None:
        return able.share.basis
    if int(on.policy["rdma_message_bytes"]) < LEAST_MESSAGE_BYTES:
        return f"it is for messages of {LEAST_MESSAGE_BYTES} bytes or more"
    return None


def is_threaded(version: str | None) -> bool:
    """Tell whether an iperf3 of this version runs each stream in a separate thread."""
    parts = (version or "").split(".")
    try:
        return (int(parts[0]), int(parts[1])) >= THREADED_IPERF3
    except (ValueError, IndexError):
        return False


def apply_site_policy(check: str, own: Bounds, policy: Mapping[str, Any]) -> Bounds:
    """Replace default thresholds by the site's, by metric; a site cannot raise the physical ceiling."""
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
            # Every bandwidth is above 0; a latency's threshold is its ceiling.
            if not floor[metric] and not metric.endswith("_us"):
                del floor[metric]
                basis += f", whose floor of 0 for {metric} enforces nothing"
    return Bounds(floor, ceiling, basis + (f"; else {own.basis}" if own.floor or own.ceiling else ""))


def _find_agreed_mtu(client: Bound, server: Bound) -> int | None:
    mtu = client.rail.get("mtu")
    return int(mtu) if mtu and mtu == server.rail.get("mtu") else None
