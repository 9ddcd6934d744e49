# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Was an RDMA test the asked one: over the rail's own port, GID and RDMA MTU, alike at both ends? Pure.

`row_checks` holds a row's numbers against each other and against its counters; here it is held against what
the node's facts and the inventory say of the rail. Problems come as (id in the cause table, what was seen).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind, rdma_mtu
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    BI,
    CHECKS,
    LATENCY_IS,
    RDMA_BANDWIDTH,
    RDMA_LATENCY,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number, is_whole
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import rdma_facts, row_checks

Problem = tuple[str, str]
#: What both ends must say alike: a test of two different things is none.
_ALIKE = ("gid_type", "active_mtu_bytes", "qps", "message_bytes", "bandwidth_is")
#: Driver class -> a counter that shows RDMA traffic of such a port. Which one a row brings is not for the row
#: to choose: a card that shows netdev bytes alone shows no RDMA.
_COUNTED_BY = {"hardware": "port_xmit_data", "software": "hw_sent_pkts"}
#: What the port counts of each way: whatever is sent is acknowledged.
_BOTH_WAYS = (
    "hw_sent_pkts",
    "hw_rcvd_pkts",
    "port_xmit_packets",
    "port_rcv_packets",
    "port_xmit_data",
    "port_rcv_data",
)
_NUMBERS = ("message_rate_mpps", "forward_gbps", "reverse_gbps")


def row_problem(
    row: Mapping[str, Any], end: Bound, transport: str, policy: Mapping[str, Any]
) -> Problem | None:
    """Tell why a measured row of an RDMA test is not the asked test's, or None.

    Args:
        row: the row; that it is the asked line's and holds its metrics is already known.
        end: the rail of the host that wrote it, bound to that host's facts.
        transport: what the plan declares for that host.
        policy: the merged policy.
    """
    host, check = row.get("host"), str(row["check"])
    port = (end.hca or {}).get("hca")
    if port is None or row.get("hca") != port:
        return (
            "row_garbled",
            f"{host}: it was measured on HCA port {row.get('hca')!r}, the rail's is {port!r}",
        )
    elsewhere = _exchange_problem(row, end, host)
    if elsewhere:
        return elsewhere
    if transport == "roce":
        found = rdma_facts.choice(end)
        if found is None:
            return "no_gid", f"{host}: the facts show no GID of the rail's address on {port}"
        index, kind = row.get("gid_index"), row.get("gid_type")
        if not is_whole(index) or (index, kind) != (found.index, found.type):
            return (
                "gid_wrong",
                f"{host}: it used GID index {index!r}, {kind!r}; the rail's is {found.index}, {found.type}",
            )
    mtu = row.get("active_mtu_bytes")
    if not is_whole(mtu) or mtu not in rdma_mtu.STEPS:
        return "row_garbled", f"{host}: active_mtu_bytes is {mtu!r}"
    least, greatest = rdma_mtu.span(end.rail, end.hca, transport)
    if least is not None and mtu < least:
        return "rdma_mtu_small", f"{host}: measured at an RDMA MTU of {mtu}, {least} fits the inventory's"
    if greatest is not None and mtu > greatest:
        return "mtu_differs", f"{host}: measured at an RDMA MTU of {mtu}, the inventory's allows {greatest}"
    missing = _COUNTED_BY.get(str((end.hca or {}).get("driver_class")))
    counters = row.get("counters")
    if missing is not None and (not isinstance(counters, Mapping) or missing not in counters):
        return (
            "unproven",
            f"{host}: {missing} is not counted, by which the driver of {port} shows its traffic",
        )
    for name in _BOTH_WAYS:
        span = counters.get(name) if isinstance(counters, Mapping) else None
        if isinstance(span, list) and len(span) == 2 and span[0] == span[1]:
            return "unproven", f"{host}: {name} stood still, and whatever is sent is acknowledged"
    wrong = _not_as_asked(row, check, policy)
    return ("row_garbled", f"{host}: {wrong}") if wrong else None


def _exchange_problem(row: Mapping[str, Any], end: Bound, host: object) -> Problem | None:
    """Tell what is wrong with where the ends met: over the rail, and without IP on it over management."""
    said = row.get("exchange")
    if not bind.without_ip(end.rail):
        over = "over the rail itself, which has an address"
        return ("row_garbled", f"{host}: exchange is {said!r}, it had to be {over}") if said else None
    if not isinstance(said, Mapping) or said.get("over") != "management":
        return "row_garbled", f"{host}: exchange is {said!r}; without IP it is over the management network"
    guid = (end.hca or {}).get("port_guid")
    if not guid:
        return "guid_unknown", f"{host}: the facts hold no GUID of {row.get('hca')}"
    if said.get("port_guid") != guid:
        return (
            "guid_differs",
            f"{host}: it was measured on a port of GUID {said.get('port_guid')}, its facts say {guid}",
        )
    return None


