# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's rails as metrics: what each is and should be, how its link is, what its counters say.

The rails come from the expectation, not from what is there: one whose netdev is gone still has its name.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from ..facts import ethtool, gid, link_errors, qos_counters
from ..facts.sysfs import Reader
from ..numeric import is_number, is_whole
from ..quick import rails as quick_rails
from ..quick.expectation import Expectation
from ..rails import lag, pci_links, rdma_mtu
from ..rails.bind import Bound, bind
from ..rules import link, rdma, symbol_errors
from . import totals
from .catalogue import CONGESTION_COUNTERS
from .exposition import Number, Sample

_BYTES_PER_GBIT = 1e9 / 8
_HOUR_S = 3600
#: What other drivers call the counters that mlx5 has given their names; sources in catalogue/nic_drivers.py.
_CONGESTION = {
    **{f"hw.{name}": name for name in CONGESTION_COUNTERS},
    "hw.tx_cnp_pkts": "np_cnp_sent",
    "hw.rx_cnp_pkts": "rp_cnp_handled",
    "hw.rx_ecn_marked_pkts": "np_ecn_marked_roce_packets",
    "hw.cnpSent": "np_cnp_sent",
    "hw.cnpHandled": "rp_cnp_handled",
    "hw.cnpIgnored": "rp_cnp_ignored",
    "hw.RxECNMrkd": "np_ecn_marked_roce_packets",
    "hw.received_cnps": "rp_cnp_handled",
    "hw.rx_rdma_cnp_pkts": "rp_cnp_handled",
    "hw.rx_rdma_ecn_pkts": "np_ecn_marked_roce_packets",
}


def collect(
    expected: Expectation, reader: Reader, kept: Mapping[str, totals.Rail]
) -> tuple[list[Sample], dict[str, totals.Rail]]:
    """Read the rails.

    Args:
        expected: what the node is expected to be.
        reader: where the kernel's files are.
        kept: the sums of the last write.

    Returns:
        The samples, and the sums to be kept.
    """
    # Addresses are not needed: a rail's GID is found by the planned address.
    bound = bind(expected.rails, quick_rails.facts(reader, None))
    sums = {name: rail for name, rail in kept.items() if name in bound}
    samples: list[Sample] = []
    for name, one in bound.items():
        samples += [
            Sample("railyard_rail_" + metric, {"rail": name, **labels}, value)
            for metric, labels, value in (
                *_info(one, expected.transport),
                *_rate(one, expected.transport),
                *_mtu(one, expected.transport),
                *_rdma(one, expected.transport),
                *_lanes(one),
                *_counters(name, one, reader, sums),
            )
        ]
    return samples, sums


# Name without the prefix, labels beside `rail`, value.
_Values = Iterator[tuple[str, dict[str, str], Number]]


def _info(one: Bound, transport: str) -> _Values:
    port = one.hca or one.renamed
    device, _colon, number = str(port["hca"] if port else one.rail.get("hca") or "").partition(":")
    netdev = str((one.netdev or {}).get("netdev") or one.rail.get("netdev") or "")
    yield "info", {"netdev": netdev, "device": device, "port": number}, 1
    # An EFA device, and an InfiniBand port without IPoIB, have no netdev that could be without a link.
    has_netdev = link.left_out("link", one.rail, transport) is None and not link.is_bare_port(one)
    if one.netdev is not None or has_netdev:
        yield "netdev_info", {"device": netdev}, 1


def _rate(one: Bound, transport: str) -> _Values:
    """Yield the declared rate and the rate now, as the checks compare them, and what follows from it."""
    declared = one.rail.get("rate_gbps")
    wanted = float(declared) * lag.links(one.rail) if is_number(declared) else None
    seen = None
    if transport == "infiniband":
        rate = (one.hca or {}).get("rate_gbps")
        seen = float(rate) if is_number(rate) and rate > 0 else None
        if seen and wanted and rdma.is_at_rate(seen, wanted):
            wanted = seen
    elif transport != "efa" and (one.netdev or {}).get("driver_class") == "hardware":
        speed = (one.netdev or {}).get("speed_mbps")
        seen = speed / 1000 if is_number(speed) and speed > 0 else None
    if wanted is not None and transport != "efa":
        yield "expected_rate_bytes_per_second", {}, wanted * _BYTES_PER_GBIT
    if seen is not None:
        yield "rate_bytes_per_second", {}, seen * _BYTES_PER_GBIT
    # The link's FEC is not read each minute (mlxlink takes seconds): without it the larger limit counts.
    permitted = symbol_errors.permitted(seen, None, _HOUR_S)
    if permitted is not None:
        yield "symbol_errors_allowed_per_hour", {}, permitted.errors


