# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Query the health of each drive below a mount with smartctl.

It reads and changes nothing. A drive that does not answer does not affect the others: the row has what is
known about each, and the judge decides.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ..channel.errors import MeasurementError
from ..facts.sysfs import Reader
from ..parsers import capture
from ..parsers.common import NotThisTool
from ..parsers.node import smartctl
from . import base, mounted
from .node_tool import NodeReading, NodeTool, NodeToolSession

CHECK = "storage_health"
#: The state of a drive: it answered, it has no SMART, or its answer is unknown.
READ, NONE, UNREAD = "read", "none", "unread"
# The first version with JSON.
_JSON_SINCE = (7, 0)
_USUAL_S = 1.0
# A drive answers in less than a second; a failing one may take longer, but not all together.
_DRIVE_S, _ALL_S = 20.0, 60.0
# The launcher also waits for a program that hangs in the kernel.
_MARGIN_S = 60.0
# The output for a drive with full logs has less than 100 KiB.
_MOST_CHARACTERS = 1 << 20
_MOST_MESSAGE = 400


class Smartctl(NodeTool):
    """The drives below one mount."""

    name = "smartctl"
    package = "smartmontools"
    # Raw commands to NVMe, SCSI and ATA drives: smartd keeps these two.
    capabilities = "CAP_SYS_ADMIN CAP_SYS_RAWIO"

    def __init__(self) -> None:
        self._reader = Reader()

    def planned_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds that the drives of a mount take to answer."""
        return _USUAL_S

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds after which no further drive is queried, and a margin."""
        return _ALL_S + _MARGIN_S

    def refuses(self, address: str, version: str | None, host: str) -> MeasurementError | None:
        """Return the error of a smartctl without JSON, or None."""
        known = base.parse_version(version)
        if known is None or known >= _JSON_SINCE:
            return None
        return MeasurementError(
            "tool_too_old", f"smartctl {version} on {host} prints no JSON; 7.0 does", host,
            "install smartmontools 7.0 or newer, or set fabric_policy.storage_health: false",
        )  # fmt: skip

    def measure(self, session: NodeToolSession, check: str) -> NodeReading:
        """Query each drive below a mount.

        Raises:
            MeasurementError: `storage_not_mounted`, `storage_no_device`.
        """
        begun = time.monotonic()
        _mount, info = mounted.find(session, self._reader)
        drives = [_query_drive(session, disk, begun + _ALL_S) for disk in info["disks"]]
        metrics = {"drives": len(drives), "drives_read": sum(one["smart"] == READ for one in drives)}
        window = [0.0, round(max(time.monotonic() - begun, 0.001), 4)]
        return NodeReading(
            metrics, window, {}, None, {"health": {"mount": session.subject, "drives": drives}}
        )


def _query_drive(session: NodeToolSession, disk: Mapping[str, Any], deadline: float) -> dict[str, Any]:
    """Return a drive's answer, or why there is none."""
    known = {
        "name": disk["name"], "model": disk["model"], "bus": disk["bus"], "smart": UNREAD, "said": None,
        "protocol": None, "firmware": None, "passed": None, "exit_status": None, "attributes": [],
        "values": {},
    }  # fmt: skip
    left_s = deadline - time.monotonic()
    if left_s < 1:
        return {**known, "said": f"not queried: the others took {_ALL_S:.0f} s"}
    # The kernel writes a slash in a name of /dev as `!`.
    device = "/dev/" + str(disk["name"]).replace("!", "/")
    # Without the serial number, since results are shared. `o` adds messages that old versions have only as
    # text.
    argv = ["smartctl", "--json=co", "-q", "noserial", "-a", device]
    try:
        done = session.run_with(argv, min(_DRIVE_S, left_s))
        if len(done.text) > _MOST_CHARACTERS:
            return {**known, "said": f"smartctl printed {len(done.text)} characters, which is too much"}
        result = capture.read(smartctl.parse, done.text)
    except MeasurementError as error:
        return {**known, "said": error.message[:_MOST_MESSAGE]}
    except NotThisTool as error:
        return {**known, "said": f"smartctl printed something that is not its output: {error.message}"}
    if len(result["outputs"]) != 1:
        return {**known, "said": str((result["error"] or {}).get("message", "several answers"))}
    output = result["outputs"][0]
    if output["exit_status"] != done.exit_status:
        ended = f"smartctl ended with {done.exit_status}, its output has {output['exit_status']}"
        return {**known, "said": ended}
    message = "; ".join(output["said"])[:_MOST_MESSAGE] or None
    keys = ("protocol", "firmware", "passed", "exit_status", "attributes", "values")
    answer = {**known, **{key: output[key] for key in keys}, "said": message}
    answer["model"] = disk["model"] or output["model"]
    if result["valid"] and output["passed"] is not None:
        return {**answer, "smart": READ}
    # smartctl does not support virtio disks, whose drives only the host can query, nor files.
    undetected = bool((output["exit_status"] or 0) & smartctl.BAD_COMMAND)
    virtual = undetected and (disk["bus"] == "virtio" or not disk["hardware"])
    none = virtual or (result["valid"] and output["smart_available"] is False)
    return {
        **answer,
        "smart": NONE if none else UNREAD,
        "said": message or (result["error"] or {}).get("message"),
    }
