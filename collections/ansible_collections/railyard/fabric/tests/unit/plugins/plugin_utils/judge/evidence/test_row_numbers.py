# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows against themselves: what follows from iterations, from a window, from what the other end says."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import Check
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import formulas, row_numbers
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import end_rules
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.rule import find_broken
from support.runs.bare_rows import BareEnd, disagreement, impossible

POLICY = policy.merge({"rdma_duration_s": 4, "rdma_margin_s": 1, "rdma_message_bytes": 65536})
RDMA = dict.fromkeys(("bandwidth_is", "traffic_class", "service_level"))
# 1000 messages of 64 KiB in 2 s: 524,288,000 bit in 2 s.
ITERATIONS, GBPS = 1000, 0.262144


def row(check: str = "rdma_bandwidth", end: str = "client", **changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "check": check,
        "end": end,
        "iterations": ITERATIONS,
        "active_mtu_bytes": 4096,
        "metrics": {"bandwidth_gbps": GBPS},
    }
    return {**whole, **changes}


def unlike_iterations(one: dict[str, Any]) -> list[str]:
    """Return why an RDMA bandwidth or message rate, if it is stated, is not that of the counted messages."""
    return [
        seen
        for _cause, seen in find_broken(end_rules.list_iteration_rules(one["check"]), BareEnd(one, POLICY))
    ]


def exchanges(one: dict[str, Any], window: list[float], asked_s: int) -> list[str]:
    """Return why an RDMA latency's exchanges are not those that were planned."""
    end = BareEnd({"check": "rdma_latency", **one, "window_s": window}, {"rdma_latency_s": asked_s})
    return [seen for _cause, seen in end_rules.find_impossible_exchanges(end)]


@pytest.mark.parametrize(
    ("gbps", "good"),
    [(GBPS, True), (GBPS * 1.09, True), (GBPS * 1.11, False), (GBPS * 0.37, True), (GBPS * 0.35, False)],
)
def test_a_bandwidth_follows_from_its_iterations(gbps: float, good: bool) -> None:
    # Below: 2 s may have been 5 s, and 10 % less of that: 2 / 5 x 0.9 = 36 %.
    problem = next(iter(unlike_iterations(row(metrics={"bandwidth_gbps": gbps}))), None)
    assert (problem is None) is good


@pytest.mark.parametrize("declared", [None, 0, 106])
@pytest.mark.parametrize("client", [True, False])
def test_a_row_has_to_say_the_planned_class(declared: int | None, client: bool) -> None:
    wanted = row_numbers.list_required_settings(
        "rdma_latency", client, {**POLICY, "rdma_traffic_class": declared}
    )
    assert wanted["traffic_class"] == declared


@pytest.mark.parametrize(
    ("words", "check", "good"),
    [
        ("--tclass=106 --sl=3", "rdma_bandwidth", True),
        ("--tclass=106 --sl=3", "rdma_latency", True),
        ("", "rdma_bandwidth_default_class", True),
        ("", "tcp_bandwidth", True),
        ("", "rdma_bandwidth", False),
        ("--tclass=106", "rdma_bandwidth", False),
        ("--tclass=98 --sl=3", "rdma_bandwidth", False),
        # perftest takes the last of several.
        ("--tclass=106 --sl=3 --tclass=0", "rdma_bandwidth", False),
        ("--tclass=106 --sl=3", "rdma_bandwidth_default_class", False),
    ],
)
def test_a_command_line_has_to_ask_for_the_planned_class(words: str, check: str, good: bool) -> None:
    rules = {**POLICY, "rdma_traffic_class": 106, "rdma_service_level": 3}
    argv = ["ib_write_bw", "-d", "mlx5_0", None, *words.split(), "-F", "10.0.1.2"]
    assert (row_numbers.find_wrong_class(argv, check, rules) is None) is good


# One message in 2 s, and 10 % more; or in 5 s, and 10 % less. perftest rounds to 0.01 MiB/s.
ONE_GBIT, HALF_DIGIT = 65536 * 8 / 1e9, 0.005 * 2**20 * 8 / 1e9
FASTEST, SLOWEST = ONE_GBIT / 2 * 1.1 + HALF_DIGIT, ONE_GBIT / 5 * 0.9 - HALF_DIGIT


