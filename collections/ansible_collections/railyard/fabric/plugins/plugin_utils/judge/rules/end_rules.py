# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules on one end's row of a good test, in the order in which they are checked. Pure.

`list_number_rules`: its numbers match the planned test and each other, also for a test of a single node.
`list_end_rules`: it belongs to the planned test: this run, host, rail, port and GID, at the planned MTU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import nic_drivers, rdma_counters
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import GPU_MEMORY, Check
from ansible_collections.railyard.fabric.plugins.module_utils.measure import perftest_lat
from ansible_collections.railyard.fabric.plugins.module_utils.measure.perftest_bw import measured_s
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind, rdma_mtu
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.gpu_memory import find_nearest_gpus
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    BI,
    PATH_MTU,
    RDMA_LATENCY,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import formulas, row_numbers
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.views import RowEnd, RowNumbers
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.rule import (
    Holds,
    Lookup,
    Problem,
    Rule,
    View,
)

#: The tool reports the end of a window, which may be a little before the last reply was counted.
_LATE_S = 1.0
#: Maximum latency: 1000 s.
_MOST_US = 1e9
#: Minimum latency: light takes half of it for 10 m of cable, and two cards add more.
_LEAST_US = 0.1
#: sockperf's ping-pong is a chain of round trips, which add up to its run time: 0.55 s of 1 s, and 1.55 s of
#: 2 s, since it excludes the beginning and the end. More is impossible, and far less was not measured.
_ROUND_TRIPS_SHARE = (0.25, 1.02)
#: A loss is rounded to 0.001 %.
_LOSS_DIGIT_PERCENT = 0.001
#: Minimum share of the planned time that a latency test's exchanges fill: the probe that sets their number is
#: short and cold, but was never seen a hundred times as slow. A wrong unit is off by a factor of 1000.
_LEAST_CHAIN = 0.002
# Names of the numbers of one distribution, in ascending order.
_ASCENDING = (("min", "p50", "p99", "p999", "max"), ("min", "average", "max"))
#: From this exit status on a signal ended the program, by the convention of shells. These tools print a
#: result all the same; the results of others count with status 0 only, or without one for a server that was
#: not waited for.
_KILLED, _WHATEVER_STATUS = 128, ("ping", "sockperf", "udp_probe")
_GARBLED = "row_garbled"


def list_number_rules(check: Check, end: str) -> list[Rule | Lookup]:
    """Return the rules on the numbers of a `measured` row.

    Args:
        check: the test.
        end: client, also for a test of a single node; or server.
    """
    stated = check.client if end == "client" else check.server
    # An end with metrics has timed them, except for path MTU, which is counted.
    timed = bool(stated) and check.name not in PATH_MTU
    rules: list[Rule | Lookup] = [
        Rule("the measurement has a beginning and an end", lambda v: v.has_window(timed),
             lambda v: (_GARBLED, f"window_s is {v.row['window_s']!r}, no interval")),
        *(rule for name, kind in stated.items() for rule in _list_metric_rules(name, kind)),
        Lookup("it ran with the configured streams, queue pairs, message size and traffic class",
               lambda v: _find_wrong_settings(v, end == "client")),
        Lookup("minimum, average or percentiles, and maximum are in ascending order",
               partial(_find_unordered, list_orders(tuple(stated)))),
    ]  # fmt: skip
    if formulas.is_rdma_bandwidth(check.name):
        rules += list_iteration_rules(check.name)
    for names, problems in _CHECK_RULES:
        if check.name in names and end == "client":
            rules.append(problems)
    rules += [
        Rule("the measurement took no longer than the test can",
             lambda v: v.has_no_window or v.lasted_s <= formulas.find_longest_s(v.check.name, v.policy),
             lambda v: (_GARBLED, _describe_too_long(v))),
        Rule("the measurement lasted at least half of the configured time",
             lambda v: v.has_no_window or v.lasted_s >= formulas.find_shortest_s(v.check.name, v.policy),
             lambda v: ("window_short", f"it lasted {v.lasted_s:g} s, "
                        f"planned was {formulas.find_planned_s(v.check.name, v.policy):g} s")),
    ]  # fmt: skip
    return rules


