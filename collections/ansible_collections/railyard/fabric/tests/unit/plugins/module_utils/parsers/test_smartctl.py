# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parser of smartctl: what a drive reports is kept apart from what it does not report."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from support.captures import failed, parse_valid, read


def one(name: str) -> dict[str, Any]:
    [output] = parse_valid("smartctl", read("smartctl", name))
    return output


def changed(**keys: Any) -> str:
    return json.dumps({**json.loads(read("smartctl", "nvme.json")), **keys})


def test_an_nvme_drive_tells_its_health_log() -> None:
    assert one("nvme.json") == {
        "device": "/dev/nvme0n1",
        "protocol": "NVMe",
        "model": "FAST 9000",
        "firmware": "1.2.3",
        "smart_available": True,
        "passed": True,
        "exit_status": 0,
        "attributes": [],
        "said": [],
        "values": {
            "critical_warning": 0,
            "available_spare_percent": 99,
            "available_spare_threshold_percent": 10,
            "used_percent": 3,
            "media_errors": 2,
            "error_log_entries": 7,
            "unsafe_shutdowns": 5,
            "warning_temperature_min": 12,
            "critical_temperature_min": 1,
            "temperature_c": 41,
            "power_on_h": 8760,
        },
    }


def test_of_an_ata_drive_a_raw_value_is_what_smartctl_prints_and_not_its_48_bits() -> None:
    found = one("ata.json")
    assert (found["passed"], found["exit_status"], found["protocol"]) == (False, 88, "ATA")
    # 12884901896 is 8 and, in the next 16 bits but one, 3.
    assert found["values"] == {
        "reallocated_sectors": 8, "pending_sectors": 16, "uncorrectable_sectors": 4, "power_on_h": 100,
        "temperature_c": 33,
    }  # fmt: skip
    assert found["attributes"] == ["Reallocated_Sector_Ct now", "End-to-End_Error past"]


def test_of_a_scsi_drive_the_errors_of_all_its_logs_are_added() -> None:
    found = one("scsi.json")
    assert (found["model"], found["firmware"], found["passed"]) == ("MAKER SAS10", "0007", True)
    assert found["values"] == {
        "grown_defects": 6, "uncorrected_errors": 3, "used_percent": 4, "power_on_h": 50,
        "temperature_c": 30,
    }  # fmt: skip


def test_a_drive_without_smart_says_so_as_text_where_the_version_has_no_key_for_it() -> None:
    found = one("scsi_without_smart.json")
    assert (found["smart_available"], found["passed"]) == (False, None)
    assert found["said"] == ["SMART support is: Unavailable - device lacks SMART capability."]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (read("smartctl", "virtio.json"), "not_read"),
        (changed(smartctl={"exit_status": 2}), "not_read"),
        (changed(smartctl={}), "no_data"),
        # Neither well nor ill, and not without SMART: unknown.
        (changed(smart_status={}), "no_data"),
        (changed(smart_status={"passed": "yes"}), "no_data"),
        (changed()[:-20], "truncated"),
    ],
)
def test_what_is_no_answer_is_not_valid(text: str, kind: str) -> None:
    assert failed("smartctl", text) == kind


def test_what_smartctl_says_of_it_is_kept() -> None:
    [output] = registry.parse("smartctl", read("smartctl", "virtio.json"))["outputs"]
    assert output["said"] == ["/dev/vda: Unable to detect device type"]
    [output] = registry.parse(
        "smartctl", changed(smart_status={}, smart_support={"available": True, "enabled": False})
    )["outputs"]
    assert output["said"] == ["SMART is disabled in the drive (`smartctl -s on` enables it)"]


def test_a_drive_that_prints_much_or_nonsense_does_not_make_the_row_long() -> None:
    rows = [{"id": 5, "name": "x" * 9000, "when_failed": "now", "raw": {"string": "y"}}] * 500
    messages = [{"string": "z" * 9000}] * 500
    [output] = registry.parse(
        "smartctl",
        changed(
            smartctl={"exit_status": 0, "messages": messages},
            ata_smart_attributes={"table": [*rows, "no row", None]},
            temperature=7,
            power_on_time={"hours": -3},
        ),
    )["outputs"]
    assert len(json.dumps(output)) < 10000
    assert "power_on_h" not in output["values"]