@pytest.mark.parametrize(
    ("gbps", "good"),
    [(FASTEST, True), (FASTEST + 1e-9, False), (SLOWEST, True), (SLOWEST - 1e-9, False)],
)
def test_a_bandwidth_of_few_messages_is_known_to_half_a_digit(gbps: float, good: bool) -> None:
    assert bool(formulas.follows_from_iterations(gbps, 1, POLICY)) is good


@pytest.mark.parametrize(
    ("latency_is", "lasted_s", "good"),
    [("one_way", 2.0, True), ("one_way", 1.9, False), ("round_trip", 1.0, True), ("round_trip", 0.9, False)],
)
def test_a_chain_of_exchanges_fits_into_its_window(latency_is: str, lasted_s: float, good: bool) -> None:
    # 2000 exchanges of 500 us: 1 s as round trips, 2 s as halves of one.
    one = {"latency_is": latency_is, "metrics": {"observations": 2000, "latency_average_us": 500.0}}
    said = exchanges(one, [0.5, 0.5 + lasted_s], 2)
    assert (not said) is good


def test_ends_of_a_send_time_it_each_by_its_own_clock() -> None:
    def ends(check: str, theirs: float) -> str | None:
        client = {"check": check, "metrics": {"bandwidth_gbps": 1.0}}
        server = {"check": check, "metrics": {"bandwidth_gbps": theirs}}
        return disagreement(client, server, POLICY)

    assert ends("rdma_send_bandwidth", 1.1) is None
    assert ends("rdma_send_bandwidth", 1.3) is not None
    assert ends("rdma_bandwidth", 1.1) is not None


@pytest.mark.parametrize(
    ("observations", "average_us", "why"),
    [
        (2000, 500.0, None),  # 2000 x 2 x 500 us fill 2 s
        (2000, 500e3, "the test lasted"),  # nanoseconds taken for microseconds
        (2000, 0.5, "planned were 2 s"),  # milliseconds taken for microseconds
        (2000, 2.1, None),  # a cold probe of 20 exchanges may be far slower than the test
        (1, 500.0, "1 exchanges"),
        (19, 500.0, "19 exchanges"),
        (20, 150.0, None),  # the fewest that are planned, where the probe was slow
        (20, 0.5, "planned were 2 s"),  # no probe was ever so much slower
        (20, 100.0, None),  # just the 4 ms that it takes at least
        (20, 99.9, "planned were 2 s"),
        (2000, 535.5, None),  # 2.142 s are just 1.02 of the 2.1 s that it lasted
        (2000, 535.6, "the test lasted"),
        (100000, 0.1, None),  # what a message takes at least
        (100000, 0.5, None),  # the most that are planned, where a card is fast
        (100001, 0.5, "100001 exchanges"),
        # Fewer than the most that can be planned were calculated to fill the time: a 500th of it at least.
        (100000, 0.019, None),
        (99999, 0.019, "planned were 2 s"),
    ],
)
def test_a_latency_is_that_of_as_many_exchanges_as_were_requested(
    observations: int, average_us: float, why: str | None
) -> None:
    metrics = {"observations": observations, "latency_average_us": average_us}
    one = row("rdma_latency", metrics=metrics, latency_is="one_way")
    found = next(iter(exchanges(one, [0.1, 2.2], 2)), None)
    assert (found is None) is (why is None), found
    assert (why or "") in str(found)


