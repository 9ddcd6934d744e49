"""The campaign's cases, and what each kind of fault is to end in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

Verdict = dict[str, Any]
NODES = ("gpuserver1", "gpuserver2", "gpuserver3", "gpuserver4")
RAILS = ("rail0", "rail1")
HEALTHY_RUNS = {"containers": 10, "vms": 3}


class Case(NamedTuple):
    """Faults that are there at once, in one of the labs; `number` tells runs of the healthy lab apart."""

    lab: str
    faults: tuple[str, ...]
    number: int = 1

    @property
    def name(self) -> str:
        """What the results call it."""
        return " + ".join(self.faults) or "healthy"


_SINGLE = {
    "containers": (
        "swap gpuserver2/rail0/rail1",
        "miswire gpuserver3/rail0/rail1",
        "miswire gpuserver1/rail1/gpuserver4",
        "join_rails rail0/rail1",
        "path_mtu gpuserver2/rail1",
        "path_mtu_one_way gpuserver3/rail0",
        "duplicate_address gpuserver4/rail0",
        "arp_flux gpuserver2/rail0",
        "reply_by_other_rail gpuserver3/rail1",
        "wrong_leaf gpuserver4/rail1/leaf9",
        "slow_rail gpuserver1/rail1",
        "slow_node gpuserver2",
        "slow_everywhere rail1",
        "slow_pair gpuserver1/rail0/gpuserver3",
        "slow_one_way gpuserver4/rail0",
        "link_down gpuserver2/rail1",
        "flapping_rail gpuserver3/rail1",
        "wrong_mtu gpuserver4/rail0",
        "firewall gpuserver1/rail0",
        "node_gone gpuserver3",
        "node_hung gpuserver4",
        "governor gpuserver2",
        "older_iperf3 gpuserver3",
    ),
    "vms": (
        "bond gpuserver1/rail1",
        "hca_gone gpuserver2/rail0",
        "swap gpuserver2/rail0/rail1",
        "path_mtu gpuserver2/rail1",
        "slow_rail gpuserver1/rail1",
        "slow_node gpuserver2",
        "slow_one_way gpuserver1/rail0",
        "link_down gpuserver2/rail1",
        "wrong_mtu gpuserver1/rail0",
        "firewall gpuserver1/rail0",
        "node_gone gpuserver2",
        "older_iperf3 gpuserver1",
    ),
}
_PAIRS = (
    ("swap gpuserver2/rail0/rail1", "path_mtu gpuserver4/rail1"),
    ("swap gpuserver2/rail0/rail1", "arp_flux gpuserver3/rail0"),
    ("miswire gpuserver3/rail0/rail1", "duplicate_address gpuserver1/rail1"),
    ("miswire gpuserver3/rail0/rail1", "slow_rail gpuserver1/rail1"),
    ("reply_by_other_rail gpuserver1/rail0", "path_mtu_one_way gpuserver2/rail1"),
    ("arp_flux gpuserver4/rail1", "wrong_leaf gpuserver2/rail0/leaf9"),
    ("duplicate_address gpuserver4/rail0", "slow_rail gpuserver2/rail1"),
    ("miswire gpuserver1/rail1/gpuserver4", "path_mtu gpuserver2/rail0"),
    ("swap gpuserver1/rail0/rail1", "miswire gpuserver3/rail0/rail1"),
    ("join_rails rail0/rail1", "wrong_leaf gpuserver3/rail0/leaf9"),
)
CASES = (
    *(Case(lab, (fault,)) for lab, faults in _SINGLE.items() for fault in faults),
    *(Case("containers", pair) for pair in _PAIRS),
    *(Case(lab, (), number) for lab, runs in HEALTHY_RUNS.items() for number in range(1, runs + 1)),
)


def made(fault: str, lab: str) -> tuple[str, ...]:
    """Return the faults of `railyard lab fault` that make up one of the campaign's."""
    kind, target = fault.split(" ")
    if kind == "slow_node":
        return tuple(f"slow_rail {target}/{rail}" for rail in RAILS)
    if kind == "slow_everywhere":
        return tuple(f"slow_rail {node}/{target}" for node in nodes_of(lab))
    return (fault,)


