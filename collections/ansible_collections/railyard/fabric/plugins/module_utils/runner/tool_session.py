# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a tool may do at one end of one test: run, serve, ask; each with a time limit."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..channel import rail_socket
from ..channel.errors import MeasurementError
from ..channel.rendezvous import Channel, raise_if_stopped
from ..measure import rdma_port as rdma_place
from ..measure.base import Finished, ToolSession
from . import launcher
from .barrier import HeldProcess, Moment
from .record import end_of
from .session import Session

_POLL_S = 0.02
# How often to look for callers of an unfiltered server; where the kernel filters there is nothing to look
# for.
_WATCH_S = 0.05


class RailToolSession(ToolSession):
    """One end of one test on one rail."""

    def __init__(
        self, session: Session, channel: Channel, test: Mapping[str, Any], port: int, capabilities: str | None
    ) -> None:
        self.run_context = run_context = session.run_context
        self.channel = channel
        self.test = test
        self.own = session.place
        self.peer_address = session.peer_address
        self.port = port
        # 0 without IP on the rail, where no tool needs it.
        self.mtu_bytes = int(run_context.rails[session.place.rail]["mtu"] or 0)
        self.policy = run_context.policy
        self.version = run_context.version_of(test)
        self.peer_failed = False
        # An unknown connection, which means that a failed test says nothing about the rail.
        self.intruded: MeasurementError | None = None
        self.moment = Moment("", time.monotonic())
        # In a group: waits for the others before the first command of `run`, and releases it.
        self.together: Callable[[Callable[[], None]], None] | None = None
        self.argvs: list[list[str]] = []
        self.exit_status: int | None = None
        self._capabilities = capabilities
        self._end = end_of(test, run_context.node)
        self._raw = run_context.record.raw_path(test)
        self._server: launcher.Launched | None = None
        self._callers_before: set[tuple[str, int]] = set()
        self._callers: set[tuple[str, int]] = set()
        self._begun = 0.0
        self._offset = 0

    def rdma_port(self) -> rdma_place.RdmaPort:
        """Return the rail's RDMA port as it is now."""
        return rdma_place.find(self.own, self.run_context.rails[self.own.rail]["hca"])

    def run(self, argv: list[str], limit_s: float, connection: bool = False) -> Finished:
        """Run a command to its end; its output is kept in the raw file.

        Raises:
            MeasurementError: `deadline` when it did not end in time.
        """
        offset = get_size(self._raw)
        together, self.together = self.together, None
        hold = HeldProcess() if together else None
        begun = time.monotonic()
        connected: float | None = None
        launched = self._launch(argv, limit_s, hold=hold)
        try:
            if together and hold:
                self._await_hold(hold, launched, argv[0])
                together(hold.release)
                begun = time.monotonic()
            while connection and connected is None and launched.poll() is None:
                if rail_socket.is_connected(self.peer_address, self.port):
                    connected = time.monotonic()
                elif time.monotonic() - begun > limit_s or self.run_context.stop.is_set():
                    break
                else:
                    time.sleep(_POLL_S)
            status = launched.wait(limit_s - (time.monotonic() - begun), self.run_context.stop)
            ended = time.monotonic()
        finally:
            if hold:
                hold.close()
            launched.end()
        self.exit_status = status
        if status is None:
            raise deadline_error(
                argv[0], self.own.host, limit_s, "a transfer that stalls often has packets that are too large"
            )
        zero = self.moment.monotonic
        return Finished(
            status,
            read_from(self._raw, offset),
            begun - zero,
            (begun if connected is None else connected) - zero,
            ended - zero,
        )

    def serve(self, argv: list[str], limit_s: float) -> None:
        """Start a server and wait until the kernel shows its listening socket; no test connection is made.

        Raises:
            MeasurementError: `port_taken`, or why it did not start.
        """
        if rail_socket.is_listening(self.own.address, self.port):
            raise rail_socket.port_taken(self.own, self.port)
        # The kernel keeps closed connections for a minute, also those of an earlier partner.
        self._callers_before = rail_socket.callers(self.own.address, self.port)
        self._callers = set()
        self._begun = time.monotonic()
        self._offset = get_size(self._raw)
        self._server = self._launch(argv, limit_s, self.peer_address)
        within_s = self.run_context.waits.listening_s
        deadline = self._begun + within_s
        while not rail_socket.is_listening(self.own.address, self.port):
            raise_if_stopped(self.run_context.stop)
            if self._server.poll() is not None:
                output = read_from(self._raw, self._offset).strip()
                if "in use" in output.lower():
                    raise rail_socket.port_taken(self.own, self.port)
                raise self._server_failed(argv[0], output or "it ended without output")
            if time.monotonic() > deadline:
                raise self._server_failed(argv[0], f"it did not listen within {within_s:.0f} s")
            time.sleep(_POLL_S)
        if not self._server.accept_only(self.peer_address):
            self.note("# other hosts than the partner can connect: the kernel does not filter the socket\n")
            threading.Thread(target=self._watch_callers, args=(self._server,), daemon=True).start()
        # A host that connected before the filter keeps the tool from its partner.
        if (intruded := self.unknown_connection()) is not None:
            raise intruded

    def unknown_connection(self) -> MeasurementError | None:
        """Return the error where a host other than the partner is or was connected to the server, or None."""
        self._callers |= rail_socket.callers(self.own.address, self.port)
        others = {caller for caller, _port in self._callers - self._callers_before} - {self.peer_address}
        if not others:
            return None
        return self.own.error(
            "unknown_connection",
            f"{format_first(sorted(others))} connected to the test's server on {self.own.address} port "
            f"{self.port} ({self.own.host}), whose partner is {self.peer_address}",
            "find what connects there (a port scanner, a monitor) and keep it off the rails' networks during "
            "the measurement",
        )

    def _watch_callers(self, server: launcher.Launched) -> None:
        """Collect the callers of an unfiltered server: they may be gone when the test has failed."""
        while self._server is server:
            self._callers |= rail_socket.callers(self.own.address, self.port)
            time.sleep(_WATCH_S)

    def served(self, patience_s: float) -> Finished:
        """Wait up to `patience_s` for the server to end, then end it; return its output."""
        if self._server is None:
            raise RuntimeError("served() before serve()")
        if self.peer_failed:
            self.intruded = self.unknown_connection()
        self.exit_status = self._server.wait(patience_s, self.run_context.stop)
        self.release()
        zero = self.moment.monotonic
        begun_s, text = self._begun - zero, read_from(self._raw, self._offset)
        return Finished(self.exit_status or 0, text, begun_s, begun_s, time.monotonic() - zero)

    def release(self) -> None:
        """End the server if it still runs; called at the end of every test."""
        if self._server is not None:
            self._server.end()
            self._server = None

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request to the server's end and return its answer."""
        self.channel.send({**question, "t": "ask"})
        answer = self.channel.expect("answer", self.run_context.waits.answer_s)
        if answer.get("error"):
            raise MeasurementError.from_error(answer["error"])
        return answer

    def note(self, text: str) -> None:
        """Append to the raw file."""
        with open(self._raw, "a", encoding="utf-8") as handle:
            handle.write(text)

    def _await_hold(self, hold: HeldProcess, launched: launcher.Launched, name: str) -> None:
        """Wait until the tool only needs to be released.

        Raises:
            MeasurementError: `tool_failed`, it was not started.
        """
        within_s = self.run_context.waits.listening_s
        if hold.await_ready(within_s, lambda: launched.poll() is not None or self.run_context.stop.is_set()):
            return
        raise_if_stopped(self.run_context.stop)
        why = read_from(self._raw, 0).strip().splitlines()[-1:] or ["no reason was printed"]
        raise self.own.error(
            "tool_failed",
            f"{name} on {self.own.host} was not started within {within_s:.0f} s: {why[0][:300]}",
            "see runner.log in the raw archive; for slow nodes raise fabric_policy.rendezvous_timeout_s",
        )

    def _launch(
        self, argv: list[str], limit_s: float, only_peer: str | None = None, hold: HeldProcess | None = None
    ) -> launcher.Launched:
        unit = launcher.tool_unit(
            str(self.run_context.order["run"]), str(self.test["id"]), self._end, len(self.argvs)
        )
        self.argvs.append(argv)
        start = self.run_context.launcher.start
        try:
            if hold is None:
                return start(unit, argv, limit_s + 2, self._raw, self._capabilities, only_peer)
            # Its time begins with the release; until then it waits for the others of its group.
            most_s = limit_s + 2 + self.run_context.waits.listening_s + self.run_context.waits.ready_s
            launched = start(
                unit, hold.argv(argv), most_s, self._raw, self._capabilities, only_peer, hold.stdin.fileno()
            )
            hold.started()
            return launched
        except OSError as error:
            if hold:
                hold.close()
            raise start_error(argv[0], self.own.host, error) from error

    def _server_failed(self, name: str, output: str) -> MeasurementError:
        return self.own.error(
            "tool_failed",
            # A tool that rejects its arguments prints the reason first, then its usage.
            f"the {name} server on {self.own.host} failed: {output.splitlines()[0][:300]}",
            "run it by hand there: {}".format(" ".join(self.argvs[-1])),
        )


def format_first(addresses: list[str]) -> str:
    """Format the first address, and how many more there are."""
    more = len(addresses) - 1
    return addresses[0] + (f" and {more} more" if more else "")


def start_error(name: str, host: str, error: OSError) -> MeasurementError:
    """Return the error of a tool that could not be started."""
    return MeasurementError(
        "tool_failed", f"{name} could not be started on {host}: {error}", host, "run it by hand there"
    )


def deadline_error(name: str, host: str, limit_s: float, likely: str = "") -> MeasurementError:
    """Return the error of a tool that did not end in time, with a likely cause."""
    return MeasurementError(
        "deadline",
        f"{name} on {host} did not end within {limit_s:.0f} s and was stopped",
        host,
        "its output so far is in the raw archive" + (f"; {likely}" if likely else ""),
    )


def get_size(path: str) -> int:
    """Return a file's size in bytes, 0 where there is none."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def read_from(path: str, offset: int, most_bytes: int = -1) -> str:
    """Read a file's text from an offset in bytes, at most `most_bytes` of it."""
    with open(path, "rb") as handle:
        handle.seek(offset)
        return handle.read(most_bytes).decode("utf-8", "replace")
