# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the runner's results: rows, raw outputs and a status, each durable once it is written."""

from __future__ import annotations

import datetime
import json
import os
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from .. import node_files
from ..schedule import rounds
from .eta import Pace, uptime_s
from .raw_names import archive_name, raw_name
from .row_packer import Packer

SCHEMA = 1
RESULTS = "results.jsonl"
STATUS = "status.json"
RAW = "raw"
# The keys that a row takes from its planned test, and those that are set once the test was measured.
_PLANNED = ("id", "check", "tool", "node", "peer", "rail", "direction", "round", "group")
_NOT_MEASURED = ("gid_index", "gid_type", "window_s", "message_bytes", "qps", "active_mtu_bytes", "counters",
                 "other_rails", "claim", "proof", "proof_reason", "raw", "error", "other_end")  # fmt: skip


def utc_now() -> str:
    """Return the current time in the format of rows: `2026-11-21T10:15:03.120Z`."""
    now = datetime.datetime.now(datetime.timezone.utc)  # noqa: UP017 - nodes may have Python 3.9
    return now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}Z"


def end_of(test: Mapping[str, Any], host: str) -> str:
    """Return a host's end of a test: the test's `node` is the client."""
    return "client" if test["node"] == host else "server"


def attempt_of(test_or_row: Mapping[str, Any]) -> int:
    """Return the attempt of a test or row, 1 for the first."""
    return int(test_or_row.get("attempt", 1))


class Record:
    """The run's folder on this node; each row is complete and on disk before the next test begins."""

    def __init__(self, folder: str, order: Mapping[str, Any], total_tests: int, pace: Pace) -> None:
        self.folder = folder
        self.pace = pace
        self._order = order
        self._lock = threading.Lock()
        self._written: set[tuple[str, int]] = set()
        # A sweep has very many rows, and most of them are nearly equal.
        packs = order["policy"].get("questions", rounds.EVERY) == rounds.TOGETHER
        self._packer = Packer() if packs else None
        self._status: dict[str, Any] = {
            "schema": SCHEMA,
            "run": order["run"],
            "node": order["node"],
            "pid": os.getpid(),
            "total_tests": total_tests,
            "current": None,
            "done": False,
            "reason": None,
        }
        os.makedirs(os.path.join(folder, RAW), mode=0o700, exist_ok=True)
        self._rows = os.open(
            os.path.join(folder, RESULTS), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        self._save_status()

    def has(self, test_id: str) -> bool:
        """Return whether the test's row is written."""
        return (test_id, 1) in self._written

    def more(self, tests: list[Mapping[str, Any]]) -> None:
        """Add tests that are measured again to the planned total."""
        with self._lock:
            self.pace.more(tests)
            self._status["total_tests"] += len(tests)
            self._save_status()

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows with sequence numbers; a second row of the same attempt is ignored."""
        with self._lock:
            fresh = [row for row in rows if _key(row) not in self._written]
            # Numbers, since a clock may be set back; a missing number shows a lost row.
            first = int(self._order.get("rows_before", 0)) + len(self._written) + 1
            fresh = [{**row, "sequence": number} for number, row in enumerate(fresh, first)]
            written = self._packer.lines(fresh) if self._packer else fresh
            lines = [json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n" for row in written]
            try:
                self._write("".join(lines).encode())
            except OSError:
                # The frame of a packed row may not have been written.
                self._packer = Packer() if self._packer else None
                raise
            self._written.update(map(_key, fresh))
            for row in fresh:
                self.pace.over(row)
            self._save_status()

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._rows, data) :]
        os.fsync(self._rows)

    def begin(self, tests: list[Mapping[str, Any]]) -> None:
        """Set the tests that are being measured in the status."""
        first = tests[0]
        current = "{} {} {}".format(first["id"], first["check"], first["node"])
        if first["peer"] is not None:
            current += " to {} on {}".format(first["peer"], " and ".join(str(t["rail"]) for t in tests))
        elif first.get("subject"):
            current += " " + first["subject"]
        self.pace.begin()
        self.update_status({"current": current})

    def update_status(self, changes: Mapping[str, Any]) -> None:
        """Change keys of the status."""
        with self._lock:
            self._status.update(changes)
            self._save_status()

    def finish(self, reason: str) -> None:
        """Set in the status that no more rows will come."""
        self.update_status({"done": True, "reason": reason, "current": None})

    def raw_path(self, test: Mapping[str, Any]) -> str:
        """Return the file for the tool's output at this end of a test."""
        return os.path.join(self.folder, RAW, self.raw_name(test))

    def raw_name(self, test: Mapping[str, Any]) -> str:
        """Return the name of that file."""
        return raw_name(test["id"], end_of(test, self._order["node"]), attempt_of(test))

    def blank_row(
        self, test: Mapping[str, Any], rail: Mapping[str, Any], version: str | None
    ) -> dict[str, Any]:
        """Return a row with every key of the schema and no result yet."""
        return {
            **dict.fromkeys(_NOT_MEASURED),
            **{key: test[key] for key in _PLANNED},
            "schema": SCHEMA,
            "run": self._order["run"],
            "end": end_of(test, self._order["node"]),
            "host": self._order["node"],
            "tool_version": version,
            "netdev": rail.get("netdev"),
            "hca": rail.get("hca"),
            "address": rail.get("ip"),
            "started": utc_now(),
            "attempt": attempt_of(test),
            "mtu_bytes": netdev_mtu_bytes(rail.get("netdev")),
            "status": "unmeasured",
            "metrics": {},
            **({"subject": test["subject"]} if "subject" in test else {}),
        }

    def raw_reference(self, test: Mapping[str, Any]) -> dict[str, str]:
        """Return the row's `raw` object: the archive in the run folder and the member in it."""
        name = archive_name(str(self._order["node"]), "first_id" in self._order)
        return {"file": f"raw/{name}", "name": self.raw_name(test)}

    def _save_status(self) -> None:
        self._status["finished_tests"] = len(self._written)
        self._status["updated"] = utc_now()
        self._status["left_s"] = round(self.pace.left_s(), 1)
        self._status["uptime_s"] = uptime_s()
        path = os.path.join(self.folder, STATUS)
        with open(path + ".new", "w", encoding="utf-8") as handle:
            json.dump(self._status, handle, sort_keys=True)
        os.replace(path + ".new", path)


def _key(row: Mapping[str, Any]) -> tuple[str, int]:
    return str(row["id"]), attempt_of(row)


def netdev_mtu_bytes(netdev: str | None) -> int | None:
    """Return the current MTU of a netdev, None where it does not exist."""
    mtu = node_files.read_word(f"/sys/class/net/{netdev}/mtu")
    return int(mtu) if mtu.isdigit() else None
