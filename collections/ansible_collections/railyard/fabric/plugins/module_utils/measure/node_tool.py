# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a tool is and may use that measures a node by itself: no peer, no rail, no server."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import Place
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import Finished, Tool, ToolSession

#: In place of a descriptor; the launcher's `subprocess.DEVNULL`.
NOTHING = subprocess.DEVNULL


class NodeReading(NamedTuple):
    """What a test of a node by itself found.

    Attributes:
        metrics: as the catalogue's `client` names them.
        window_s: from when to when it measured, in seconds after the row's `started`.
        counters: name -> what it was before and after, of what has to bear the metrics out.
        doubt: why they do not; None when they do, and then the row is proven.
        extra: further keys of the row.
    """

    metrics: dict[str, Any]
    window_s: list[float]
    counters: Mapping[str, Sequence[int | None]]
    doubt: str | None = None
    extra: dict[str, Any] | None = None


class Company(NamedTuple):
    """All nodes, as one of them sees them that does something with all.

    Attributes:
        nodes: their names, in the same order everywhere.
        absent: those that are known not to come; who finds another adds it.
        rails: the own rails by name, those that a test of all may run over.
        hcas: their RDMA ports, where they have one.
        obstacles: why a rail of these is no place to be, by its name.
        first: the addresses of the first node on these rails.
        port: the TCP port that it listens at.
        secret: for this test alone, and the same everywhere.
        wait_s: how long the others may take to come.
    """

    nodes: list[str]
    absent: set[str]
    rails: dict[str, Place]
    hcas: dict[str, str]
    obstacles: dict[str, MeasurementError]
    first: list[str]
    port: int
    secret: str
    wait_s: float


class NodeToolSession(ToolSession):
    """What such a tool may use; `own` has no more than the host."""

    subject: str | None
    # hardware, virtual or container, as the inventory declares it.
    node_class: str

    def company(self) -> Company:
        """Return what a test of all nodes together has to know of them."""
        raise NotImplementedError

    def run_with(self, argv: list[str], limit_s: float, stdin: int = NOTHING) -> Finished:
        """Run a command to its end, in a unit of its own; its words are kept in the raw file.

        Args:
            argv: the command line.
            limit_s: seconds after which it is ended.
            stdin: a descriptor that it has as its standard input.

        Raises:
            MeasurementError: `deadline` when it did not end in time, `tool_failed` when it did not start.
        """
        raise NotImplementedError


class NodeTool(Tool):
    """One tool that measures a node; one instance serves all tests of a subject, one after the other."""

    def measure(self, play: NodeToolSession, check: str) -> NodeReading:
        """Measure what a check asks.

        Raises:
            MeasurementError: it failed, or must not be, with the reason.
        """
        raise NotImplementedError

    def program_of(self, check: str, policy: Mapping[str, Any]) -> str:
        """Return the program that every command line of a check begins with."""
        return self.name

    def release(self) -> None:
        """Leave the node as it was; called once, after the last test of the subject, on every way out."""
