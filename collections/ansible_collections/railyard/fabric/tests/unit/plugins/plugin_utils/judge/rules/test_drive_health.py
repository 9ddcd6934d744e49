# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A drive that reports its failure fails; its counts are reported; what it does not report is no pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import cost
from support.runs.fake_run import FakeRun
from support.runs.fake_storage import list_accounts, with_drives
from support.runs.spoil import error_row

UNREAD = {"smart": "unread", "said": "Smartctl open device: /dev/sda failed: DELL or MegaRaid controller"}
NONE = {"smart": "none", "said": "/dev/vda: Unable to detect device type", "bus": "virtio"}


def rows(run: FakeRun, node: str = "gpuserver2") -> Iterator[dict[str, Any]]:
    return (row for row in run.results if row.get("health") and row["host"] == node)


def verdict(run: FakeRun, node: str = "gpuserver2") -> dict[str, Any]:
    [found] = [one for one in run.judge() if (one["check"], one["node"]) == ("storage_health", node)]
    return found


def change_drives(*drives: dict[str, Any], **rules: Any) -> FakeRun:
    """Return a run in which one node's drives are the healthy one with these changes each."""
    run = with_drives(**rules)
    [row] = rows(run)
    [healthy] = row["health"]["drives"]
    made = []
    for number, change in enumerate(drives):
        values = {**healthy["values"], **change.get("values", {})}
        values = {name: value for name, value in values.items() if value is not None}
        made.append({**healthy, "name": f"nvme{number}n1", **change, "values": values})
    row["health"]["drives"] = made
    for account in list_accounts(run, row["host"]):
        [disk] = account["disks"]
        account["disks"] = [{**disk, "name": one["name"], "model": one["model"]} for one in made]
    # smartctl's status of the last one is the row's own.
    row["exit_status"] = made[-1]["exit_status"]
    row["metrics"] = {"drives": len(made), "drives_read": sum(one["smart"] == "read" for one in made)}
    return run


def test_drives_that_are_well_by_their_own_word_pass() -> None:
    run = change_drives({}, {})
    found = verdict(run)
    assert (found["outcome"], found["proof"]) == ("pass", "proven")
    assert (found["floor"], found["ceiling"]) == ({"drives_failing": 0}, {"drives_failing": 0})
    assert "NVM Express Base Specification 2.0, 5.16.1.3" in found["basis"]
    assert found["observed"]["drive"].startswith(
        "nvme0n1 FAST 9000: passed, spare 99 %, 3 % of its life used, 0 media errors, 5 unsafe shutdowns"
    )
    assert run.status() == 0


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"passed": False, "values": {"critical_warning": 1}}, "the spare is below its threshold"),
        ({"passed": False, "values": {"critical_warning": 2}}, "a temperature is beyond its threshold"),
        (
            {"passed": False, "values": {"critical_warning": 4}},
            "the media or an internal error degraded its reliability",
        ),
        ({"passed": False, "values": {"critical_warning": 8}}, "its media is read-only"),
        ({"passed": False, "values": {"critical_warning": 16}}, "the backup of its volatile memory failed"),
        # Whatever smartctl made of it.
        ({"values": {"critical_warning": 4}}, "the media or an internal error degraded its reliability"),
        # A bit that no specification had named yet.
        ({"passed": False, "values": {"critical_warning": 128}}, "its SMART status is failing"),
        ({"values": {"available_spare_percent": 9}}, "spare 9 %, its threshold is 10 %"),
        (
            {
                "protocol": "ATA",
                "passed": False,
                "exit_status": 8,
                "attributes": ["Reallocated_Sector_Ct now"],
            },
            "its SMART status is failing, Reallocated_Sector_Ct now",
        ),
        ({"protocol": "SCSI", "exit_status": 8}, "its SMART status is failing"),
    ],
)
def test_a_drive_that_says_it_is_failing_fails(change: dict[str, Any], word: str) -> None:
    run = change_drives({}, change)
    found = verdict(run)
    assert (found["outcome"], found["cause_class"], found["proof"]) == ("fail", "drive_failing", "proven")
    assert f"gpuserver2 /data: nvme1n1 FAST 9000: {word}" in found["cause"]
    assert "nvme0n1" not in found["cause"]
    assert found["observed"]["drives_failing"] == 1
    assert verdict(run, "gpuserver1")["outcome"] == "pass"
    assert run.status() == 1


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"values": {"media_errors": 3}}, "3 media errors"),
        ({"values": {"used_percent": 100}}, "100 % of its life used"),
        ({"values": {"warning_temperature_min": 7}}, "7 min above its warning temperature"),
        ({"protocol": "ATA", "values": {"pending_sectors": 1}}, "1 pending sectors"),
        ({"protocol": "SCSI", "values": {"grown_defects": 2}}, "2 grown defects"),
        ({"attributes": ["End-to-End_Error past"], "exit_status": 32}, "attribute End-to-End_Error past"),
        ({"exit_status": 64}, "its error log holds errors"),
        ({"exit_status": 128}, "its self-test log holds errors"),
    ],
)
def test_what_a_drive_counts_is_reported_without_pass_or_fail(change: dict[str, Any], word: str) -> None:
    run = change_drives(change)
    found = verdict(run)
    assert found["outcome"] == "recorded"
    assert found["basis"] == f"no published threshold for the counts of drives; nvme0n1 FAST 9000: {word}"
    assert run.status() == 0


@pytest.mark.parametrize(
    "values",
    [{"used_percent": 99}, {"unsafe_shutdowns": 5000}, {"available_spare_percent": 10}],
)
def test_what_is_below_its_bound_or_has_none_is_no_finding(values: dict[str, int]) -> None:
    assert verdict(change_drives({"values": values}))["outcome"] == "pass"


