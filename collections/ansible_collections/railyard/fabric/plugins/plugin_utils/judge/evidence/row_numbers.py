# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Can the numbers of a row be numbers of the asked test? Pure, and closed: what is not understood is not.

Do a row's numbers fit the question and each other (`impossible`), and do both ends say the same
(`disagreement`)? Whether the rail's counters bear them out is asked in `row_counters`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from types import MappingProxyType
from typing import cast

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import TestClass, class_of
from ansible_collections.railyard.fabric.plugins.module_utils.measure import perftest, perftest_lat
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import (
    ENDS_TOLERANCE,
    OWN_WINDOWS_S,
    OWN_WINDOWS_TOLERANCE,
)
from ansible_collections.railyard.fabric.plugins.module_utils.measure.perftest_bw import measured_s
from ansible_collections.railyard.fabric.plugins.module_utils.records.node_rows import NodeRow
from ansible_collections.railyard.fabric.plugins.module_utils.records.pair_rows import PairRow
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    BI,
    CHECKS,
    LATENCY_IS,
    PATH_MTU,
    RDMA_LATENCY,
    TCP_BANDWIDTH,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import (
    Policy,
    is_number,
    is_pair,
    is_whole,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import formulas
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: A row as it was read; `PairRow` is one that is known to be what its type says.
Numbers = Mapping[str, float]
#: A server takes over the client's window by its own clock, which may put its beginning a little before the
#: start.
BEFORE_START_S = 0.5
#: A window ends when the tool says so, which may be a little before the last reply was counted.
_TOLD_LATE_S = 1.0
#: A time above 1000 s is no latency.
_MOST_US = 1e9
#: sockperf's ping-pong is a chain of round trips, so they add up to the time that it ran: 0.55 s of 1 s, and
#: 1.55 s of 2 s, since it leaves out the beginning and the end. More cannot be, far less was not measured.
_ROUND_TRIPS_SHARE = (0.25, 1.02)
#: A loss is rounded to 0.001 %.
_LOSS_DIGIT_PERCENT = 0.001
#: Least share of the asked time that a latency test's exchanges fill: the probe that sets their number is
#: short and cold, and was never seen a hundred times as slow. A wrong unit is a thousand times off.
_LEAST_CHAIN = 0.002
#: No message gets faster to another node: light takes half of it for 10 m of cable, and two cards add more.
_LEAST_US = 0.1
#: What both ends may state and must then state alike: rates up to the windows' difference, the rest exactly.
RATES = ("bandwidth_gbps", "forward_gbps", "reverse_gbps", "message_rate_mpps")
STATED_TWICE = (*RATES, "path_mtu_bytes", "sent", "received")
# What numbers of one distribution are called, in the order that they must have.
_ASCENDING = (("min", "p50", "p99", "p999", "max"), ("min", "average", "max"))


def impossible(row: PairRow | NodeRow, policy: Policy) -> Iterator[str]:
    """Yield what is impossible or missing in a row that says `measured`; only the first counts."""
    check, client, window = CHECKS[row["check"]], row["end"] == "client", window_s(row)
    if moment(row["started"]) is None:
        yield f"started is {row['started']!r}, no time"
    numbers = check.client if client else check.server
    # An end that states numbers has timed them, but for path MTU, which is counted; another only answers.
    timed = bool(numbers) and check.name not in PATH_MTU
    if window is None and (timed or row["window_s"] is not None):
        yield f"window_s is {row['window_s']!r}, no interval"
    metrics = numbers_of(row)
    for metric, kind in numbers.items():
        seen, is_time = metrics.get(metric, math.nan), metric.endswith("_us")
        if not formulas.is_of_kind(seen, kind) or (is_time and seen > _MOST_US):
            yield f"{metric} is {seen!r}" if metric in metrics else f"{metric} is missing"
        elif is_time and window and seen / 1e6 > window[1] - window[0] + _TOLD_LATE_S:
            yield f"{metric} {seen:g} is longer than its window of {window[1] - window[0]:g} s"
        elif is_time and kind == "positive" and seen < _LEAST_US:
            yield f"{metric} {seen:g} is less than any message takes to another node"
    said: Mapping[str, object] = row
    for key, value in as_asked(check.name, client, policy).items():
        if said.get(key) != value:
            yield f"{key} is {said.get(key)!r}, asked was {value!r}"
    for lower, upper in _orders(tuple(numbers)):
        if metrics[lower] > metrics[upper]:
            yield f"{lower} {metrics[lower]:g} is above {upper} {metrics[upper]:g}"
    if formulas.is_rdma_bandwidth(check.name) and metrics:
        yield from unlike_iterations(cast("PairRow", row), policy)
    elif check.name in PATH_MTU and client:
        yield from _impossible_probes(metrics, row["mtu_bytes"], policy)
    elif check.name == "ping_rtt" and client:
        yield from _impossible_loss(metrics)
    elif check.name == "tcp_latency" and client:
        yield from _impossible_round_trips(metrics, policy)
    elif check.name in RDMA_LATENCY and client and window:
        yield from impossible_exchanges(cast("PairRow", row), window, policy)
    if window:
        yield from _wrong_length(check.name, window[1] - window[0], policy)


def numbers_of(row: PairRow | NodeRow) -> dict[str, float]:
    """Return a row's metrics, but for those that it says nothing of."""
    return {name: value for name, value in row["metrics"].items() if value is not None}


def own_window_s(check: str, policy: Policy) -> float | None:
    """Return how long each end measures by its own clock; None where both tell one window's numbers.

    perftest's send is timed by each end from its first message to its last; of iperf3 each end leaves out the
    omitted start when its own timer says so.
    """
    if check == "rdma_send_bandwidth":
        return measured_s(policy)
    if check in TCP_BANDWIDTH and policy["iperf3_omit_s"] > 0:
        return float(policy["iperf3_duration_s"])
    return None


def each_way_gbps(client: PairRow, server: PairRow, policy: Policy) -> dict[str, float]:
    """Return what each direction carried of an RDMA test of both: each end counts its own messages."""
    per_message = float(policy["rdma_message_bytes"]) * 8 / 1e9 / measured_s(policy)
    ways = {"forward_gbps": client, "reverse_gbps": server}
    return {way: round(row["iterations"] * per_message, 4) for way, row in ways.items()}


def rates_apart(check: str, policy: Policy) -> float:
    """Return by which share the rates of both ends of a test may differ."""
    own_s = own_window_s(check, policy)
    return ENDS_TOLERANCE if own_s is None else max(OWN_WINDOWS_TOLERANCE, OWN_WINDOWS_S / own_s)


def disagreement(client: PairRow, server: PairRow, policy: Policy) -> str | None:
    """Tell in what the two ends' numbers contradict each other, or None."""
    of_rates = rates_apart(client["check"], policy)
    mine, theirs = numbers_of(client), numbers_of(server)
    # Whatever both ends state must be the same thing; required metrics were checked before.
    for metric in STATED_TWICE:
        if metric not in mine or metric not in theirs:
            continue
        one, other = mine[metric], theirs[metric]
        digit = formulas.RATE_DIGIT_MPPS if metric == "message_rate_mpps" else 0.0
        if not formulas.are_near(one, other, of_rates if metric in RATES else 0.0, digit):
            return f"{metric}: client {one:g}, server {other:g}"
    if "sent_gbps" in mine:
        sent, came, (begin, end) = mine["sent_gbps"], mine["bandwidth_gbps"], window_s(client) or (0.0, 0.0)
        if not all(formulas.arrived(came, sent, end - begin, of_rates, client.get("streams", 1))):
            return f"{came:g} Gbit/s arrived, {sent:g} were sent"
    for host, told in ((client["host"], mine), (server["host"], theirs)) if "forward_gbps" in mine else ():
        said, together = told["bandwidth_gbps"], told["forward_gbps"] + told["reverse_gbps"]
        if abs(together - said) > ENDS_TOLERANCE * together:
            return f"{host}: both ways are {together:g}, their sum is {said:g}"
    return None


def attempt_of(row: Row) -> int:
    """Return which attempt at its test a row is of, 0 where it says what there cannot be."""
    attempt = row.get("attempt", 1)
    return attempt if is_whole(attempt) and attempt > 0 else 0


def window_s(row: Row) -> tuple[float, float] | None:
    """Return a row's window, seconds after `started`, or None when it is no interval."""
    window = row.get("window_s")
    if window is None or not is_pair(window, is_number):
        return None
    begin, end = float(window[0]), float(window[1])
    return (begin, end) if -BEFORE_START_S <= begin < end else None


def moment(value: object) -> float | None:
    """Return a row's UTC time as seconds since the epoch, or None."""
    return _moment(value) if isinstance(value, str) and value.endswith("Z") else None


# Both ends' rows, and those of all rails at once, say the same time, and each is asked for it several times.
@functools.lru_cache(maxsize=1 << 12)
def _moment(value: str) -> float | None:
    try:
        return datetime.fromisoformat(value).timestamp()
    except ValueError:
        return None


def as_asked(check: str, client: bool, policy: Policy) -> Mapping[str, object]:
    """Return what a row has to say of how its test was run."""
    keys = (
        "iperf3_streams" if check in TCP_BANDWIDTH else "",
        "rdma_qps" if formulas.is_rdma_bandwidth(check) else "",
    )
    numbers = (policy[key] if key else None for key in (*keys, CHECKS[check].message))
    return _as_asked(check, client, *numbers, class_of(check, policy))


def other_class(argv: Iterable[str | None], check: str, policy: Policy) -> str | None:
    """Return what is wrong where a command line of an RDMA test does not ask for the planned class."""
    if not CHECKS[check].rdma:
        return None
    # What a row of a sweep has of its own stands in no frame.
    words = [word for word in argv if word is not None and word.startswith(perftest.CLASS_OPTIONS)]
    planned = perftest.class_words(check, policy)
    if words == planned:
        return None
    return f"its class options are {' '.join(words) or 'none'}, planned: {' '.join(planned) or 'none'}"


# The policy's numbers are a run's, and all its rows are asked the same.
@functools.lru_cache(maxsize=1 << 8, typed=True)
def _as_asked(
    check: str, client: bool, streams: object, qps: object, message_bytes: object, test_class: TestClass
) -> Mapping[str, object]:
    wanted: dict[str, object] = {}
    if check in TCP_BANDWIDTH:
        wanted["streams"] = streams
    if check in LATENCY_IS and client:
        # Of TCP only one-way latencies are compared; an RDMA read is answered, so it is a round trip.
        wanted["latency_is"] = LATENCY_IS[check]
    if formulas.is_rdma_bandwidth(check):
        wanted["qps"] = qps
    if message_bytes is not None:
        wanted["message_bytes"] = message_bytes
    if CHECKS[check].rdma:
        wanted["bandwidth_is"] = "sum_of_both" if check in BI else None
        wanted.update(test_class._asdict())
    if check == "rdma_bandwidth_unpinned":
        wanted["pinned"] = False
    return MappingProxyType(wanted)


@functools.cache
def _orders(numbers: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return metrics of one distribution of which one is not above the other: `rtt_min_us`, `rtt_max_us`."""
    found: list[tuple[str, str]] = []
    for stem in [name[: -len("average_us")] for name in numbers if name.endswith("_average_us")]:
        for words in _ASCENDING:
            found += pairwise([name for name in (f"{stem}{word}_us" for word in words) if name in numbers])
    return tuple(found)


def _impossible_probes(metrics: Numbers, own: int | None, policy: Policy) -> Iterator[str]:
    if own is None or metrics["path_mtu_bytes"] > own:
        yield f"{metrics['path_mtu_bytes']} bytes passed unbroken, the own netdev's MTU is {own!r}"
    # Twice as many where the first batch was lost and the second was not.
    asked = int(policy["path_mtu_probes"])
    if metrics["sent"] not in (asked, 2 * asked):
        yield f"{metrics['sent']} probes were sent, asked was {asked}"
    if metrics["received"] > metrics["sent"]:
        yield f"{metrics['received']} probes arrived, {metrics['sent']} were sent"


def _impossible_loss(metrics: Numbers) -> Iterator[str]:
    """The packets that decide about a loss, where replies were missing, are what it is a share of."""
    if "sent" not in metrics and "received" not in metrics:
        return
    sent, received = (metrics.get(name, math.nan) for name in ("sent", "received"))
    said = metrics["loss_percent"]
    if not (0 <= received <= sent and sent and received == int(received) and sent == int(sent)):
        yield f"{received:g} packets of {sent:g} came back"
    elif abs(100 * (sent - received) / sent - said) > _LOSS_DIGIT_PERCENT:
        yield f"{received} packets of {sent} came back, it says a loss of {said!r} %"


def _impossible_round_trips(metrics: Numbers, policy: Policy) -> Iterator[str]:
    """Round trips of sockperf fill the time that was asked."""
    together_s = metrics["observations"] * 2 * metrics["latency_average_us"] / 1e6
    least, most = (share * policy["sockperf_duration_s"] for share in _ROUND_TRIPS_SHARE)
    if not least <= together_s <= most:
        yield (
            f"{metrics['observations']} round trips of 2 x {metrics['latency_average_us']:g} us take "
            f"{together_s:.3g} s, asked were {policy['sockperf_duration_s']} s"
        )


def impossible_exchanges(row: PairRow, window: tuple[float, float], policy: Policy) -> Iterator[str]:
    """Yield why an RDMA latency row's exchanges, one after the other, are not those that were asked."""
    metrics = numbers_of(row)
    count = metrics["observations"]
    if not perftest_lat.LEAST <= count <= perftest_lat.MOST:
        yield f"{count} exchanges; {perftest_lat.LEAST} to {perftest_lat.MOST} can be asked"
    ways = 2 if row.get("latency_is") == "one_way" else 1
    together_s = count * ways * metrics["latency_average_us"] / 1e6
    lasted_s = window[1] - window[0]
    taken = f"{count} exchanges of {ways} x {metrics['latency_average_us']:g} us take {together_s:.3g} s"
    if together_s > lasted_s * 1.02:
        yield f"{taken}, the test lasted {lasted_s:.3g} s"
    # Below the most the number was chosen so that they fill the time; the least takes longer.
    if count < perftest_lat.MOST and together_s < _LEAST_CHAIN * float(policy["rdma_latency_s"]):
        yield f"{taken}, asked were {policy['rdma_latency_s']} s"


def unlike_iterations(row: PairRow, policy: Policy) -> Iterator[str]:
    """Yield why an RDMA bandwidth or its message rate is not that of the messages that perftest counted."""
    iterations, size = row.get("iterations"), policy["rdma_message_bytes"]
    gbps, rate_mpps = (row["metrics"].get(name) for name in ("bandwidth_gbps", "message_rate_mpps"))
    if not iterations:
        yield f"iterations is {iterations!r}"
    # Of both directions its own iterations are one, its bandwidth the sum.
    elif row["check"] not in BI and gbps is not None:
        apart = not_of_iterations(gbps, iterations, policy)
        if apart:
            yield apart
    if (
        gbps is not None
        and rate_mpps is not None
        and not formulas.is_its_message_rate(rate_mpps, gbps, policy)
    ):
        messages = f"{formulas.messages_mpps(gbps, policy):g} million messages of {size} bytes a second"
        yield f"{gbps:g} Gbit/s are {messages}, it says {rate_mpps:g}"


def not_of_iterations(claimed_gbps: float, iterations: int, policy: Policy) -> str | None:
    """Tell when an RDMA bandwidth is not that of so many messages in perftest's window, or None."""
    if formulas.follows_from_iterations(claimed_gbps, iterations, policy):
        return None
    seconds = measured_s(policy)
    return f"{claimed_gbps:g} Gbit/s does not follow from {iterations} iterations in {seconds:g} s"


def _wrong_length(check: str, lasted_s: float, policy: Policy) -> Iterator[str]:
    """A test that lasted longer than it could is not the asked test."""
    if lasted_s <= formulas.most_s(check, policy):
        return
    if formulas.is_rdma_bandwidth(check):
        yield f"it lasted {lasted_s:g} s, asked was {policy['rdma_duration_s']} s in all"
    else:
        yield f"it lasted {lasted_s:g} s, asked was {policy[CHECKS[check].lasts]} s"


def too_short(row: PairRow | NodeRow, policy: Policy) -> str | None:
    """Tell that a test lasted less than half of what was asked, as one does that was held up; or None."""
    check, window = row["check"], window_s(row)
    if window is None or window[1] - window[0] >= formulas.least_s(check, policy):
        return None
    return f"it lasted {window[1] - window[0]:g} s, asked was {formulas.asked_s(check, policy):g} s"
