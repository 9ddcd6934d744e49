# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""show_gids (mlnx-tools): cells may be blank, so each is recognized by its format, not by its column."""

from __future__ import annotations

import re
from typing import Any

from .. import common
from ..common import error, to_int

_HEADER = re.compile(r"^DEV\s+PORT\s+INDEX\s+GID\b")
_HEADER_WITH_VERSION = re.compile(_HEADER.pattern + r".*\bVER\b")
_RULE = re.compile(r"^[-\s]*$")
_ROW = re.compile(
    r"^([A-Za-z]\S{0,79})\s+([0-9]{1,3})\s+([0-9]{1,4})\s+((?:[0-9a-fx]{4}:){7}[0-9a-fx]{4})\b(.*)$", re.I
)
_IPV4 = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}\Z")
_VERSION = re.compile(r"(?:RoCE)?v([12])\Z", re.I)
# Some builds write the version as the kernel does.
_SPOKEN = re.compile(r"(?:IB/)?RoCE (?=v[12]\b)", re.I)
_IPV4_MAPPED = "0000:0000:0000:0000:0000:ffff:"
_FOUND = re.compile(r"^n_gids_found=([0-9]{1,6})\s*$")


def _row(match: re.Match[str]) -> dict[str, Any]:
    rest = _SPOKEN.sub("", match.group(5)).split()
    ipv4 = next((cell for cell in rest if _IPV4.match(cell)), None)
    version = next((found.group(1) for found in map(_VERSION.match, rest) if found), None)
    others = [cell for cell in rest if not _IPV4.match(cell) and not _VERSION.match(cell)]
    netdev = others[0] if others else None
    kind = None
    if len(others) > 1:
        # More than a netdev's name: the row is torn.
        netdev = None
    elif version == "2":
        kind = "RoCE v2"
    elif version == "1":
        # The kernel has one name for both; only Ethernet has a netdev, which a container may not see.
        kind = "RoCE v1" if netdev else "IB"
    return {
        "device": match.group(1),
        "port": to_int(match.group(2)),
        "index": to_int(match.group(3)),
        "gid": match.group(4).lower(),
        "ipv4": ipv4,
        "type": kind,
        "netdev": netdev,
    }


def _name_hidden(gids: list[dict[str, Any]]) -> None:
    """Set a port's v1 GIDs to RoCE where its other rows show Ethernet: a v2, a netdev or an IPv4 address."""
    ethernet = {
        (row["device"], row["port"])
        for row in gids
        if row["type"] in ("RoCE v1", "RoCE v2") or row["gid"].startswith(_IPV4_MAPPED)
    }
    for row in gids:
        if row["type"] == "IB" and (row["device"], row["port"]) in ethernet:
            row["type"] = "RoCE v1"


def _runs(lines: list[str]) -> tuple[list[list[dict[str, Any]]], list[int | None]]:
    """Return the rows of each run, which begins with its header and ends with its count, and the counts.

    A count without its header is None, as is one after a line that is not a row.
    """
    parts: list[list[dict[str, Any]]] = [[]]
    counts: list[int | None] = []
    is_whole = False
    for line in lines:
        row, found = _ROW.match(line), _FOUND.match(line)
        is_whole = bool(_HEADER.match(line)) or (is_whole and bool(row or found or _RULE.match(line)))
        if row:
            parts[-1].append(_row(row))
        elif found:
            counts.append(to_int(found.group(1)) if is_whole else None)
        if found or _HEADER.match(line):
            parts.append([])
    return [run for part in parts for run in common.runs(part, "device", "port", "index")], counts


def parse(text: str) -> dict[str, Any]:
    """Parse the output of show_gids.

    Args:
        text: What show_gids printed.

    Returns:
        The common object, one output per run: `gids`.

    Raises:
        NotThisTool: There is no header, row or count of show_gids.
    """
    lines = common.split_lines(text)
    runs, counts = _runs(lines)
    gids = [row for run in runs for row in run]
    for run in runs:
        _name_hidden(run)
    if not counts and not any(_HEADER.match(line) for line in lines):
        raise common.refusal("no header of show_gids (DEV PORT INDEX GID)", lines)
    problem = None
    if not counts:
        problem = error("truncated", "the count of GIDs at the end is missing")
    elif None in counts:
        problem = error("garbled", "before a count of GIDs the header is missing, or a line is no row")
    elif sum(count or 0 for count in counts) != len(gids):
        problem = error("truncated", f"{sum(filter(None, counts))} GIDs are stated, {len(gids)} are listed")
    elif any(row["type"] is None for row in gids) and any(map(_HEADER_WITH_VERSION.match, lines)):
        problem = error("garbled", "a row has no version, or more than the name of a netdev behind it")
    elif not gids:
        problem = error("no_device", "there is no GID")
    return common.result("show_gids", [{"gids": run} for run in runs or [[]]], problem)
