"""How slow the nodes are is measured at boot, with clocks and nodes that are simulated here."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from railyard.lab import inventory, lifecycle, machine, reference, speed, state, topology, wiring
from railyard.lab.process import LabError

VM = reference.NODES["vm"]


class Nodes:
    """Nodes whose SSH and Python take a given number of seconds, by a clock that only they move."""

    def __init__(self, login_s: float, work_s: object) -> None:
        self.login_s, self.work_s, self.now_s = login_s, work_s, 0.0
        self.calls: list[tuple[str, ...]] = []

    def ssh_argv(self, node: topology.Node, *command: str) -> list[str]:
        self.calls.append((node.name, *command))
        if command[0] == "sudo":
            return ["true", "login"]
        return ["echo", str(self.work_s)]

    def clock(self) -> float:
        self.now_s += self.login_s
        return self.now_s


def measured(lab: topology.Topology, login_s: float, work_s: object) -> speed.Speed:
    # One node, since the simulated clock knows of no two things at once.
    nodes = Nodes(login_s, work_s)
    return speed.measure(lab.nodes[:1], nodes.ssh_argv, nodes.clock)


@pytest.mark.parametrize(
    ("login", "work", "factor"),
    [
        (1, 1, 1.0),
        (0.2, 0.3, 1.0),  # a fast machine has the usual limits
        (1, 2.5, 2.5),
        (3, 1, 3.0),
        (1.01, 1, 1.1),  # rounded up
        (1000, 1, 10.0),
    ],
)
def test_the_slower_of_both_probes_decides_within_limits(
    lab: topology.Topology, login: float, work: float, factor: float
) -> None:
    found = measured(lab, login * VM.login_s, work * VM.work_s)
    assert found.time_factor == pytest.approx(factor)
    assert found.why == ""


@pytest.mark.parametrize("answer", ["", "nan", "-1", "bash: python3: not found", "1e9"])
def test_a_node_that_answers_nonsense_has_the_longest_limits_and_the_reason_is_reported(
    lab: topology.Topology, answer: str
) -> None:
    found = measured(lab, 1.0, answer)
    assert found.time_factor == speed.MOST
    assert "gpuserver1 answered" in found.why
    assert "not measured" in str(found)


def test_a_node_that_does_not_answer_has_the_longest_limits(lab: topology.Topology) -> None:
    found = speed.measure(lab.nodes, lambda *_: ["false"])
    assert found.time_factor == speed.MOST


def test_the_slowest_node_decides(lab: topology.Topology) -> None:
    works_s = {"gpuserver1": VM.work_s, "gpuserver2": 3 * VM.work_s}

    def ssh_argv(node: topology.Node, *command: str) -> list[str]:
        return ["true"] if command[0] == "sudo" else ["echo", str(works_s[node.name])]

    found = speed.measure(lab.nodes, ssh_argv, lambda: 0.0)
    assert found.time_factor == pytest.approx(3.0)


@pytest.mark.usefixtures("root")
def test_the_state_keeps_the_speed_and_a_torn_one_is_the_usual() -> None:
    assert state.time_factor("lab") == 1.0
    found = speed.Speed(1.5, 3.0, 2.5, 6.1, 2)
    state.save(state.State("lab", "/t.yml", speed=found))
    loaded = state.load("lab")
    assert loaded is not None
    assert loaded.speed == found
    assert state.time_factor("lab") == 2.5
    data = json.loads(state.file_of("lab").read_text())
    for broken in (None, 5, {}, {**data["speed"], "time_factor": 0.1}, {**data["speed"], "cores": "2"}):
        state.file_of("lab").write_text(json.dumps({**data, "speed": broken}))
        assert state.time_factor("lab") == 1.0
        assert not state.load("lab").torn  # type: ignore[union-attr]
    state.file_of("lab").write_text(json.dumps({name: data[name] for name in data if name != "speed"}))
    assert state.time_factor("lab") == 1.0  # a file of an earlier version


def test_what_was_measured_goes_to_state_and_inventory(
    lab: topology.Topology, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory, "repo_root", lambda: root / "checkout")
    monkeypatch.setattr(speed, "measure", lambda *_: speed.Speed(1.5, 3.0, 2.5, 6.1, 2))
    told: list[str] = []
    lifecycle._measure_speed(wiring.Lab.from_topology(lab), told.append)
    assert state.time_factor("lab") == 2.5
    assert "railyard_time_factor: 2.5" in inventory.generated_file("lab").read_text()
    assert "time limits are 2.5 times the usual" in told[0]
    assert "load 6.1, 2 cores" in told[0]
    assert "slow, or busy" in told[1]


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(
    ("given", "recorded", "limit_s"), [(None, None, 600), (None, 3.0, 1800), (2.0, 3.0, 1200)]
)
def test_how_long_a_node_may_boot_follows_the_speed(
    lab: topology.Topology,
    monkeypatch: pytest.MonkeyPatch,
    given: float | None,
    recorded: float | None,
    limit_s: int,
) -> None:
    if recorded is not None:
        state.save(state.State("lab", "/t.yml", speed=speed.Speed(1, 1, recorded, 0, 2)))
    seconds = itertools.count(0, 100)
    monkeypatch.setattr(wiring.time, "monotonic", lambda: float(next(seconds)))
    monkeypatch.setattr(wiring.time, "sleep", lambda _s: None)
    monkeypatch.setattr(wiring, "_ssh_answers", lambda _address: False)

    class Kind:
        boot_deadline_s = 600.0

        def states(self) -> dict[str, wiring.NodeState]:
            return {"gpuserver1": wiring.NodeState("running", 7)}

        def watch(self, _name: str) -> object:
            return str

        def last_output(self, _name: str) -> str:
            return ""

    made = wiring.Lab.from_topology(lab)
    slow = wiring.Lab(lab, made.network, {"vm": Kind()}, made.keys)  # type: ignore[dict-item]
    with pytest.raises(LabError, match=f"not ready after {limit_s} s"):
        wiring.await_ready(slow, lab.nodes[0], wiring.Event(), patience=given)


def test_the_processors_slowness_is_the_reference_by_what_was_done() -> None:
    assert machine.slowness(reference.BLOCKS_PER_S) == 1
    assert machine.slowness(reference.BLOCKS_PER_S / 3) == pytest.approx(3)
    assert machine.slowness(0) == 1
    assert machine.cpu_slowness(0.01) > 0


def processes(proc: Path, shares: dict[int, tuple[str, int]]) -> None:
    proc.mkdir(exist_ok=True)
    (proc / "loadavg").write_text("6.25 5.00 4.00 3/200 4242\n")
    for pid, (command, ticks) in shares.items():
        folder = proc / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode())
        (folder / "comm").write_text("kernel thread\n")
        fields = ["S", *["0"] * 10, str(ticks), "0"]
        (folder / "stat").write_text(f"{pid} (a) b) {' '.join(fields)}\n")


def test_what_else_the_machine_does_is_found_without_the_lab_s_own_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc = tmp_path / "proc"
    processes(proc, {7: ("stress --cpu 1", 0), 8: ("qemu -name railyard-lab-gpuserver1", 0), 9: ("", 0)})
    later = {7: ("stress --cpu 1", 90), 8: ("qemu -name railyard-lab-gpuserver1", 90), 9: ("", 30)}
    later[10] = ("began just now", 500)
    seconds = iter((0.0, 1.0))
    monkeypatch.setattr(machine.time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(machine.time, "sleep", lambda _s: processes(proc, later))
    monkeypatch.setattr(machine.os, "sysconf", lambda _name: 100)
    monkeypatch.setattr(machine, "cores", lambda: 2)
    found = machine.look_at_load("lab", 1.0, proc)
    assert found.others_share == pytest.approx(0.6)
    assert [(one.pid, one.command, one.share) for one in found.consumers] == [
        (7, "stress --cpu 1", 0.9), (9, "kernel thread", 0.3)
    ]  # fmt: skip
    assert found.is_busy
    assert str(found) == "load 6.2 on 2 cores, of which other programs use 60 %"
