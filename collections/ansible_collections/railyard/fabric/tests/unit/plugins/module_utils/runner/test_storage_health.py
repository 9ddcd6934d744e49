# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner asks each drive below a mount by smartctl, here a program with given answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts import block_device
from ansible_collections.railyard.fabric.plugins.module_utils.facts.block_device import Mount
from ansible_collections.railyard.fabric.plugins.module_utils.measure import registry, smartctl
from ansible_collections.railyard.fabric.plugins.module_utils.runner import node_tests as runner_tests
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import node_tests
from support.captures import read
from support.nodes import node_run
from support.nodes.files import write

# Prints the file of its device's name and ends as that says; without one it is the kernel that says no.
STUB = """#!/bin/sh
[ "$1" = --version ] && { echo "smartctl VERSION 2022-02-28 r5338 [x86_64-linux] (local build)"; exit 0; }
for word; do device=$word; done
name=FOLDER/$(basename "$device")
[ -e "$name.slow" ] && exec sleep 60
[ -e "$name.json" ] || { echo "no such answer"; exit 2; }
cat "$name.json"
exit "$(sed -n 's/.*"exit_status": *\\([0-9]*\\).*/\\1/p' "$name.json")"
"""


def disk(name: str, bus: str | None = "nvme", hardware: bool = True) -> dict[str, Any]:
    return {
        "name": name, "model": "M", "size_bytes": 1, "rotational": False, "state": None, "bus": bus,
        "pcie": None, "hardware": hardware,
    }  # fmt: skip


@pytest.fixture(autouse=True)
def node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let `/data` be on a drive, and smartctl be there."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setattr(block_device, "mount_at", lambda _reader, path: Mount(path, "xfs", "259:0"))
    monkeypatch.setattr(block_device, "moved_bytes", lambda _reader, _device: (0, 0))
    below(monkeypatch, disk("nvme0n1"))
    monkeypatch.setattr(
        node_tests, "NODE_TESTS", [one for one in node_tests.NODE_TESTS if one.name == smartctl.CHECK]
    )
    monkeypatch.setattr(runner_tests.busy, "node_is_busy", lambda _node, _policy: None)
    program(tmp_path)


def below(monkeypatch: pytest.MonkeyPatch, *disks: dict[str, Any]) -> None:
    monkeypatch.setattr(
        block_device, "describe", lambda _reader, _device: {"name": "md0", "disks": list(disks)}
    )


def program(folder: Path, version: str = "7.3") -> None:
    write(folder, "bin/smartctl", STUB.replace("FOLDER", str(folder)).replace("VERSION", version), 0o755)


def says(folder: Path, name: str, capture: str, **changes: Any) -> None:
    """Have the drive say what a capture says, all in one line."""
    (folder / f"{name}.json").write_text(json.dumps({**json.loads(read("smartctl", capture)), **changes}))


def row(folder: Path, node_class: str = "hardware") -> dict[str, Any]:
    rails = [{"name": "rail0", "netdev": "eth0", "subnet": "10.0.0.0/16"}]
    order = node_run.order("gpu1", ("gpu1",), rails, storage_mounts=["/data"])
    order["fabrics"][0]["node_class"] = node_class
    [found] = node_run.play(order, folder)
    return found


def test_a_drive_is_queried_and_its_row_has_the_answer(tmp_path: Path) -> None:
    says(tmp_path, "nvme0n1", "nvme.json")
    found = row(tmp_path)
    assert (found["check"], found["subject"], found["status"]) == ("storage_health", "/data", "measured")
    assert found["metrics"] == {"drives": 1, "drives_read": 1}
    assert found["argv"] == [["smartctl", "--json=co", "-q", "noserial", "-a", "/dev/nvme0n1"]]
    assert found["tool_version"] == "7.3"
    [drive] = found["health"]["drives"]
    assert (drive["smart"], drive["passed"], drive["values"]["media_errors"]) == ("read", True, 2)
    assert found["health"]["mount"] == "/data"


def test_what_smartctls_exit_status_says_of_a_drive_is_no_failure_of_the_test(tmp_path: Path) -> None:
    says(tmp_path, "nvme0n1", "ata.json")
    found = row(tmp_path)
    assert (found["status"], found["exit_status"]) == ("measured", 88)
    assert found["health"]["drives"][0]["passed"] is False


