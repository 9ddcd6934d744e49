"""Faults of cables: where each cable goes, and that it comes back to where it was."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.cabling import lldp
from railyard.lab import cable_faults, fault_kinds, naming, network, process, speaker, topology, wiring
from railyard.lab.nodes import NodeState


class FakeNetwork:
    """A network whose links are only remembered: link -> bridge."""

    name = "railyard-lab"

    def __init__(self, real: Any) -> None:
        self._real = real
        self.bridge_of: dict[str, str] = {}
        self.added: list[str] = []

    def node_links(self, node: Any) -> Any:
        return self._real.node_links(node)

    def batch(self, lines: Iterable[str]) -> None:
        for line in lines:
            words = line.split()
            if "master" in words:
                self.bridge_of[words[2]] = words[words.index("master") + 1]
            elif words[1] == "add":
                self.added.append(words[2])

    def links(self) -> Mapping[str, Any]:
        return {}

    def remove_link(self, link: str) -> None:
        self.added.append(f"-{link}")


class FakeKind:
    """Nodes that all run."""

    def states(self) -> Mapping[str, NodeState]:
        return {name: NodeState("running", 11) for name in ("gpuserver1", "gpuserver2")}


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> wiring.Lab:
    made = wiring.Lab.from_topology(topology.load(topology.default_file()))
    network = FakeNetwork(made.network)
    monkeypatch.setattr(fault_kinds, "forget_neighbours", lambda _lab: None)
    return dataclasses.replace(made, network=network, kinds={"vm": FakeKind()})  # type: ignore[arg-type]


def made_and_undone(lab: wiring.Lab, kind: str, target: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return which port is in which switch with the fault, and after it was healed."""
    how = cable_faults.KINDS[kind]
    place = fault_kinds.place(lab, kind, how.form, target)
    undo = how.make(place) or {}
    network: Any = lab.network
    broken = dict(network.bridge_of)
    how.heal(dataclasses.replace(place, undo=undo))
    return broken, dict(network.bridge_of)


def test_swapped_cables_lead_to_each_others_switch(lab: wiring.Lab) -> None:
    first = lab.topology.node("gpuserver1").position
    legs = [naming.leg(first, rail) for rail in range(2)]
    broken, healed = made_and_undone(lab, "swap", "gpuserver1/rail0/rail1")
    assert broken == {legs[0]: "rail1", legs[1]: "rail0"}
    assert healed == {legs[0]: "rail0", legs[1]: "rail1"}


def test_a_cable_goes_to_another_rail_or_to_another_node(lab: wiring.Lab) -> None:
    positions = [lab.topology.node(name).position for name in ("gpuserver1", "gpuserver2")]
    broken, healed = made_and_undone(lab, "miswire", "gpuserver1/rail0/rail1")
    assert broken == {naming.leg(positions[0], 0): "rail1"}
    assert healed == {naming.leg(positions[0], 0): "rail0"}
    broken, healed = made_and_undone(lab, "miswire", "gpuserver1/rail1/gpuserver2")
    ends = [naming.leg(position, 1) for position in positions]
    assert len({broken[end] for end in ends}) == 1
    assert broken[ends[0]] not in ("rail0", "rail1")
    assert [healed[end] for end in ends] == ["rail1", "rail1"]


def test_joined_rails_have_one_cable_more(lab: wiring.Lab) -> None:
    broken, _healed = made_and_undone(lab, "join_rails", "rail0/rail1")
    assert sorted(broken.values()) == ["rail0", "rail1"]
    network: Any = lab.network
    assert f"-{min(broken)}" in network.added  # taken away again
    # Names of links have at most 15 characters.
    assert all(len(name.lstrip("-")) <= 15 for name in network.added)


def test_a_slow_pair_is_slow_to_each_other_alone(lab: wiring.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = {"gpuserver1": "10.0.1.1", "gpuserver2": "10.0.1.2"}
    asked: list[str] = []
    monkeypatch.setattr(cable_faults, "run", lambda argv, **_more: asked.append(" ".join(argv)))
    monkeypatch.setattr(
        fault_kinds.Place,
        "read",
        lambda place, *_argv: [{"addr_info": [{"local": addresses[place.node.name]}]}],
    )
    place = fault_kinds.place(lab, "slow_pair", fault_kinds.TO_OTHER, "gpuserver1/rail0/gpuserver2")
    cable_faults.KINDS["slow_pair"].make(dataclasses.replace(place, rate_gbps=0.01))
    for name, peer in (("gpuserver1", "gpuserver2"), ("gpuserver2", "gpuserver1")):
        leg = naming.leg(lab.topology.node(name).position, 0)
        mine = [line.split(leg)[1].strip() for line in asked if f"dev {leg} " in line]
        # What goes to a node is slow if its peer sent it; all else has the usual class.
        assert mine[0] == "root handle 1: htb default 1"
        assert "classid 1:2 htb rate 10000000bit" in mine[2]
        assert mine[3].endswith(f"match ip src {addresses[peer]}/32 flowid 1:2")


def test_the_speaker_says_what_the_runner_reads() -> None:
    frame = speaker.frame(bytes.fromhex("020000000001"), "leaf9", "n1-rail0")
    assert lldp.read(frame) == ("leaf9", "02:00:00:00:00:01", "n1-rail0")


@pytest.mark.parametrize(
    ("kind", "target"), [("wrong_leaf", "gpuserver1/rail0/leaf9"), ("flapping_rail", "gpuserver1/rail0")]
)
def test_a_helper_ends_with_its_fault_and_no_other_labs_does(
    lab: wiring.Lab, monkeypatch: pytest.MonkeyPatch, kind: str, target: str
) -> None:
    running: dict[int, bytes] = {}

    def popen(argv: list[str], *_more: Any, **_options: Any) -> Any:
        # `ip netns exec NAMESPACE` becomes the program that it starts.
        running.update({7: "\0".join(argv[4:]).encode(), 8: "\0".join(argv[4:-1]).encode()})
        reader, writer = os.pipe()
        os.write(writer, b"ready\n")
        return SimpleNamespace(stdout=open(reader, "rb"))

    ended: list[int] = []
    monkeypatch.setattr(process, "popen", popen)
    monkeypatch.setattr(network, "end_process", ended.append)
    monkeypatch.setattr(cable_faults, "command_lines", running.items)
    made_and_undone(lab, kind, target)
    assert ended == [7]
