# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds of both ends' rows of a good test, in the order in which it is asked. Pure.

First they are of one mind (`of_one_mind`), then each end is proven by its counters (`of_proof`). Each row by
itself keeps to `of_end`. `NOTHING_LOST` comes before both.
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
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.of_end import not_of_iterations
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.rule import (
    Holds,
    Lookup,
    Problem,
    Rule,
    View,
)

#: What both ends of RDMA must say alike: a test of two different things is none.
ALIKE = (
    "gid_type", "active_mtu_bytes", "qps", "message_bytes", "bandwidth_is", "traffic_class", "service_level",
)  # fmt: skip
#: What both ends may state and must then state alike: rates up to the windows' difference, the rest exactly.
RATES = ("bandwidth_gbps", "forward_gbps", "reverse_gbps", "message_rate_mpps")
_STATED_TWICE = (*RATES, "path_mtu_bytes", "sent", "received")


def of_pair(check: Check) -> list[Rule | Lookup]:
    """Return the rules on both rows of a test."""
    return [*of_one_mind(check), *of_proof(check, "client"), *of_proof(check, "server")]


def of_one_mind(check: Check) -> list[Rule | Lookup]:
    """Return the rules on whether both rows belong together and say the same."""
    told = Rule(
        "each end received over the rail what the other one recorded; neither node rebooted",
        lambda v: v.told_alike,
        lambda v: v.told_otherwise(),
    )
    rules: list[Rule | Lookup] = [told, *numbers_agree()]
    if not check.rdma:
        return rules
    versions = Rule(
        "both ends run the same version of the tool",
        lambda v: v.alike("tool_version") & v.version_known,
        _other_version,
    )
    of_rdma = [
        Rule("both ends report the same", partial(_is_alike, key), partial(_not_alike, key), key)
        for key in ALIKE
    ]
    return [
        *rules,
        versions,
        *of_rdma,
        Lookup("on a rail without IP each end connected to the other end's port", _met_another),
    ]


def numbers_agree() -> list[Rule | Lookup]:
    """Return the rules on numbers that both ends state, or that follow from each other."""
    return [
        *(Rule("both ends report the same value, rates within a tolerance", partial(_states_alike, name),
               partial(_states_otherwise, name), name) for name in _STATED_TWICE),
        Rule("no more arrived than was sent, and the difference fits into socket buffers",
             _arrived, _not_arrived),
        *(Rule("both directions add up to the reported sum", partial(_adds_up, end),
               partial(_does_not_add_up, end), end) for end in ("client", "server")),
    ]  # fmt: skip


def of_proof(check: Check, end: str) -> list[Rule | Lookup]:
    """Return the rules on what proves one end's row."""
    return [
        Lookup("the node itself reports the row as proven", partial(_unproven, end), end),
        *counters_agree(check, end),
        Lookup("if the rail was measured alone, counters show the node's other rails idle",
               partial(_not_idle, end), end),
        Rule("the counters do not overlap with those of another test", lambda v: getattr(v, end).counted_once,
             lambda v: ("counted_twice", _where(v, end, getattr(v, end).twice)), end),
    ]  # fmt: skip


def counters_agree(check: Check, end: str) -> list[Rule | Lookup]:
    """Return the rules on the counters of one end's row: they show what the client's numbers say."""
    rules: list[Rule | Lookup] = [
        Lookup("the counters are those of exactly one driver", partial(_of_no_driver, end), end),
        Rule("no counter went backwards or is at its greatest value", lambda v: _all_grew(getattr(v, end)),
             lambda v: _problem(v, end, _not_grown(getattr(v, end))), end),
        Rule("bytes and packets of the netdev are consistent", lambda v: _are_frames(getattr(v, end)),
             lambda v: _problem(v, end, _no_frames(getattr(v, end))), end),
        Lookup("background traffic is plausible, and the other rails' counters are present",
               partial(_no_allowance, end), end),
        Rule("the counters account for the client's result, and show not far more traffic",
             lambda v: v.crossed(getattr(v, end)),
             lambda v: _problem(v, end, v.crossed_otherwise(getattr(v, end))), end),
    ]  # fmt: skip
    if check.name == "rdma_bandwidth_bi" and end == "server":
        rules.insert(3, Lookup("the sum matches the messages counted at both ends", _not_of_both, end))
    return rules


