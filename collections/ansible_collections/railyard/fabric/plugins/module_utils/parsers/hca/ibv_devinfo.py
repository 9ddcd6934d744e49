# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ibv_devinfo (rdma-core), with or without -v."""

from __future__ import annotations

import re
from typing import Any

from .. import common
from ..common import error, to_float, to_int
from . import state

_PAIR = re.compile(r"^\s*([a-z][a-z_]{1,40}):\s*(.*?)\s*$")
_NUMBERED = re.compile(r"^(.*?)\s*\(-?[0-9]+\)\Z")
# `ibv_devinfo -l`: names alone
_BEGIN = re.compile(r"hca_id:\t")
_LIST = re.compile(r"^\s*([1-9][0-9]{0,3}) HCAs? found:\s*$")
_NAME = re.compile(r"^\s+([A-Za-z][\w.-]{0,63})\s*$")
_TRANSPORT = re.compile(r"[\w ]{1,30}(?: \([0-9-]{1,6}\))?\Z")
_DEVICE_FIELDS = {
    "fw_ver": "firmware",
    "board_id": "board_id",
    "vendor_part_id": "vendor_part_id",
    "transport": "transport",
}
_PORT_FIELDS = {
    "state": "state",
    "phys_state": "physical_state",
    "link_layer": "link_layer",
    "max_mtu": "max_mtu_bytes",
    "active_mtu": "active_mtu_bytes",
    "port_lid": "lid",
    "sm_lid": "sm_lid",
}
_MTUS = (256, 512, 1024, 2048, 4096)
_NUMBERS = ("max_mtu_bytes", "active_mtu_bytes", "lid", "sm_lid")
# With -v a port ends with its physical state and the GIDs, not with its link layer.
_VERBOSE_KEYS = ("max_mr_size", "max_qp", "device_cap_flags", "max_msg_sz", "gid_tbl_len")
_WIDTH = re.compile(r"([0-9]+)X?\b")
_SPEED = re.compile(r"([0-9.]+) Gbps")
# Lanes times what -v prints per lane; some of those figures are rounded down.
_LANE_GBPS = {
    "2.5": 2.5,
    "5.0": 5.0,
    "10.0": 10.0,
    "14.0": 14.0625,
    "25.0": 25.0,
    "50.0": 50.0,
    "100.0": 100.0,
}


def _plain(value: str) -> str | None:
    """Drop the number behind a word: `PORT_ACTIVE (4)`."""
    match = _NUMBERED.match(value)
    return (match.group(1) if match else value) or None


def _read_pair(device: dict[str, Any], key: str, value: str) -> None:
    if key == "port":
        device["ports"].append(state.port(to_int(value)))
    elif key == "phys_port_cnt":
        device["_ports"] = to_int(value)
    elif key in _VERBOSE_KEYS:
        device["_verbose"] = True
    elif not device["ports"]:
        if key in _DEVICE_FIELDS:
            device[_DEVICE_FIELDS[key]] = _plain(value)
            if key == "transport" and not _TRANSPORT.match(value):
                device["_odd"] = f"transport {value[:60]!a}"
    elif key in _PORT_FIELDS:
        name = _PORT_FIELDS[key]
        read = to_int(_plain(value)) if name in _NUMBERS else _plain(value)
        if key == "phys_state" and not _NUMBERED.match(value):
            # The last line of -v with a value: half a word means that it is truncated.
            read = None
        if name.endswith("_mtu_bytes") and read is not None and read not in _MTUS:
            # Half a number is no MTU.
            device["_odd"], read = f"a port of {key} {read}", None
        device["ports"][-1][name] = read
    elif key in ("active_width", "active_speed"):
        device["ports"][-1]["_" + key] = value


def _rate(port: dict[str, Any]) -> float | None:
    """Return lanes x speed, which only -v prints."""
    width = _WIDTH.match(port.pop("_active_width", ""))
    speed = _SPEED.match(port.pop("_active_speed", ""))
    if not width or not speed:
        return None
    lanes = to_float(width.group(1))
    return common.scaled(lanes, _LANE_GBPS.get(speed.group(1), to_float(speed.group(1)) or 0.0), 3)


def _cut_verbose(device: dict[str, Any], speeds: list[str | None]) -> dict[str, str] | None:
    """Return an error when a port of -v has no end: its physical state, which iWARP and EFA do not print."""
    if device["transport"] in (None, "InfiniBand"):
        return state.cut_short([device], ("state", "link_layer", "physical_state"))
    if all(speed and _NUMBERED.match(speed) for speed in speeds):
        return None
    return error("truncated", f"{device['name']} has a port without active speed")


def _list(lines: list[str]) -> dict[str, Any] | None:
    """Read `ibv_devinfo -l`; None when the text is none."""
    at = next((place for place, line in enumerate(lines) if _LIST.match(line)), None)
    if at is None:
        return None
    stated = _LIST.match(lines[at])
    names = []
    for line in lines[at + 1 :]:
        name = _NAME.match(line)
        if name is None:
            break
        names.append(state.device(name.group(1)))
    problem = None
    if stated and to_int(stated.group(1)) != len(names):
        problem = error("truncated", f"{stated.group(1)} devices are stated, {len(names)} are listed")
    return common.result(
        "ibv_devinfo", [{"devices": names}], problem, ["the list of names says nothing of ports"]
    )


def parse(text: str) -> dict[str, Any]:
    """Parse the output of ibv_devinfo.

    Args:
        text: What ibv_devinfo printed, `-v` or not.

    Returns:
        The common object, one output per run: `devices`; a port's rate only from `-v`.

    Raises:
        NotThisTool: There is neither a device nor a message of ibv_devinfo.
    """
    lines = common.split_lines(text)
    devices: list[dict[str, Any]] = []
    problem: dict[str, str] | None = None
    warnings: list[str] = []
    seen = state.Seen()
    for line in lines:
        pair = _PAIR.match(line)
        problem = problem or state.glued(line, _BEGIN)
        if pair and pair.group(1) in ("hca_id", "port"):
            seen.restart()
        if pair and pair.group(1) == "hca_id":
            devices.append(state.device(pair.group(2)))
            devices[-1]["_odd"] = None if _NAME.match(f" {pair.group(2)}") else "another line's name"
        elif devices and pair:
            _read_pair(devices[-1], pair.group(1), pair.group(2))
            if pair.group(1) in _DEVICE_FIELDS or pair.group(1) in _PORT_FIELDS:
                seen.add(pair.group(1))
        elif line.strip():
            warned = state.warning(line)
            warnings += [warned] if warned else []
            reported = state.message(line) or state.begun(line, "hca_id:")
            problem = state.graver(problem, reported)
    listed = _list(lines)
    if listed is not None and not devices:
        return listed
    warnings += [common.not_read("a list of names")] if listed is not None else []
    problem = state.listed(devices, problem, "no device of ibv_devinfo (hca_id:)", lines)
    for device in devices:
        fewer = state.fewer_ports(device)
        verbose, odd = device.pop("_verbose", False), device.pop("_odd", None)
        if problem is None and odd:
            problem = error("garbled", f"{device['name'][:60]!a} has {odd}")
        speeds = [port.get("_active_speed") for port in device["ports"]]
        for port in device["ports"]:
            port["rate_gbps"] = _rate(port)
        if problem is None and verbose:
            problem = _cut_verbose(device, speeds)
        problem = problem or fewer
    return state.devices_result("ibv_devinfo", devices, problem, ("state", "link_layer"), seen, warnings)
