from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import owner_lock
from railyard.lab import faults, keys, speed, state, status, topology, wiring
from railyard.lab.nodes import NodeState
from railyard.lab.process import CommandError, LabError, run
from railyard.lab.state import Fault, State

pytestmark = pytest.mark.usefixtures("root")


def test_state_comes_back_as_it_was() -> None:
    saved = State("lab", "/t.yml", [Fault("wrong_mtu", "gpuserver1/rail0", "now", {"mtu_bytes": 9000})])
    state.save(saved)
    assert state.load("lab") == saved


def test_no_lab_has_no_state() -> None:
    assert state.load("lab") is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"schema":1}', '{"schema":9,"name":"lab","topology":"t","faults":[]}',
             '{"schema":1,"name":"lab","topology":"t","faults":[{"kind":"x"}]}']
)  # fmt: skip
def test_a_torn_file_is_reported_and_does_not_stop(text: str) -> None:
    state.save(State("lab", "/t.yml"))
    state.file_of("lab").write_text(text)
    found = state.load("lab")
    assert found is not None
    assert found.torn
    assert found.faults == []


def test_a_save_replaces_the_file_in_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    state.save(State("lab", "/old.yml"))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        state.save(State("lab", "/new.yml"))
    assert json.loads(state.file_of("lab").read_text())["topology"] == "/old.yml"


def test_a_lab_is_held_by_one_command_at_a_time(root: Path) -> None:
    (root / ".locks").mkdir(parents=True)
    with owner_lock.held(root / ".locks" / "lab.lock", patience_s=0) as handle:
        os.pwrite(handle, b"4711\n", 0)
        with pytest.raises(LabError, match="4711"), state.locked("lab"):
            pass
        with state.locked("another"):
            pass
    with state.locked("lab"):  # the kernel let go of it
        assert (root / ".locks" / "lab.lock").read_text() == f"{os.getpid()}\n"


class FakeKind:
    """Nodes that are only remembered."""

    no_faults: Mapping[str, str] = {"wrong_mtu": "its MTU is carved in stone"}

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.found: Mapping[str, NodeState] = {
            "gpuserver1": NodeState("running", 11),
            "gpuserver2": NodeState("stopped"),
        }

    def states(self) -> Mapping[str, NodeState]:
        return self.found

    def __getattr__(self, call: str) -> Callable[[str], None]:
        return lambda name: self.calls.append((call, name))


@pytest.fixture
def lab() -> wiring.Lab:
    made = wiring.Lab.from_topology(topology.load(topology.default_file()))
    state.save(State("lab", str(made.topology.source)))
    return wiring.Lab(made.topology, made.network, {"vm": FakeKind()}, made.keys)


def recorded() -> list[tuple[str, str]]:
    found = state.load("lab")
    assert found is not None
    return [(fault.kind, fault.target) for fault in found.faults]


def test_a_fault_is_made_recorded_and_healed(lab: wiring.Lab) -> None:
    faults.apply(lab, "node_hung", "gpuserver1")
    assert recorded() == [("node_hung", "gpuserver1")]
    with pytest.raises(LabError, match="is there already"):
        faults.apply(lab, "node_hung", "gpuserver1")
    assert [fault.target for fault in faults.heal(lab)] == ["gpuserver1"]
    assert recorded() == []
    assert lab.kinds["vm"].calls == [("freeze", "gpuserver1"), ("thaw", "gpuserver1")]


