# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mlnx_qos (mlnx-tools): trust, priority flow control, buffers; the order of its sections varies."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.parsers import common
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.common import error, to_int

_DSCP_VALUES = 64
_TRUST = re.compile(r"^\s*Priority trust state: *(\w{1,20})\s*$")
_MAPPING = re.compile(r"^\s*prio:([0-7]) dscp:([0-9, ]{2,200})$")
_BUFFERS = re.compile(
    r"^\s*Receive buffer size \(bytes\): *([0-9, ]{1,200}?),? *(?:(?:max_buffer|total)_size=.{0,40})?$"
)
_ENABLED = re.compile(r"^\s*enabled((?:\s+[01]){8})\s*$")
_BUFFER_OF_PRIORITY = re.compile(r"^\s*buffer((?:\s+[0-7]){8})\s*$")
_DCBX = re.compile(r"^\s*DCBX mode: *(OS|Firmware) controlled\s*$")
_OURS = re.compile(r"^\s*(?:DCBX mode:|PFC configuration:|dscp2prio mapping:|tc: [0-7] ratelimit:)")
_TROUBLE = (
    ("no_device", re.compile(r"(?:No such device|device not found|Interface .{0,40} does not exist)", re.I)),
    ("not_supported", re.compile(r"not supported|is not an mlx|no Mellanox", re.I)),
    ("permission", re.compile(r"(?:Permission denied|Operation not permitted)", re.I)),
    ("tool_error", re.compile(r"^(?:Traceback|usage: mlnx_qos|mlnx_qos: error)", re.I)),
)  # fmt: skip


def _numbers(text: str) -> list[int]:
    return [number for number in map(to_int, text.split(",")) if number is not None]


def dcbx_mode(text: str) -> str | None:
    """Return who may change the settings, `os` or `firmware`; None where the text does not say."""
    found = next(filter(None, map(_DCBX.match, common.clean_lines(text))), None)
    return found.group(1).lower() if found else None


def buffer_of_priority(text: str) -> list[int] | None:
    """Return the receive buffer of each of the eight priorities; None for a driver without buffers."""
    found = next(filter(None, map(_BUFFER_OF_PRIORITY.match, common.clean_lines(text))), None)
    return [int(word) for word in found.group(1).split()] if found else None


def has_rival(text: str) -> bool:
    """Tell whether mlnx_qos warned of an lldpad that runs and may set the same values."""
    return "lldpad service is running" in text


def parse(text: str) -> dict[str, Any]:
    """Parse the output of `mlnx_qos -i NETDEV`.

    Args:
        text: What mlnx_qos printed.

    Returns:
        The common object with one output: `trust`, `pfc` (0 or 1 per priority), `dscp_to_priority`
        (keys are decimal strings, as JSON has no others), `buffers_bytes`.

    Raises:
        NotThisTool: No section of mlnx_qos is in the text.
    """
    lines = common.clean_lines(text)
    output: dict[str, Any] = {"trust": None, "pfc": None, "dscp_to_priority": None, "buffers_bytes": None}
    ours = False
    problem: dict[str, str] | None = None
    mapping: dict[str, int] = {}
    classes: set[str] = set()
    for line in lines:
        trust, mapped = _TRUST.match(line), _MAPPING.match(line)
        buffers, enabled = _BUFFERS.match(line), _ENABLED.match(line)
        ours = ours or bool(trust or mapped or buffers or _OURS.match(line))
        if trust:
            output["trust"] = trust.group(1)
        elif mapped:
            mapping.update(dict.fromkeys(map(str, _numbers(mapped.group(2))), int(mapped.group(1))))
        elif buffers:
            output["buffers_bytes"] = _numbers(buffers.group(1))
        elif enabled:
            output["pfc"] = [int(word) for word in enabled.group(1).split()]
        elif line.startswith("tc: "):
            classes.add(line[4:5])
        else:
            problem = problem or common.trouble(_TROUBLE, line)
    if not ours and (problem is None or "mlnx_qos" not in text):
        raise common.refusal("no section of mlnx_qos", lines)
    output["dscp_to_priority"] = dict(sorted(mapping.items(), key=lambda pair: int(pair[0]))) or None
    if problem is None and (output["trust"] is None or output["pfc"] is None):
        missing = "trust state" if output["trust"] is None else "PFC configuration"
        problem = error("truncated", f"the {missing} is missing")
    if problem is None and output["trust"] == "dscp" and mapping and len(mapping) != _DSCP_VALUES:
        problem = error("truncated", f"the mapping has {len(mapping)} of {_DSCP_VALUES} DSCP values")
    if problem is None and not classes:
        # Every version ends with its traffic classes.
        problem = error("truncated", "the traffic classes at the end are missing")
    return common.result("mlnx_qos", [output] if ours else [], problem)
