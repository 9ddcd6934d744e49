# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ibnetdiscover, iblinkinfo, ibqueryerrors and sminfo alone, as `railyard parse` prints them."""

from __future__ import annotations

from typing import Any

from ...records.subnet import Port, Problem
from .. import common
from . import answers, iblinkinfo, ibnetdiscover, ibqueryerrors, merge
from .statements import Found

# What the messages call the text.
_TEXT = "output"
_CLASSES = {"damaged": "truncated", "missing": "incomplete"}


def parse_ibnetdiscover(text: str) -> dict[str, Any]:
    """Parse the report of ports (`-p`) or the topology file.

    Raises:
        NotThisTool: there is no line of a port.
    """
    return _parse_links("ibnetdiscover", ibnetdiscover.parse(text, _TEXT), text)


def parse_iblinkinfo(text: str) -> dict[str, Any]:
    """Parse iblinkinfo, with `-l` or without.

    Raises:
        NotThisTool: there is no line of a port.
    """
    return _parse_links("iblinkinfo", iblinkinfo.parse(text, _TEXT), text)


def parse_ibqueryerrors(text: str) -> dict[str, Any]:
    """Parse the error counters of ports.

    Raises:
        NotThisTool: there are neither counters nor the summary.
    """
    found = ibqueryerrors.parse(text, _TEXT)
    if not found.counters and "ports checked" not in text:
        raise common.refusal("neither counters nor the summary of ibqueryerrors", common.split_lines(text))
    ports = [
        {"guid": guid, "port": number, "counters": counters}
        for (guid, number), counters in found.counters.items()
    ]
    warnings = []
    if not found.complete and not found.problems:
        warnings.append(
            "thresholds, suppressed counters or failed queries hide counters. Run `ibqueryerrors"
            " --threshold-file /dev/null`"
        )
    output = {"complete": found.complete, "ports": ports}
    return common.result("ibqueryerrors", [output], _error(found.problems), warnings, found.complete)


def parse_sminfo(text: str) -> dict[str, Any]:
    """Parse what a subnet manager answered.

    Raises:
        NotThisTool: there is no answer.
    """
    manager, problems = answers.parse_sminfo(text, _TEXT)
    if manager is None:
        raise common.refusal("no line `sminfo: sm lid`", common.split_lines(text))
    output = {
        "lid": manager.lid,
        "guid": manager.port_guid,
        "state": manager.state,
        "priority": manager.priority,
        "activity": manager.activity,
    }
    return common.result("sminfo", [output], _error(problems))


def _parse_links(tool: str, found: Found, text: str) -> dict[str, Any]:
    if not found.statements:
        raise common.refusal(f"no line of a port of {tool}", common.split_lines(text))
    net = merge.join([found])
    devices = [
        {
            "guid": device.guid,
            "kind": device.kind,
            "description": device.description,
            "ports": [_port(port) for port in device.ports.values()],
        }
        for device in net.devices.values()
    ]
    return common.result(tool, [{"devices": devices}], _error(net.problems))


def _port(port: Port) -> dict[str, Any]:
    return {
        "port": port.key.number,
        "lid": port.lid,
        "state": port.state,
        "physical_state": port.physical,
        "width": port.width,
        "lane_gbps": port.lane_gbps,
        "rate_gbps": port.rate_gbps,
        "peer": {"guid": port.peer.guid, "port": port.peer.number} if port.peer else None,
    }


def _error(problems: list[Problem]) -> dict[str, str] | None:
    """Return the first problem, one of a cut output before others."""
    ordered = sorted(problems, key=lambda one: one.kind != "damaged")
    return common.error(_CLASSES.get(ordered[0].kind, "garbled"), ordered[0].text) if ordered else None