def list_end_rules(check: Check, end: str) -> list[Rule | Lookup]:
    """Return the rules on a row of one end of a test between two nodes."""
    of_rdma: list[Rule | Lookup] = [
        Lookup("RDMA port, GUID, GID and RDMA MTU are the rail's; the driver's counters are present",
               _find_wrong_port),
        *(Rule("the counter, if present, changed, where the driver counts acknowledgements",
               partial(_has_changed, name), partial(_describe_unchanged, name), name)
          for name in rdma_counters.BOTH_WAYS),
    ]  # fmt: skip
    return [
        Rule("it belongs to the planned test: same run, host, rail, address, peer, round and group",
             lambda v: v.is_planned, lambda v: (_GARBLED, v.find_mismatch())),
        Rule("it was written during the run", lambda v: v.is_in_time,
             lambda v: (_GARBLED, v.known.clock.explain_outside(v.host, v.row))),
        Lookup("the tool exited successfully and has the version found on the node", _find_wrong_tool),
        Rule("the tool's command line names this rail and no other", lambda v: v.has_right_command,
             lambda v: (_GARBLED, v.find_wrong_command())),
        *([Lookup("the memory is that of the GPU nearest to the rail's card", _find_wrong_gpu)]
          if check.name == GPU_MEMORY else []),
        Lookup("it was measured on the rail's netdev", _find_wrong_netdev),
        *list_number_rules(check, end),
        *([] if check.name in PATH_MTU else [Lookup("the netdev's MTU is the planned one", _find_wrong_mtu)]),
        *(of_rdma if check.rdma else []),
    ]  # fmt: skip


def _list_metric_rules(name: str, kind: str) -> Iterator[Rule]:
    """Yield the rules on one metric: it is present, plausible, and fits into its window."""

    def why(v: RowNumbers) -> Problem:
        return _GARBLED, f"{name} is {v.metrics[name]!r}" if name in v.metrics else f"{name} is missing"

    yield Rule(_KINDS[kind], lambda v: formulas.is_of_kind(v.metric(name), kind), why, name)
    if not name.endswith("_us"):
        return
    yield Rule("the time is at most 1000 s", lambda v: v.metric(name) <= _MOST_US, why, name)
    yield Rule(
        "the time is not longer than the measurement",
        lambda v: v.has_no_window or v.metric(name) / 1e6 <= v.lasted_s + _LATE_S,
        lambda v: (_GARBLED, f"{name} {v.metric(name):g} is longer than its window of {v.lasted_s:g} s"),
        name,
    )
    if kind == "positive":
        far = "faster than any message to another node"
        yield Rule(
            "the time is at least 0.1 us; no message reaches another node faster",
            lambda v: v.metric(name) >= _LEAST_US,
            lambda v: (_GARBLED, f"{name} {v.metric(name):g} is {far}"),
            name,
        )


_KINDS = {
    "positive": "the value is above 0",
    "positive_count": "the value is a whole number above 0",
    "nonnegative": "the value is 0 or more",
    "count": "the value is a whole number, 0 or more",
    "share": "the value is a percentage from 0 to 100",
}


def _find_wrong_settings(v: RowNumbers, client: bool) -> Iterator[Problem]:
    for key, value in row_numbers.list_required_settings(v.check.name, client, v.policy).items():
        if v.row.get(key) != value:
            yield _GARBLED, f"{key} is {v.row.get(key)!r}, planned was {value!r}"