def _nothing_lost(v: View) -> Holds:
    client = v.client
    good: Holds = True
    if client.states("loss_percent"):
        good = good & (client.metric("loss_percent") <= 0)
    if client.states("path_mtu_bytes"):
        good = good & (client.metric("received") >= client.metric("sent"))
    return good


def _lost(v: RowPair) -> Problem:
    client = v.client
    if client.metrics.get("loss_percent", 0) > 0:
        return "lost_packets", f"{client.metric('loss_percent'):g} %"
    # Where one packet of the full size passed, the size is not what held the others back.
    size, received = client.metric("path_mtu_bytes"), client.metric("received")
    full = size == client.row["mtu_bytes"] and received > 0
    seen = f"{received:g} of {client.metric('sent'):g} probes of {size:g} bytes arrived"
    return "lost_packets" if full else "path_mtu_small", seen


#: No counter has to prove that something did not arrive, so that it is asked before all else of a pair.
NOTHING_LOST = Rule("no probe was lost", _nothing_lost, _lost)


def _where(v: RowPair, end: str, problem: str | None) -> str:
    return f"{getattr(v, end).row['host']} ({end}): {problem}"


def _problem(v: RowPair, end: str, problem: str | None) -> Problem:
    return "unproven", _where(v, end, problem)


def _states_alike(name: str, v: View) -> Holds:
    client, server = v.client, v.server
    if not (client.states(name) and server.states(name)):
        return True
    share = row_numbers.rates_apart(v.check.name, v.policy) if name in RATES else 0.0
    digit = formulas.RATE_DIGIT_MPPS if name == "message_rate_mpps" else 0.0
    return formulas.are_near(client.metric(name), server.metric(name), share, digit)


def _states_otherwise(name: str, v: RowPair) -> Problem:
    return "ends_disagree", f"{name}: client {v.client.metric(name):g}, server {v.server.metric(name):g}"


def _arrived(v: View) -> Holds:
    client = v.client
    if not client.states("sent_gbps"):
        return True
    share = row_numbers.rates_apart(v.check.name, v.policy)
    numbers = client.metric("bandwidth_gbps"), client.metric("sent_gbps"), client.lasted_s
    no_more, in_buffers = formulas.arrived(*numbers, share, int(v.policy["iperf3_streams"]))
    return no_more & in_buffers


def _not_arrived(v: RowPair) -> Problem:
    came, sent = (v.client.metric(name) for name in ("bandwidth_gbps", "sent_gbps"))
    return "ends_disagree", f"{came:g} Gbit/s arrived, {sent:g} were sent"


def _ways_gbps(end: View) -> tuple[Holds, Holds]:
    """Return what both directions add up to, and the sum that an end states."""
    return end.metric("forward_gbps") + end.metric("reverse_gbps"), end.metric("bandwidth_gbps")


def _adds_up(end: str, v: View) -> Holds:
    if not v.client.states("forward_gbps"):
        return True
    together, said = _ways_gbps(getattr(v, end))
    return abs(together - said) <= ENDS_TOLERANCE * together


def _does_not_add_up(end: str, v: RowPair) -> Problem:
    together, said = _ways_gbps(getattr(v, end))
    host = getattr(v, end).row["host"]
    return "ends_disagree", f"{host}: both ways are {together:g}, their sum is {said:g}"


def _other_version(v: RowPair) -> Problem:
    client, server = v.client.row, v.server.row
    seen = f"{client['host']} {client['tool_version']!r}, {server['host']} {server['tool_version']!r}"
    return "version_differs", f"{client['tool']}: {seen}"


def _is_alike(key: str, v: View) -> Holds:
    return v.alike(key)


