"""What `make demo` says before it begins, when the nodes are up, and when it fails."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from railyard.base.paths import repo_root
from railyard.lab import demo, host, machine, reference

QUIET = machine.Load(0.2, 2, 0.01)
BUSY = machine.Load(6.3, 2, 0.75, (machine.Consumer(4242, "python3 busy.py", 0.98),))
ALL = list(reference.DEMO["vm"])


def test_the_table_gives_the_measured_demos() -> None:
    """320 s for virtual machines with the Debian packages there, 129 s for containers without them."""
    measured = [phase for phase in ALL if phase not in (reference.PACKAGES, reference.ENVIRONMENT)]
    assert demo.duration_s("vm", measured, 1) == pytest.approx(320, rel=0.05)
    assert demo.duration_s("container", ALL, 1) == pytest.approx(129, rel=0.05)


@pytest.mark.parametrize("kind", reference.DEMO)
def test_each_figure_has_a_source_and_a_fixed_part_that_fits(kind: str) -> None:
    assert list(reference.DEMO[kind]) == ALL
    for phase in reference.DEMO[kind].values():
        assert 0 <= phase.fixed_s <= phase.total_s
        assert phase.source
    assert reference.NODES[demo.NODES[kind]].source


def test_before_it_begins_it_says_how_long_it_takes_and_on_what_that_depends() -> None:
    text = demo.estimate("vm", ALL, 1.0, QUIET, ALL)
    minutes = round(demo.duration_s("vm", ALL, 1.0) / 60)
    assert text.startswith(f"This demo takes about {minutes} minutes on this machine at the moment: ")
    assert "1.0 times as long as the reference machine's (load 0.2 on 2 cores" in text
    assert "KVM" in text
    assert "busy" not in text


@pytest.mark.parametrize(("slowness", "named"), [(0.5, False), (3.0, True)])
def test_above_ten_minutes_it_names_the_quick_demo_and_its_minutes(slowness: float, named: bool) -> None:
    text = demo.estimate("vm", ALL, slowness, QUIET, ALL)
    quick = demo.minutes(demo.duration_s("container", ALL, slowness))
    assert (f"takes {quick}: make demo LAB=container" in text) is named
    assert "LAB=container" not in demo.estimate("container", ALL, 100, QUIET, ALL)


def test_what_is_there_already_takes_no_time() -> None:
    again = demo.estimate("vm", [reference.BOOT, reference.PROVISION, reference.MEASURE], 1.0, QUIET, ALL)
    assert "packages" not in again
    assert "boot" in again


def test_a_busy_machine_is_reported_beforehand_with_what_keeps_it_busy() -> None:
    text = demo.estimate("container", ALL, 2.0, BUSY, ALL)
    assert "process 4242 uses 98 % of a core: python3 busy.py" in text
    assert "load 6.3 on 2 cores, of which other programs use 75 %" in text


def test_when_the_nodes_are_up_the_rest_is_estimated_by_their_speed() -> None:
    rest = [reference.PROVISION, reference.MEASURE]
    assert demo.rest_after_boot("vm", 1.0).startswith(
        f"The rest takes {demo.minutes(demo.duration_s('vm', rest, 1))}"
    )
    slow = demo.rest_after_boot("vm", 4.0)
    assert demo.minutes(demo.duration_s("vm", rest, 4)) in slow
    assert "make demo LAB=container" in slow


@pytest.mark.parametrize(
    ("factor", "load", "parts"),
    [
        (1.0, QUIET, []),
        (None, QUIET, []),
        (1.2, BUSY, ["busy", "load 6.3 on 2 cores", "1.2 times as long", "process 4242", "end what loads"]),
        (None, BUSY, ["busy", "load 6.3 on 2 cores", "process 4242", "`make demo` again", "LAB=container"]),
        (3.4, QUIET, ["slow", "load 0.2 on 2 cores", "3.4 times as long", "LAB=container"]),
    ],
)
def test_when_it_failed_a_busy_or_slow_machine_is_named_with_what_to_do(
    factor: float | None, load: machine.Load, parts: list[str]
) -> None:
    text = demo.why_it_failed("vm", factor, load)
    assert [part for part in parts if part not in text] == []
    assert bool(text) == bool(parts)
    assert "LAB=container" not in demo.why_it_failed("container", factor, load)


def test_how_slow_the_nodes_are_is_read_from_the_lab_s_state(tmp_path: Path) -> None:
    assert demo.node_slowness(tmp_path, "lab", "vm") is None
    file = tmp_path / ".lab" / "lab" / "state.json"
    file.parent.mkdir(parents=True)
    usual = reference.NODES["vm"]
    fast = {"work_s": usual.work_s / 10, "login_s": usual.login_s / 4, "time_factor": 1.0, "why": ""}
    silent = {"work_s": 0.0, "login_s": 0.0, "time_factor": 10.0, "why": "no answer"}
    cases = (("torn", None), ("{}", None), ('{"speed": null}', None), ("[]", None))
    for text, slowness in (
        *cases,
        (json.dumps({"speed": fast}), 0.25),  # with KVM the rest is shorter than on the reference machine
        (json.dumps({"speed": silent}), 10.0),
    ):
        file.write_text(text)
        assert demo.node_slowness(tmp_path, "lab", "vm") == slowness


def test_phases_that_were_done_before_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "missing_packages", lambda _kinds: ["qemu-system-x86"])
    # The environment is made while the image is built.
    assert demo.phases_to_come("vm", tmp_path) == [one for one in ALL if one != reference.ENVIRONMENT]
    monkeypatch.setattr(host, "missing_packages", lambda _kinds: [])
    stamp, image = tmp_path / ".venv/.railyard-stamp", tmp_path / ".lab/.images/0123/base.qcow2"
    image.parent.mkdir(parents=True)
    image.touch()
    assert demo.phases_to_come("vm", tmp_path)[0] == reference.ENVIRONMENT
    stamp.parent.mkdir()
    stamp.touch()
    assert demo.phases_to_come("vm", tmp_path) == [reference.BOOT, reference.PROVISION, reference.MEASURE]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in which everything that the demo starts is a stand-in that writes its name into `log`."""
    (tmp_path / "tools").mkdir()
    shutil.copy(repo_root() / "tools" / "demo", tmp_path / "tools" / "demo")
    for name in ("tools/setup", ".venv/bin/railyard", "programs/python3"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        log = f'echo "{file.name} $*" >>"{tmp_path}/log"'
        status = 'case "$*" in "$FAILS"*) exit "$STATUS" ;; esac'
        if file.name == "python3":
            log = f'[ "$1" = -c ] && exit 0\n{log}'
        file.write_text(f"#!/bin/sh\n{log}\n{status}\n")
        file.chmod(0o755)
    return tmp_path


def run(checkout: Path, fails: str = "nothing", status: int = 0) -> tuple[int, list[str]]:
    path = f"{checkout}/programs:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "FAILS": fails, "STATUS": str(status)}
    done = subprocess.run(["tools/demo", "vm"], cwd=checkout, env=env, capture_output=True, check=False)
    lines = (checkout / "log").read_text().splitlines()
    return done.returncode, [" ".join(line.split()[:5]) for line in lines]


LOOK = "python3 -m railyard.lab.demo"


def test_a_demo_that_is_refused_has_set_up_nothing(checkout: Path) -> None:
    assert run(checkout, "-m railyard.lab.demo before vm", 2) == (2, [f"{LOOK} before vm"])


def test_a_demo_that_succeeds_estimates_twice_and_says_nothing_of_a_busy_machine(checkout: Path) -> None:
    status, lines = run(checkout)
    assert status == 0
    assert lines == [
        f"{LOOK} before vm",
        "setup --lab vm tools/railyard/lab/topology.yml",
        "railyard lab up --topology tools/railyard/lab/topology.yml",
        f"{LOOK} booted vm",
        "railyard site -i inventories/lab --",
    ]


@pytest.mark.parametrize(("fails", "status"), [("lab up", 1), ("site", 1), ("site", 3)])
def test_one_that_fails_looks_last_whether_the_machine_is_busy(
    checkout: Path, fails: str, status: int
) -> None:
    ended, lines = run(checkout, fails, status)
    assert ended == status
    assert lines[-1] == f"{LOOK} failed vm"


def test_one_that_was_interrupted_does_not(checkout: Path) -> None:
    ended, lines = run(checkout, "site", 130)
    assert ended == 130
    assert lines[-1].startswith("railyard site")
