# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the health that drives report. Pure.

A drive that reports that it is failing fails. Its counts (errors, worn cells, replaced sectors) have no
published threshold: they are reported, and such a drive does not pass either. A drive without SMART is
`recorded` with its message; one that could not be queried is unmeasured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from ansible_collections.railyard.fabric.plugins.module_utils.measure.smartctl import NONE, READ, UNREAD
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.node.smartctl import FAILING
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.records.node_rows import Drive
from ansible_collections.railyard.fabric.plugins.plugin_utils import plain_text
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    PASS,
    RECORDED,
    UNMEASURED,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_whole
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

BASIS = (
    "each drive's SMART status; for NVMe no critical warning, and the spare not below its threshold "
    "(NVM Express Base Specification 2.0, 5.16.1.3)"
)
NO_SMART = "a drive below it does not support SMART"
COUNTED = "no published threshold for the counts of drives"
CONTAINER = "node_class container: the drives are the host's, and are checked there"
#: Bits of NVMe's critical warning, by the same specification.
_WARNINGS = (
    "the spare is below its threshold",
    "a temperature is beyond its threshold",
    "the media or an internal error degraded its reliability",
    "its media is read-only",
    "the backup of its volatile memory failed",
    "its persistent memory region is read-only or unreliable",
)
#: Texts of the values that a drive may report.
_VALUE_TEXTS = {
    "available_spare_percent": "spare {} %",
    "used_percent": "{} % of its life used",
    "media_errors": "{} media errors",
    "reallocated_sectors": "{} reallocated sectors",
    "pending_sectors": "{} pending sectors",
    "uncorrectable_sectors": "{} uncorrectable sectors",
    "grown_defects": "{} grown defects",
    "uncorrected_errors": "{} uncorrected errors",
    "unsafe_shutdowns": "{} unsafe shutdowns",
    "warning_temperature_min": "{} min above its warning temperature",
    "critical_temperature_min": "{} min above its critical temperature",
    "temperature_c": "{} °C",
    "power_on_h": "{} h in operation",
}
#: Minimum of a value that is a finding; a vendor's estimated life ends at 100 %, and may be exceeded.
_FINDINGS = {
    **dict.fromkeys(("media_errors", "reallocated_sectors", "pending_sectors", "uncorrectable_sectors"), 1),
    **dict.fromkeys(("grown_defects", "uncorrected_errors"), 1),
    **dict.fromkeys(("warning_temperature_min", "critical_temperature_min"), 1),
    "used_percent": 100,
}
#: Bits of smartctl's exit status (smartctl(8)) that are findings; bits 4 and 5 are shown by the attributes.
_STATUS_BITS = {
    1 << 2: "not all of its SMART commands succeeded",
    1 << 6: "its error log holds errors",
    1 << 7: "its self-test log holds errors",
}
_MOST_CHARACTERS, _MOST_DRIVES = 200, 16


def find_contradiction(row: Row, _policy: Row) -> str | None:
    """Return why a complete row does not describe a mount's drives, or None."""
    health, metrics = row["health"], row["metrics"]
    drives = health["drives"]
    if health["mount"] != row["subject"]:
        return f"it describes {health['mount']!r}"
    names = [drive["name"] for drive in drives]
    if len(set(names)) < len(names):
        return f"it names a drive twice: {', '.join(names)}"
    for drive in drives:
        if drive["smart"] == READ and not _is_complete(drive):
            return f"an incomplete drive: {drive!r}"[:_MOST_CHARACTERS]
    read = sum(drive["smart"] == READ for drive in drives)
    if (metrics["drives"], metrics["drives_read"]) != (len(drives), read):
        return f"it counts {metrics['drives']} drives and {metrics['drives_read']} that were read"
    return None


def _is_complete(drive: Drive) -> bool:
    """Tell whether a drive that was read has all required values."""
    has_status = drive["passed"] is not None and drive["exit_status"] is not None
    return has_status and (drive["protocol"] != "NVMe" or "critical_warning" in drive["values"])


def judge_drives(row: Row) -> Answer:
    """Judge the drives of a complete row."""
    drives: Sequence[Row] = row["health"]["drives"]
    faults = [
        f"{_format_drive(one)}: {', '.join(found)}" for one in drives if (found := list(list_failures(one)))
    ]
    observed = {
        "drives": len(drives),
        "drives_read": sum(one["smart"] == READ for one in drives),
        "drives_failing": len(faults),
        "drive": "; ".join(map(_format_values, drives[:_MOST_DRIVES])),
    }
    answer = Answer.passed(observed, {"drives_failing": 0}, BASIS)
    where = f"{row['host']} {row['subject']}"
    if faults:
        return answer.failed("drive_failing", f"{where}: {'; '.join(faults)}", "proven")
    if unread := [f"{_format_drive(one)}: {_read_message(one)}" for one in drives if one["smart"] == UNREAD]:
        return answer.unknown("drive_unread", f"{where}: {'; '.join(unread)}")
    if without := [f"{_format_drive(one)}: {_read_message(one)}" for one in drives if one["smart"] == NONE]:
        answer.recorded(f"{NO_SMART}; {'; '.join(without)}")
    if counted := [
        f"{_format_drive(one)}: {', '.join(found)}" for one in drives if (found := list(list_findings(one)))
    ]:
        before = f"{answer.basis}; " if without else ""
        answer.recorded(f"{before}{COUNTED}; {'; '.join(counted)}")
    return answer


