# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""smartctl, which asks each drive below a mount what it says of its own health.

It reads and changes nothing. A drive that does not answer costs its own time and not the others' answers:
what is known of each is told, and the judge decides.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.measure import base, mounted
from ansible_collections.railyard.fabric.plugins.module_utils.measure.node_tool import (
    NodeReading,
    NodeTool,
    NodeToolSession,
)
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import capture
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.common import NotThisTool
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.node import smartctl

CHECK = "storage_health"
#: How a drive was found: it answered, it has nothing to answer with, or what it says is not known.
READ, NONE, UNREAD = "read", "none", "unread"
# Since then it prints JSON.
_JSON_SINCE = (7, 0)
_USUAL_S = 1.0
# A drive answers in less than a second, one that is ill may take its time; of many of them not all may.
_DRIVE_S, _ALL_S = 20.0, 60.0
# A program that hangs in the kernel is waited for by the launcher, too.
_MARGIN_S = 60.0
# All that a drive with full logs says has less than 100 KiB.
_MOST_CHARACTERS = 1 << 20
_MOST_WORDS = 400


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
        """Return the seconds after which no further drive is asked, and a margin."""
        return _ALL_S + _MARGIN_S

    def refuses(self, address: str, version: str | None, host: str) -> MeasurementError | None:
        """Refuse a smartctl that prints no JSON."""
        known = base.number(version)
        if known is None or known >= _JSON_SINCE:
            return None
        return MeasurementError(
            "tool_too_old", f"smartctl {version} on {host} prints no JSON; 7.0 does", host,
            "install smartmontools 7.0 or newer, or set fabric_policy.storage_health: false",
        )  # fmt: skip

    def measure(self, play: NodeToolSession, check: str) -> NodeReading:
        """Ask each drive below a mount.

        Raises:
            MeasurementError: `storage_not_mounted`, `storage_no_device`.
        """
        begun = time.monotonic()
        _mount, told = mounted.find(play, self._reader)
        drives = [_asked(play, disk, begun + _ALL_S) for disk in told["disks"]]
        metrics = {"drives": len(drives), "drives_read": sum(one["smart"] == READ for one in drives)}
        window = [0.0, round(max(time.monotonic() - begun, 0.001), 4)]
        return NodeReading(metrics, window, {}, None, {"health": {"mount": play.subject, "drives": drives}})


def _asked(play: NodeToolSession, disk: Mapping[str, Any], deadline: float) -> dict[str, Any]:
    """Return what a drive says, or why it says nothing."""
    known = {
        "name": disk["name"], "model": disk["model"], "bus": disk["bus"], "smart": UNREAD, "said": None,
        "protocol": None, "firmware": None, "passed": None, "exit_status": None, "attributes": [],
        "values": {},
    }  # fmt: skip
    left_s = deadline - time.monotonic()
    if left_s < 1:
        return {**known, "said": f"not asked: the others took {_ALL_S:.0f} s"}
    # The kernel writes a folder of /dev as `!`.
    device = "/dev/" + str(disk["name"]).replace("!", "/")
    # Without the serial number: results are handed on. What old versions say in words only is in `o`.
    argv = ["smartctl", "--json=co", "-q", "noserial", "-a", device]
    try:
        done = play.run_with(argv, min(_DRIVE_S, left_s))
        if len(done.text) > _MOST_CHARACTERS:
            return {**known, "said": f"smartctl printed {len(done.text)} characters, which are no answer"}
        result = capture.read(smartctl.parse, done.text)
    except MeasurementError as error:
        return {**known, "said": error.message[:_MOST_WORDS]}
    except NotThisTool as error:
        return {**known, "said": f"smartctl printed something that is not its output: {error.message}"}
    if len(result["outputs"]) != 1:
        return {**known, "said": str((result["error"] or {}).get("message", "several answers"))}
    output = result["outputs"][0]
    if output["exit_status"] != done.exit_status:
        ended = f"smartctl ended with {done.exit_status} and says that it did with {output['exit_status']}"
        return {**known, "said": ended}
    words = "; ".join(output["said"])[:_MOST_WORDS] or None
    told = {key: output[key] for key in ("protocol", "firmware", "passed", "exit_status", "attributes")}
    answer = {**known, **told, "values": output["values"], "said": words}
    answer["model"] = disk["model"] or output["model"]
    if result["valid"] and output["passed"] is not None:
        return {**answer, "smart": READ}
    # smartctl knows no virtio disk: what is behind it the host alone can ask. Nor is there one behind a file.
    undetected = bool((output["exit_status"] or 0) & smartctl.BAD_COMMAND)
    virtual = undetected and (disk["bus"] == "virtio" or not disk["hardware"])
    none = virtual or (result["valid"] and output["smart_available"] is False)
    return {
        **answer,
        "smart": NONE if none else UNREAD,
        "said": words or (result["error"] or {}).get("message"),
    }
