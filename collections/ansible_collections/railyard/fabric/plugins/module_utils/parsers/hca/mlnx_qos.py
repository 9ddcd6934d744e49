# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mlnx_qos (mlnx-tools): trust, priority flow control, buffers; the order of its sections varies."""

from __future__ import annotations

import re
from typing import Any

from .. import common
from ..common import error, to_int

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
    found = next(filter(None, map(_DCBX.match, common.split_lines(text))), None)
    return found.group(1).lower() if found else None


def buffer_of_priority(text: str) -> list[int] | None:
    """Return the receive buffer of each of the eight priorities; None for a driver without buffers."""
    found = next(filter(None, map(_BUFFER_OF_PRIORITY.match, common.split_lines(text))), None)
    return [int(word) for word in found.group(1).split()] if found else None


def has_rival(text: str) -> bool:
    """Tell whether mlnx_qos warned of an lldpad that runs and may set the same values."""
    return "lldpad service is running" in text


class _Port:
    """One interface while it is read."""

    def __init__(self) -> None:
        self.reported: dict[str, Any] = {}
        self.mapping: dict[str, int] = {}
        self.sections: set[str] = set()

    def has_classes(self) -> bool:
        """Tell whether the traffic classes, with which every version ends, have begun."""
        return any(name.startswith("tc: ") for name in self.sections)

    def output(self) -> dict[str, Any]:
        mapping = dict(sorted(self.mapping.items(), key=lambda pair: int(pair[0])))
        found = {"trust": None, "pfc": None, "dscp_to_priority": mapping or None, "buffers_bytes": None}
        return {**found, **self.reported}

    def problem(self) -> dict[str, str] | None:
        for name, title in (("trust", "trust state"), ("pfc", "PFC configuration")):
            if name not in self.reported:
                return error("truncated", f"the {title} is missing")
        if self.reported["trust"] == "dscp" and self.mapping and len(self.mapping) != _DSCP_VALUES:
            return error("truncated", f"the mapping has {len(self.mapping)} of {_DSCP_VALUES} DSCP values")
        return (
            None if self.has_classes() else error("truncated", "the traffic classes at the end are missing")
        )


def parse(text: str) -> dict[str, Any]:
    """Parse the output of one or several `mlnx_qos -i NETDEV`.

    Args:
        text: What mlnx_qos printed.

    Returns:
        The common object with an output per interface: `trust`, `pfc` (0 or 1 per priority),
        `dscp_to_priority` (keys are decimal strings, as JSON has no others), `buffers_bytes`.

    Raises:
        NotThisTool: No section of mlnx_qos is in the text.
    """
    lines = common.split_lines(text)
    ports: list[_Port] = []
    ours = False
    problem: dict[str, str] | None = None
    for line in lines:
        trust, mapped = _TRUST.match(line), _MAPPING.match(line)
        buffers, enabled = _BUFFERS.match(line), _ENABLED.match(line)
        reported: dict[str, Any] = {}
        mapping: dict[str, int] = {}
        if trust:
            reported["trust"] = trust.group(1)
        elif mapped:
            mapping = dict.fromkeys(map(str, _numbers(mapped.group(2))), int(mapped.group(1)))
        elif buffers:
            reported["buffers_bytes"] = _numbers(buffers.group(1))
        elif enabled:
            reported["pfc"] = [int(word) for word in enabled.group(1).split()]
        elif not _OURS.match(line):
            problem = problem or common.trouble(_TROUBLE, line)
            continue
        ours = ours or not enabled
        sections = {*reported, *mapping} or {line.strip()[: len("tc: 0")]}
        is_class = line.startswith("tc: ")
        # A section that is there already, or one behind the classes, is the next interface's.
        if not ports or ports[-1].sections & sections or (ports[-1].has_classes() and not is_class):
            ports.append(_Port())
        ports[-1].sections |= sections
        ports[-1].reported.update(reported)
        ports[-1].mapping.update(mapping)
    if not ours and (problem is None or "mlnx_qos" not in text):
        raise common.refusal("no section of mlnx_qos", lines)
    for port in ports:
        problem = problem or port.problem()
    return common.result("mlnx_qos", [port.output() for port in ports] if ours else [], problem)
