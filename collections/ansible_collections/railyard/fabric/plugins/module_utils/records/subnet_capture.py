# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was captured of an InfiniBand subnet: the commands that ran on a node, and what each printed."""

from __future__ import annotations

from typing import NamedTuple, Optional


class Command(NamedTuple):
    """A command as it ran.

    Attributes:
        argv: the program and its arguments; empty where only the output is known.
        file: the name of the file that has its output, which also tells which tool it was.
        stdout: what it printed.
        stderr: what it printed to standard error.
        rc: its exit status; None where its time was over, or where it is not known.
        started_at_s: seconds since the epoch.
        seconds: how long it took; 0 where that is not known.
        timed_out: its time was over. An output without its exit status alone is not that.
    """

    argv: tuple[str, ...]
    file: str
    stdout: str
    stderr: str
    rc: Optional[int]
    started_at_s: float
    seconds: float
    timed_out: bool = False


class Capture(NamedTuple):
    """What was captured of a subnet.

    Attributes:
        host: the node, as the inventory calls it; None where that is not known.
        device: the RDMA device to read from, `mlx5_0`; None for the tools' own choice.
        port: its port.
        started_at_s: seconds since the epoch.
        commands: in the order in which they ran.
    """

    host: Optional[str]
    device: Optional[str]
    port: Optional[int]
    started_at_s: float
    commands: tuple[Command, ...]