def _mtu(one: Bound, transport: str) -> _Values:
    planned, now = one.rail.get("mtu"), (one.netdev or {}).get("mtu_bytes")
    if is_whole(planned):
        yield "expected_mtu_bytes", {"layer": "netdev"}, planned
    if is_whole(now) and now > 0:
        yield "mtu_bytes", {"layer": "netdev"}, now
    active = (one.hca or {}).get("active_mtu_bytes")
    if transport == "tcp" or not is_whole(active):
        return
    least, greatest = rdma_mtu.span(one.rail, one.hca, transport)
    if least is not None and greatest is not None:
        # A rail may have any step between the two: none of them is another one than expected.
        yield "expected_mtu_bytes", {"layer": "rdma"}, active if least <= active <= greatest else least
    yield "mtu_bytes", {"layer": "rdma"}, active


def _rdma(one: Bound, transport: str) -> _Values:
    if transport == "tcp":
        return
    yield "rdma_port_active", {}, int((one.hca or {}).get("state") == "ACTIVE")
    if transport != "roce" or one.hca is None or not (one.rail.get("address") or one.rail.get("address6")):
        return
    chosen = rdma.choice(one)
    if chosen is not None and chosen.type == gid.ROCE_V2:
        yield "gid_index", {}, chosen.index
    # With RoCE v1 alone the check records and does not fail: the card may have no other.
    if chosen is None or chosen.type == gid.ROCE_V2:
        yield "gid_present", {}, int(chosen is not None)


def _lanes(one: Bound) -> _Values:
    own = next(iter(pci_links.of_end(one)), None)
    if own is not None and own.width is not None and own.max_width is not None:
        yield "pcie_lanes", {}, own.width
        yield "pcie_lanes_max", {}, own.max_width


def _counters(name: str, one: Bound, reader: Reader, sums: dict[str, totals.Rail]) -> _Values:
    port = one.hca or one.renamed
    if one.netdev is None and port is None:
        if name in sums:
            yield from _sums(sums[name])  # nothing grows on a port that is gone
        return
    netdev, hca = str((one.netdev or {}).get("netdev") or ""), str(port["hca"]) if port else None
    # One question to the driver gives errors and pauses.
    stats = functools.lru_cache(maxsize=None)(ethtool.stats)
    values = link_errors.read(netdev, hca, reader.sys_root, stats)
    sums[name] = totals.advance(sums.get(name), f"{netdev} {hca or ''}", values)
    yield from _sums(sums[name])
    for counter, value in values.items():
        kind = totals.kind_of(counter)
        if kind is not None and value > 0:
            yield "error_counter_total", {"kind": kind, "counter": counter}, value
        if counter in _CONGESTION:
            yield "congestion_total", {"counter": _CONGESTION[counter]}, value
    yield from _pauses(netdev, reader, stats)


def _sums(rail: totals.Rail) -> _Values:
    for kind, value in rail.sums.items():
        yield "errors_total", {"kind": kind}, value


def _pauses(netdev: str, reader: Reader, stats: link_errors.Stats) -> _Values:
    found: dict[tuple[str, str], list[Any]] = {}
    for port in link_errors.ports_of(netdev, reader.sys_root) if netdev else ():
        for key, pause in qos_counters.pauses(stats(port)).items():
            frames, duration_us = found.get(key, (0, None))
            if pause.duration_us is not None:
                duration_us = (duration_us or 0) + pause.duration_us
            found[key] = [frames + pause.frames, duration_us]
    for (direction, priority), (frames, duration_us) in found.items():
        labels = {"direction": direction, "priority": priority}
        yield "pause_frames_total", labels, frames
        if duration_us is not None:
            yield "pause_seconds_total", labels, duration_us / 1e6
