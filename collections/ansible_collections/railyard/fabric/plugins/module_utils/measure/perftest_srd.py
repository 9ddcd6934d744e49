# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run perftest with SRD, the connection type of AWS's EFA, or report why the installed build cannot.

perftest has SRD for send since 4.4-0.9, for read since 4.4-0.32 and for write since 23.07, where it was built
with libefa (linux-rdma/perftest pull requests 57 and 206). Debian 12 has 4.5, Debian 13 has 25.01.
"""

from __future__ import annotations

import functools
import re

from .. import bounded
from ..channel.errors import MeasurementError

_HELP_S = 20.0
#: How perftest's help begins.
_HELP = "Usage:"
_NEWER = (
    "install perftest 23.07 or newer, built with libefa, on all nodes (Debian 13 has it), or build it from "
    "github.com/linux-rdma/perftest"
)
#: What perftest prints when it rejects SRD after it has opened the device, and the fix
#: (src/perftest_parameters.c, check_mtu in src/perftest_communication.c).
_REFUSALS = (
    (re.compile(r"SRD connection (?:not possible|only possible|was not found)[^\n]{0,80}"), _NEWER),
    (
        re.compile(r"(?:Read|Write) verb is not supported with this EFA device"),
        "leave the test out of fabric_policy.rdma_tests; ib_send_bw and ib_send_lat run on each EFA device",
    ),
    (
        re.compile(r"Max message size in SRD cannot be greater than [0-9]{1,9}"),
        "lower fabric_policy.rdma_message_bytes to that, or test with ib_write_bw, which has no such limit",
    ),
)


@functools.cache
def why_not(program: str, connection: str) -> str:
    """Return why a program of perftest cannot use a connection type (as for `-c`); empty where it can.

    The list in its help is not reliable: that of ib_write_bw 25.01 leaves SRD out although the program
    supports it,
    and that of ib_send_bw has it in each build. `-c` is parsed before `--help`, and a build without the type
    ends there.
    """
    try:
        answer = bounded.ask([program, "-c", connection, "--help"], _HELP_S)
    except bounded.ToolError as error:
        return str(error)
    lines = [line.strip() for line in answer.text.splitlines() if line.strip()]
    if any(line.startswith(_HELP) for line in lines):
        return ""
    return lines[0][:200] if lines else f"it ended with status {answer.status} and printed nothing"


def build_options(name: str, connection: str) -> list[str]:
    """Return the options for a connection type.

    perftest writes small messages inline, which a queue pair of EFA rejects unless it was created for that,
    as builds since 26.04 do (linux-rdma/perftest commit 7fe4d64). So inline is off for write latency in each
    build.
    """
    return ["-c", connection, *(["-I", "0"] if name == "ib_write_lat" else [])]


def require(name: str, program: str, connection: str, host: str) -> None:
    """Raise `rdma_unsupported` where a program cannot use a connection type (as for `-c`).

    Args:
        name: name of the test, such as `ib_write_bw`.
        program: path or name of the program.
        connection: connection type.
        host: the node.
    """
    if reason := why_not(program, connection):
        message = f"{name} of {host} cannot test EFA, which needs -c {connection}: {reason}"
        raise MeasurementError("rdma_unsupported", message, host, _NEWER)


def refusal(text: str, name: str, device: str, host: str) -> MeasurementError | None:
    """Return the error where perftest's output (`text`) shows that it rejected SRD on a device, or None."""
    for pattern, fix in _REFUSALS:
        if found := pattern.search(text):
            message = f"{name} on {device} of {host}: {found.group()}"
            return MeasurementError("rdma_unsupported", message, host, fix)
    return None