def list_orders(stated: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return pairs of metrics of one distribution in ascending order, as `rtt_min_us`, `rtt_max_us`."""
    found: list[tuple[str, str]] = []
    for stem in [name[: -len("average_us")] for name in stated if name.endswith("_average_us")]:
        for words in _ASCENDING:
            found += pairwise([name for name in (f"{stem}{word}_us" for word in words) if name in stated])
    return tuple(found)


def _find_unordered(ascending: Sequence[tuple[str, str]], v: RowNumbers) -> Iterator[Problem]:
    for lower, upper in ascending:
        if v.metric(lower) > v.metric(upper):
            yield _GARBLED, f"{lower} {v.metric(lower):g} is above {upper} {v.metric(upper):g}"


def list_iteration_rules(check: str) -> Iterator[Rule]:
    """Yield the rules on an RDMA bandwidth and its message rate, if they are present."""

    def follows(v: View) -> Holds:
        if not v.states("bandwidth_gbps"):
            return True
        return formulas.follows_from_iterations(v.metric("bandwidth_gbps"), v.iterations, v.policy)

    def is_its_rate(v: View) -> Holds:
        if not (v.states("bandwidth_gbps") and v.states("message_rate_mpps")):
            return True
        return formulas.matches_message_rate(
            v.metric("message_rate_mpps"), v.metric("bandwidth_gbps"), v.policy
        )

    yield Rule(
        "at least one message was counted",
        lambda v: not v.metrics or v.iterations > 0,
        lambda v: (_GARBLED, f"iterations is {v.row.get('iterations')!r}"),
    )
    # In a bidirectional test the iterations are of one direction, the bandwidth is the sum.
    if check not in BI:
        yield Rule(
            "the bandwidth matches the number of messages",
            follows,
            lambda v: (_GARBLED, describe_wrong_gbps(v.metric("bandwidth_gbps"), v.iterations, v.policy)),
        )
    yield Rule(
        "the message rate matches the bandwidth", is_its_rate, lambda v: (_GARBLED, _describe_wrong_rate(v))
    )


def describe_wrong_gbps(claimed_gbps: float, iterations: float, policy: Policy) -> str:
    """Describe an RDMA bandwidth that does not match the number of messages in perftest's window."""
    of = f"{iterations:.0f} iterations in {measured_s(policy):g} s"
    return f"{claimed_gbps:g} Gbit/s does not follow from {of}"


def _describe_wrong_rate(v: RowNumbers) -> str:
    gbps, size = v.metric("bandwidth_gbps"), v.policy["rdma_message_bytes"]
    messages = f"{formulas.calculate_mpps(gbps, v.policy):g} million messages of {size} bytes a second"
    return f"{gbps:g} Gbit/s are {messages}, it reports {v.metric('message_rate_mpps'):g}"


def _find_impossible_probes(v: RowNumbers) -> Iterator[Problem]:
    own, size = v.row["mtu_bytes"], v.metric("path_mtu_bytes")
    sent, received = v.metric("sent"), v.metric("received")
    if own is None or size > own:
        yield _GARBLED, f"{size:g} bytes passed unfragmented, its netdev's MTU is {own!r}"
    # Twice as many if the first batch was lost and the second was not.
    asked = int(v.policy["path_mtu_probes"])
    if sent not in (asked, 2 * asked):
        yield _GARBLED, f"{sent:g} probes were sent, planned was {asked}"
    if received > sent:
        yield _GARBLED, f"{received:g} probes arrived, {sent:g} were sent"


def _find_impossible_loss(v: RowNumbers) -> Iterator[Problem]:
    """Check that a loss matches the numbers of packets sent and received."""
    if not v.states("sent") and not v.states("received"):
        return
    sent, received, loss = v.metric("sent"), v.metric("received"), v.metric("loss_percent")
    if not (0 <= received <= sent and sent and received == int(received) and sent == int(sent)):
        yield _GARBLED, f"{received:g} packets of {sent:g} came back"
    elif abs(100 * (sent - received) / sent - loss) > _LOSS_DIGIT_PERCENT:
        yield _GARBLED, f"{received:g} packets of {sent:g} came back, it reports a loss of {loss!r} %"


def _find_impossible_round_trips(v: RowNumbers) -> Iterator[Problem]:
    """Check that sockperf's round trips fill the planned time."""
    count, average_us = v.metric("observations"), v.metric("latency_average_us")
    together_s, asked_s = count * 2 * average_us / 1e6, v.policy["sockperf_duration_s"]
    least, most = (share * asked_s for share in _ROUND_TRIPS_SHARE)
    if not least <= together_s <= most:
        taken = f"{count:g} round trips of 2 x {average_us:g} us take {together_s:.3g} s"
        yield _GARBLED, f"{taken}, planned were {asked_s} s"


def find_impossible_exchanges(v: RowNumbers) -> Iterator[Problem]:
    """Check that the exchanges of an RDMA latency test fill the planned time."""
    count, average_us = v.metric("observations"), v.metric("latency_average_us")
    if not perftest_lat.LEAST <= count <= perftest_lat.MOST:
        yield _GARBLED, f"{count:g} exchanges; {perftest_lat.LEAST} to {perftest_lat.MOST} are possible"
    ways = 2 if v.row.get("latency_is") == "one_way" else 1
    together_s = count * ways * average_us / 1e6
    taken = f"{count:g} exchanges of {ways} x {average_us:g} us take {together_s:.3g} s"
    if together_s > v.lasted_s * 1.02:
        yield _GARBLED, f"{taken}, the test lasted {v.lasted_s:.3g} s"
    # Below the maximum the number is chosen so that they fill the time; the minimum may take longer.
    if count < perftest_lat.MOST and together_s < _LEAST_CHAIN * float(v.policy["rdma_latency_s"]):
        yield _GARBLED, f"{taken}, planned were {v.policy['rdma_latency_s']} s"


#: Rules of single checks on a client's metrics.
_CHECK_RULES = (
    (PATH_MTU,
     Lookup("the configured number of probes was sent, none larger than the MTU", _find_impossible_probes)),
    (("ping_rtt",), Lookup("the loss matches the packets sent and received", _find_impossible_loss)),
    (("tcp_latency",), Lookup("the round trips add up to the configured time", _find_impossible_round_trips)),
    (RDMA_LATENCY,
     Lookup("the exchanges add up to the configured time and fit into the measurement",
            find_impossible_exchanges)),
)  # fmt: skip


def _describe_too_long(v: RowNumbers) -> str:
    if formulas.is_rdma_bandwidth(v.check.name):
        return f"it lasted {v.lasted_s:g} s, planned was {v.policy['rdma_duration_s']} s in total"
    return f"it lasted {v.lasted_s:g} s, planned was {v.policy[v.check.lasts]} s"


def _find_wrong_tool(v: RowEnd) -> Iterator[Problem]:
    row, tool, status = v.row, v.asked["tool"], v.row.get("exit_status")
    good = range(_KILLED if tool in _WHATEVER_STATUS else 1)
    if status is not None and status not in good:
        yield _GARBLED, f"its tool's exit status is {status!r}"
    # The floor depends on the version; a busy node may not report it in time.
    version, known = row["tool_version"], v.known.fleet.iperf3.get(v.host)
    if tool == "iperf3" and known and version not in (known, "unknown"):
        yield _GARBLED, f"it is iperf3 {version}, the node's facts have {known}"


def _find_wrong_gpu(v: RowEnd) -> Iterator[Problem]:
    """Check that a row of RDMA with GPU memory used a GPU nearest to the rail's card."""
    gpu, argvs = v.row.get("gpu"), v.row.get("argv", [])
    if gpu not in find_nearest_gpus(v.known.fleet.gpus.get(v.host), v.rail_end.bound)[1]:
        yield _GARBLED, f"it was the memory of GPU {gpu!r}, which is not the nearest to the rail's card"
    if not v.row.get("gpu_name"):
        yield _GARBLED, f"perftest named no GPU: gpu_name is {v.row.get('gpu_name')!r}"
    program = os.path.join(v.policy["gpudirect_perftest_folder"], v.row["tool"])
    wanted = {f"--use_cuda_bus_id={gpu}", program}
    if not argvs or not all(wanted.issubset(argv) for argv in argvs):
        yield _GARBLED, f"argv is {argvs!r}, without {' or '.join(sorted(wanted))}"


def _find_wrong_netdev(v: RowEnd) -> Iterator[Problem]:
    # An InfiniBand port without IP needs no netdev: its rail is identified by port and GUID.
    own, netdev = (v.rail_end.bound.netdev or {}).get("netdev"), v.row["netdev"]
    if netdev != own or (own is None and not (v.rail_end.without_ip and v.check.rdma)):
        yield _GARBLED, f"it was measured on netdev {netdev!r}, the rail is bound to {own!r}"


def _find_wrong_mtu(v: RowEnd) -> Iterator[Problem]:
    # Without IP the netdev's MTU does not matter; the port's is `active_mtu_bytes`.
    mtu_bytes, planned = v.row["mtu_bytes"], v.rail_end.bound.rail.get("mtu")
    if not v.rail_end.without_ip and (mtu_bytes is None or planned not in (None, mtu_bytes)):
        yield "mtu_differs", f"measured at MTU {mtu_bytes!r}, the plan's is {planned!r}"


def _find_wrong_port(v: RowEnd) -> Iterator[Problem]:
    """Check that an RDMA test used the rail's port, GID and RDMA MTU."""
    row, known, transport = v.row, v.rail_end, v.known.fleet.transports[v.host]
    hca = known.bound.hca or {}
    port = hca.get("hca")
    if port is None or row["hca"] != port:
        yield _GARBLED, f"it was measured on HCA port {row['hca']!r}, the rail's is {port!r}"
    yield from _find_wrong_exchange(v)
    if transport == "roce":
        found = known.gid
        if found is None:
            yield "no_gid", f"the facts have no GID for the rail's address on {port}"
            return
        used, own = (row["gid_index"], row["gid_type"]), (found.index, found.type)
        if used != own:
            yield "gid_wrong", f"it used GID index {used[0]!r}, {used[1]!r}; the rail's is {own[0]}, {own[1]}"
    elif transport == "efa" and row["gid_index"] != 0:
        yield "gid_wrong", f"it used GID index {row['gid_index']!r}; an EFA device only has index 0"
    mtu = row["active_mtu_bytes"]
    if mtu is None or mtu not in rdma_mtu.STEPS:
        yield _GARBLED, f"active_mtu_bytes is {mtu!r}"
        return
    least, greatest = known.rdma_mtus
    if least is not None and mtu < least:
        yield "rdma_mtu_small", f"measured at an RDMA MTU of {mtu}, the inventory's permits {least}"
    if greatest is not None and mtu > greatest:
        yield "mtu_differs", f"measured at an RDMA MTU of {mtu}, the inventory's permits {greatest}"
    yield from _find_wrong_counters(v, hca)


def _find_wrong_counters(v: RowEnd, hca: Mapping[str, Any]) -> Iterator[Problem]:
    """Check that a row has the counters with which its port's driver counts RDMA.

    The row cannot choose them: a card's netdev counters alone do not show RDMA.
    """
    driver, port, spans = hca.get("driver"), hca.get("hca"), v.row["counters"] or {}
    if why_not := nic_drivers.why_unproven(driver):
        yield "unproven", f"{port}: {why_not}"
        return
    known = nic_drivers.find(driver)
    counters = known.traffic.counters if known is not None and known.traffic is not None else ()
    missing = next((one.name for one in counters if one.name not in spans), None)
    if missing is not None:
        reason = v.row.get("proof_reason") or f"driver {driver} of {port} counts its traffic there"
        yield "unproven", f"{missing} is not counted: {reason}"


def _has_changed(counter: str, v: View) -> Holds:
    if not v.acknowledges(counter):
        return True
    grown = v.grown(counter)
    return (grown > 0) | (grown < 0)


def _describe_unchanged(counter: str, _v: RowEnd) -> Problem:
    return "unproven", f"{counter} did not change, although all traffic is acknowledged"


def _find_wrong_exchange(v: RowEnd) -> Iterator[Problem]:
    """Check that the ends connected over the rail, or over the management network if the rail has no IP."""
    bound = v.rail_end.bound
    exchange, guid = v.row.get("exchange"), (bound.hca or {}).get("port_guid")
    if not bind.without_ip(bound.rail):
        if exchange:
            yield _GARBLED, f"exchange is {exchange!r}; it must be over the rail, which has an address"
    elif exchange is None or exchange.get("over") != "management":
        yield _GARBLED, f"exchange is {exchange!r}; without IP it must be over the management network"
    elif not guid:
        yield "guid_unknown", f"the facts have no GUID of {v.row['hca']}"
    elif exchange.get("port_guid") != guid:
        seen = f"it was measured on a port with GUID {exchange.get('port_guid')}"
        yield "guid_differs", f"{seen}, its facts have {guid}"
