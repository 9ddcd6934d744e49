# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Like drives are compared with each other; what a device's counters do not confirm is unmeasured."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import archive_limits
from support.runs.fake_run import FakeRun
from support.runs.fake_storage import drives_of, list_accounts, with_drives
from support.runs.spoil import error_row

NODES = ("gpu1", "gpu2", "gpu3", "gpu4")


def outcomes(run: FakeRun, node: str) -> dict[str, str]:
    return {one["check"]: one["outcome"] for one in drives_of(run) if one["node"] == node}


def test_healthy_drives_are_recorded_and_proven() -> None:
    run = with_drives()
    found = drives_of(run)
    assert len(found) == 8
    assert {(one["outcome"], one["proof"], one["subject"]) for one in found} == {
        ("recorded", "proven", "/data")
    }
    assert all("no published threshold" in one["basis"] for one in found)
    assert {one["observed"]["drive"] for one in found} == {"xfs on nvme0n1p1 (nvme0n1 FAST 9000 1 TB)"}
    assert run.incomplete() is None
    assert run.status() == 0


def test_nothing_is_planned_unless_a_mount_is_named() -> None:
    assert drives_of(FakeRun()) == []


def test_one_drive_far_behind_its_peers_fails_in_each_test_that_shows_it() -> None:
    run = with_drives(
        NODES, node_class="hardware", slow={"gpu3": {"storage_read": 0.5, "storage_random_read": 0.6}}
    )
    assert outcomes(run, "gpu3") == {
        "storage_write": "recorded", "storage_read": "fail", "storage_random_read": "fail",
        "storage_sync_write": "recorded",
    }  # fmt: skip
    assert {one["outcome"] for one in drives_of(run) if one["node"] != "gpu3"} == {"recorded"}
    [read] = [one for one in drives_of(run) if (one["node"], one["check"]) == ("gpu3", "storage_read")]
    assert read["cause_class"] == "drive_stands_apart"
    assert "gpu3 /data: bandwidth_bytes_per_s 1e+09, the median of 3 peer drives 2e+09" in read["cause"]
    assert run.status() == 1


@pytest.mark.parametrize(
    "shared", [{"node_class": "virtual"}, {"node_class": "hardware", "allow_busy": True}]
)
def test_drives_that_others_may_use_are_reported_and_not_judged(shared: dict[str, Any]) -> None:
    slow = {"gpu3": {"storage_read": 0.5, "storage_random_read": 0.6}}
    run = with_drives(NODES, slow=slow, **shared)
    assert {one["outcome"] for one in drives_of(run)} == {"recorded"}
    account = [one for one in drives_of(run) if "others may use these drives" in one["basis"]]
    assert {(one["node"], one["check"]) for one in account} == {
        ("gpu3", "storage_read"), ("gpu3", "storage_random_read"),
    }  # fmt: skip


def test_one_number_alone_is_reported_and_fails_no_one() -> None:
    run = with_drives(NODES, node_class="hardware", slow={"gpu3": {"storage_read": 0.5}})
    assert {one["outcome"] for one in drives_of(run)} == {"recorded"}
    account = [one for one in drives_of(run) if "the median of 3 peer drives" in one["basis"]]
    assert all(one["basis"].startswith("no published threshold; ") for one in account)
    assert [(one["node"], one["check"]) for one in account] == [("gpu3", "storage_read")]


def test_of_two_like_drives_neither_is_named_as_the_cause() -> None:
    """1790 of 2376 MiB/s, as two drives that were declared alike read."""
    both = {"storage_read": 1790 / 2376, "storage_random_read": 1790 / 2376}
    run = with_drives(slow={"gpuserver1": both})
    assert {one["outcome"] for one in drives_of(run)} == {"recorded"}
    account = [one for one in drives_of(run) if "either of the two may be wrong" in one["basis"]]
    assert {(one["node"], one["check"]) for one in account} == {
        ("gpuserver1", "storage_read"), ("gpuserver1", "storage_random_read"),
    }  # fmt: skip


@pytest.mark.parametrize(
    "disks",
    [
        None, {"model": "another"}, {"model": None}, {"size_bytes": 0}, {"size_bytes": None},
    ],
)  # fmt: skip
def test_a_node_with_other_drives_than_its_peers_is_reported(disks: dict[str, Any] | None) -> None:
    run = with_drives(
        NODES, node_class="hardware", slow={"gpu3": {"storage_read": 0.2, "storage_write": 0.2}}
    )
    for account in list_accounts(run, "gpu3"):
        account["disks"] = [] if disks is None else [{**account["disks"][0], **disks}]
    assert set(outcomes(run, "gpu3").values()) == {"unmeasured"}
    assert {one["outcome"] for one in drives_of(run) if one["node"] != "gpu3"} == {"recorded"}
    [read] = [one for one in drives_of(run) if (one["node"], one["check"]) == ("gpu3", "storage_read")]
    assert read["cause_class"] == "drive_differs"


