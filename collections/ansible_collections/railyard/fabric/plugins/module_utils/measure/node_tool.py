# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Base classes of tools that measure a node alone: no peer, no rail, no server."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..channel.errors import MeasurementError
from ..channel.rail_socket import Place
from .base import Finished, Tool, ToolSession

#: Instead of a file descriptor: `subprocess.DEVNULL`.
NOTHING = subprocess.DEVNULL


class NodeReading(NamedTuple):
    """The result of a test of a node alone.

    Attributes:
        metrics: named as in the catalogue's `client`.
        window_s: begin and end of the measurement, in seconds after the row's `started`.
        counters: name -> value before and after, of the counters that have to confirm the metrics.
        doubt: why they do not; None when they do, and then the row is proven.
        extra: further keys of the row.
    """

    metrics: dict[str, Any]
    window_s: list[float]
    counters: Mapping[str, Sequence[int | None]]
    doubt: str | None = None
    extra: dict[str, Any] | None = None


class Company(NamedTuple):
    """What a node knows about all nodes, for a test of all together.

    Attributes:
        nodes: their names, in the same order on each node.
        absent: the nodes that are known not to take part; tests add to it.
        rails: this node's usable rails by name.
        hcas: the RDMA ports of these rails, where they have one.
        failures: rail name -> why it cannot be used.
        first: the addresses of the first node on these rails.
        port: the TCP port on which the first node listens.
        secret: of this test, the same on each node.
        wait_s: how long to wait for the others, in seconds.
    """

    nodes: list[str]
    absent: set[str]
    rails: dict[str, Place]
    hcas: dict[str, str]
    failures: dict[str, MeasurementError]
    first: list[str]
    port: int
    secret: str
    wait_s: float


class NodeToolSession(ToolSession):
    """What such a tool may use; `own` has only the host."""

    subject: str | None
    # hardware, virtual or container, as the inventory declares it.
    node_class: str

    def company(self) -> Company:
        """Return what a test of all nodes together needs to know about them."""
        raise NotImplementedError

    def run_with(self, argv: list[str], limit_s: float, stdin: int = NOTHING) -> Finished:
        """Run a command to its end in a separate unit; its output is kept in the raw file.

        Args:
            argv: the command line.
            limit_s: seconds after which it is ended.
            stdin: a file descriptor for its standard input.

        Raises:
            MeasurementError: `deadline` when it did not end in time, `tool_failed` when it did not start.
        """
        raise NotImplementedError


class NodeTool(Tool):
    """A tool that measures a node; one instance runs all tests of a subject, one after the other."""

    def measure(self, session: NodeToolSession, check: str) -> NodeReading:
        """Run a check.

        Raises:
            MeasurementError: it failed or must not run, with the reason.
        """
        raise NotImplementedError

    def program_of(self, check: str, policy: Mapping[str, Any]) -> str:
        """Return the program with which every command line of a check begins."""
        return self.name

    def release(self) -> None:
        """Restore the node; called once after the last test of the subject, also after an error."""
