# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do the numbers of an RDMA test's row follow from each other and from its counters? Pure, from rows alone.

perftest counts iterations in a window: its bandwidth must follow from them, and the counters must have moved
by at least as much. `row_checks` asks this of each row; `rdma_rows` asks whether it was the asked test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.measure import perftest_lat, proof
from ansible_collections.railyard.fabric.plugins.module_utils.measure.perftest_bw import measured_s
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import BI, RDMA_BANDWIDTH
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number, is_whole

#: How far a bandwidth may lie above iterations x size / window; the alarm that ends perftest's window comes
#: late on a busy processor and never early, so that below it may lie further.
CLAIM_SLACK = 0.10
_LATE_S = 3.0
_HALF_DIGIT_GBPS = 0.005 * 2**20 * 8 / 1e9
#: What the two ends count within their own windows of one transfer may differ by.
_WINDOWS_APART = 0.10
#: Least share of the asked time that a latency test's exchanges fill: the probe that sets their number is
#: short and cold, and was never seen a hundred times as slow. A wrong unit is a thousand times off.
_LEAST_CHAIN = 0.002
#: No message gets faster to another node: light takes half of it for 10 m of cable, and two cards add more.
_LEAST_US = 0.1
#: Names of (bytes, packets) that are (sent, received), and how many bytes a byte counter counts at a time.
_SOFT_ROCE = (("tx_bytes", "rx_bytes"), ("hw_sent_pkts", "hw_rcvd_pkts"), 1)
_CARD = (proof.PORT_DATA, ("port_xmit_packets", "port_rcv_packets"), proof.unit_bytes(proof.PORT_DATA[0]))


def is_bandwidth(check: str) -> bool:
    """Tell whether a check is one of RDMA bandwidth, both directions at once included."""
    return check in RDMA_BANDWIDTH or (check in BI and check.startswith("rdma"))


def iterations_problem(row: Mapping[str, Any], policy: Mapping[str, Any]) -> str | None:
    """Tell when a bandwidth row's iterations are none or do not give its bandwidth, or None."""
    iterations = row.get("iterations")
    if not is_whole(iterations) or iterations <= 0:
        return f"iterations is {iterations!r}"
    if row["check"] in BI:
        return None  # its own iterations are one direction, its bandwidth both
    return _not_of_iterations(float(row["metrics"]["bandwidth_gbps"]), iterations, policy)


def chain_problem(
    row: Mapping[str, Any], window: tuple[float, float], policy: Mapping[str, Any]
) -> str | None:
    """Tell when a latency row's exchanges, one after the other, are not those that were asked, or None."""
    metrics = row["metrics"]
    count = metrics["observations"]
    if not perftest_lat.LEAST <= count <= perftest_lat.MOST:
        return f"{count} exchanges; {perftest_lat.LEAST} to {perftest_lat.MOST} can be asked"
    ways = 2 if row.get("latency_is") == "one_way" else 1
    together_s = count * ways * metrics["latency_average_us"] / 1e6
    lasted_s = window[1] - window[0]
    taken = f"{count} exchanges of {ways} x {metrics['latency_average_us']:g} us take {together_s:.3g} s"
    if together_s > lasted_s * 1.02:
        return f"{taken}, the test lasted {lasted_s:.3g} s"
    if metrics["latency_average_us"] < _LEAST_US:
        return f"{metrics['latency_average_us']:g} us is less than any message takes to another node"
    # Below the most the number was chosen so that they fill the time; the least takes longer.
    if count < perftest_lat.MOST and together_s < _LEAST_CHAIN * float(policy["rdma_latency_s"]):
        return f"{taken}, asked were {policy['rdma_latency_s']} s"
    return None


def counter_problem(
    row: Mapping[str, Any], client: Mapping[str, Any], policy: Mapping[str, Any]
) -> str | None:
    """Tell what in a row's counters contradicts the client's claim, or None: the lower bounds alone."""
    counters = row.get("counters")
    if not isinstance(counters, Mapping):
        return "its counters are missing"
    of_card = _CARD[0][0] in counters
    if of_card and _SOFT_ROCE[1][0] in counters:
        return f"it brings {_CARD[0][0]} and {_SOFT_ROCE[1][0]}, counters of two drivers"
    names, packets, unit = _CARD if of_card else _SOFT_ROCE
    moved = [_growth(counters.get(name)) for name in names]
    counted = [_growth(counters.get(name)) for name in packets]
    if None in moved or None in counted:
        return f"its counters {', '.join((*names, *packets))} are missing, garbled, full or went backwards"
    grown = [int(value or 0) * unit for value in moved]
    seen = [int(value or 0) for value in counted]
    if not is_bandwidth(str(row["check"])):
        least = client["metrics"]["observations"]
        for name, number in zip(packets, seen, strict=True):
            if number < least:
                return f"its {name} rose by {number}, the claim needs {least}"
        return None
    return _too_little(row, client, policy, (names, packets), (grown, seen))


def _too_little(
    row: Mapping[str, Any],
    client: Mapping[str, Any],
    policy: Mapping[str, Any],
    names: tuple[tuple[str, str], tuple[str, str]],
    grown: tuple[list[int], list[int]],
) -> str | None:
    size, mtu = int(policy["rdma_message_bytes"]), row.get("active_mtu_bytes")
    sender = "server" if row["check"] == "rdma_read_bandwidth" else "client"
    if row["check"] in BI and row["end"] == "server":
        both_gbps = float(client["metrics"]["bandwidth_gbps"])
        problem = _not_of_iterations(both_gbps, client["iterations"] + row["iterations"], policy)
        if problem:
            return problem
    own = client if row["check"] not in BI else row
    payload = own["iterations"] * size
    # Of both directions each end vouches for what it sent itself; the rest of the sum came in.
    way = 0 if row["check"] in BI or row["end"] == sender else 1
    wanted = {way: payload}
    if row["check"] in BI:
        both = float(client["metrics"]["bandwidth_gbps"]) * 1e9 / 8 * measured_s(policy)
        wanted[1] = max(int(both * (1 - _WINDOWS_APART)) - payload, 1)
    for at, least in wanted.items():
        if grown[0][at] < least:
            return f"its {names[0][at]} rose by {grown[0][at]} bytes, the claim needs {least}"
        if is_number(mtu) and grown[1][at] < least / float(str(mtu)):
            return f"its {names[1][at]} rose by {grown[1][at]}, {least} bytes at an MTU of {mtu} need more"
    return None


def _not_of_iterations(claimed_gbps: float, iterations: int, policy: Mapping[str, Any]) -> str | None:
    moved_gbit = iterations * float(policy["rdma_message_bytes"]) * 8 / 1e9
    seconds = measured_s(policy)
    most = moved_gbit / seconds * (1 + CLAIM_SLACK) + _HALF_DIGIT_GBPS
    least = moved_gbit / (seconds + _LATE_S) * (1 - CLAIM_SLACK) - _HALF_DIGIT_GBPS
    if least <= claimed_gbps <= most:
        return None
    return f"{claimed_gbps:g} Gbit/s does not follow from {iterations} iterations in {seconds:g} s"


def _growth(span: object) -> int | None:
    if not isinstance(span, list) or len(span) != 2 or not all(is_whole(value) for value in span):
        return None
    sound = 0 <= span[0] <= span[1] and span[1] not in proof.SATURATED
    return int(span[1] - span[0]) if sound else None
