"""The folders of readings, `REPORTS/CLUSTER/fabric/TIME`: the newest earlier one, and a new one.

They are no run folders: they have no manifest, and are a level below these.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils import atomic_files
from ansible_collections.railyard.fabric.plugins.module_utils.records import subnet_json
from ansible_collections.railyard.fabric.plugins.module_utils.records.reader import RefusedError
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import Reading
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import history

from railyard.base.errors import UserError
from railyard.base.whole_file import unwritable

FINDINGS, PAGE, DRAWING = "findings.json", "index.html", "fabric.svg"
_STAMP = re.compile(r"[0-9]{8}T[0-9]{6}Z(-[0-9]+)?")
_READING = re.compile(r"reading(-[0-9]{1,3})?\.json")
#: A reading of 10,000 adapters has 20 MiB.
_MOST_BYTES = 256 * 1024 * 1024
#: So many earlier readings are looked at for one of the same subnet.
_MOST_EARLIER = 20


class Earlier(NamedTuple):
    """Earlier readings, the newest first, and why others could not be read."""

    readings: tuple[Reading, ...]
    notes: tuple[str, ...]


def numbered(name: str, place: int) -> str:
    """Return the name of a file or folder of the nth subnet: `reading.json`, `reading-2.json`."""
    stem, dot, suffix = name.partition(".")
    return name if place == 1 else f"{stem}-{place}{dot}{suffix}"


def load_earlier(cluster: Path, before_s: float) -> Earlier:
    """Load the readings of a cluster that were taken before a time.

    Args:
        cluster: `REPORTS/CLUSTER`.
        before_s: seconds since the epoch; of a capture it is the time of the capture.
    """
    found: list[Reading] = []
    notes = []
    for folder in _stamped(cluster / history.FABRIC)[:_MOST_EARLIER]:
        for path in sorted(path for path in folder.iterdir() if _READING.fullmatch(path.name)):
            try:
                reading = _load(path)
            except (OSError, ValueError, RefusedError, RecursionError) as error:
                notes.append(f"{path} is not compared: {error}")
                continue
            if reading.taken_at_s < before_s:
                found.append(reading)
    return Earlier(tuple(found), tuple(notes))


def find_previous(reading: Reading, earlier: Sequence[Reading]) -> Reading | None:
    """Return the newest earlier reading of the same subnet: one that shares a switch with this one."""
    own = {guid for guid, device in reading.devices.items() if device.kind == "switch"}
    return next((one for one in earlier if own & set(one.devices)), None)


def make_folder(cluster: Path, taken_at_s: float) -> Path:
    """Make the folder of a reading.

    Raises:
        UserError: it cannot be made.
    """
    stamp = datetime.fromtimestamp(taken_at_s, UTC).strftime("%Y%m%dT%H%M%SZ")
    for name in (stamp, *(f"{stamp}-{number}" for number in range(2, 1000))):
        path = cluster / history.FABRIC / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise unwritable(path, error) from error
        return path
    raise UserError(
        f"{cluster / history.FABRIC / stamp} was read a thousand times", "remove the folders of that time"
    )


def write(path: Path, text: str) -> None:
    """Write a file of the folder as a whole.

    Raises:
        UserError: it cannot be written.
    """
    try:
        atomic_files.write_bytes(str(path), text.encode(), 0o644, (os.geteuid(), os.getegid()))
    except OSError as error:
        raise unwritable(path, error) from error


def _stamped(path: Path) -> list[Path]:
    """Return the folders that are named by a time, the newest first."""
    if not path.is_dir():
        return []
    return sorted(
        (one for one in path.iterdir() if _STAMP.fullmatch(one.name) and one.is_dir()), reverse=True
    )


def _load(path: Path) -> Reading:
    with path.open("rb") as stream:
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it is larger than {_MOST_BYTES >> 20} MiB")
    return subnet_json.load(json.loads(data), str(path))
