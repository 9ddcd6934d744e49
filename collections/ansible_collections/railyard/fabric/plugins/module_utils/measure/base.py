# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Base classes of measuring tools; a new tool is a module in this folder and a line in `registry`.

A tool has two sides. The server side is ready when the kernel's table has its listening socket; there is no
pause and no probing connection. Then the client side runs, and each side reads its output.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .. import bounded
from ..catalogue.tests import TOOL_VERSIONS
from ..channel.errors import MeasurementError
from ..channel.rail_socket import Place
from .proof import Claim
from .rdma_port import RdmaPort

# A test that lasted less than this share of the planned time does not count.
LEAST_OF_ASKED = 0.5
# The two ends of a transfer may differ by the data in flight when each of them stopped its clock.
ENDS_TOLERANCE = 0.05
# Where each end sets its window by its own clock, a busy CPU shifts the two windows: by a share, or by some
# seconds where they are short.
OWN_WINDOWS_TOLERANCE, OWN_WINDOWS_S = 0.15, 0.3
# The least overlap of all rails of a group, as a share of the longest window.
LEAST_OVERLAP = 0.90
# The longest accepted gap in the counters' samples, as a share of the window.
MOST_GAP = 0.25


class Finished(NamedTuple):
    """A tool that has ended: its output, and times in seconds after the test's start.

    `connected_s` equals `begun_s` where no connection was looked for or seen.
    """

    exit_status: int
    text: str
    begun_s: float
    connected_s: float
    ended_s: float

    @property
    def window_s(self) -> list[float]:
        """Return when it began and ended, in the format of a row."""
        return [round(self.begun_s, 4), round(self.ended_s, 4)]


class Reading(NamedTuple):
    """The parsed result of one end."""

    metrics: dict[str, Any]
    claim: Claim | None = None
    window_s: list[float] | None = None
    message_bytes: int | None = None
    extra: dict[str, Any] | None = None
    # The latest begin and the earliest end of sending, in seconds after the start.
    sending_s: list[float] | None = None


