# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run on its node: staging, starting, watching and packing, on folders of the test's own."""

from __future__ import annotations

import os
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.runner import control as runner_control
from ansible_collections.railyard.fabric.plugins.module_utils.runner import launcher as units
from ansible_collections.railyard.fabric.plugins.module_utils.runner import process as runner_process
from ansible_collections.railyard.fabric.plugins.module_utils.runner.control import Control
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import work_order
from support.nodes import node_run

RUN, OTHER = "20261121T101500Z-3f2a", "20261121T111500Z-4444"
SECRET = "0123456789abcdef" * 2
# Of the words "a program", by coreutils.
SHA256 = "d69ea8cda2433733c1ce02de65da8f48e6a3dbba6bb18876a2062908e54ef7cb"


def order(**changes: Any) -> dict[str, Any]:
    rails = [{"name": "rail0", "netdev": "lo", "subnet": "10.0.1.0/24"}]
    made = node_run.order("gpu001", ("gpu001", "gpu002"), rails)
    own = {"schema": 1, "secret": SECRET, "netdevs": {"rail0": "lo"}, "hcas": {}}
    return {**made, **own, **changes}


class Systemd:
    """Answers for systemd-run and systemctl, and remembers its arguments."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.active: list[str] = []

    def __call__(self, argv: Sequence[str]) -> tuple[int, str, str]:
        self.asked.append(list(argv))
        if argv[0] == "systemd-run":
            self.active.append(argv[argv.index("--unit") + 1] + ".service")
        if argv[:2] == ["systemctl", "stop"]:
            self.active.remove(argv[2]) if argv[2] in self.active else None
        listed = argv[:2] == ["systemctl", "list-units"]
        return 0, "".join(f"{unit} loaded active running\n" for unit in self.active) if listed else "", ""


class Late(Systemd):
    """One that does not answer in time, as D-Bus on a node under load."""

    def __call__(self, argv: Sequence[str]) -> tuple[int, str, str]:
        if argv[:2] == ["systemctl", "list-units"]:
            return 1, "", "Failed to list units: Connection timed out\n"
        return super().__call__(argv)


@pytest.fixture
def systemd() -> Systemd:
    return Systemd()


class Node(Control):
    """A node's end of a run, and the program that the controller hands over to it."""

    def __init__(self, folder: Path, systemd: Systemd, run: str = RUN) -> None:
        super().__init__(run, "gpu001", systemd, "systemd", str(folder / "var"), str(folder / "run"))
        self.program = folder / "program.pyz"
        self.program.write_bytes(b"a program")

    def begin(self, python: str = "/usr/bin/python3", check: bool = False) -> dict[str, Any]:
        return self.start(python, SHA256, "me@here", 90.0, 500.0, check)


@pytest.fixture
def control(tmp_path: Path, systemd: Systemd) -> Node:
    return Node(tmp_path, systemd)


def stage(
    control: Node,
    packed: str | None = None,
    sha256: str = SHA256,
    check: bool = False,
    with_program: bool = True,
    **changes: Any,
) -> dict[str, Any]:
    program = str(control.program) if with_program else None
    return control.stage(packed or work_order.pack(order(**changes)), sha256, program, "me@here", 90.0, check)


def test_staging_asks_for_the_program_once(control: Node) -> None:
    asked = stage(control, with_program=False)
    assert asked["program_needed"] is True
    assert stage(control)["program_needed"] is False
    again = stage(control, with_program=False)
    program_path = control.program_path(SHA256)
    assert again == {"changed": False, "program_needed": False, "program_path": program_path}
    assert Path(program_path).read_bytes() == b"a program"


def test_the_secret_is_for_root_alone_and_goes_with_the_run(control: Node) -> None:
    stage(control)
    assert os.stat(control.order_path).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(control.order_path)).st_mode & 0o777 == 0o700
    assert control.collect(False)["changed"] is True
    assert not os.path.exists(control.order_path)
    assert SECRET not in "".join(
        path.read_text(errors="replace")
        for path in Path(control.folder).rglob("*")
        if path.suffix != ".gz" and path.is_file()
    )


