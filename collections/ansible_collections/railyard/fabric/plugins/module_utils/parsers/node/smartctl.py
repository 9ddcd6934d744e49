# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""smartctl's JSON (`--json -a`), 7.0 and later: the health that a drive reports.

Names of fields: nvmeprint.cpp, ataprint.cpp, scsiprint.cpp and smartctl.cpp of smartmontools 7.0 to 7.5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .. import common, json_text
from ..common import error, to_int
from ..json_text import section

#: Bits of its exit status (smartctl(8), EXIT STATUS).
BAD_COMMAND, NOT_OPENED, FAILING = 1 << 0, 1 << 1, 1 << 3
_NVME = {
    "critical_warning": "critical_warning",
    "available_spare_percent": "available_spare",
    "available_spare_threshold_percent": "available_spare_threshold",
    "used_percent": "percentage_used",
    "media_errors": "media_errors",
    "error_log_entries": "num_err_log_entries",
    "unsafe_shutdowns": "unsafe_shutdowns",
    # Minutes, by the NVMe specification.
    "warning_temperature_min": "warning_temp_time",
    "critical_temperature_min": "critical_comp_time",
}
_ATA = {5: "reallocated_sectors", 197: "pending_sectors", 198: "uncorrectable_sectors"}
_SCSI_LOGS = ("read", "write", "verify")
# smartctl before 7.3 has it only as text for SCSI and ATA (`--json=o` includes it).
_UNAVAILABLE = re.compile(r"^SMART support is:\s+Unavailable", re.I)
_COUNT = re.compile(r"\s*([0-9]{1,18})\b")
_MOST_MESSAGES, _MOST_WORDS, _MOST_ATTRIBUTES = 4, 200, 16


def parse(text: str) -> dict[str, Any]:
    """Parse smartctl's JSON output.

    Args:
        text: What smartctl printed; text before and after the JSON is allowed.

    Returns:
        The common object; one output per run: `device protocol model firmware smart_available passed
        exit_status attributes said`, and in `values` what the drive's protocol has of `critical_warning
        available_spare_percent available_spare_threshold_percent used_percent media_errors error_log_entries
        unsafe_shutdowns warning_temperature_min critical_temperature_min reallocated_sectors pending_sectors
        uncorrectable_sectors grown_defects uncorrected_errors power_on_h temperature_c`.

    Raises:
        NotThisTool: There is no JSON of smartctl.
    """
    found = json_text.find_objects(text)
    runs = [one for one in found.objects if isinstance(one.get("smartctl"), dict)]
    cut = found.cut is not None and '"smartctl"' in found.cut
    if not runs and not cut:
        raise common.refusal("no JSON of smartctl (--json)", [text])
    problem = error("truncated", "the JSON ends in the middle") if found.cut is not None else None
    outputs = [_output(run) for run in runs]
    for one in outputs:
        messages = "; ".join(one["said"]) or "no reason is given"
        if one["exit_status"] is None:
            problem = problem or error("no_data", "it has no exit status")
        elif one["exit_status"] & (BAD_COMMAND | NOT_OPENED):
            problem = problem or error("not_read", messages)
        elif one["passed"] is None and one["smart_available"] is not False:
            problem = problem or error("no_data", f"the drive does not report its health: {messages}")
    return common.result("smartctl", outputs, problem)


def _output(run: dict[str, Any]) -> dict[str, Any]:
    passed = section(run, "smart_status").get("passed")
    return {
        "device": _clean_text(section(run, "device").get("name")),
        "protocol": _clean_text(section(run, "device").get("protocol")),
        "model": _clean_text(run.get("model_name", run.get("scsi_model_name"))),
        "firmware": _clean_text(run.get("firmware_version", run.get("scsi_revision"))),
        "smart_available": _available(run),
        "passed": passed if isinstance(passed, bool) else None,
        "exit_status": to_int(section(run, "smartctl").get("exit_status")),
        "attributes": list(_attributes(run)),
        "said": list(_read_messages(run)),
        "values": {name: value for name, value in _values(run) if value is not None and value >= 0},
    }


def _available(run: dict[str, Any]) -> bool | None:
    available = section(run, "smart_support").get("available")
    if isinstance(available, bool):
        return available
    return False if any(_UNAVAILABLE.match(line) for line in _lines(run)) else None


def _read_messages(run: dict[str, Any]) -> Iterator[str]:
    """Yield smartctl's messages, and those about a drive without SMART or with SMART disabled."""
    messages = section(run, "smartctl").get("messages")
    for message in (messages if isinstance(messages, list) else [])[:_MOST_MESSAGES]:
        if words := _clean_text(section(message).get("string")):
            yield words
    for line in _lines(run):
        if _UNAVAILABLE.match(line):
            yield " ".join(line.split())[:_MOST_WORDS]
    if section(run, "smart_support").get("enabled") is False:
        yield "SMART is disabled in the drive (`smartctl -s on` enables it)"


def _lines(run: dict[str, Any]) -> list[str]:
    lines = section(run, "smartctl").get("output")
    return [line for line in lines if isinstance(line, str)] if isinstance(lines, list) else []


def _attributes(run: dict[str, Any]) -> Iterator[str]:
    """Yield the ATA attributes that are or were at the vendor's threshold: name, `now` or `past`."""
    failed = [(row.get("name"), row.get("when_failed")) for row in _table(run)]
    for name, when in [(name, when) for name, when in failed if when in ("now", "past")][:_MOST_ATTRIBUTES]:
        yield f"{_clean_text(name)} {when}"


def _table(run: dict[str, Any]) -> list[dict[str, Any]]:
    rows = section(run, "ata_smart_attributes").get("table")
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _values(run: dict[str, Any]) -> Iterator[tuple[str, int | None]]:
    yield "power_on_h", to_int(section(run, "power_on_time").get("hours"))
    yield "temperature_c", to_int(section(run, "temperature").get("current"))
    log = section(run, "nvme_smart_health_information_log")
    for name, key in _NVME.items() if log else ():
        yield name, to_int(log.get(key))
    for row in _table(run):
        if counted := _ATA.get(to_int(row.get("id")) or 0):
            yield counted, _raw(section(row, "raw"))
    if "scsi_grown_defect_list" in run:
        yield "grown_defects", to_int(run["scsi_grown_defect_list"])
    if "scsi_percentage_used_endurance_indicator" in run:
        yield "used_percent", to_int(run["scsi_percentage_used_endurance_indicator"])
    logs = [section(run, "scsi_error_counter_log", key) for key in _SCSI_LOGS]
    counts = [to_int(one.get("total_uncorrected_errors")) for one in logs]
    if known := [count for count in counts if count is not None]:
        yield "uncorrected_errors", sum(known)


def _raw(raw: dict[str, Any]) -> int | None:
    """Return a raw value as smartctl prints it: 8 for `8 (0 3)`, where the number has all 48 bits."""
    found = _COUNT.match(str(raw.get("string"))[:_MOST_WORDS])
    return int(found.group(1)) if found else to_int(raw.get("value"))


def _clean_text(value: object) -> str | None:
    return " ".join(value.split())[:_MOST_WORDS] if isinstance(value, str) and value.strip() else None