class ToolSession:
    """What a tool may use at one end of one test; the runner implements it."""

    test: Mapping[str, Any]
    own: Place
    peer_address: str
    port: int
    mtu_bytes: int
    policy: Mapping[str, Any]
    version: str | None
    # The other end has failed already, so the server waits for no client.
    peer_failed: bool

    def rdma_port(self) -> RdmaPort:
        """Return the rail's RDMA port as it is now.

        Raises:
            MeasurementError: `hca_missing` or `no_gid`.
        """
        raise NotImplementedError

    def run(self, argv: list[str], limit_s: float, connection: bool = False) -> Finished:
        """Run a command to its end; with `connection` record when it connected to the peer's port."""
        raise NotImplementedError

    def serve(self, argv: list[str], limit_s: float) -> None:
        """Start a server that only the peer may connect to; return when it listens on `port` (TCP)."""
        raise NotImplementedError

    def served(self, patience_s: float) -> Finished:
        """Wait up to `patience_s` for the server to end, then end it; return its output."""
        raise NotImplementedError

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request to the server side of this test and return its answer.

        Raises:
            MeasurementError: the server's error.
        """
        raise NotImplementedError

    def note(self, text: str) -> None:
        """Append to the raw output."""
        raise NotImplementedError


class Tool:
    """One measuring tool; instances keep no state between tests except that of the server side."""

    name = ""
    package: str | None = None
    rdma = False
    # Its result is compared with samples of the rail's counters in its window.
    sampled = False
    # Both ends must have the same version to understand each other.
    same_version = False
    # The time limit beyond the planned measuring time.
    margin_s = 0.0
    # The capabilities that it needs; with "" it does not run as root, with None it has all.
    capabilities: str | None = ""

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds after which the client side is stopped."""
        return self.planned_s(policy) + self.margin_s

    def planned_s(self, policy: Mapping[str, Any]) -> float:
        """Return the planned measuring time in seconds; 0 where the tool does not measure for a time."""
        return 0.0

    def program(self, policy: Mapping[str, Any]) -> str:
        """Return the program to start: the tool's name, or a path from the policy."""
        return self.name

    def missing(self, host: str) -> MeasurementError:
        """Return the error of a tool that is not installed on a host."""
        return MeasurementError(
            "tool_missing",
            f"{self.name} is not installed on {host} (Debian package {self.package})",
            host,
            f"run the role benchmark_tools (ansible-playbook site.yml), or apt-get install {self.package}",
        )

    def refuses(self, address: str, version: str | None, host: str) -> MeasurementError | None:
        """Return why this version of the tool on `host` cannot test a rail with this address, or None."""
        return None

    def client(self, session: ToolSession) -> Reading:
        """Run the client to its end.

        Raises:
            MeasurementError: it failed, with the reason.
        """
        raise NotImplementedError

    def open(self, session: ToolSession) -> None:
        """Start the server side; nothing to do for a tool that the kernel answers."""

    def answer(self, session: ToolSession, question: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a request of the client side during the test.

        Raises:
            MeasurementError: it is sent to the client.
        """
        return {}

    def close(self, session: ToolSession) -> Reading:
        """End the server side and read its output."""
        return Reading({})

    def learn(self, reading: Reading, client: Mapping[str, Any]) -> Reading:
        """Return the server's reading completed with the client's metrics."""
        return reading

    def claim(self, client: Claim | None, server: Claim | None) -> Claim | None:
        """Return the claim of both ends together: the client's, unless a tool knows better."""
        return client

    def doubt(self, reading: Reading, claim: Claim | None, policy: Mapping[str, Any]) -> str | None:
        """Return a contradiction in the tool's numbers, which makes them unproven, or None."""
        return None


# More than a busy node needs to start a program: an unknown version differs from the other end's.
_VERSION_S = 20.0
PERFTEST = ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat", "ib_read_lat", "ib_send_lat")


def version_of(name: str) -> str | None:
    """Return the version of a program; `unknown` when it prints none, None when it is not installed."""
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
    """Return the error of a tool that differs in version between the two ends."""
    return MeasurementError(
        "version_differs",
        f"{name} is {own} on {host} and {theirs} on {peer}",
        host,
        "install one version on all nodes (role benchmark_tools), then validate again",
    )


def parse_version(version: str | None) -> tuple[int, ...] | None:
    """Parse a version into comparable numbers; None where it is unknown."""
    try:
        return tuple(int(part) for part in str(version).split("."))
    except ValueError:
        return None


def parse_output(
    session: ToolSession, tool: str, text: str, parse: Callable[[str], dict[str, Any]]
) -> dict[str, Any]:
    """Return the first complete output of a tool as `registry.parse` describes it.

    Raises:
        MeasurementError: `tool_garbage` if it is not the tool's output, `tool_failed` if the tool reports a
            failure or its result is incomplete.
    """
    try:
        result = parse(text)
    except Exception as error:
        first = text.strip().splitlines()[:1] or ["nothing"]
        raise session.own.error(
            "tool_garbage",
            f"{tool} printed something that is not its output: {error} (it begins with {first[0][:80]!r})",
            f"run it by hand on {session.own.host}; look for a wrapper of that name (command -v {tool})",
        ) from error
    if result.get("valid") and len(result.get("outputs") or []) > 1:
        raise session.own.error(
            "tool_garbage",
            "{} printed {} results for one run".format(tool, len(result["outputs"])),
            f"run it by hand on {session.own.host}; look for a wrapper of that name (command -v {tool})",
        )
    if result.get("valid") and result.get("outputs"):
        output: dict[str, Any] = result["outputs"][0]
        return output
    error_object = result.get("error") or {}
    why = error_object.get("message") or "; ".join(result.get("warnings") or []) or "no complete result"
    raise tool_failed(session, tool, str(why))


def tool_failed(session: ToolSession, tool: str, why: str) -> MeasurementError:
    """Return the error of a tool that failed."""
    return session.own.error(
        "tool_failed",
        f"{tool} on {session.own.host} failed: {why.strip()[:400]}",
        f"its complete output is in the raw archive; run {tool} by hand "
        + (f"between {session.own.address} and {session.peer_address}" if session.peer_address else "there"),
    )