@pytest.mark.parametrize(
    ("capture", "below_it", "node_class", "smart", "word"),
    [
        # What is behind a virtual disk, or a file of the host, smartctl cannot ask.
        ("virtio.json", disk("vda", "virtio"), "virtual", "none", "Unable to detect device type"),
        ("virtio.json", disk("loop0", None, hardware=False), "container", "none", "Unable to detect"),
        ("scsi_without_smart.json", disk("sdc", "scsi"), "hardware", "none", "device lacks SMART"),
        # But a drive that it does not know may have failed for all that is known.
        ("virtio.json", disk("mmcblk0", "mmc"), "hardware", "unread", "Unable to detect device type"),
        ("virtio.json", disk("nvme0n1"), "virtual", "unread", "Unable to detect device type"),
    ],
)
def test_a_drive_without_smart_is_distinguished_from_one_that_is_not_known(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capture: str,
    below_it: dict[str, Any],
    node_class: str,
    smart: str,
    word: str,
) -> None:
    below(monkeypatch, below_it)
    says(tmp_path, below_it["name"], capture)
    found = row(tmp_path, node_class)
    assert found["metrics"] == {"drives": 1, "drives_read": 0}
    [drive] = found["health"]["drives"]
    assert drive["smart"] == smart
    assert word in drive["said"]


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (read("smartctl", "nvme.json")[:-30], "the JSON ends in the middle"),
        ("Killed", "is not its output"),
        (read("smartctl", "nvme.json") * 2, "several answers"),
        (" " * (smartctl._MOST_CHARACTERS + 1), "which is too much"),
    ],
)
def test_an_answer_that_cannot_be_read_leaves_the_drive_unread(
    tmp_path: Path, answer: str, word: str
) -> None:
    (tmp_path / "nvme0n1.json").write_text(answer)
    [drive] = row(tmp_path)["health"]["drives"]
    assert drive["smart"] == "unread"
    assert word in drive["said"]


def test_a_wrapper_whose_exit_status_is_another_is_not_accepted(tmp_path: Path) -> None:
    says(tmp_path, "nvme0n1", "nvme.json")
    path = tmp_path / "bin/smartctl"
    path.write_text(path.read_text().replace('exit "$(sed', 'true "$(sed') + "exit 8\n")
    [drive] = row(tmp_path)["health"]["drives"]
    assert (drive["smart"], drive["passed"]) == ("unread", None)
    assert drive["said"] == "smartctl ended with 8, its output has 0"


def test_a_drive_that_hangs_costs_its_own_answer_and_not_the_next_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below(monkeypatch, disk("nvme0n1"), disk("nvme1n1"))
    monkeypatch.setattr(smartctl, "_DRIVE_S", 0.5)
    (tmp_path / "nvme0n1.slow").touch()
    says(tmp_path, "nvme1n1", "nvme.json")
    first, second = row(tmp_path)["health"]["drives"]
    assert (first["smart"], second["smart"]) == ("unread", "read")
    assert "smartctl" in first["said"]


def test_of_many_that_hang_not_all_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below(monkeypatch, *(disk(f"nvme{number}n1") for number in range(9)))
    monkeypatch.setattr(smartctl, "_ALL_S", 0.0)
    drives = row(tmp_path)["health"]["drives"]
    assert {drive["said"] for drive in drives} == {"not queried: the others took 0 s"}


def test_an_old_smartctl_and_none_at_all_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "6.6")
    assert row(tmp_path)["error"]["class"] == "tool_too_old"
    (tmp_path / "results.jsonl").unlink()
    (tmp_path / "bin/smartctl").unlink()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    error = row(tmp_path)["error"]
    assert error["class"] == "tool_missing"
    assert "smartmontools" in error["message"]


def test_it_keeps_of_roots_rights_those_that_raw_commands_need() -> None:
    tool = registry.NODE_TOOLS["storage_health"]()
    assert tool.capabilities == "CAP_SYS_ADMIN CAP_SYS_RAWIO"
    # Longer than all that is waited for, and what a program that hangs in the kernel costs more.
    assert tool.limit_s({}) > smartctl._ALL_S + 45
