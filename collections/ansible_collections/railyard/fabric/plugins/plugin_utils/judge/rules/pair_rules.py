# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules on both ends' rows of a good test, in the order in which they are checked. Pure.

First the rows must agree (`list_agreement_rules`), then counters must prove each end (`list_proof_rules`).
Each row by itself has the rules of `end_rules`. `NOTHING_LOST` is checked before both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import nic_drivers, rdma_counters
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.rdma_counters import NETDEV
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import Check
from ansible_collections.railyard.fabric.plugins.module_utils.measure import proof
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import ENDS_TOLERANCE
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import formulas, row_numbers
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.views import RowEnd, RowPair
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.end_rules import describe_wrong_gbps
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.rule import (
    Holds,
    Lookup,
    Problem,
    Rule,
    View,
)

#: Keys that must be equal at both ends of an RDMA test.
COMMON_KEYS = (
    "gid_type", "active_mtu_bytes", "qps", "message_bytes", "bandwidth_is", "traffic_class", "service_level",
)  # fmt: skip
#: Metrics that must be equal if both ends have them: rates within a tolerance, the others exactly.
RATES = ("bandwidth_gbps", "forward_gbps", "reverse_gbps", "message_rate_mpps")
_STATED_TWICE = (*RATES, "path_mtu_bytes", "sent", "received")


def list_pair_rules(check: Check) -> list[Rule | Lookup]:
    """Return the rules on both rows of a test."""
    return [
        *list_agreement_rules(check),
        *list_proof_rules(check, "client"),
        *list_proof_rules(check, "server"),
    ]


def list_agreement_rules(check: Check) -> list[Rule | Lookup]:
    """Return the rules on whether both rows belong together and agree."""
    exchanged = Rule(
        "each end received over the rail what the other one recorded; neither node rebooted",
        lambda v: v.is_exchange_intact,
        lambda v: v.find_exchange_problem(),
    )
    rules: list[Rule | Lookup] = [exchanged, *list_number_agreement_rules()]
    if not check.rdma:
        return rules
    versions = Rule(
        "both ends run the same version of the tool",
        lambda v: v.is_equal("tool_version") & v.is_version_known,
        _describe_versions,
    )
    of_rdma = [
        Rule("both ends report the same", partial(_is_equal, key), partial(_describe_values, key), key)
        for key in COMMON_KEYS
    ]
    return [
        *rules,
        versions,
        *of_rdma,
        Lookup("on a rail without IP each end connected to the other end's port", _find_wrong_peer_port),
    ]


def list_number_agreement_rules() -> list[Rule | Lookup]:
    """Return the rules on metrics that both ends have, or that depend on each other."""
    return [
        *(Rule("both ends report the same value, rates within a tolerance", partial(_states_same, name),
               partial(_describe_states, name), name) for name in _STATED_TWICE),
        Rule("no more arrived than was sent, and the difference fits into socket buffers",
             _has_arrived, _describe_arrival),
        *(Rule("both directions add up to the reported sum", partial(_adds_up, end),
               partial(_describe_sum, end), end) for end in ("client", "server")),
    ]  # fmt: skip


def list_proof_rules(check: Check, end: str) -> list[Rule | Lookup]:
    """Return the rules on the proof of one end's row."""
    return [
        Lookup("the node itself reports the row as proven", partial(_find_unproven, end), end),
        *list_counter_rules(check, end),
        Lookup("if the rail was measured alone, counters show the node's other rails idle",
               partial(_find_busy_rail, end), end),
        Rule("the counters do not overlap with those of another test",
             lambda v: getattr(v, end).is_counted_once,
             lambda v: ("counted_twice", _locate(v, end, getattr(v, end).overlap)), end),
    ]  # fmt: skip


def list_counter_rules(check: Check, end: str) -> list[Rule | Lookup]:
    """Return the rules on the counters of one end's row, which must confirm the client's results."""
    rules: list[Rule | Lookup] = [
        Lookup("the counters are those of exactly one driver", partial(_find_unknown_driver, end), end),
        Rule("no counter went backwards or is at its greatest value",
             lambda v: _have_all_grown(getattr(v, end)),
             lambda v: _unprove(v, end, _describe_not_grown(getattr(v, end))), end),
        Rule("bytes and packets of the netdev are consistent", lambda v: _are_frames(getattr(v, end)),
             lambda v: _unprove(v, end, _describe_frames(getattr(v, end))), end),
        Lookup("background traffic is plausible, and the other rails' counters are present",
               partial(_find_wrong_allowance, end), end),
        Rule("the counters account for the client's result, and show not far more traffic",
             lambda v: v.is_confirmed(getattr(v, end)),
             lambda v: _unprove(v, end, v.find_contradiction(getattr(v, end))), end),
    ]  # fmt: skip
    if check.name == "rdma_bandwidth_bi" and end == "server":
        rules.insert(3, Lookup("the sum matches the messages counted at both ends", _find_wrong_sum, end))
    return rules