def check_same_drives(
    asked: Sequence[AskedLine],
    answers: Sequence[Answer],
    rows: Mapping[str, Sequence[Row]],
    containers: AbstractSet[str],
) -> None:
    """Reject answers on other drives than fio measured, and skip drives of a container's host; in place.

    Args:
        asked: the planned tests.
        answers: their answers, in the same order.
        rows: id -> its rows.
        containers: nodes that the inventory declares as containers.
    """
    measured: dict[tuple[object, object], dict[str, str | None]] = {}
    for line, answer in zip(asked, answers, strict=True):
        if line["tool"] == "fio" and answer.proof == "proven":
            disks = rows[str(line["id"])][0]["storage"]["disks"]
            measured.setdefault(
                (line["node"], line["subject"]), {disk["name"]: disk["model"] for disk in disks}
            )
    for line, answer in zip(asked, answers, strict=True):
        wanted = measured.get((line["node"], line["subject"])) if line["tool"] == "smartctl" else None
        if wanted is not None and answer.outcome in (PASS, RECORDED):
            drives = rows[str(line["id"])][0]["health"]["drives"]
            about = {drive["name"]: drive["model"] for drive in drives}
            # smartctl may know a model that the kernel does not.
            about |= {name: None for name, model in wanted.items() if model is None and name in about}
            if about != wanted:
                detail = f"it describes {_format_models(about)}, fio measured {_format_models(wanted)}"
                answer.unknown("row_garbled", f"{line['node']} {line['subject']}: {detail}")
        unread = answer.outcome == UNMEASURED and answer.cause.get("cause_class") == "drive_unread"
        if line["tool"] == "smartctl" and unread and line["node"] in containers:
            mine = Answer.not_applicable(f"{CONTAINER}; {answer.cause['cause']}")
            answer.outcome, answer.basis, answer.floor, answer.ceiling = mine.outcome, mine.basis, {}, {}


def _format_models(models: Mapping[str, str | None]) -> str:
    drives = (f"{name} {model or ''}".rstrip() for name, model in sorted(models.items())[:_MOST_DRIVES])
    return ", ".join(map(_clean, drives)) or "no drive"


def list_failures(drive: Row) -> Iterator[str]:
    """Yield why a drive reports that it is failing."""
    if drive["smart"] != READ:
        return
    values = drive["values"]
    warning = values.get("critical_warning", 0)
    yield from (words for bit, words in enumerate(_WARNINGS) if warning >> bit & 1)
    spare, least = (values.get(f"available_spare{part}_percent") for part in ("", "_threshold"))
    if is_whole(spare) and is_whole(least) and spare < least:
        yield f"spare {spare} %, its threshold is {least} %"
    # smartctl derives NVMe's status from the critical warning, which is listed above.
    if (not drive["passed"] or drive["exit_status"] & FAILING) and not warning & (1 << len(_WARNINGS)) - 1:
        yield ", ".join(["its SMART status is failing", *drive["attributes"][:_MOST_DRIVES]])


def list_findings(drive: Row) -> Iterator[str]:
    """Yield the values of a drive that are worth a look."""
    if drive["smart"] != READ:
        return
    values = drive["values"]
    yield from (_VALUE_TEXTS[name].format(values[name]) for name in _FINDINGS if _reaches(values, name))
    yield from (f"attribute {_clean(name)}" for name in drive["attributes"][:_MOST_DRIVES])
    yield from (words for bit, words in _STATUS_BITS.items() if drive["exit_status"] & bit)


def _reaches(values: Row, name: str) -> bool:
    return name in values and values[name] >= _FINDINGS[name]


def _format_drive(drive: Row) -> str:
    return " ".join(_clean(drive[key]) for key in ("name", "model") if drive.get(key))


def _read_message(drive: Row) -> str:
    return _clean(drive.get("said") or "no reason is given")


def _clean(text: object) -> str:
    """Return text from a node as part of a line."""
    return plain_text.clean_line(str(text))[:_MOST_CHARACTERS]


def _format_values(drive: Row) -> str:
    if drive["smart"] != READ:
        return f"{_format_drive(drive)}: {_read_message(drive)}"
    values = drive["values"]
    texts = [text.format(values[name]) for name, text in _VALUE_TEXTS.items() if name in values]
    return f"{_format_drive(drive)}: {'passed' if drive['passed'] else 'failing'}, {', '.join(texts)}".rstrip(
        ", "
    )
