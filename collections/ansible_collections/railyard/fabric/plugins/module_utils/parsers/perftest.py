# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest (ib_write_bw and its kin): the text is the primary source, its own JSON the second."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.parsers import (
    perftest_json,
    perftest_run,
    perftest_text,
)
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.common import (
    NotThisTool,
    ended_by_signal,
    error,
    first_text,
    result,
    split_lines,
    strip_ansi,
)

_STATUS = {
    "9": "remote_invalid_request",
    "10": "remote_access",
    "11": "remote_operation",
    "12": "retry_exceeded",
    "13": "receiver_not_ready",
}
_PART_TITLE = re.compile(r"^\s*(?:Local|Remote) results:\s*$")
_FAILED_STATUS = re.compile(r"Failed status ([0-9]{1,3})\b")
# Messages go to standard error, some without a line end between them: they are searched for, not matched.
_TROUBLE = (
    ("no_device", re.compile(r"Did not detect devices|Unable to find the Infiniband/RoCE device|"
                             r"IB device .{0,60} not found|Couldn't get device|Failed to get IB devices")),
    ("rdma_cm", re.compile(r"Unexpected CM event|rdma_client function|rdma_server function|rdma_resolve_addr|"
                           r"rdma_bind_addr")),
    ("connection_refused", re.compile(r"Couldn't connect to|Connection refused")),
    ("address_in_use", re.compile(r"Address already in use|Couldn't listen to port")),
    ("completion_error", re.compile(r"Completion with error|Failed status [0-9]")),
    ("queue_pair", re.compile(r"Failed to modify QP|Couldn't create QP|Unable to create QP|"
                              r"Unable to Connect the HCA's through the link")),
    ("memory", re.compile(r"Couldn't allocate MR|Couldn't register memory|failed to create mr|"
                          r"ibv_reg_\w* failed|Cannot allocate memory")),
    ("below_limit", re.compile(r"BW result is below bw limit|Msg rate .{0,30}below")),
    ("peer_lost", re.compile(r"Couldn't read remote address|ethernet_read_keys|Unable to read from socket|"
                             r"Unable to write to socket|Connection reset by peer|Broken pipe")),
    ("connection", re.compile(r"Unable to init the socket connection|file descriptor for socket connection|"
                              r"Failed to exchange data between server and clients")),
    ("usage", re.compile(r"unrecognized option|invalid option|Invalid Command line|Parser function exited|"
                         r"^Usage:")),
    ("tool_error", re.compile(r"^\s*(?:ERROR|Error)\b|^\s*(?:Failed|Couldn't|Unable) to |Problem with")),
)  # fmt: skip
_OWN = ("no_device", "rdma_cm", "completion_error", "queue_pair", "below_limit", "connection")
_WARNING = re.compile(
    r"Conflicting CPU frequency|Perftest doesn't support|[Ww]arning|WARNING|is not recommended"
)


def _messages(lines: list[str]) -> tuple[dict[str, str] | None, list[str], bool]:
    """Return (error, warnings, whether a message can only be perftest's)."""
    kinds: list[str] = []
    said: list[str] = []
    warnings: list[str] = []
    for line in lines:
        short = line.strip()[:400]
        if _WARNING.search(short):
            warnings.append(short)
            continue
        if ended_by_signal(short):
            kinds.append("interrupted")
            said.append(short)
            continue
        for kind, pattern in _TROUBLE:
            if pattern.search(short):
                status = _FAILED_STATUS.search(short)
                kinds.append(_STATUS.get(status.group(1), kind) if status else kind)
                said.append(short)
                break
    if not kinds:
        return None, warnings, False
    # "Completion with error" comes first and its status, which says more, in the line behind.
    kind = next((one for one in kinds if one in _STATUS.values()), kinds[0])
    ours = any(one in _OWN or one in _STATUS.values() for one in kinds)
    return error(kind, " / ".join(dict.fromkeys(said))), warnings, ours


def parse(text: str) -> dict[str, Any]:
    """Parse the output of a perftest program.

    Args:
        text: What it printed (standard error included or not), or the file that `--out_json` wrote.

    Returns:
        The common object; one output per side and run, bandwidths in Gbit/s, latencies in microseconds.

    Raises:
        NotThisTool: The text holds neither a table, nor JSON, nor a message of perftest.
    """
    text = strip_ansi(text)
    lines = split_lines(text)
    problem, warnings, ours = _messages(lines)
    runs = perftest_text.read(text)
    if not runs and perftest_json.is_json(text):
        runs = perftest_json.read(text)
    waiting = "Waiting for client to connect" in text
    if not runs and not ours and not waiting:
        raise NotThisTool(f"no table, JSON or message of perftest; the text begins with {first_text(lines)}")
    if not runs and problem is None:
        problem = error("truncated", "the server was still waiting for its client")
    whole = 0
    parts = any(_PART_TITLE.match(line) for line in lines)
    for output, closed in runs:
        wrong, silent = perftest_run.problem(output, closed)
        problem = problem or wrong
        if silent:
            warnings.append(silent)
        if parts:
            warnings.append("of --report-both the sum of both directions is given")
        whole += wrong is None and silent is None
    return result("perftest", [output for output, _end in runs], problem, warnings, whole > 0)
