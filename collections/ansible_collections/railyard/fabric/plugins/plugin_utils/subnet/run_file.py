# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `validate --fabric` keeps of the fabric in the run's folder: `fabric.json`, for the run's report."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from ansible_collections.railyard.fabric.plugins.module_utils.records import reader
from ansible_collections.railyard.fabric.plugins.module_utils.records.reader import (
    AboveZero,
    AtLeast,
    Matches,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder, RunFolderError

FILE = run_folder.FABRIC
_Count = Annotated[int, AtLeast(0)]


class PortRecord(TypedDict):
    """A port on a path: the switch's name, or node and rail of an adapter."""

    name: str
    port: _Count
    guid: Annotated[str, Matches("0x[0-9a-f]{16}")]


class GrowthRecord(TypedDict):
    """An error counter that grew, and at which end of the link; by as much or more if it is full."""

    end: Literal["out", "into"]
    counter: str
    by: _Count
    at_least: bool


class LinkRecord(TypedDict):
    """A link of a path; null for what was not read."""

    out: PortRecord
    into: PortRecord
    rate_gbps: Annotated[float, AboveZero()] | None
    grown: list[GrowthRecord] | None


class WayRecord(TypedDict):
    """The path in one direction, as far as it is known; `unknown` says why it is not known to its end."""

    sender: str
    receiver: str
    links: list[LinkRecord]
    unknown: str | None


class PathRecord(TypedDict):
    """A pair of nodes that is slow on a rail, and its path both ways; no check where isolation named it."""

    node: str
    peer: str
    rail: str
    checks: list[str]
    ways: list[WayRecord]


class FindingRecord(TypedDict):
    """A finding; `number` is that of its anchor on the fabric's page."""

    number: Annotated[int, AtLeast(1)]
    cause: str
    severity: Literal["fail", "unmeasured", "warn"]
    text: str
    inferred: bool
    node: str | None
    rail: str | None
    next: str


class RunFabric(TypedDict):
    """`fabric.json`.

    `folder` is the name of the reading's folder in `CLUSTER/fabric`; `counted_s` the time between the two
    readings of the error counters.
    """

    schema: Literal[1]
    folder: Annotated[str, Matches("[0-9]{8}T[0-9]{6}Z(-[0-9]{1,3})?")]
    headline: str
    status: Literal[0, 1, 3]
    counted_s: Annotated[float, AboveZero()] | None
    findings: list[FindingRecord]
    findings_left_out: _Count
    paths: list[PathRecord]
    paths_left_out: _Count


def load(folder: RunFolder) -> RunFabric | None:
    """Return what the run's folder has of the fabric; None where the fabric was not read.

    Raises:
        RunFolderError: the file cannot be read, or is not valid.
    """
    if not (folder.path / FILE).exists():
        return None
    document = folder.document(FILE)
    try:
        return reader.read(RunFabric, document)
    except reader.RefusedError as error:
        raise RunFolderError(
            f"{folder.path / FILE}: {error}. Remove the file to report the run without the fabric"
        ) from error


def write(folder: RunFolder, fabric: RunFabric) -> None:
    """Write the file.

    Raises:
        RunFolderError: it cannot be written.
    """
    folder.write(FILE, run_folder.pretty(fabric))