@pytest.mark.parametrize(
    ("end", "changes", "said"),
    [
        ("client", {}, None),
        ("server", {"metrics": {}, "window_s": None}, None),
        ("client", {"window_s": None}, "window_s is None, no interval"),
        ("client", {"window_s": [0.0, 0.9]}, "it lasted 0.9 s, planned was 2 s"),
        ("client", {"window_s": [1.0, 2.0]}, None),
        # One that is held up for two minutes is ended.
        ("client", {"window_s": [0.0, 122.0]}, None),
        ("client", {"window_s": [0.0, 122.1]}, "it lasted 122.1 s, planned was 2 s"),
        ("client", {"window_s": [1.0, 1.9]}, "it lasted 0.9 s, planned was 2 s"),
        ("client", {"metrics": {"rtt_min_us": 7.0}}, "rtt_average_us is missing"),
        ("client", {"metrics": {"rtt_min_us": 7.0, "rtt_average_us": 3e6}}, None),
        # J8: no time is longer than the window in which it was measured.
        (
            "client",
            {"metrics": {"rtt_min_us": 7.0, "rtt_average_us": 3.1e6}},
            "rtt_average_us 3.1e+06 is longer than its window of 2 s",
        ),
        (
            "client",
            {"metrics": {"rtt_min_us": 7.0, "rtt_average_us": 3_000_002}},
            "rtt_average_us 3e+06 is longer",
        ),
        ("client", {"metrics": {"rtt_min_us": 0.1, "rtt_average_us": 8.0}}, None),
        (
            "client",
            {"metrics": {"rtt_min_us": 0.09, "rtt_average_us": 8.0}},
            "rtt_min_us 0.09 is faster than any",
        ),
        (
            "client",
            {"metrics": {"rtt_min_us": 7.0, "rtt_average_us": 1e9 + 1}},
            "rtt_average_us is 1000000001",
        ),
        ("client", {"message_bytes": 131072}, "message_bytes is 131072, planned was 100"),
        ("server", {"metrics": {}, "window_s": None, "message_bytes": None}, "message_bytes is None"),
        ("client", {"metrics": {"rtt_min_us": 9.0, "rtt_average_us": 8.0}}, "rtt_min_us 9 is above"),
    ],
)
def test_what_a_row_of_a_new_tool_must_hold_follows_from_the_table(
    monkeypatch: pytest.MonkeyPatch, end: str, changes: dict[str, Any], said: str | None
) -> None:
    told = {"rtt_min_us": "positive", "rtt_average_us": "positive"}
    new = Check("replies", "replies", client=told, lasts="replies_s", message="replies_bytes")
    monkeypatch.setitem(row_numbers.CHECKS, "replies", new)
    whole = {
        "metrics": {"rtt_min_us": 7.0, "rtt_average_us": 8.0},
        "window_s": [0.0, 2.0],
        "message_bytes": 100,
    }
    policy_of_it = {"replies_s": 2, "replies_bytes": 100}
    told_by = row("replies", end, **{**whole, **changes})
    first = next(iter(impossible(told_by, policy_of_it)), None)
    assert first is None if said is None else str(first).startswith(said), first


def test_a_bandwidth_of_rdma_is_possible_with_its_iterations_alone() -> None:
    metrics = {"bandwidth_gbps": GBPS, "message_rate_mpps": 0.0005}
    one = row(window_s=[1.4, 3.4], metrics=metrics)
    one |= {"qps": POLICY["rdma_qps"], "message_bytes": 65536}
    assert impossible(one, POLICY) == []
    for iterations in (None, 0):
        assert impossible({**one, "iterations": iterations}, POLICY)[0] == f"iterations is {iterations!r}"
    assert impossible({**one, "qps": 2}, POLICY) == ["qps is 2, planned was 4"]


@pytest.mark.parametrize(
    ("window", "too_long", "too_short"),
    [
        # 4 s are planned in all, of which 2 s are measured; a window's ends are rounded to 0.1 ms.
        ([0.0, 4.001], False, False),
        ([0.0, 4.0012], True, False),
        ([1.0, 2.0], False, False),
        ([1.0, 1.9], False, True),
    ],
)
def test_perftest_lasts_as_long_as_was_requested_and_measures_half_of_its_window_at_least(
    window: list[float], too_long: bool, too_short: bool
) -> None:
    metrics = {"bandwidth_gbps": GBPS, "message_rate_mpps": 0.0005}
    one = row(window_s=window, metrics=metrics, qps=4, message_bytes=65536)
    lasted_s = window[1] - window[0]
    said = [f"it lasted {lasted_s:g} s, planned was 4 s in total"]
    short = [f"it lasted {lasted_s:g} s, planned was 2 s"]
    assert impossible(one, POLICY) == (said if too_long else []) + (short if too_short else [])