def test_a_drive_without_smart_is_recorded_with_its_words_and_keeps_no_run_from_passing() -> None:
    run = change_drives({}, NONE)
    found = verdict(run)
    assert found["outcome"] == "recorded"
    assert found["basis"].startswith("a drive below it does not support SMART; nvme1n1 FAST 9000: /dev/v")
    assert run.status() == 0


def test_a_nodes_own_words_make_no_line_and_no_end_of_their_own() -> None:
    said = {**NONE, "said": "a\nb\x1b[31m" + "c" * 9000, "name": "d\ne"}
    found = verdict(change_drives(said))
    assert "FAST 9000: a / bccc" in found["basis"]
    assert not {"\n", "\x1b"} & set(found["basis"] + found["observed"]["drive"])
    assert len(found["basis"]) < 500


@pytest.mark.parametrize(
    ("node_class", "outcome", "status"),
    [("virtual", "unmeasured", 3), ("container", "not_applicable", 0)],
)
def test_a_drive_that_was_not_read_is_unmeasured_but_the_hosts_of_a_container(
    node_class: str, outcome: str, status: int
) -> None:
    run = change_drives({}, UNREAD, node_class=node_class)
    found = verdict(run)
    assert found["outcome"] == outcome
    assert "MegaRaid controller" in f"{found['cause']} {found['basis']}"
    assert run.status() == status


@pytest.mark.parametrize("node_class", ["hardware", "container"])
def test_one_failing_drive_is_not_hidden_by_another_that_was_not_read(node_class: str) -> None:
    run = change_drives({"passed": False, "exit_status": 8}, UNREAD, NONE, node_class=node_class)
    assert verdict(run)["outcome"] == "fail"


@pytest.mark.parametrize(
    "change",
    [
        {"health": None},
        {"health": {"mount": "/data", "drives": None}},
        {"health": {"mount": "/data", "drives": []}},
        {"mount": "/other"},
        {"metrics": {"drives": 2, "drives_read": 1}},
        {"metrics": {"drives": 1, "drives_read": 0}},
        {"smart": "well"},
        {"passed": None},
        {"passed": 1},
        {"exit_status": None},
        {"attributes": [1]},
        {"values": None},
        {"values": {"critical_warning": "0"}},
        # Of NVMe it is what the status is made of.
        {"values": {"media_errors": 0}},
    ],
)
def test_an_account_that_is_not_complete_is_unmeasured(change: dict[str, Any]) -> None:
    run = with_drives()
    [row] = rows(run)
    for key, value in change.items():
        of_row = row if key in ("health", "metrics") else row["health"]
        (of_row if key in of_row else row["health"]["drives"][0])[key] = value
    found = verdict(run)
    assert found["outcome"] == "unmeasured"
    assert found["cause_class"] in ("not_borne_out", "row_garbled")


@pytest.mark.parametrize(
    ("error_class", "outcome"),
    [("storage_not_mounted", "fail"), ("storage_no_device", "unmeasured"), ("tool_missing", "unmeasured")],
)
def test_a_mount_that_is_missing_fails_and_a_tool_that_is_missing_is_no_pass(
    error_class: str, outcome: str
) -> None:
    run = with_drives()
    [row] = rows(run)
    error_row(row, error_class, "unmeasured", row["host"])
    assert verdict(run)["outcome"] == outcome


@pytest.mark.parametrize(
    ("rules", "asked"),
    [
        ({}, 0),
        ({"storage_mounts": ["/a", "/b"]}, 2),
        ({"storage_mounts": ["/a"], "storage_health": False}, 0),
    ],
)
def test_it_is_planned_on_each_mount_unless_it_is_switched_off(rules: dict[str, Any], asked: int) -> None:
    run = FakeRun(**rules)
    lines = [line for line in run.asked if line["check"] == "storage_health"]
    assert [line["subject"] for line in lines] == ["/a", "/b"][:asked] * 2


def test_the_plan_counts_its_time() -> None:
    mounts = {"storage_mounts": ["/a", "/b"]}
    without, beside = (
        cost.estimate_order(FakeRun(**mounts, storage_health=wanted).order) for wanted in (False, True)
    )
    # A second for each mount's drives, and what starting any test takes.
    assert beside.duration_s - without.duration_s == pytest.approx(2 * (1 + cost.pattern.START_S))
    assert beside.rows - without.rows == 2 * 2


def test_an_account_of_another_drive_than_was_measured_is_unmeasured() -> None:
    """J8: fio measured one drive, and smartctl was called for another."""
    run = change_drives({"name": "sda"})
    for account in list_accounts(run, "gpuserver2"):
        account["disks"][0]["name"] = "sdb"
    found = verdict(run)
    assert (found["outcome"], found["cause_class"]) == ("unmeasured", "row_garbled")
    assert "it describes sda FAST 9000, fio measured sdb FAST 9000" in found["cause"]


@pytest.mark.parametrize(("model", "outcome"), [("MZQL2960", "unmeasured"), (None, "pass")])
def test_an_account_of_another_model_than_was_measured_is_unmeasured(model: str | None, outcome: str) -> None:
    """J8: the name is right, the drive is another. Of some drives the kernel knows no model."""
    run = change_drives({"name": "sda", "model": "INTEL SSDPE2KE016T8"})
    for account in list_accounts(run, "gpuserver2"):
        account["disks"][0] |= {"name": "sda", "model": model}
    found = verdict(run)
    assert found["outcome"] == outcome
    assert (found["cause_class"] == "row_garbled") == (outcome == "unmeasured")


def test_a_drive_that_is_named_twice_is_unmeasured() -> None:
    run = change_drives({"name": "sda"}, {"name": "sda"})
    assert "names a drive twice" in verdict(run)["cause"]