def nodes_of(lab: str) -> tuple[str, ...]:
    """Return the nodes of a lab."""
    return NODES if lab == "containers" else NODES[:2]


@dataclass(frozen=True)
class Target:
    """A fault's target in its parts."""

    node: str
    rail: str = ""
    rest: tuple[str, ...] = ()

    def at(self, one: Verdict) -> bool:
        """Tell whether a verdict is of this node and rail."""
        return bool(one["node"] == self.node and (one["rail"] == self.rail or not self.rail))

    def between(self, one: Verdict) -> bool:
        """Tell whether a verdict is of a test that this node's rail took part in."""
        return self.node in (one["node"], one["peer"]) and (one["rail"] == self.rail or not self.rail)

    def is_named(self, one: Verdict, *more: str) -> bool:
        """Tell whether a verdict's cause names node and rail."""
        return all(text in str(one["cause"]) for text in (f"{self.node} {self.rail}".strip(), *more))


@dataclass(frozen=True)
class Wanted:
    """What a kind of fault is to end in.

    Attributes:
        what: what is wrong with the cluster, for people.
        causes: the causes that name it; none where a note of the run's summary does.
        names: whether a verdict of such a cause names this fault and no other place.
        of_two: what more names it with only two nodes, where it cannot be known which of them it is.
        outcome: what its verdicts are: `fail`, `unmeasured` (nothing could be measured there) or `note`.
        note: the beginning of the note, with the node that differs.
    """

    what: str
    causes: tuple[str, ...]
    names: Callable[[Target, Verdict], bool] = Target.between
    of_two: tuple[str, ...] = ()
    outcome: str = "fail"
    note: str = ""


def _miswired(target: Target, one: Verdict) -> bool:
    return target.at(one) and target.is_named(one, *target.rest)


def _slow(target: Target, one: Verdict) -> bool:
    """Tell whether the slow end is named; of two nodes either may be."""
    return target.between(one) and target.node in one["cause"] and target.rail in one["cause"]