@pytest.mark.parametrize(
    ("check", "client", "server"),
    [
        ("path_mtu", {}, {}),
        ("tcp_bandwidth", {"streams": 3}, {"streams": 3}),
        # What a latency is of, only its client knows. RDMA's class is the port's default here.
        ("tcp_latency", {"latency_is": "one_way", "message_bytes": 64}, {"message_bytes": 64}),
        ("rdma_read_latency", {"latency_is": "round_trip", "message_bytes": 64, **RDMA},
         {"message_bytes": 64, **RDMA}),
        *((check, said, said) for check, said in (
            ("rdma_bandwidth", {"qps": 2, "message_bytes": 65536, **RDMA}),
            ("rdma_bandwidth_bi", {"qps": 2, "message_bytes": 65536, **RDMA, "bandwidth_is": "sum_of_both"}),
            ("rdma_bandwidth_unpinned",
             {"qps": 2, "message_bytes": 65536, **RDMA, "pinned": False}),
        )),
    ],
)  # fmt: skip
def test_a_row_says_how_its_test_was_run(
    check: str, client: dict[str, object], server: dict[str, object]
) -> None:
    rules = policy.merge({"iperf3_streams": 3, "rdma_qps": 2, "rdma_message_bytes": 65536})
    assert row_numbers.list_required_settings(check, True, rules) == client
    assert row_numbers.list_required_settings(check, False, rules) == server


@pytest.mark.parametrize(
    ("packets", "loss_percent", "said"),
    [
        # Where no reply was missing, nothing was sent again to decide about it.
        ({}, 0.0, None),
        ({"sent": 10, "received": 10}, 0.0, None),
        ({"sent": 10, "received": 0}, 100.0, None),
        # A third is rounded to three digits: 0.001 is as far as it may be off.
        ({"sent": 3, "received": 2}, 33.333, None),
        ({"sent": 3, "received": 2}, 33.33, "2 packets of 3 came back, it reports a loss of 33.33 %"),
        ({"sent": 10, "received": 10}, 0.001, None),
        ({"sent": 10, "received": 10}, 0.0011, "10 packets of 10 came back, it reports a loss of 0.0011 %"),
        ({"sent": 10, "received": 11}, 0.0, "11 packets of 10 came back"),
        ({"sent": 10, "received": -1}, 0.0, "-1 packets of 10 came back"),
        ({"sent": 0, "received": 0}, 0.0, "0 packets of 0 came back"),
        ({"sent": 10}, 0.0, "nan packets of 10 came back"),
        ({"received": 10}, 0.0, "10 packets of nan came back"),
        ({"sent": 10, "received": 8.5}, 15.0, "8.5 packets of 10 came back"),
    ],
)
def test_a_loss_is_of_the_packets_that_did_not_come_back(
    packets: dict[str, Any], loss_percent: float, said: str | None
) -> None:
    numbers = dict.fromkeys(row_numbers.CHECKS["ping_rtt"].client, 50.0) | {"loss_percent": loss_percent}
    one = row("ping_rtt", window_s=[0.0, 0.2], metrics={**numbers, **packets})
    assert impossible(one, POLICY) == ([] if said is None else [said])
    # Of what its client saw the server says nothing.
    assert impossible({**one, "end": "server"}, POLICY) == []


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("positive", [0.1, 5], [0, -1]),
        ("positive_count", [1, 2.0], [0, 1.5, 2**64]),
        ("count", [0, 2.0], [-1, 0.5]),
        ("share", [0, 100], [-0.1, 100.1]),
        ("nonnegative", [0, 101], [-0.1]),
    ],
)
def test_what_a_metric_of_a_kind_may_be(
    monkeypatch: pytest.MonkeyPatch, kind: str, good: list[Any], bad: list[Any]
) -> None:
    monkeypatch.setitem(row_numbers.CHECKS, "replies", Check("replies", "replies", client={"x": kind}))
    for value in (*good, *bad):
        one = row("replies", window_s=[0.0, 2.0], metrics={"x": value})
        said = [] if value in good else [f"x is {value!r}"]
        assert impossible(one, {}) == said


def test_a_time_of_which_less_is_better_still_may_be_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    spread = Check("replies", "replies", client={"rtt_mdev_us": "nonnegative"})
    monkeypatch.setitem(row_numbers.CHECKS, "replies", spread)
    assert impossible(row("replies", window_s=[0.0, 2.0], metrics={"rtt_mdev_us": 0.0}), {}) == []