def test_healing_goes_backwards(lab: wiring.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    undone = []
    for kind in ("link_down", "slow_rail"):
        fake = faults.Kind(faults.ON_RAIL, lambda *_: {}, lambda _place, kind=kind: undone.append(kind))
        monkeypatch.setitem(faults.KINDS, kind, fake)
        faults.apply(lab, kind, "gpuserver1/rail0")
    faults.heal(lab)
    assert undone == ["slow_rail", "link_down"]


@pytest.mark.parametrize(
    ("kind", "target", "message"),
    [
        ("node_on_fire", "gpuserver1", "kinds: link_down"),
        ("link_down", "gpuserver1", "give NODE/RAIL"),
        ("node_gone", "gpuserver1/rail0", "give NODE"),
        ("link_down", "gpuserver9/rail0", "no node gpuserver9"),
        ("link_down", "gpuserver1/rail9", "no rail rail9"),
        ("link_down", "gpuserver2/rail0", "gpuserver2 does not run"),
        ("wrong_mtu", "gpuserver1/rail0", "carved in stone"),
        ("swap", "gpuserver1/rail0", "give NODE/RAIL/RAIL"),
        ("swap", "gpuserver1/rail0/rail0", "with itself"),
        ("swap", "gpuserver1/rail0/rail9", "no rail rail9"),
        ("miswire", "gpuserver1/rail0", "give NODE/RAIL/OTHER"),
        ("miswire", "gpuserver1/rail0/nobody", "no node nobody"),
        ("join_rails", "rail0", "give RAIL/RAIL"),
        ("join_rails", "rail0/rail0", "with itself"),
    ],
)
def test_a_fault_that_cannot_be_is_bad_input(lab: wiring.Lab, kind: str, target: str, message: str) -> None:
    with pytest.raises(LabError, match=message) as caught:
        faults.apply(lab, kind, target)
    assert caught.value.exit_status == 2
    assert recorded() == []


def test_healing_what_is_not_there_names_what_is(lab: wiring.Lab) -> None:
    faults.apply(lab, "node_hung", "gpuserver1")
    with pytest.raises(LabError, match="there are: node_hung gpuserver1"):
        faults.heal(lab, "node_gone", "gpuserver1")


def test_a_fault_needs_a_lab(lab: wiring.Lab) -> None:
    state.file_of("lab").unlink()
    with pytest.raises(LabError, match="is not up"):
        faults.apply(lab, "node_hung", "gpuserver1")


def test_status_reads_well() -> None:
    rail = {"name": "rail0", "netdev": "ens6", "mac": "02:00:00:00:00:01", "admin_up": True}
    text = status.text(
        {
            "name": "lab",
            "up": False,
            "namespace": "railyard-lab",
            "way_out": False,
            "nodes": {
                "gpuserver1": {
                    "kind": "vm",
                    "condition": "hung",
                    "address": "198.18.0.1",
                    "ssh": ["ssh", "railyard@198.18.0.1"],
                    "rails": [{**rail, "carrier": False, "mtu_bytes": 1500, "rate_gbps": 0.1}],
                }
            },
            "faults": [{"kind": "slow_rail", "target": "gpuserver1/rail0", "since": "then"}],
            "speed": asdict(speed.Speed(1.5, 3.0, 2.5, 6.1, 2)),
        }
    )
    for part in (
        "hung",
        "MTU 1500",
        "no carrier",
        "0.1 Gbit/s",
        "slow_rail gpuserver1/rail0",
        "package mirrors are not reachable",
        "2.5 times",
    ):
        assert part in text


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen (package openssh-client)")
def test_keys_that_work_stay_and_damaged_ones_are_made_anew(root: Path) -> None:
    nodes = topology.load(topology.default_file()).nodes
    made = keys.ensure(root / "ssh", nodes)
    private, host_key = made.private.read_text(), made.host_key("gpuserver1").read_text()
    assert made.private.stat().st_mode & 0o777 == 0o600
    lines = made.known_hosts.read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["198.18.0.1,gpuserver1", "198.18.0.2,gpuserver2"]
    public = made.host_key("gpuserver1").with_name("gpuserver1.pub").read_text().split()
    assert lines[0].split()[1:] == public[:2]

    made.private.write_text("torn")
    keys.ensure(root / "ssh", nodes)
    assert made.private.read_text() not in (private, "torn")
    assert made.host_key("gpuserver1").read_text() == host_key


def test_a_failed_command_is_reported_with_its_output() -> None:
    with pytest.raises(CommandError) as caught:
        run(["sh", "-c", "echo no such luck >&2; exit 3"])
    assert "exit status 3\n    no such luck" in str(caught.value)
    with pytest.raises(LabError, match="no-such-program"):
        run(["no-such-program"])
    with pytest.raises(LabError, match="no end after"):
        run(["sleep", "5"], timeout_s=0.1)