def _has_no_loss(v: View) -> Holds:
    client = v.client
    good: Holds = True
    if client.states("loss_percent"):
        good = good & (client.metric("loss_percent") <= 0)
    if client.states("path_mtu_bytes"):
        good = good & (client.metric("received") >= client.metric("sent"))
    return good


def _describe_loss(v: RowPair) -> Problem:
    client = v.client
    if client.metrics.get("loss_percent", 0) > 0:
        return "lost_packets", f"{client.metric('loss_percent'):g} %"
    # If one packet of the full size passed, the size is not the reason for the loss.
    size, received = client.metric("path_mtu_bytes"), client.metric("received")
    full = size == client.row["mtu_bytes"] and received > 0
    seen = f"{received:g} of {client.metric('sent'):g} probes of {size:g} bytes arrived"
    return "lost_packets" if full else "path_mtu_small", seen


#: A loss needs no proof by counters, so this rule is checked before all others of a pair.
NOTHING_LOST = Rule("no probe was lost", _has_no_loss, _describe_loss)


def _locate(v: RowPair, end: str, problem: str | None) -> str:
    return f"{getattr(v, end).row['host']} ({end}): {problem}"


def _unprove(v: RowPair, end: str, problem: str | None) -> Problem:
    return "unproven", _locate(v, end, problem)


def _states_same(name: str, v: View) -> Holds:
    client, server = v.client, v.server
    if not (client.states(name) and server.states(name)):
        return True
    share = row_numbers.find_rate_tolerance(v.check.name, v.policy) if name in RATES else 0.0
    digit = formulas.RATE_DIGIT_MPPS if name == "message_rate_mpps" else 0.0
    return formulas.are_near(client.metric(name), server.metric(name), share, digit)


def _describe_states(name: str, v: RowPair) -> Problem:
    return "ends_disagree", f"{name}: client {v.client.metric(name):g}, server {v.server.metric(name):g}"


def _has_arrived(v: View) -> Holds:
    client = v.client
    if not client.states("sent_gbps"):
        return True
    share = row_numbers.find_rate_tolerance(v.check.name, v.policy)
    numbers = client.metric("bandwidth_gbps"), client.metric("sent_gbps"), client.lasted_s
    no_more, in_buffers = formulas.is_plausible_arrival(*numbers, share, int(v.policy["iperf3_streams"]))
    return no_more & in_buffers


def _describe_arrival(v: RowPair) -> Problem:
    came, sent = (v.client.metric(name) for name in ("bandwidth_gbps", "sent_gbps"))
    return "ends_disagree", f"{came:g} Gbit/s arrived, {sent:g} were sent"


def _sum_directions(end: View) -> tuple[Holds, Holds]:
    """Return the sum of both directions, and the sum that an end reports."""
    return end.metric("forward_gbps") + end.metric("reverse_gbps"), end.metric("bandwidth_gbps")


def _adds_up(end: str, v: View) -> Holds:
    if not v.client.states("forward_gbps"):
        return True
    together, reported = _sum_directions(getattr(v, end))
    return abs(together - reported) <= ENDS_TOLERANCE * together


def _describe_sum(end: str, v: RowPair) -> Problem:
    together, reported = _sum_directions(getattr(v, end))
    host = getattr(v, end).row["host"]
    return "ends_disagree", f"{host}: both directions add up to {together:g}, it reports {reported:g}"


def _describe_versions(v: RowPair) -> Problem:
    client, server = v.client.row, v.server.row
    seen = f"{client['host']} {client['tool_version']!r}, {server['host']} {server['tool_version']!r}"
    return "version_differs", f"{client['tool']}: {seen}"


def _is_equal(key: str, v: View) -> Holds:
    return v.is_equal(key)


def _describe_values(key: str, v: RowPair) -> Problem:
    client, server = v.read_both(key)
    return "ends_disagree", f"{key}: client {client!r}, server {server!r}"


