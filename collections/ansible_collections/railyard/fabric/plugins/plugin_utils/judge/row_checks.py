# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is a result row one that a verdict may rest on? Pure, and closed: what is not understood is not trusted.

The runner proves each end with `proof.py` on the node. What is checked here again is what can be checked
from the row alone: that it is the asked test's, that its numbers can be numbers, and that its counters
moved at least as much as it claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import LEAST_OF_ASKED
from ansible_collections.railyard.fabric.plugins.module_utils.measure.perftest_bw import measured_s
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    BANDWIDTH,
    BI,
    CHECKS,
    RDMA_BANDWIDTH,
    RDMA_LATENCY,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number, is_whole
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import rdma_numbers

ENDS = ("client", "server")
#: Two ends of one transfer may differ by what was under way when each of them stopped its clock.
ENDS_TOLERANCE = 0.05
#: What one TCP connection may have sent that has not arrived: role node_tuning lets a socket's buffer grow to
#: 128 MiB, and half of that is payload. Four connections over a rail of 10 Mbit/s had 5 MB in theirs.
BUFFERED_BYTES = 64 * 2**20
#: Where each end cuts its window by its own clock, a busy processor sets the two windows apart: by a share of
#: them, or by so many seconds where they are short.
OWN_WINDOWS_TOLERANCE = 0.15
_OWN_WINDOWS_S = 0.3
_SAME_AS_ASKED = ("check", "tool", "node", "peer", "rail", "direction")
#: A server takes over the client's window by its own clock, which may put its beginning a little before the
#: start.
_BEFORE_START_S = 0.5
#: Both ends of a window are rounded to 0.1 ms.
_ROUNDING_S = 0.001
#: No frame is shorter than its Ethernet header.
_LEAST_FRAME_BYTES = 14
#: A time above 1000 s is no latency.
_MOST_US = 1e9
_COUNTERS = ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets")
#: What the ends tell each other at the end of a test, as the runner's `swap_rows` does.
_EXCHANGED = ("host", "status", "proof", "metrics", "counters")
#: sockperf's ping-pong is a chain of round trips, so they add up to the time that it ran: 0.55 s of 1 s, and
#: 1.55 s of 2 s, since it leaves out the beginning and the end. More cannot be, far less was not measured.
_ROUND_TRIPS_SHARE = (0.25, 1.02)


# The ends that time something; the others answer and have no window of their own.
_TIMED = frozenset(
    [(check, end) for check in (*BANDWIDTH, *RDMA_BANDWIDTH, *BI) for end in ENDS]
    + [(check, "client") for check in ("tcp_latency", "ping_rtt", *RDMA_LATENCY)]
) - {("rdma_read_bandwidth", "server")}


def identity_problem(row: Mapping[str, Any], asked: Mapping[str, Any], run: str, end: Bound) -> str | None:
    """Tell in what a row is not the asked test's row of this end, or None.

    Args:
        row: the row; its `end` is already known to be client or server.
        asked: the asked line.
        run: the run id.
        end: the rail of the host that should have written the row.
    """
    host = asked["node"] if row.get("end") == "client" else asked["peer"]
    if row.get("schema") != 1 or isinstance(row.get("schema"), bool):
        return f"schema is {row.get('schema')!r}, not 1"
    if row.get("run") != run:
        return f"it belongs to run {row.get('run')!r}"
    for key in _SAME_AS_ASKED:
        if row.get(key) != asked.get(key):
            return f"{key} is {row.get(key)!r}, asked was {asked.get(key)!r}"
    if row.get("host") != host:
        return f"it was written by {row.get('host')!r}, not by {host}"
    # An InfiniBand port without IP needs no netdev: its rail is told by port and GUID (`rdma_rows`).
    needs_none = end.netdev is None and bind.without_ip(end.rail) and CHECKS[str(asked["check"])].rdma
    if not needs_none and (end.netdev is None or row.get("netdev") != end.netdev.get("netdev")):
        bound = end.netdev.get("netdev") if end.netdev else None
        return f"it was measured on netdev {row.get('netdev')!r}, the rail is bound to {bound!r}"
    if needs_none and row.get("netdev") is not None:
        return f"it was measured on netdev {row.get('netdev')!r}, the rail has none"
    address = bare(end.rail.get("address") or end.rail.get("address6"))
    if row.get("address") != address:
        return f"it was measured at address {row.get('address')!r}, the plan's is {address!r}"
    return None


