# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bounds of RDMA tests, and what each rests on. Pure.

As with TCP a fault never lowers a floor: rate and RDMA MTU are what the inventory declares and the port can
at most do, never what they negotiated. perftest counts payload, so what is left of the rate is

    RDMA MTU / (RDMA MTU + what stands around each packet)

    RoCE v2:    Ethernet 14, FCS 4, preamble 8, gap 12; IPv4 20 (IPv6 40), UDP 8, BTH 12, ICRC 4 = 82 (102)
    RoCE v1:    Ethernet 14, FCS 4, preamble 8, gap 12; GRH 40, BTH 12, ICRC 4                   = 94
    InfiniBand: LRH 8, BTH 12, ICRC 4, VCRC 2 (inside a subnet there is no GRH)                  = 26

A VLAN tag adds 4. The RETH (16) of a message's first packet, acknowledgements and InfiniBand's delimiters and
flow control packets are left out: they make the real limit a little lower than the ceiling, never higher.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.facts import gid
from ansible_collections.railyard.fabric.plugins.module_utils.rails import rdma_mtu
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import BI, RDMA_LATENCY
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import rdma_facts
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.bounds_tcp import (
    CEILING_TOLERANCE,
    Bounds,
    carried,
    end_rate,
    with_site_policy,
)

#: Share of the port's rate that RDMA must reach: what ngc_multinode_perf asks of ib_{write,read,send}_bw.
FLOOR_SHARE = 0.90
_AUTHORITY = (
    "ngc_multinode_perf passes at 0.90 of the port's rate; "
    "oci-hpc asks for 0.96 of 100, 200 and 400 Gbit/s, azurehpc-health-checks for 0.90 to 0.95"
)
#: perftest's own default; smaller messages are bounded by the message rate and not by the link.
LEAST_MESSAGE_BYTES = 65536
#: Up to FDR (56) the name of an InfiniBand rate counts the line code too: QDR 40 carries 32, FDR 56 54.5.
LEAST_INFINIBAND_GBPS = 100.0

_ETHERNET_HEADER = 14
_ETHERNET_AROUND = 4 + 8 + 12  # FCS, preamble, gap
_VLAN_TAG = 4
_BTH_ICRC = 12 + 4
_IPV4_UDP, _IPV6_UDP, _GRH = 20 + 8, 40 + 8, 40
_LRH, _VCRC = 8, 2


@dataclass(frozen=True)
class RdmaCapability:
    """What a rail between two nodes can do with RDMA.

    Attributes:
        rate_gbps: the slower end's rate, or None where it is not known.
        basis: where the rate comes from, or why there is none.
        software: at least one end is no hardware HCA on a hardware port.
        mtu_bytes: the RDMA MTU that the shares are reckoned with.
        overhead_bytes: what stands around each packet.
        payload_share: share of the rate that RDMA payload can be.
    """

    rate_gbps: float | None
    basis: str
    software: bool
    mtu_bytes: int
    overhead_bytes: int
    payload_share: float


def capability(client: Bound, server: Bound, transport: str) -> RdmaCapability:
    """Return what a rail can do between two bound ends.

    What is not known is taken for the most that could be: the largest RDMA MTU, the shortest headers.
    """
    ends = (client, server)
    told = [end_rate(end) for end in ends]
    rates = [rate for rate, _words in told if rate is not None]
    missing = [words for rate, words in told if rate is None]
    words = missing[:1] or list(dict.fromkeys(words for _rate, words in told))
    software = any(not _is_hardware(end) for end in ends)
    mtus = [mtu for end in ends if (mtu := rdma_mtu.used(end.rail, end.hca, transport)) is not None]
    mtu = min(mtus, default=rdma_mtu.STEPS[-1])
    overhead = _overhead(client, server, transport, software)
    return RdmaCapability(
        rate_gbps=min(rates) if not missing else None,
        basis="; ".join(words),
        software=software,
        mtu_bytes=mtu,
        overhead_bytes=overhead,
        payload_share=mtu / (mtu + overhead),
    )


def for_test(
    check: str,
    client: Bound,
    server: Bound,
    policy: Mapping[str, Any],
    transport: str,
    shared_slot: bool = False,
) -> Bounds:
    """Return the bounds of one RDMA test between two nodes.

    Args:
        check: one of CHECKS that is RDMA's and runs between nodes.
        client: the sender's rail.
        server: the receiver's rail.
        policy: the merged policy; its `floors` come before any other bound, but for the physical ceiling.
        transport: `roce` or `infiniband`.
        shared_slot: rails that run at once share a PCIe device on one of the nodes.
    """
    if check in RDMA_LATENCY:
        own = Bounds(
            basis="no authority bounds it here: published figures (2.5 us for write and send, 4.5 us for "
            "read in ngc_multinode_perf; 5 us in oci-hpc) name neither the switch hops nor this message "
            "size; a site may, with fabric_policy.floors"
        )
    else:
        able = capability(client, server, transport)
        own = _bandwidth(
            [able],
            2 if check in BI else 1,
            _no_floor(check, able, policy, transport, shared_slot),
        )
    return with_site_policy(check, own, policy)