def test_the_secret_of_a_run_whose_controller_died_goes_with_the_next_run(control: Node) -> None:
    dead = Path(control.order_path).parent.with_name(OTHER)
    dead.mkdir(parents=True)
    (dead / "work_order.json").write_text(SECRET)
    stranger = dead.with_name("not-a-run")
    stranger.mkdir()
    stage(control, check=True)
    assert dead.exists()
    stage(control)
    assert not dead.exists()
    assert stranger.exists()
    assert os.path.exists(control.order_path)


@pytest.mark.parametrize(
    "packed",
    ["{}", "a" * 7, work_order.pack(order())[:-8], work_order.pack({"x": "0" * work_order.MOST_BYTES})],
    ids=["JSON", "no base64", "cut off", "a bomb"],
)
def test_an_order_that_came_damaged_is_refused(control: Node, packed: str) -> None:
    with pytest.raises(MeasurementError, match="test schedule"):
        stage(control, packed)


def test_a_program_that_came_damaged_is_refused(control: Node) -> None:
    with pytest.raises(MeasurementError, match="has SHA-256"):
        stage(control, sha256="0" * 64)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"run": OTHER}, "it is for run"),
        ({"secret": "short"}, "secret"),
        ({"node": "gpu007"}, "not in the roster"),
        ({"schema": 9}, "schema is 9"),
    ],
)
def test_an_order_that_is_not_complete_is_refused(control: Node, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(MeasurementError, match=said):
        stage(control, **changes)


def test_check_mode_touches_nothing(control: Node, tmp_path: Path, systemd: Systemd) -> None:
    assert stage(control, check=True)["changed"] is True
    assert not (tmp_path / "var").exists()
    assert not (tmp_path / "run").exists()
    stage(control)
    assert control.begin(check=True)["changed"] is True
    assert control.collect(True)["changed"] is True
    assert control.remove(True) is True
    assert os.path.exists(control.order_path)
    assert systemd.active == []


def test_the_runner_is_a_unit_that_ends_with_all_it_started(control: Node, systemd: Systemd) -> None:
    stage(control)
    started = control.begin()
    assert started["changed"] is True
    assert started["unit"] == f"railyard-runner-{RUN}"
    argv = next(asked for asked in systemd.asked if asked[0] == "systemd-run")
    assert "KillMode=control-group" in argv
    limit = next(word for word in argv if word.startswith("RuntimeMaxSec="))
    assert float(limit.split("=")[1]) == 560
    command = argv[argv.index("--") + 1 :]
    assert command[:2] == ["/usr/bin/python3", control.program_path(SHA256)]
    assert SECRET not in " ".join(argv)
    # Running already: left alone.
    assert control.begin()["changed"] is False


def test_stop_ends_the_runner_first_and_then_its_tools(control: Node, systemd: Systemd) -> None:
    tool = units.tool_unit(RUN, "m00003", "client") + ".service"
    systemd.active = [tool, units.runner_unit(RUN) + ".service"]
    assert control.stop(False) is True
    stops = [asked[2] for asked in systemd.asked if asked[:2] == ["systemctl", "stop"]]
    assert stops == [units.runner_unit(RUN) + ".service", tool]
    assert control.stop(False) is False


def test_what_tools_printed_is_for_root_alone(tmp_path: Path, control: Node) -> None:
    """On a shared node, under a careless umask, and in what is unpacked from the archive."""
    # A folder of a version that let others in.
    os.makedirs(os.path.join(os.path.dirname(control.folder)), mode=0o755)
    mask = os.umask(0)
    try:
        stage(control)
        Path(control.folder, "results.jsonl").write_text('{"id":"m00000"}\n')
        Path(control.folder, "raw", "m00000.client.txt").write_text("words")
        packed = control.collect(False)
    finally:
        os.umask(mask)
    place = os.path.dirname(packed["archive"])
    assert os.stat(packed["archive"]).st_mode & 0o777 == 0o600
    for folder in (os.path.dirname(place), place, os.path.join(place, "raw")):
        assert (folder, oct(os.stat(folder).st_mode & 0o777)) == (folder, oct(0o700))
    with tarfile.open(packed["archive"]) as archive:
        assert {one.mode for one in archive.getmembers()} == {0o600}


def test_collecting_packs_rows_and_raw_by_the_names_that_rows_use(control: Node) -> None:
    stage(control)
    Path(control.folder, "results.jsonl").write_text('{"id":"m00000"}\n{"id":"m00001"}\n')
    Path(control.folder, "raw", "m00000.client.txt").write_text("words")
    packed = control.collect(False)
    assert packed["rows"] == 2
    with tarfile.open(packed["archive"]) as archive:
        assert set(archive.getnames()) == {"results.jsonl", "m00000.client.txt"}
    assert control.lease.holder() is None
    again = control.collect(False)
    assert (again["changed"], again["sha256"]) == (False, packed["sha256"])
    assert control.remove(False) is True
    assert not os.path.exists(control.folder)
    assert control.remove(False) is False
    assert control.collect(False)["archive"] is None


def test_runs_that_no_one_fetched_are_named(control: Node, tmp_path: Path) -> None:
    stage(control)
    (tmp_path / "var" / "runs" / OTHER).mkdir()
    assert control.leftovers() == [OTHER]
    (tmp_path / "var" / "runs" / OTHER / "collected").write_text("1")
    assert control.leftovers() == []


def test_a_second_controller_learns_who_runs_since_when_and_until_when(
    control: Node, tmp_path: Path, systemd: Systemd
) -> None:
    stage(control)
    second = Node(tmp_path, systemd, OTHER)
    for check in (True, False):
        with pytest.raises(MeasurementError) as refused:
            stage(second, check=check, run=OTHER)
        assert refused.value.error_class == "lease"
    assert RUN in refused.value.message
    assert "me@here" in refused.value.message
    assert refused.value.message.count("2") > 0
    assert "its lease ends at" in refused.value.message
    # It is not the second's to release.
    assert second.lease.release(OTHER) is False
    control.collect(False)
    assert stage(second, run=OTHER)["changed"] is True


def test_a_systemd_that_does_not_answer_does_not_prove_that_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_process, "_SYSTEMD", str(tmp_path))
    control = Node(tmp_path, Late())
    stage(control)
    for act in (
        lambda: control.collect(False),
        lambda: control.stop(False),
        lambda: control.begin(sys.executable),
    ):
        with pytest.raises(OSError, match="Connection timed out"):
            act()
    # The runner may be at work: its results are not packed, its lease and its order stay.
    assert not os.path.exists(control.archive)
    assert os.path.exists(control.order_path)
    assert control.lease.read() is not None
    monkeypatch.setattr(runner_process, "_SYSTEMD", str(tmp_path / "none"))
    assert control.stop(False) is False


def test_a_schedule_is_read_back_completely_and_a_bad_one_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / "order.json"
    path.write_text(work_order.dump(order()))
    assert work_order.load(str(path)) == order()
    assert work_order.rails_of(order(), "gpu002")["rail0"]["ip"] == "10.0.1.2"
    assert work_order.unpack(work_order.pack(order())) == path.read_text()
    path.write_text("{")
    with pytest.raises(work_order.WorkOrderError, match=r"order\.json"):
        work_order.load(str(path))
    common = {key: value for key, value in order().items() if key not in ("node", "secret", "netdevs")}
    assert work_order.check(common, own=False) == []
    assert work_order.check(common) == [f"key '{key}' is missing" for key in ("node", "secret", "netdevs")]
    assert runner_control.RUN_FOLDER == "/run/railyard"