def condition_problem(row: Mapping[str, Any], end: Bound) -> str | None:
    """Tell when a number was taken at another MTU than the plan's, or None; the path MTU checks ask it."""
    if row.get("check") in ("path_mtu", "path_mtu_one_way") or bind.without_ip(end.rail):
        return None  # without IP there is no netdev whose MTU counts; the port's is `active_mtu_bytes`
    seen, planned = row.get("mtu_bytes"), end.rail.get("mtu")
    if isinstance(seen, int) and not isinstance(seen, bool) and planned in (None, seen):
        return None
    return f"{row.get('host')}: measured at MTU {seen!r}, the plan's is {planned!r}"


def content_problem(row: Mapping[str, Any], policy: Mapping[str, Any]) -> str | None:
    """Tell what is impossible or missing in a row that says `measured`, or None."""
    window = window_s(row)
    if moment(row.get("started")) is None:
        return f"started is {row.get('started')!r}, no time"
    if window is None and (row.get("window_s") is not None or (row["check"], row["end"]) in _TIMED):
        return f"window_s is {row.get('window_s')!r}, no interval"
    if row.get("error") is not None:
        return "it says measured and brings an error"
    check = CHECKS[str(row["check"])]
    metrics = row.get("metrics")
    if not isinstance(metrics, Mapping):
        return f"metrics is {metrics!r}"
    for metric, kind in (check.client if row["end"] == "client" else check.server).items():
        if metric not in metrics:
            return f"{metric} is missing"
        if not _is_kind(metrics[metric], kind):
            return f"{metric} is {metrics[metric]!r}"
        if metric.endswith("_us") and metrics[metric] > _MOST_US:
            return f"{metric} is {metrics[metric]:g}"
    if rdma_numbers.is_bandwidth(check.name) and metrics:
        problem = rdma_numbers.iterations_problem(row, policy)
        if problem:
            return problem
    problem = _impossible(row, metrics, policy)
    if problem is None and window and check.name in RDMA_LATENCY and row["end"] == "client":
        problem = rdma_numbers.chain_problem(row, window, policy)
    return problem or (_wrong_length(check.name, window, policy) if window else None)


def counter_problem(
    row: Mapping[str, Any], client: Mapping[str, Any], policy: Mapping[str, Any]
) -> str | None:
    """Tell what in a row's counters contradicts the claim of the client's row, or None.

    Only the lower bound is drawn here again: the upper one needs what the runner knew of the idle traffic.
    """
    check = str(row["check"])
    if row.get("netdev") is None and CHECKS[check].rdma:
        # That the rail has no netdev is known by now; its port's own counters are asked alone.
        return rdma_numbers.counter_problem(row, client, policy)
    deltas = counter_deltas(row.get("counters"))
    if deltas is None:
        return "its counters are missing, garbled or went backwards"
    metrics = client["metrics"]
    out, back = ("tx", "rx") if row["end"] == "client" else ("rx", "tx")
    if check in BANDWIDTH:
        payload = float(metrics["bandwidth_gbps"]) * 1e9 / 8 * float(policy["iperf3_duration_s"])
        wanted = {f"{out}_bytes": payload * (1 - ENDS_TOLERANCE), f"{back}_packets": 1}
    elif check == "tcp_bandwidth_bi":
        per_gbps = 1e9 / 8 * float(policy["iperf3_duration_s"]) * (1 - ENDS_TOLERANCE)
        wanted = {
            f"{out}_bytes": float(metrics["forward_gbps"]) * per_gbps,
            f"{back}_bytes": float(metrics["reverse_gbps"]) * per_gbps,
        }
    elif CHECKS[check].rdma:
        # What the netdev shows of RDMA depends on the driver; the port's own counters are asked.
        wanted = {}
        problem = rdma_numbers.counter_problem(row, client, policy)
        if problem:
            return problem
    elif check == "tcp_latency":
        wanted = {f"{out}_packets": metrics["observations"], f"{back}_packets": metrics["observations"]}
    elif check == "ping_rtt":
        answered = int(policy["ping_count"]) * (100 - float(metrics["loss_percent"])) / 100
        wanted = {f"{out}_packets": answered, f"{back}_packets": answered}
    else:  # path_mtu and its one-way kind: at least one whole packet went this way, and for ping came back
        wanted = {f"{out}_bytes": metrics["path_mtu_bytes"], f"{out}_packets": metrics.get("received", 1)}
        if check == "path_mtu":
            wanted |= {f"{back}_bytes": metrics["path_mtu_bytes"], f"{back}_packets": 1}
    for way in ("tx", "rx"):
        moved, packets = deltas[f"{way}_bytes"], deltas[f"{way}_packets"]
        if (moved > 0) != (packets > 0) or moved < packets * _LEAST_FRAME_BYTES:
            return f"its {way}_bytes rose by {moved}, its {way}_packets by {packets}"
    for counter, least in wanted.items():
        if deltas[counter] < least:
            return f"its {counter} rose by {deltas[counter]}, the claim needs {least:.0f}"
    return None