@pytest.mark.parametrize(("grown", "good"), [(1, True), (0, False), (math.nan, False), (-1, True)])
def test_a_counter_of_acknowledgements_that_moved_is_alive(grown: float, good: bool) -> None:
    """One that went backwards is refused with the other counters."""
    seen = SimpleNamespace(acknowledges=lambda _name: True, grown=lambda _name: grown)
    assert end_rules._has_changed("port_rcv_data", seen) is good
    assert end_rules._has_changed("port_rcv_data", SimpleNamespace(acknowledges=lambda _name: False))


@pytest.mark.parametrize(
    ("window", "read"),
    [
        ([-0.5, 1], (-0.5, 1.0)),
        ([-0.501, 1], None),
        ([1, 1], None),
        ([0, True], None),
        ([1], None),
        (None, None),
    ],
)
def test_a_window_is_an_interval_that_begins_about_the_start(window: Any, read: Any) -> None:
    assert row_numbers.read_window_s({"window_s": window}) == read


def test_a_moment_is_utc_and_an_attempt_a_number_from_one_on() -> None:
    moments = [
        row_numbers.parse_time(said) for said in ("1970-01-01T00:01:00.5Z", "1970-01-01T00:01:00", "Z", 60)
    ]
    assert moments == [60.5, None, None, None]
    attempts = [row_numbers.read_attempt({"attempt": said}) for said in (1, 3, 0, -1, True, 2.0, None)]
    assert (attempts, row_numbers.read_attempt({})) == ([1, 3, 0, 0, 0, 0, 0], 1)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"mtu_bytes": 8999}, "9000 bytes passed unfragmented"),
        ({"mtu_bytes": None}, "9000 bytes passed unfragmented"),
        ({"sent": 10, "received": 10}, None),  # twice as many where the first batch was lost
        *(({"sent": sent}, f"{sent} probes were sent, planned was 5") for sent in (4, 7, 15)),
        ({"received": 6}, "6 probes arrived, 5 were sent"),
    ],
)
@pytest.mark.parametrize("check", ["path_mtu", "path_mtu_one_way"])
def test_probes_of_a_path_are_those_that_were_requested(
    check: str, changes: dict[str, Any], said: str | None
) -> None:
    metrics = {"path_mtu_bytes": 9000, "sent": 5, "received": 5} | changes
    one = row(check, metrics=metrics, mtu_bytes=9000)
    one |= {"window_s": None} | {key: changes[key] for key in changes if key == "mtu_bytes"}
    found = next(iter(impossible(one, {**POLICY, "path_mtu_probes": 5})), None)
    assert found is None if said is None else str(found).startswith(said)


@pytest.mark.parametrize(
    ("average_us", "good"), [(250.0, True), (249.9, False), (1020.0, True), (1020.1, False)]
)
def test_round_trips_fill_a_quarter_of_the_planned_time_at_least(average_us: float, good: bool) -> None:
    """1000 of them, planned for 2 s: 0.5 s to 2.04 s."""
    numbers = dict.fromkeys(row_numbers.CHECKS["tcp_latency"].client, average_us) | {"observations": 1000}
    one = row("tcp_latency", window_s=[0.0, 2.0], metrics=numbers)
    rules = {**POLICY, "sockperf_duration_s": 2}
    one |= {"latency_is": "one_way", "message_bytes": rules[row_numbers.CHECKS["tcp_latency"].message]}
    assert (impossible(one, rules) == []) is good


@pytest.mark.parametrize(
    ("rate_mpps", "good"), [(0.000526, True), (0.000527, False), (0.000474, True), (0.000473, False)]
)
def test_a_message_rate_follows_from_its_bandwidth(rate_mpps: float, good: bool) -> None:
    # 500 messages of 64 KiB a second; 5 % and the last digit that perftest prints.
    one = row(metrics={"bandwidth_gbps": GBPS, "message_rate_mpps": rate_mpps})
    said = unlike_iterations(one)
    assert said == [] if good else "Gbit/s are 0.0005 million messages" in said[0]
    # Twice as many; just as far off as it may be.
    one = row(iterations=2000, metrics={"bandwidth_gbps": 2 * GBPS, "message_rate_mpps": 0.0009485})
    assert unlike_iterations(one) == []