def for_aggregate(
    able: Sequence[RdmaCapability], policy: Mapping[str, Any], transport: str, shared_slot: bool
) -> Bounds:
    """Return the bounds for all rails of a pair together, of payload."""
    check = "rdma_aggregate_bandwidth"
    why = next(
        (found for one in able if (found := _no_floor(check, one, policy, transport, shared_slot))), None
    )
    own = _bandwidth(able, 1, why)
    own.basis = (
        "sum over the rails of payload: the byte counters over their common window, less headers and what "
        f"was sent again: {own.basis}"
    )
    return with_site_policy(check, own, policy)


def _overhead(client: Bound, server: Bound, transport: str, software: bool) -> int:
    """Return the bytes around each packet's payload.

    On a software link the frame never meets a wire: its shaper counts what the netdev counts.
    """
    if transport == "infiniband":
        return _LRH + _BTH_ICRC + _VCRC
    inner = min(_roce_headers(end) for end in (client, server))
    tag = _VLAN_TAG if client.rail.get("vlan") is not None and server.rail.get("vlan") is not None else 0
    return _ETHERNET_HEADER + tag + inner + _BTH_ICRC + (0 if software else _ETHERNET_AROUND)


def _roce_headers(end: Bound) -> int:
    found = rdma_facts.choice(end)
    if found is not None and found.type == gid.ROCE_V1:
        return _GRH
    return _IPV4_UDP if end.rail.get("address") or not end.rail.get("address6") else _IPV6_UDP


def _is_hardware(end: Bound) -> bool:
    if (end.hca or {}).get("driver_class") != "hardware":
        return False
    return end.netdev is None or end.netdev.get("driver_class") == "hardware"


def _bandwidth(able: Sequence[RdmaCapability], ways: int, why_not: str | None) -> Bounds:
    unknown = next((one for one in able if one.rate_gbps is None), None)
    if unknown is not None or not able:
        return Bounds(basis=unknown.basis if unknown else "no rail")
    rates = [one.rate_gbps or 0.0 for one in able]
    total = ways * sum(rates)
    most, share = carried(rates, [one.payload_share for one in able])
    sources = "; ".join(dict.fromkeys(one.basis for one in able))
    packet = f"{able[0].mtu_bytes} bytes of payload and {able[0].overhead_bytes} around them"
    bounds = Bounds(
        ceiling={"bandwidth_gbps": round(ways * most * CEILING_TOLERANCE, 4)},
        basis=(
            f"{sources}{', both ways' if ways > 1 else ''}; ceiling: {share:.4f} of it with packets of "
            f"{packet}, +2 % for the window's ends"
        ),
    )
    if why_not:
        bounds.basis += f"; no floor: {why_not}"
    else:
        bounds.floor = {"bandwidth_gbps": round(total * FLOOR_SHARE, 4)}
        bounds.basis += f"; floor: {FLOOR_SHARE:.2f} of it ({_AUTHORITY})"
    return bounds


def _no_floor(
    check: str, able: RdmaCapability, policy: Mapping[str, Any], transport: str, shared_slot: bool
) -> str | None:
    """Return why no authority says what RDMA should reach here, or None when one does."""
    if able.software:
        return "no authority says what a software or unknown RDMA device reaches"
    if check in BI:
        # imbue's 300 without and 720 with GPUDirect of 2 x 400: a dead direction would pass the lower one
        return "the authorities for both ways at once differ by more than one direction's rate"
    if check == "rdma_bandwidth_unpinned":
        return "it shows what pinning to the NIC's NUMA node gains"
    if shared_slot:
        return "these rails share one PCIe device, and its slot's capability is not known"
    if int(policy["rdma_message_bytes"]) < LEAST_MESSAGE_BYTES:
        return f"it holds for messages of {LEAST_MESSAGE_BYTES} bytes or more"
    if transport == "infiniband" and (able.rate_gbps or 0.0) < LEAST_INFINIBAND_GBPS:
        return "up to FDR the name of an InfiniBand rate counts the line code too (QDR 40 carries 32)"
    if able.payload_share < FLOOR_SHARE:
        return f"at an RDMA MTU of {able.mtu_bytes} the headers alone take more than the authority's tenth"
    return None