def pair_problem(
    client: Mapping[str, Any], server: Mapping[str, Any], policy: Mapping[str, Any]
) -> Problem | None:
    """Tell in what two good rows of one test do not belong together, or None."""
    check = str(client["check"])
    if CHECKS[check].rdma:
        versions = client.get("tool_version"), server.get("tool_version")
        if not isinstance(versions[0], str) or versions[0] != versions[1]:
            return (
                "version_differs",
                f"{client['tool']}: {client['host']} {versions[0]!r}, {server['host']} {versions[1]!r}",
            )
        for key in _ALIKE:
            if not _same(client.get(key), server.get(key)):
                return "ends_disagree", f"{key}: client {client.get(key)!r}, server {server.get(key)!r}"
        for row, other in ((client, server), (server, client)):
            met, own = (one.get("exchange") or {} for one in (row, other))
            if met.get("peer_port_guid") != own.get("port_guid"):
                return (
                    "guid_differs",
                    f"{row['host']} met a port of GUID {met.get('peer_port_guid')}, {other['host']}'s is "
                    f"{own.get('port_guid')}",
                )
    slack = row_checks.ends_slack(check, policy)
    for metric in _NUMBERS:
        mine, theirs = client["metrics"].get(metric), server["metrics"].get(metric)
        if metric not in client["metrics"] or metric not in server["metrics"]:
            continue  # what an end has to say, its check's table asks for
        if not (is_number(mine) and is_number(theirs)):
            return "ends_disagree", f"{metric}: client {mine!r}, server {theirs!r}"
        if abs(mine - theirs) > max(slack * max(mine, theirs), _digits(metric)):
            return "ends_disagree", f"{metric}: client {mine:g}, server {theirs:g}"
    return _sum_problem(client) or _sum_problem(server)


def _same(one: object, other: object) -> bool:
    """Tell whether two values are one: True is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _digits(metric: str) -> float:
    """Return the last digit that perftest prints of a message rate: two ends may round it either way."""
    return 1.5e-6 if metric == "message_rate_mpps" else 0.0


def _sum_problem(row: Mapping[str, Any]) -> Problem | None:
    metrics = row["metrics"]
    if row["check"] != "tcp_bandwidth_bi" or "forward_gbps" not in metrics:
        return None
    together = metrics["forward_gbps"] + metrics["reverse_gbps"]
    if abs(together - metrics["bandwidth_gbps"]) <= row_checks.ENDS_TOLERANCE * together:
        return None
    return (
        "ends_disagree",
        f"{row['host']}: both ways are {together:g}, their sum is {metrics['bandwidth_gbps']:g}",
    )


def _not_as_asked(row: Mapping[str, Any], check: str, policy: Mapping[str, Any]) -> str | None:
    latency = check in RDMA_LATENCY and row.get("end") == "client"
    if latency and row.get("latency_is") != LATENCY_IS[check]:
        return f"latency_is is {row.get('latency_is')!r}, {check} is {LATENCY_IS[check]}"
    if check in BI and row.get("bandwidth_is") != "sum_of_both":
        return f"bandwidth_is is {row.get('bandwidth_is')!r}, asked was the sum of both directions"
    if check not in BI and row.get("bandwidth_is") is not None:
        return f"bandwidth_is is {row.get('bandwidth_is')!r}, asked was one direction"
    bandwidth = check in RDMA_BANDWIDTH or check in BI
    size = policy["rdma_message_bytes" if bandwidth else "sockperf_message_bytes"]
    if not _same(row.get("message_bytes"), size):
        return f"message_bytes is {row.get('message_bytes')!r}, asked was {size}"
    if bandwidth and not _same(row.get("qps"), policy["rdma_qps"]):
        return f"qps is {row.get('qps')!r}, asked was {policy['rdma_qps']}"
    metrics = row["metrics"]
    if bandwidth and "message_rate_mpps" in metrics:
        follows = metrics["bandwidth_gbps"] * 1e3 / 8 / size
        if abs(metrics["message_rate_mpps"] - follows) > row_checks.ENDS_TOLERANCE * follows + _digits(
            "message_rate_mpps"
        ):
            return (
                f"{metrics['bandwidth_gbps']:g} Gbit/s are {follows:g} million messages of {size} bytes a "
                f"second, it says {metrics['message_rate_mpps']:g}"
            )
    if check == "rdma_bandwidth_unpinned" and row.get("pinned") is not False:
        return f"pinned is {row.get('pinned')!r}, asked was a test that is not pinned"
    return None