def _find_wrong_peer_port(v: RowPair) -> Iterator[Problem]:
    for end, other in v.each():
        met, own = end.row.get("exchange", {}), other.row.get("exchange", {})
        if met.get("peer_port_guid") != own.get("port_guid"):
            seen = f"{end.row['host']} connected to a port with GUID {met.get('peer_port_guid')}"
            yield "guid_differs", f"{seen}, {other.row['host']}'s is {own.get('port_guid')}"
        if met and met.get("port_guid") == own.get("port_guid"):
            yield "guid_differs", f"both ends are the port with GUID {own.get('port_guid')}"


def _find_unproven(end: str, v: RowPair) -> Iterator[Problem]:
    row = getattr(v, end).row
    if row["proof"] != "proven" or row.get("proof_reason"):
        yield _unprove(v, end, row.get("proof_reason") or f"it reports {row['proof']!r}")


def _find_unknown_driver(end: str, v: RowPair) -> Iterator[Problem]:
    one: RowEnd = getattr(v, end)
    counters = one.row["counters"]
    if counters is None:
        yield _unprove(v, end, "its counters are missing")
    elif one.driver is None:
        names = ", ".join(sorted(counters))
        yield _unprove(v, end, f"its counters {names} are not those of one RDMA driver")


def _have_all_grown(end: View) -> Holds:
    good: Holds = True
    for name in end.counted:
        good = good & formulas.has_grown(*end.span(name))
    return good


def _describe_not_grown(end: RowEnd) -> str:
    return f"its counters {', '.join(end.counted)} are missing, garbled, full or decreased"


_FRAMES = tuple(zip(NETDEV.bytes, NETDEV.packets, strict=True))


def _are_frames(end: View) -> Holds:
    good: Holds = True
    for of_bytes, of_packets in _FRAMES if end.has_netdev else ():
        good = good & formulas.are_frames(end.grown(of_bytes), end.grown(of_packets))
    return good


def _describe_frames(end: RowEnd) -> str:
    seen = ((names, end.grown(names[0]), end.grown(names[1])) for names in _FRAMES)
    names, moved, packets = next(one for one in seen if not formulas.are_frames(*one[1:]))
    return f"its {names[0]} rose by {moved}, its {names[1]} by {packets}"


def _find_wrong_sum(v: RowPair) -> Iterator[Problem]:
    both_gbps = v.client.metric("bandwidth_gbps")
    iterations = v.client.iterations + v.server.iterations
    if not formulas.follows_from_iterations(both_gbps, iterations, v.policy):
        yield _unprove(v, "server", describe_wrong_gbps(both_gbps, iterations, v.policy))


def _find_wrong_allowance(end: str, v: RowPair) -> Iterator[Problem]:
    """Check that the idle traffic, which the node's limits rest on, is not above the limit of a busy rail."""
    row, policy = getattr(v, end).row, v.policy
    idle = row.get("idle_bytes_per_s", policy["idle_bytes_per_s"])
    busy = math.inf if policy["allow_busy"] else policy["busy_bytes_per_s"] * proof.BACKGROUND_TIMES
    if not 0 <= idle <= busy:
        yield _unprove(v, end, f"idle_bytes_per_s is {idle!r}")
    others = row["other_rails"]
    if others is None or any(None in span for spans in others.values() for span in spans.values()):
        yield _unprove(v, end, f"other_rails is {others!r}")


def _find_busy_rail(end: str, v: RowPair) -> Iterator[Problem]:
    """Check that counters show the node's other rails idle while this one was measured alone."""
    one: RowEnd = getattr(v, end)
    if one.row.get("group") is None and (
        unseen := one.known.claims.find_unlisted_rail(one.row) or _find_missing_rail(one)
    ):
        yield _unprove(v, end, f"no counter shows that {unseen} was idle during the test")


def _find_missing_rail(end: RowEnd) -> str:
    """Return another rail whose netdev counters, or RDMA counters, are missing in a row, or ""."""
    rdma, ends = CHECKS[end.row["check"]].rdma, end.known.fleet.bound[end.row["host"]]
    for rail, spans in (end.row["other_rails"] or {}).items():
        none: Mapping[str, str] = {}
        netdev, hca = (ends[rail].netdev, ends[rail].hca or none) if rail in ends else (None, none)
        wanted: tuple[str, ...] = rdma_counters.NETDEV_BYTES if netdev else ()
        if rdma and hca.get("driver_class") == "hardware":
            driver = nic_drivers.find(hca.get("driver"))
            if driver is None or driver.traffic is None:
                return rail
            wanted += () if driver.traffic.netdev_shows_rdma else driver.traffic.bytes
        if not spans.keys() >= set(wanted):
            return rail
    return ""