def test_two_honest_kinds_of_drives_are_recorded() -> None:
    """Two nodes of each kind; three of one and one that is declared otherwise; of two nodes each its own."""
    slow = {"storage_read": 0.2, "storage_write": 0.2}
    for nodes, others, declared in (
        (NODES, ("gpu3", "gpu4"), False),
        (NODES, ("gpu4",), True),
        (("gpuserver1", "gpuserver2"), ("gpuserver2",), False),
    ):
        run = with_drives(nodes, node_class="hardware", slow=dict.fromkeys(others, slow))
        for node in others:
            if declared:
                run.plan["nodes"][node]["gpus"] = {"count": 0}
        for account in list_accounts(run, *others):
            account["disks"][0]["model"] = "another"
        assert {one["outcome"] for one in drives_of(run)} == {"recorded"}
    assert all("which no peer has at that mount" in one["basis"] for one in drives_of(run))


def test_a_site_bounds_drives_that_differ() -> None:
    run = with_drives(NODES, floors={"storage_read": {"bandwidth_bytes_per_s": [1.5e9, 8e9]}})
    for account in list_accounts(run, "gpu3"):
        account["disks"][0]["model"] = "another"
    assert outcomes(run, "gpu3")["storage_read"] == "pass"


@pytest.mark.parametrize(("p99_us", "outcome"), [(1000.0, "fail"), (130.0, "recorded")])
def test_a_slow_percentile_counts_when_it_is_slow_and_not_merely_a_multiple(
    p99_us: float, outcome: str
) -> None:
    run = with_drives(NODES, node_class="hardware", slow={"gpu3": {"storage_write": 0.5}})
    for row in run.results:
        if row["check"] == "storage_sync_write":
            row["metrics"]["latency_p99_us"] = p99_us if row["host"] == "gpu3" else 40.0
    assert outcomes(run, "gpu3")["storage_sync_write"] == outcome


def test_a_link_trained_below_its_ends_fails_the_read_and_is_named() -> None:
    run = with_drives()
    for account in list_accounts(run, "gpuserver2"):
        account["disks"][0]["pcie"].update(width=2.0)
    [bad] = [one for one in drives_of(run) if one["outcome"] != "recorded"]
    assert (bad["node"], bad["check"], bad["cause_class"]) == ("gpuserver2", "storage_read", "drive_slot")
    assert "nvme0n1 runs at 2 lanes, 4 are possible" in bad["cause"]


def test_a_site_bounds_a_drive() -> None:
    floors = {
        "storage_read": {"bandwidth_bytes_per_s": [1.5e9, 8e9]},
        "storage_sync_write": {"latency_p99_us": [0, 30]},
    }
    run = with_drives(floors=floors)
    assert outcomes(run, "gpuserver1") == {
        "storage_write": "recorded", "storage_read": "pass", "storage_random_read": "recorded",
        "storage_sync_write": "fail",
    }  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"counters": {"device_read_bytes": [0, 0], "device_written_bytes": [0, 0]}},
        {"counters": {"device_read_bytes": [9, 2], "device_written_bytes": [9, 2]}},
        {"counters": None},
        {"storage": None},
        {"mount": "/other"},
        # J8: the command line is of another test, and a time is longer than the test.
        {"argv": [["fio", "--rw=write", "--bs=1M", "--ioengine=libaio", "--iodepth=16"]]},
        {"argv": [["fio", "--rw=read", "--bs=1M", "--ioengine=libaio", "--iodepth=16", "--rw=write"]]},
        {"argv": [["fio", "--rw=read", "--bs=1M", "--ioengine=libaio", "--iodepth=16", "--ioengine=null"]]},
        {"moved_bytes": 1},
        {"moved_bytes": "many"},
        {"moved_s": 50.0},
        {"moved_s": 0.001},
        {
            "metrics": {
                "bandwidth_bytes_per_s": 2e9,
                "iops": 9e6,
                "latency_average_us": 3.0,
                "latency_p99_us": 4.0,
            }
        },
    ],
)
def test_a_row_that_its_counters_do_not_confirm_is_unmeasured(change: dict[str, Any]) -> None:
    run = with_drives()
    row = next(row for row in run.results if row["check"] == "storage_read")
    for key, value in change.items():
        (row if key in row else row["storage"])[key] = value
    bad = [one for one in drives_of(run) if one["outcome"] != "recorded"]
    assert [one["outcome"] for one in bad] == ["unmeasured"]
    of_type = any(value is None or value == "many" for value in change.values())
    assert bad[0]["cause_class"] == ("row_garbled" if of_type else "not_borne_out")


@pytest.mark.parametrize(
    ("error_class", "outcome"),
    [("storage_not_mounted", "fail"), ("storage_no_device", "unmeasured"), ("storage_full", "unmeasured")],
)
def test_a_mount_that_is_missing_fails_and_what_cannot_be_measured_is_unmeasured(
    error_class: str, outcome: str
) -> None:
    run = with_drives()
    row = next(row for row in run.results if row["check"] == "storage_read")
    error_row(row, error_class, "unmeasured", row["host"])
    assert [one["outcome"] for one in drives_of(run) if one["id"] == row["id"]] == [outcome]
    row["run"] = "20261121T101500Z-aaaa"
    assert [one["outcome"] for one in drives_of(run) if one["id"] == row["id"]] == ["unmeasured"]


def test_a_run_of_before_there_were_drives_is_still_collected() -> None:
    run = FakeRun()
    before = {key: value for key, value in run.policy.items() if not key.startswith("storage")}
    assert archive_limits.of_node([{**run.order, "policy": before}], "gpuserver1") == archive_limits.of_node(
        [run.order], "gpuserver1"
    )
