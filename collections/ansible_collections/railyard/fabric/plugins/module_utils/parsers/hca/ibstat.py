# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ibstat (infiniband-diags)."""

from __future__ import annotations

import re
from typing import Any

from .. import common
from ..common import to_float, to_int
from . import state

# The kinds of node that ibstat knows; a type beyond them is "???".
_KIND = r"(?:CA|Router|Switch|iWARP RNIC|\?\?\?)"
# Indentation is often lost: the keys alone distinguish a port's fields from a device's.
# `ibstat DEVICE PORT` writes `CA: 'mlx5_0'`.
_DEVICE = re.compile(rf"^\s*{_KIND}:? '([^']{{1,80}})'\s*$")
_BEGIN = re.compile(rf"{_KIND}:? '[^']{{1,80}}'\s*$")
_TYPE = re.compile(rf"^\s*{_KIND} type:[ \t]*(.*?)\s*$")
_PORT = re.compile(r"^\s*Port ([0-9]{1,3}):\s*$")
_PAIR = re.compile(r"^\s*([A-Z][A-Za-z ]{1,30}):[ \t]*(.*?)\s*$")
_DEVICE_FIELDS = {"Firmware version": "firmware"}
_PORT_WORDS = {"State": "state", "Physical state": "physical_state", "Link layer": "link_layer"}
_PORT_NUMBERS = {"Base lid": "lid", "SM lid": "sm_lid"}


def _read_pair(device: dict[str, Any], key: str, value: str) -> None:
    port = device["ports"][-1] if device["ports"] else None
    if port is None:
        if key in _DEVICE_FIELDS:
            device[_DEVICE_FIELDS[key]] = value or None
    elif key in _PORT_WORDS:
        port[_PORT_WORDS[key]] = value or None
    elif key in _PORT_NUMBERS:
        port[_PORT_NUMBERS[key]] = to_int(value)
    elif key == "Rate":
        port["rate_gbps"] = to_float(value.split(" ")[0])


def parse(text: str) -> dict[str, Any]:
    """Parse the output of ibstat.

    Args:
        text: What ibstat printed for one device or all.

    Returns:
        The common object, one output per run: `devices`. Ports that are down have a rate too.

    Raises:
        NotThisTool: There is neither a device nor a message of ibstat.
    """
    lines = common.split_lines(text)
    devices: list[dict[str, Any]] = []
    problem: dict[str, str] | None = None
    seen = state.Seen()
    for line in lines:
        name, kind = _DEVICE.match(line), _TYPE.match(line)
        number, pair = _PORT.match(line), _PAIR.match(line)
        problem = problem or state.glued(line, _BEGIN)
        if name or number:
            seen.restart()
        if name:
            devices.append(state.device(name.group(1)))
        elif devices and kind:
            devices[-1]["ca_type"] = kind.group(1) or None
        elif devices and number:
            devices[-1]["ports"].append(state.port(to_int(number.group(1))))
        elif devices and pair:
            _read_pair(devices[-1], pair.group(1), pair.group(2))
            seen.add(pair.group(1))
            if pair.group(1) == "Number of ports":
                devices[-1]["_ports"] = to_int(pair.group(2))
        elif line.strip():
            reported = state.message(line)
            for start in ("CA '", "iWARP RNIC '"):
                reported = reported or state.begun(line, start)
            problem = state.graver(problem, reported)
    problem = state.listed(devices, problem, "no device of ibstat (CA 'name')", lines)
    for device in devices:
        fewer = state.fewer_ports(device)
        problem = problem or fewer
    needed = ("state", "link_layer")
    return state.devices_result("ibstat", devices, problem, needed, seen, _warnings(devices))


def _warnings(devices: list[dict[str, Any]]) -> list[str]:
    found = []
    for device in devices:
        for port in device["ports"]:
            where = f"{device['name']} port {port['port']}"
            if port["state"] == "Down" and port["physical_state"] == "LinkUp":
                found.append(f"{where}: link up and port down: no subnet manager answers")
            elif port["state"] == "Down":
                found.append(f"{where}: the rate of a port that is down means nothing")
    return found
