# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ibstatus (infiniband-diags), which reads sysfs: LIDs in hexadecimal, states with their number."""

from __future__ import annotations

import re
from typing import Any

from .. import common
from ..common import to_float, to_int
from . import state

_PORT = re.compile(r"^\s*Infiniband device '([^']{1,80})' port ([0-9]{1,3}) status:\s*$")
_BEGIN = re.compile(r"Infiniband device '")
_PAIR = re.compile(r"^\s*(base lid|sm lid|state|phys state|rate|link_layer):\s*(.*?)\s*$")
_RATE = re.compile(r"([0-9.]+) Gb/sec")
_LID = re.compile(r"0x([0-9a-f]{1,8})\Z", re.I)


def _read_pair(port: dict[str, Any], key: str, value: str) -> None:
    if key in ("state", "phys state"):
        port["state" if key == "state" else "physical_state"] = re.sub(r"^[0-9]+: *", "", value) or None
    elif key == "rate":
        rate = _RATE.match(value)
        port["rate_gbps"] = to_float(rate.group(1)) if rate else None
    elif key == "link_layer":
        port["link_layer"] = value or None
    else:
        lid = _LID.match(value)
        port["lid" if key == "base lid" else "sm_lid"] = int(lid.group(1), 16) if lid else None


def parse(text: str) -> dict[str, Any]:
    """Parse the output of ibstatus.

    Args:
        text: What ibstatus printed.

    Returns:
        The common object, one output per run: `devices`.

    Raises:
        NotThisTool: There is neither a port nor a message of ibstatus.
    """
    lines = common.split_lines(text)
    found: list[dict[str, Any]] = []
    port: dict[str, Any] | None = None
    problem: dict[str, str] | None = None
    seen = state.Seen()
    for line in lines:
        head, pair = _PORT.match(line), _PAIR.match(line)
        problem = problem or state.glued(line, _BEGIN)
        if head:
            seen.restart()
            port = state.port(to_int(head.group(2)))
            # The ports of a device are listed together; a repeated port is of another run.
            same = bool(found) and found[-1]["name"] == head.group(1)
            if not same or any(one["port"] == port["port"] for one in found[-1]["ports"]):
                found.append(state.device(head.group(1)))
            found[-1]["ports"].append(port)
        elif port is not None and pair:
            _read_pair(port, pair.group(1), pair.group(2))
            seen.add(pair.group(1))
        elif line.strip():
            reported = state.message(line) or state.begun(line, "Infiniband device")
            problem = state.graver(problem, reported)
    problem = state.listed(found, problem, "no port of ibstatus", lines)
    return state.devices_result("ibstatus", found, problem, ("state", "physical_state", "link_layer"), seen)