def rebooted(row: Mapping[str, Any], boot_id: object) -> bool:
    """Tell whether the other end was met in another boot than the one that its facts describe."""
    said = row.get("other_end")
    return isinstance(said, Mapping) and (said.get("boot_id") or "") != (boot_id or "")


def exchange_problem(row: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """Tell in what the other end's row is not what that end said over the rail, or None.

    Both ends tell each other what they found, on the rail under test and sealed with the run's secret. Two
    rows that only look like a pair did not have that conversation.
    """
    said = row.get("other_end")
    if not isinstance(said, Mapping):
        return f"{row['host']} did not hear from {other['host']} over the rail what it found"
    for key in _EXCHANGED:
        if said.get(key) != other.get(key):
            return f"{other['host']} told {row['host']} of another {key} than it wrote down"
    return None


def own_window_s(check: str, policy: Mapping[str, Any]) -> float | None:
    """Return how long each end measures by its own clock; None where both tell one window's numbers.

    perftest's send is timed by each end from its first message to its last; of iperf3 each end leaves out the
    omitted start when its own timer says so.
    """
    if check == "rdma_send_bandwidth":
        return measured_s(policy)
    if check in (*BANDWIDTH, "tcp_bandwidth_bi") and policy["iperf3_omit_s"] > 0:
        return float(policy["iperf3_duration_s"])
    return None


def ends_slack(check: str, policy: Mapping[str, Any]) -> float:
    """Return by what share the two ends' bandwidths of one test may differ."""
    own_s = own_window_s(check, policy)
    return ENDS_TOLERANCE if own_s is None else max(OWN_WINDOWS_TOLERANCE, _OWN_WINDOWS_S / own_s)


def disagreement(
    client: Mapping[str, Any], server: Mapping[str, Any], policy: Mapping[str, Any]
) -> str | None:
    """Tell in what the two ends' numbers contradict each other, or None."""
    of_rates = ends_slack(str(client["check"]), policy)
    mine, theirs = client["metrics"], server["metrics"]
    # Whatever both ends state must be the same thing; required metrics were checked before.
    for metric in ("bandwidth_gbps", "path_mtu_bytes", "sent", "received"):
        if metric not in mine or metric not in theirs:
            continue
        one, other = mine[metric], theirs[metric]
        if not (is_number(one) and is_number(other)):
            return f"{metric}: client {one!r}, server {other!r}"
        slack = of_rates if metric == "bandwidth_gbps" else 0.0
        if abs(one - other) > slack * max(one, other):
            return f"{metric}: client {one:g}, server {other:g}"
    if "sent_gbps" in mine:
        sent, arrived = mine["sent_gbps"], mine["bandwidth_gbps"]
        # What was sent and did not arrive lies in buffers: on a slow rail that is more than what arrived.
        begin, end = window_s(client) or (0.0, 0.0)
        held_bytes = (sent - arrived) * 1e9 / 8 * (end - begin)
        too_much = sent > 2 * arrived and held_bytes > BUFFERED_BYTES * client["streams"]
        if arrived > sent * (1 + of_rates) or too_much:
            return f"{arrived:g} Gbit/s arrived, {sent:g} were sent"
    return None


def counter_deltas(counters: object) -> dict[str, int] | None:
    """Return what each counter rose by, or None when one is missing, garbled or went backwards."""
    if not isinstance(counters, Mapping):
        return None
    deltas = {}
    for name in _COUNTERS:
        pair = counters.get(name)
        if not isinstance(pair, list) or len(pair) != 2 or not all(is_whole(value) for value in pair):
            return None
        if pair[1] < pair[0] or pair[0] < 0:
            return None
        deltas[name] = int(pair[1] - pair[0])
    return deltas


def window_s(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return a row's window, seconds after `started`, or None when it is no interval."""
    window = row.get("window_s")
    if not isinstance(window, list) or len(window) != 2 or not all(is_number(edge) for edge in window):
        return None
    begin, end = float(window[0]), float(window[1])
    return (begin, end) if -_BEFORE_START_S <= begin < end else None


def moment(value: object) -> float | None:
    """Return a row's UTC time as seconds since the epoch, or None."""
    if not isinstance(value, str) or not value.endswith("Z"):
        return None
    try:
        return datetime.fromisoformat(value).timestamp()
    except ValueError:
        return None


def bare(cidr: object) -> str | None:
    """Return an address without its prefix length."""
    return cidr.split("/")[0] if isinstance(cidr, str) else None


def _is_kind(value: object, kind: str) -> bool:
    if not isinstance(value, (int, float)) or not is_number(value):
        return False
    if kind.endswith("count") and (int(value) != value or not is_whole(int(value))):
        return False
    if kind.startswith("positive"):
        return value > 0
    return 0 <= value <= 100 if kind == "share" else value >= 0


# Numbers of one distribution, in the order that they must have.
_ORDERS = {
    "ping_rtt": (("rtt_min_us", "rtt_average_us", "rtt_max_us"),),
    **dict.fromkeys(
        ("tcp_latency", *RDMA_LATENCY),
        (
            ("latency_min_us", "latency_p50_us", "latency_p99_us", "latency_p999_us", "latency_max_us"),
            ("latency_min_us", "latency_average_us", "latency_max_us"),
        ),
    ),
}


def _impossible(row: Mapping[str, Any], metrics: Mapping[str, Any], policy: Mapping[str, Any]) -> str | None:
    check = str(row["check"])
    streams = row.get("streams")
    if check in (*BANDWIDTH, "tcp_bandwidth_bi") and not (
        is_whole(streams) and streams == policy["iperf3_streams"]
    ):
        return f"streams is {streams!r}, asked was {policy['iperf3_streams']}"
    if row["end"] != "client":
        return None
    if "path_mtu_bytes" in metrics:
        own = row.get("mtu_bytes")
        if not is_whole(own) or metrics["path_mtu_bytes"] > own:
            return f"{metrics['path_mtu_bytes']} bytes passed unbroken, the own netdev's MTU is {own!r}"
    for order in _ORDERS.get(check, ()):
        for lower, upper in pairwise(order):
            if metrics[lower] > metrics[upper]:
                return f"{lower} {metrics[lower]:g} is above {upper} {metrics[upper]:g}"
    if check == "tcp_latency":
        if row.get("latency_is") != "one_way":
            return f"latency_is is {row.get('latency_is')!r}: only one-way latencies are compared"
        if row.get("message_bytes") != policy["sockperf_message_bytes"]:
            return (
                f"message_bytes is {row.get('message_bytes')!r}, asked was {policy['sockperf_message_bytes']}"
            )
        return _chain_problem(metrics, policy)
    if check in ("path_mtu", "path_mtu_one_way"):
        # Twice as many where the first batch was lost and the second was not.
        asked = int(policy["path_mtu_probes"])
        if metrics["sent"] not in (asked, 2 * asked):
            return f"{metrics['sent']} probes were sent, asked was {asked}"
        if metrics["received"] > metrics["sent"]:
            return f"{metrics['received']} probes arrived, {metrics['sent']} were sent"
    return None


def _chain_problem(metrics: Mapping[str, Any], policy: Mapping[str, Any]) -> str | None:
    together_s = metrics["observations"] * 2 * metrics["latency_average_us"] / 1e6
    least, most = (share * policy["sockperf_duration_s"] for share in _ROUND_TRIPS_SHARE)
    if least <= together_s <= most:
        return None
    return (
        f"{metrics['observations']} round trips of 2 x {metrics['latency_average_us']:g} us take "
        f"{together_s:.3g} s, asked were {policy['sockperf_duration_s']} s"
    )


def _wrong_length(check: str, window: tuple[float, float], policy: Mapping[str, Any]) -> str | None:
    """A test that lasted less than half of what was asked, or longer than it could, is not the asked test."""
    lasts = CHECKS[check].lasts
    asked_s = policy[lasts] if lasts else 0
    if rdma_numbers.is_bandwidth(check):
        asked_s = measured_s(policy)
    lasted_s = window[1] - window[0]
    # Alone perftest counts without its margins; in a group the window is what all rails share of the whole.
    if rdma_numbers.is_bandwidth(check) and lasted_s > float(policy["rdma_duration_s"]) + _ROUNDING_S:
        return f"it lasted {lasted_s:g} s, asked was {policy['rdma_duration_s']} s in all"
    return f"it lasted {lasted_s:g} s, asked was {asked_s} s" if lasted_s < asked_s * LEAST_OF_ASKED else None