TCP = {**POLICY, "iperf3_omit_s": 0, "iperf3_streams": 1}
BOTH = {"bandwidth_gbps": 2.0, "forward_gbps": 1.2, "reverse_gbps": 0.8}


@pytest.mark.parametrize(
    ("check", "mine", "theirs", "good"),
    [
        ("path_mtu", {"path_mtu_bytes": 9000, "sent": 5}, {"path_mtu_bytes": 9000, "received": 4}, True),
        ("path_mtu", {"path_mtu_bytes": 9000}, {"path_mtu_bytes": 8999}, False),
        ("path_mtu", {"sent": None}, {"sent": 5}, True),
        # Rates by 5 % of the larger one.
        ("tcp_bandwidth", {"bandwidth_gbps": 100}, {"bandwidth_gbps": 95}, True),
        ("tcp_bandwidth", {"bandwidth_gbps": 94.9}, {"bandwidth_gbps": 100}, False),
        ("tcp_bandwidth_bi", {**BOTH, "forward_gbps": 1.0, "reverse_gbps": 1.0}, BOTH, False),
        ("tcp_bandwidth_bi", BOTH, BOTH, True),
        # perftest prints a message rate to six digits.
        ("rdma_bandwidth", {"message_rate_mpps": 10e-6}, {"message_rate_mpps": 11.4e-6}, True),
        ("rdma_bandwidth", {"message_rate_mpps": 10e-6}, {"message_rate_mpps": 11.6e-6}, False),
        ("rdma_bandwidth", {"bandwidth_gbps": 10e-6}, {"bandwidth_gbps": 11.4e-6}, False),
        # No more arrives than was sent, but for 5 %.
        ("tcp_bandwidth", {"bandwidth_gbps": 1.05, "sent_gbps": 1.0}, {}, True),
        ("tcp_bandwidth", {"bandwidth_gbps": 1.051, "sent_gbps": 1.0}, {}, False),
        # More than twice as much was sent, and 64 MiB lie in the buffers of one stream: 0.132 Gbit/s for 4 s.
        ("tcp_bandwidth", {"bandwidth_gbps": 1.0, "sent_gbps": 2.0}, {}, True),
        ("tcp_bandwidth", {"bandwidth_gbps": 1.0, "sent_gbps": 2.01}, {}, False),
        ("tcp_bandwidth", {"bandwidth_gbps": 0.1, "sent_gbps": 0.1 + 2**29 / 4e9}, {}, True),
        ("tcp_bandwidth", {"bandwidth_gbps": 0.1, "sent_gbps": 0.235}, {}, False),
    ],
)
def test_what_two_ends_may_say_of_one_test(
    check: str, mine: dict[str, Any], theirs: dict[str, Any], good: bool
) -> None:
    client, server = row(check, metrics=mine, window_s=[4.0, 8.0], streams=1), row(check, metrics=theirs)
    assert (disagreement(client, server, TCP) is None) is good


# 64 MiB in the buffers of each of four streams are 0.5369 Gbit/s for 4 s.
@pytest.mark.parametrize(("sent_gbps", "good"), [(0.5468, True), (0.5472, False)])
def test_what_did_not_arrive_lies_in_the_buffers_of_all_streams(sent_gbps: float, good: bool) -> None:
    metrics = {"bandwidth_gbps": 0.0101, "sent_gbps": sent_gbps}
    client = row("tcp_bandwidth", metrics=metrics, window_s=[4.0, 8.0])
    found = disagreement(client, row("tcp_bandwidth", metrics={}), {**TCP, "iperf3_streams": 4})
    assert (found is None) is good


@pytest.mark.parametrize(("said_gbps", "good"), [(105.0, True), (105.1, False), (95.0, True), (94.9, False)])
def test_both_ways_are_their_sum_at_either_end(said_gbps: float, good: bool) -> None:
    """The ends are within 5 % of each other here."""
    ways = {"forward_gbps": 40.0, "reverse_gbps": 60.0}
    odd, exact = (
        row("tcp_bandwidth_bi", metrics={**ways, "bandwidth_gbps": gbps}) for gbps in (said_gbps, 100.0)
    )
    assert (disagreement(odd, exact, TCP) is None) is good
    assert (disagreement(exact, odd, TCP) is None) is good