def _not_alike(key: str, v: RowPair) -> Problem:
    mine, theirs = v.said(key)
    return "ends_disagree", f"{key}: client {mine!r}, server {theirs!r}"


def _met_another(v: RowPair) -> Iterator[Problem]:
    for end, other in v.each():
        met, own = end.row.get("exchange", {}), other.row.get("exchange", {})
        if met.get("peer_port_guid") != own.get("port_guid"):
            seen = f"{end.row['host']} met a port of GUID {met.get('peer_port_guid')}"
            yield "guid_differs", f"{seen}, {other.row['host']}'s is {own.get('port_guid')}"
        if met and met.get("port_guid") == own.get("port_guid"):
            yield "guid_differs", f"both ends are the port of GUID {own.get('port_guid')}"


def _unproven(end: str, v: RowPair) -> Iterator[Problem]:
    row = getattr(v, end).row
    if row["proof"] != "proven" or row.get("proof_reason"):
        yield _problem(v, end, row.get("proof_reason") or f"it says {row['proof']!r}")


def _of_no_driver(end: str, v: RowPair) -> Iterator[Problem]:
    one: RowEnd = getattr(v, end)
    counters = one.row["counters"]
    if counters is None:
        yield _problem(v, end, "its counters are missing")
    elif one.driver is None:
        names = ", ".join(sorted(counters))
        yield _problem(v, end, f"its counters {names} are not those of one RDMA driver")


def _all_grew(end: View) -> Holds:
    good: Holds = True
    for name in end.counted:
        good = good & formulas.grew(*end.span(name))
    return good


def _not_grown(end: RowEnd) -> str:
    return f"its counters {', '.join(end.counted)} are missing, garbled, full or went backwards"


_FRAMES = tuple(zip(NETDEV.bytes, NETDEV.packets, strict=True))


def _are_frames(end: View) -> Holds:
    good: Holds = True
    for of_bytes, of_packets in _FRAMES if end.has_netdev else ():
        good = good & formulas.are_frames(end.grown(of_bytes), end.grown(of_packets))
    return good


def _no_frames(end: RowEnd) -> str:
    seen = ((names, end.grown(names[0]), end.grown(names[1])) for names in _FRAMES)
    names, moved, packets = next(one for one in seen if not formulas.are_frames(*one[1:]))
    return f"its {names[0]} rose by {moved}, its {names[1]} by {packets}"


def _not_of_both(v: RowPair) -> Iterator[Problem]:
    both_gbps = v.client.metric("bandwidth_gbps")
    iterations = v.client.iterations + v.server.iterations
    if not formulas.follows_from_iterations(both_gbps, iterations, v.policy):
        yield _problem(v, "server", not_of_iterations(both_gbps, iterations, v.policy))


def _no_allowance(end: str, v: RowPair) -> Iterator[Problem]:
    """What an idle rail carries, by which the node drew its bounds, is not beyond what a busy one may."""
    row, policy = getattr(v, end).row, v.policy
    idle = row.get("idle_bytes_per_s", policy["idle_bytes_per_s"])
    busy = math.inf if policy["allow_busy"] else policy["busy_bytes_per_s"] * proof.BACKGROUND_TIMES
    if not 0 <= idle <= busy:
        yield _problem(v, end, f"idle_bytes_per_s is {idle!r}")
    others = row["other_rails"]
    if others is None or any(None in span for spans in others.values() for span in spans.values()):
        yield _problem(v, end, f"other_rails is {others!r}")


def _not_idle(end: str, v: RowPair) -> Iterator[Problem]:
    """Nobody says of one of a node's other rails that it was idle while this one was measured alone."""
    one: RowEnd = getattr(v, end)
    if one.row.get("group") is None and (unseen := one.known.claims.not_idle(one.row) or _not_shown(one)):
        yield _problem(v, end, f"nothing says that {unseen} was idle meanwhile")


def _not_shown(end: RowEnd) -> str:
    """Return another rail of which a row leaves out what its netdev, or of RDMA its card, carried."""
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
