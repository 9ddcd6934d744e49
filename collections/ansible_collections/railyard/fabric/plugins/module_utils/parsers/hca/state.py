# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared by the parsers of ibstat, ibstatus and ibv_devinfo: devices with ports, and messages."""

from __future__ import annotations

import re
from typing import Any

from .. import common
from ..common import error

DEVICE_KEYS = ("name", "ca_type", "firmware", "board_id", "vendor_part_id", "transport")
PORT_KEYS = (
    "port",
    "state",
    "physical_state",
    "rate_gbps",
    "lid",
    "sm_lid",
    "link_layer",
    "active_mtu_bytes",
    "max_mtu_bytes",
)
LINK_LAYERS = ("InfiniBand", "Ethernet", "Unspecified", "IB", "Unknown")
# What a state is not: another line behind its first letters.
_NO_STATE = re.compile(r"[:.]|.{40}")
_OF_A_SHELL = "not_installed"
_TROUBLE = (
    ("no_device", re.compile(r"No IB devices found|no ca names|can't get list of ca names|"
                             r"No matching IB device|^\s*0 HCAs found|IB device .{0,40} wasn't found", re.I)),
    ("no_rdma", re.compile(r"Failed to (?:get|open) (?:IB devices list|NETLINK_RDMA socket)|"
                           r"Function not implemented", re.I)),
    ("tool_error", re.compile(r"^ibpanic:|stat of IB device|^Fatal error|No such device|"
                              r"Failed to (?:open|query|get)", re.I)),
    (_OF_A_SHELL, re.compile(r"command not found|No such file or directory", re.I)),
)  # fmt: skip

# A driver without its library; the devices of other drivers are listed.
_WARNING = re.compile(r"^\s*libibverbs: Warning")


def device(name: str) -> dict[str, Any]:
    """Return a device of which only the name is known yet."""
    return {**dict.fromkeys(DEVICE_KEYS), "name": name, "ports": []}


def port(number: int | None) -> dict[str, Any]:
    """Return a port of which only the number is known yet."""
    return {**dict.fromkeys(PORT_KEYS), "port": number}


class Seen:
    """The fields of a device or port so far: a repeated one belongs to another, after a truncation."""

    def __init__(self) -> None:
        """Begin with no field."""
        self._keys: set[str] = set()
        self.twice: dict[str, str] | None = None

    def restart(self) -> None:
        """Begin the next device or port."""
        self._keys = set()

    def add(self, key: str) -> None:
        """Note a field; the error of the first one that comes twice is kept in `twice`."""
        if key in self._keys:
            self.twice = self.twice or error("garbled", f"{key!r} comes twice in one device or port")
        self._keys.add(key)


def message(line: str) -> dict[str, str] | None:
    """Return the error that a line of one of these tools reports."""
    return None if warning(line) else common.trouble(_TROUBLE, line)


def warning(line: str) -> str | None:
    """Return the line if it is a warning after which the tool continues."""
    return line.strip()[:400] if _WARNING.match(line[:400]) else None


def graver(problem: dict[str, str] | None, reported: dict[str, str] | None) -> dict[str, str] | None:
    """Return the first error; one that may be of another program is replaced by any other."""
    if problem is None or (reported is not None and problem["class"] == _OF_A_SHELL):
        return reported or problem
    return problem


def without_shell(problem: dict[str, str] | None, listed: bool) -> dict[str, str] | None:
    """Drop a shell's error about another program: a tool that listed something was found."""
    return None if listed and problem and problem["class"] == _OF_A_SHELL else problem


def begun(line: str, start: str) -> dict[str, str] | None:
    """Return an error for the first line of a device that was cut off in the middle."""
    text = line.rstrip()
    if text and (text.startswith(start) or start.startswith(text)):
        return error("truncated", f"the text ends in {text[:60]!r}")
    return None


def glued(line: str, start: re.Pattern[str]) -> dict[str, str] | None:
    """Return an error for the first line of a device behind the rest of a line that was cut off."""
    found = start.search(line)
    if found and line[: found.start()].strip():
        return error("truncated", f"before {found.group()[:60]!a} a line is cut")
    return None


def listed(
    found: list[dict[str, Any]], problem: dict[str, str] | None, expected: str, lines: list[str]
) -> dict[str, str] | None:
    """Return the remaining error, now that it is known what the tool listed.

    Raises:
        NotThisTool: It listed nothing and printed no message.
    """
    problem = without_shell(problem, bool(found))
    if not found and (problem is None or problem["class"] == "truncated"):
        raise common.refusal(expected, lines)
    return problem


def fewer_ports(one: dict[str, Any]) -> dict[str, str] | None:
    """Remove the stated number of ports from a device; return an error if the text has another number."""
    stated = one.pop("_ports", None)
    if stated is None or stated == len(one["ports"]):
        return None
    return error("truncated", f"{one['name']} has {stated} ports, the text {len(one['ports'])}")


def devices_result(
    tool: str,
    devices: list[dict[str, Any]],
    problem: dict[str, str] | None,
    needed: tuple[str, ...],
    seen: Seen,
    warnings: list[str] | None = None,
) -> dict[str, Any]:
    """Return the common object of a tool that lists devices; see `cut_short` for `needed`."""
    problem = problem or cut_short(devices, needed) or seen.twice
    return common.result(tool, [{"devices": run} for run in common.runs(devices, "name")], problem, warnings)


def cut_short(devices: list[dict[str, Any]], needed: tuple[str, ...]) -> dict[str, str] | None:
    """Return an error if a port lacks a field that the tool always prints: the capture is truncated."""
    for one in devices:
        if " " in (one["firmware"] or ""):
            return error("garbled", f"{one['name']} has firmware {one['firmware'][:60]!a}, no version")
        if not one["ports"]:
            return error("truncated", f"{one['name']} has no port")
        for each in one["ports"]:
            missing = [key for key in needed if each[key] is None]
            # The last line of a port: half a word means that it is truncated.
            if "link_layer" in needed and each["link_layer"] not in LINK_LAYERS and not missing:
                missing.append("complete link layer")
            odd = next(filter(_NO_STATE.search, (each["state"] or "", each["physical_state"] or "")), None)
            if odd:
                reported = f"{one['name']} port {each['port']}: {odd[:60]!a} is no state"
                return error("garbled", reported)
            if missing:
                return error("truncated", f"{one['name']} port {each['port']} has no {', '.join(missing)}")
    return None
