# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The share of a link's rate that is payload, for a full packet of TCP and of RDMA. Pure.

    TCP:        Ethernet 14, FCS 4, preamble 8, gap 12; IPv4 20 (IPv6 40), TCP 20, its timestamps 12
    RoCE v2:    Ethernet 14, FCS 4, preamble 8, gap 12; IPv4 20 (IPv6 40), UDP 8, BTH 12, ICRC 4 = 82 (102)
    RoCE v1:    Ethernet 14, FCS 4, preamble 8, gap 12; GRH 40, BTH 12, ICRC 4                   = 94
    InfiniBand: LRH 8, BTH 12, ICRC 4, VCRC 2 (inside a subnet there is no GRH)                  = 26
    EFA:        AWS does not publish SRD's packet format: 0, so that the ceiling is the rate itself

On a software link frames have no wire overhead: its shaper counts the same bytes as the netdev. For RDMA a
VLAN tag adds 4. The RETH (16) of a message's first packet, acknowledgements and InfiniBand's delimiters and
flow control packets are ignored: they make the real limit a little lower than the ceiling, never higher.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.module_utils.facts import gid
from ansible_collections.railyard.fabric.plugins.module_utils.rails import rdma_mtu
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.rules.rdma import choice

_ETHERNET_HEADER = 14
_WIRE_EXTRA = 4 + 8 + 12  # FCS, preamble, gap
_VLAN_TAG = 4
_TCP_HEADERS = {4: 20 + 20 + 12, 6: 40 + 20 + 12}
_BTH_ICRC = 12 + 4
_IPV4_UDP, _IPV6_UDP, _GRH = 20 + 8, 40 + 8, 40
_LRH, _VCRC = 8, 2
_KNOWN = ("hardware", "software")


@dataclass(frozen=True)
class Packet:
    """A full packet between two ends.

    Attributes:
        software: at least one end is not hardware, so frames may have no wire overhead.
        payload_bytes: bytes that the tools count; for RDMA the RDMA MTU.
        counted_bytes: bytes that a sum over rails counts: the complete frame for TCP, the payload for RDMA.
        link_bytes: bytes that it takes on the link.
        unknown: for RDMA, an end's device is neither a card nor known software.
        declared_bytes: for RDMA, its payload at the declared MTU, whatever the port supports.
    """

    software: bool
    payload_bytes: int
    counted_bytes: int
    link_bytes: int
    declared_bytes: int = 0
    unknown: bool = False

    @property
    def payload_share(self) -> float:
        """Return the payload's share of the rate."""
        return self.payload_bytes / self.link_bytes

    @property
    def declared_share(self) -> float:
        """Return the payload's share of the rate at the declared MTU."""
        return self.declared_bytes / (self.declared_bytes + self.link_bytes - self.payload_bytes)

    @property
    def counted_share(self) -> float:
        """Return the share of the rate that a sum over rails counts."""
        return self.counted_bytes / self.link_bytes


def build_tcp(client: Bound, server: Bound) -> Packet:
    """Return the full TCP packet between two ends."""
    ends = (client, server)
    software = any((end.netdev or {}).get("driver_class") != "hardware" for end in ends)
    mtu = min((int(end.rail["mtu"]) for end in ends if end.rail.get("mtu")), default=1500)
    headers = _TCP_HEADERS[4 if all(end.rail.get("address") for end in ends) else 6]
    frame = mtu + _ETHERNET_HEADER
    return Packet(software, mtu - headers, frame, frame + (0 if software else _WIRE_EXTRA))


def build_rdma(client: Bound, server: Bound, transport: str) -> Packet:
    """Return the full RDMA packet; unknown values become the largest MTU and the shortest headers."""
    ends = (client, server)
    software = not all(map(_is_hardware, ends))
    mtus = [mtu for end in ends if (mtu := rdma_mtu.used(end.rail, end.hca, transport)) is not None]
    mtu = min(mtus, default=rdma_mtu.STEPS[-1])
    if transport == "efa":
        around = 0
    elif transport == "infiniband":
        around = _LRH + _BTH_ICRC + _VCRC
    else:
        tag = _VLAN_TAG if all(end.rail.get("vlan") is not None for end in ends) else 0
        around = _ETHERNET_HEADER + tag + min(map(_count_roce_headers, ends)) + _BTH_ICRC
        around += 0 if software else _WIRE_EXTRA
    declared = [rdma_mtu.declared(end.rail, end.hca, transport) for end in ends]
    unknown = any((end.hca or {}).get("driver_class") not in _KNOWN for end in ends)
    return Packet(software, mtu, mtu, mtu + around, min(declared), unknown)


def _count_roce_headers(end: Bound) -> int:
    found = choice(end)
    if found is not None and found.type == gid.ROCE_V1:
        return _GRH
    return _IPV4_UDP if end.rail.get("address") or not end.rail.get("address6") else _IPV6_UDP


def _is_hardware(end: Bound) -> bool:
    if (end.hca or {}).get("driver_class") != "hardware":
        return False
    return end.netdev is None or end.netdev.get("driver_class") == "hardware"