WANTED = {
    "swap": Wanted(
        "the cables of two rails of a node are swapped",
        ("rails_swapped",),
        lambda target, one: (
            one["node"] == target.node
            and all(word in one["cause"] for word in (target.node, target.rail, *target.rest))
        ),
    ),
    "miswire": Wanted(
        "a cable goes to another rail's switch, or straight to another node",
        ("rail_crossed", "rails_swapped", "wrong_peer", "rail_isolated"),
        _miswired,
    ),
    "join_rails": Wanted(
        "two rails' switches are connected",
        ("rails_joined",),
        lambda target, one: (
            one["check"] == "cabling" and all(word in one["cause"] for word in (target.node, target.rail))
        ),
    ),
    "path_mtu": Wanted(
        "a switch port carries an MTU of 1500", ("path_mtu_small", "tool_failed", "lost_packets")
    ),
    "path_mtu_one_way": Wanted(
        "large packets pass in one direction alone",
        ("path_mtu_small",),
        lambda target, one: (
            one["check"] == "path_mtu_one_way" and (one["peer"], one["rail"]) == (target.node, target.rail)
        ),
    ),
    "duplicate_address": Wanted(
        "another machine has a rail's address", ("address_in_use", "address_duplicate"), Target.is_named
    ),
    "arp_flux": Wanted("a node answers ARP by the wrong rail", ("arp_flux",), Target.is_named),
    "reply_by_other_rail": Wanted("replies leave by another rail", ("reply_other_rail",), _miswired),
    "wrong_leaf": Wanted(
        "a cable goes to another leaf switch than planned",
        ("wrong_leaf",),
        lambda target, one: target.at(one) and target.rest[0] in one["cause"],
    ),
    "bond": Wanted("a rail's netdev was put into a bond", ("lag_member",), _miswired),
    "slow_rail": Wanted(
        "a rail of one node carries a part of its rate alone",
        ("rail_slow",),
        _slow,
    ),
    "slow_node": Wanted(
        "all rails of one node carry a part of their rate alone",
        ("node_slow",),
        _slow,
        of_two=("below_floor",),
    ),
    "slow_everywhere": Wanted(
        "a rail carries a part of its rate alone, of all nodes",
        ("switch_slow",),
        lambda target, one: one["rail"] == target.node,
    ),
    "slow_pair": Wanted(
        "the path of two nodes carries a part of its rate alone",
        ("path_slow",),
        lambda target, one: (
            {one["node"], one["peer"]} == {target.node, target.rest[0]} and one["rail"] == target.rail
        ),
    ),
    "slow_one_way": Wanted(
        "a rail of one node receives a part of its rate alone, and sends all of it",
        ("rail_slow",),
        _slow,
        of_two=("below_floor",),
    ),
    "link_down": Wanted("a cable is pulled", ("link_down",), Target.at),
    "flapping_rail": Wanted("a link goes and comes every four seconds", ("link_errors",), Target.at),
    "wrong_mtu": Wanted("a netdev has an MTU of 1500", ("mtu_differs",), Target.at),
    "hca_gone": Wanted("an RDMA device has gone", ("hca_missing",), Target.at),
    "firewall": Wanted(
        "a host firewall drops TCP and UDP on a rail",
        ("rendezvous_timeout",),
        outcome="unmeasured",
    ),
    "node_gone": Wanted("a node has no power", ("node_unreachable",), Target.at, outcome="unmeasured"),
    "node_hung": Wanted("a node has frozen", ("node_unreachable",), Target.at, outcome="unmeasured"),
    "governor": Wanted(
        "a CPU governor is powersave on one node alone",
        (),
        outcome="note",
        note="the nodes differ in CPU governors:",
    ),
    "older_iperf3": Wanted(
        "iperf3 is older on one node than on the others",
        (),
        outcome="note",
        note="the nodes differ in iperf3:",
    ),
}
EXIT = {"fail": 1, "unmeasured": 3, "note": 0}


def target_of(fault: str) -> tuple[str, Target]:
    """Return a fault's kind and where it is."""
    kind, text = fault.split(" ")
    node, rail, *rest = [*text.split("/"), ""][: max(2, len(text.split("/")))]
    return kind, Target(node, rail, tuple(rest))


def named(lab: str, fault: str, verdicts: list[Verdict], printed: str) -> list[Verdict]:
    """Return the verdicts, or notes in the form of one, that name a fault: its kind, node, rail and peer.

    Args:
        lab: which lab, and so how many nodes.
        fault: kind and target.
        verdicts: those of the run.
        printed: what the command printed.
    """
    kind, target = target_of(fault)
    wanted = WANTED[kind]
    if wanted.note:
        return [
            {"cause": line.strip(), "cause_class": ""}
            for line in printed.splitlines()
            if wanted.note in line and f" on {target.node}" in line
        ]
    of_two = wanted.of_two if len(nodes_of(lab)) == 2 else ()
    return [
        one
        for one in verdicts
        if one["outcome"] == wanted.outcome
        and (
            (one["cause_class"] in wanted.causes and wanted.names(target, one))
            or (one["cause_class"] in of_two and target.between(one))
        )
    ]


def exit_status(case: Case) -> int:
    """Return the exit status that a case is to end in: a failure goes before what is unmeasured."""
    outcomes = {WANTED[target_of(fault)[0]].outcome for fault in case.faults}
    return next((EXIT[one] for one in ("fail", "unmeasured") if one in outcomes), 0)
