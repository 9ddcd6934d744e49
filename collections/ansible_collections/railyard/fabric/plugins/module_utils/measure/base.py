# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every measuring tool has in common; a new tool is a module beside this and a line in `registry`.

A tool has two sides. The server side says by itself when it is ready (its socket in the kernel's table),
never by a pause or a probing connection. The client side then runs and both read their own output.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils import bounded
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import TOOL_VERSIONS
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import Place
from ansible_collections.railyard.fabric.plugins.module_utils.measure.proof import Claim
from ansible_collections.railyard.fabric.plugins.module_utils.measure.rdma_port import RdmaPort

# A test that lasted less than this share of the time that was asked for is another test.
LEAST_OF_ASKED = 0.5
# Two ends of one transfer may differ by what was under way when each of them stopped its clock.
ENDS_TOLERANCE = 0.05
# Where each end cuts its window by its own clock, a busy processor sets the two windows apart: by a share of
# them, or by so many seconds where they are short.
OWN_WINDOWS_TOLERANCE, OWN_WINDOWS_S = 0.15, 0.3
# Least share of the longest window that all rails of a group must have in common, or they were not at once.
LEAST_OVERLAP = 0.90
# A gap in the counters' samples longer than this share of the window leaves too much to guess.
MOST_GAP = 0.25


class Finished(NamedTuple):
    """A tool that has ended: its output, and when things happened in seconds after the test's start.

    It counts as connected when it begins where its connection was not looked for, or not seen.
    """

    exit_status: int
    text: str
    begun_s: float
    connected_s: float
    ended_s: float

    @property
    def window_s(self) -> list[float]:
        """Return from when to when it ran, as a row has it."""
        return [round(self.begun_s, 4), round(self.ended_s, 4)]


class Reading(NamedTuple):
    """What one end's output says."""

    metrics: dict[str, Any]
    claim: Claim | None = None
    window_s: list[float] | None = None
    message_bytes: int | None = None
    extra: dict[str, Any] | None = None
    # When the tool had begun to send at the latest and ended at the earliest; seconds after the start.
    sending_s: list[float] | None = None


class ToolSession:
    """What a tool may use while it plays one end of one test; the runner implements it."""

    test: Mapping[str, Any]
    own: Place
    peer_address: str
    port: int
    mtu_bytes: int
    policy: Mapping[str, Any]
    version: str | None
    # The other end has failed already, so that its server waits for nobody.
    peer_failed: bool

    def rdma_port(self) -> RdmaPort:
        """Return the rail's RDMA port as it is now.

        Raises:
            MeasurementError: `hca_missing` or `no_gid`.
        """
        raise NotImplementedError

    def run(self, argv: list[str], limit_s: float, connection: bool = False) -> Finished:
        """Run a command to its end; `connection` asks when it was connected to the peer's port."""
        raise NotImplementedError

    def serve(self, argv: list[str], limit_s: float) -> None:
        """Start a server, which the peer alone may speak to; return when it listens on `port` (TCP)."""
        raise NotImplementedError

    def served(self, patience_s: float) -> Finished:
        """Give the server so long to end by itself, then end it; return its output."""
        raise NotImplementedError

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the server side of this test something over the rendezvous.

        Raises:
            MeasurementError: what stood in the server's way.
        """
        raise NotImplementedError

    def note(self, text: str) -> None:
        """Add to the raw output that is kept."""
        raise NotImplementedError


class Tool:
    """One measuring tool; instances carry no state between tests except the server side's own."""

    name = ""
    package: str | None = None
    rdma = False
    # What it says is held against what the rail's counters show in its own window.
    sampled = False
    # Both ends must have one version, or one's words mean nothing to the other.
    same_version = False
    # So many seconds it may take beyond those that it is asked to measure for.
    margin_s = 0.0
    # What it needs of root's capabilities; with none it does not run as root, with None it has all of them.
    capabilities: str | None = ""

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds after which the client side is stopped."""
        return self.planned_s(policy) + self.margin_s

    def planned_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds that the tool is asked to measure for; 0 where it counts something else."""
        return 0.0

    def program(self, policy: Mapping[str, Any]) -> str:
        """Return what is started: the tool's name, or a path where the policy names one."""
        return self.name

    def missing(self, host: str) -> MeasurementError:
        """Say that the tool is not installed on a host, and how it comes there."""
        return MeasurementError(
            "tool_missing",
            f"{self.name} is not installed on {host} (Debian package {self.package})",
            host,
            f"run the role benchmark_tools (ansible-playbook site.yml), or apt-get install {self.package}",
        )

    def refuses(self, address: str, version: str | None, host: str) -> MeasurementError | None:
        """Return why this version of the tool, installed on `host`, cannot test a rail with this address."""
        return None

    def client(self, play: ToolSession) -> Reading:
        """Play the client to its end.

        Raises:
            MeasurementError: it failed, with the reason.
        """
        raise NotImplementedError

    def open(self, play: ToolSession) -> None:
        """Make the server side ready; nothing to do for a tool that the kernel answers."""

    def answer(self, play: ToolSession, question: Mapping[str, Any]) -> dict[str, Any]:
        """Answer what the client side asks in mid-test.

        Raises:
            MeasurementError: it cannot; the client is told.
        """
        return {}

    def close(self, play: ToolSession) -> Reading:
        """End the server side and read its output."""
        return Reading({})

    def learn(self, reading: Reading, client: Mapping[str, Any]) -> Reading:
        """Return the server's reading with what only the client can know of it; `client` is its metrics."""
        return reading

    def claim(self, client: Claim | None, server: Claim | None) -> Claim | None:
        """Return what both ends together claim; the client's word, unless a tool knows better."""
        return client

    def doubt(self, reading: Reading, claim: Claim | None, policy: Mapping[str, Any]) -> str | None:
        """Return in what the tool's own numbers contradict each other, which leaves them unproven."""
        return None


# Above what a busy node needs to start a program: a version that is not told differs from the other end's.
_VERSION_S = 20.0
PERFTEST = ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat", "ib_read_lat", "ib_send_lat")


def version_of(name: str) -> str | None:
    """Return the version of a program, of a name or a path.

    `unknown` when it does not say, None when it is not installed.
    """
    tool = os.path.basename(name)
    known = TOOL_VERSIONS.get("perftest" if tool in PERFTEST else tool)
    if known is None:
        return None
    argv, pattern = [name, *known[0][1:]], known[1]
    if shutil.which(argv[0]) is None:
        return None
    try:
        found = pattern.search(bounded.ask(argv, _VERSION_S).text)
    except bounded.ToolError:
        return "unknown"
    return found.group(1) if found else "unknown"


def version_differs(name: str, own: str | None, host: str, theirs: str | None, peer: str) -> MeasurementError:
    """Say that the two ends have a tool in different versions."""
    return MeasurementError(
        "version_differs",
        f"{name} is {own} on {host} and {theirs} on {peer}",
        host,
        "install one version on all nodes (role benchmark_tools), then validate again",
    )


def number(version: str | None) -> tuple[int, ...] | None:
    """Return a version's numbers, to be compared; None where it is not known."""
    try:
        return tuple(int(part) for part in str(version).split("."))
    except ValueError:
        return None


def parsed(play: ToolSession, tool: str, text: str, parse: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """Return the first complete output of a tool as `registry.parse` describes it.

    Raises:
        MeasurementError: `tool_garbage` when it is not the tool's output, `tool_failed` when the tool reports
            a failure or its result is not complete.
    """
    try:
        result = parse(text)
    except Exception as error:
        first = text.strip().splitlines()[:1] or ["nothing"]
        raise play.own.error(
            "tool_garbage",
            f"{tool} printed something that is not its output: {error} (it begins {first[0][:80]!r})",
            f"run it by hand on {play.own.host}; look for a wrapper of that name (command -v {tool})",
        ) from error
    if result.get("valid") and len(result.get("outputs") or []) > 1:
        raise play.own.error(
            "tool_garbage",
            "{} printed {} results where it was run once: which of them was measured?".format(
                tool, len(result["outputs"])
            ),
            f"run it by hand on {play.own.host}; look for a wrapper of that name (command -v {tool})",
        )
    if result.get("valid") and result.get("outputs"):
        output: dict[str, Any] = result["outputs"][0]
        return output
    error_object = result.get("error") or {}
    said = error_object.get("message") or "; ".join(result.get("warnings") or []) or "no complete result"
    raise failed(play, tool, str(said))


def failed(play: ToolSession, tool: str, said: str) -> MeasurementError:
    """Say that a tool reported a failure."""
    return play.own.error(
        "tool_failed",
        f"{tool} on {play.own.host} failed: {said.strip()[:400]}",
        f"its whole output is in the raw archive; try {tool} by hand "
        + (f"between {play.own.address} and {play.peer_address}" if play.peer_address else "there"),
    )
