# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest's messages beside its tables: errors by class, warnings, and messages that only perftest has."""

from __future__ import annotations

import re

from ..common import ended_by_signal, error

_STATUS = {
    "9": "remote_invalid_request",
    "10": "remote_access",
    "11": "remote_operation",
    "12": "retry_exceeded",
    "13": "receiver_not_ready",
}
# `Failed status 12: wr_id`, of 26.x `Failed status-transport retry counter exceeded (12): wr_id`
_FAILED_STATUS = re.compile(r"Failed status(?: |-[\w/ -]{1,60} \()([0-9]{1,3})\b")
# Messages go to standard error, some without a line end between them: they are searched for, not matched.
_TROUBLE = (
    ("no_device", re.compile(r"Did not detect devices|Unable to find the Infiniband/RoCE device|"
                             r"IB device .{0,60} not found|Couldn't get device|Failed to get IB devices")),
    ("gpu", re.compile(r"No such device ID \([0-9]{1,9}\) exists|no available device\(s\) that support|"
                       r"Couldn't init(?:ialize)? (?:GPU context|ROCm device)|Failed to initialize GPU|"
                       r"Requested ROCm device .{1,20} but found only|"
                       r"\b(?:cu|mu|cn)(?:Init|DeviceGetCount)\([0-9]?\) returned|"
                       r"\b(?:cu|mu|cn)\w{2,40}(?:\(\))? error=|cuDeviceGetByPCIBusId failed|"
                       r"Failed to load CUDA library|DMA-BUF is not supported on this GPU|"
                       r"^hip\w{2,40}(?:\(\))? (?:returned|error=)|"
                       r"(?:GPU|CUDA|ROCm)\b.{0,40}\bout of range")),
    ("port_down", re.compile(r"Port number [0-9]{1,3} state is ")),
    ("gid_mismatch", re.compile(r"Found Incompatibility issue with GID types")),
    ("validation", re.compile(r"VALIDATION: (?:FAILED|ERROR|WARNING)")),
    ("timeout", re.compile(r"Did not get Message for [0-9]{1,6} Seconds")),
    ("rdma_cm", re.compile(r"Unexpected CM event|rdma_client function|rdma_server function|rdma_resolve_addr|"
                           r"rdma_bind_addr|RDMA[ _]CM[ _](?:event|EVENT)|"
                           r"Received [0-9]{1,9} times ADDR_ERROR - aborting")),
    ("connection_refused", re.compile(r"Couldn't connect to|Connection refused")),
    ("address_in_use", re.compile(r"Address already in use|Couldn't listen to port")),
    ("completion_error", re.compile(r"Completion with error|Failed status|"
                                    r"Poll (?:send|Receive) CQ (?:failed|error)")),
    ("queue_pair", re.compile(r"Failed to modify QP|Couldn't create QP|Unable to create QP|"
                              r"Unable to Connect the HCA's through the link")),
    ("memory", re.compile(r"Couldn't allocate MR|Couldn't register memory|failed to create mr|"
                          r"ibv_reg_\w* failed|Cannot allocate memory")),
    ("resources", re.compile(r"Couldn't (?:create (?:IB resources|CQ|SRQ)|allocate PD|set the link layer|"
                             r"get context for the device|open IB device)")),
    ("below_limit", re.compile(r"BW result is below bw limit|Msg rate .{0,30}below")),
    ("peer_lost", re.compile(r"Couldn't read remote address|ethernet_read_keys|Unable to read from socket|"
                             r"Unable to write to socket|Connection reset by peer|Broken pipe")),
    ("connection", re.compile(r"Unable to init the socket connection|file descriptor for socket connection|"
                              r"Failed to exchange data between server and clients")),
    ("usage", re.compile(r"^(?:SRD|DC|XRC|UD|UC) .{0,60}(?:possible|not support|not detected)|"
                         r"Invalid (?:Connection type\. Please|MTU - |Atomic type)|"
                         r"Multiple QPs only available|Bidirectional is only available|"
                         r"CPU Utilization works only with|Duration mode (?:currently )?doesn't|"
                         r"Max msg size (?:is|in)|run_infinitely (?:exists|does|mode)|"
                         r"unrecognized option|invalid option|Invalid Command line|Parser function exited|"
                         r"^Usage:")),
    ("tool_error", re.compile(r"^\s*(?:ERROR|Error)\b|^\s*(?:Failed|Couldn't|Unable) to |Problem with")),
)  # fmt: skip
_OWN = (
    "no_device",
    "gpu",
    "port_down",
    "gid_mismatch",
    "rdma_cm",
    "completion_error",
    "queue_pair",
    "resources",
    "below_limit",
    "connection",
)
# Other programs fail for these reasons too, but with other messages.
_OWN_WORDS = re.compile(
    r"Couldn't connect to \S{1,80}:[0-9]{1,5}$|Couldn't listen to port [0-9]|ethernet_read_keys|"
    r"Couldn't allocate MR|failed to create mr|Parser function exited|Did not get Message for|"
    r"Multiple QPs only available|CPU Utilization works only with Duration|run_infinitely exists|"
    r"Duration mode (?:currently )?doesn't|Invalid Connection type\. Please choose"
)
_WARNING = re.compile(
    r"Conflicting CPU frequency|Perftest doesn't support|[Ww]arning|(?<!VALIDATION: )WARNING|"
    r"is not recommended|^ERROR: ld\.so: object "
)


def read(lines: list[str]) -> tuple[dict[str, str] | None, list[str], bool]:
    """Read the messages.

    Args:
        lines: The text's lines.

    Returns:
        (error, warnings, whether a message can only be perftest's).
    """
    kinds: list[str] = []
    reported: list[str] = []
    warnings: list[str] = []
    for line in lines:
        short = line.strip()[:400]
        if _WARNING.search(short):
            warnings.append(short)
            continue
        if ended_by_signal(short):
            kinds.append("interrupted")
            reported.append(short)
            continue
        for kind, pattern in _TROUBLE:
            if pattern.search(short):
                status = _FAILED_STATUS.search(short)
                kinds.append(_STATUS.get(status.group(1), kind) if status else kind)
                reported.append(short)
                break
    if not kinds:
        return None, warnings, False
    # "Completion with error" comes first; its status, which is more specific, is in the next line.
    kind = next((one for one in kinds if one in _STATUS.values()), kinds[0])
    is_perftest = any(one in _OWN or one in _STATUS.values() for one in kinds) or any(
        map(_OWN_WORDS.search, reported)
    )
    return error(kind, " / ".join(dict.fromkeys(reported))), warnings, is_perftest
