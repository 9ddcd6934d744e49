# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the tests of a node alone, after the last round; each gets a row, whatever happens.

By then no partner waits for this node, so their load disturbs no test of a rail.
"""

from __future__ import annotations

import contextlib
import hmac
import time
from collections.abc import Mapping
from typing import Any

from ..channel.errors import MeasurementError
from ..channel.rail_socket import Place
from ..channel.rendezvous import Cancelled, raise_if_stopped
from ..measure import registry
from ..measure.base import Finished
from ..measure.node_tool import NOTHING, Company, NodeTool, NodeToolSession
from ..schedule import node_tests, together, work_order
from . import busy, launcher, tool_session
from .context import RunContext
from .record import end_of, utc_now

Test = Mapping[str, Any]
#: Far more than such a tool prints.
_MOST_OUTPUT_BYTES = 16 << 20


class NodeTests:
    """The tests of this node alone."""

    def __init__(self, run_context: RunContext) -> None:
        self._context = run_context
        self._tools: dict[tuple[str, object], NodeTool] = {}
        self._absent = set(map(str, run_context.order["absent"]))

    def run(self) -> None:
        """Run all tests; raises only `Cancelled`, which leaves the remaining tests without a row."""
        run_context, current = self._context, None
        try:
            for test in node_tests.asked_lines(run_context.order, run_context.node):
                raise_if_stopped(run_context.stop)
                if current != (test["tool"], test["subject"]):
                    self._release()
                current = (test["tool"], test["subject"])
                run_context.record.begin([test])
                self._run_test(test)
        finally:
            self._release()

    def _run_test(self, test: Test) -> None:
        run_context = self._context
        tool = self._tools.setdefault(
            (test["tool"], test["subject"]), registry.NODE_TOOLS[str(test["check"])]()
        )
        session = OwnToolSession(run_context, test, tool, self._absent)
        row = run_context.blank_row(test)
        try:
            _check_ready(run_context, test, tool)
            reading = tool.measure(session, str(test["check"]))
            row.update({"status": "measured", "metrics": reading.metrics, "window_s": reading.window_s})
            row.update({"counters": reading.counters, "proof_reason": reading.doubt, **(reading.extra or {})})
            row["proof"] = "unproven" if reading.doubt else "proven"
        except MeasurementError as failure:
            row.update({"status": failure.status, "error": failure.as_error()})
        except Cancelled:
            raise
        except Exception as error:
            # A bug must cost one test, not the run.
            fault = run_context.fault(error)
            row.update({"status": fault.status, "error": fault.as_error()})
        if session.argvs:
            row.update({"argv": session.argvs, "exit_status": session.exit_status})
            row["raw"] = run_context.record.raw_reference(test)
        row["started"] = session.started
        run_context.record.add([row])

    def _release(self) -> None:
        for tool in self._tools.values():
            with contextlib.suppress(OSError):
                tool.release()
        self._tools.clear()


def _check_ready(run_context: RunContext, test: Test, tool: NodeTool) -> None:
    """Raise the error that keeps a test from being run."""
    version = run_context.version_of(test)
    if tool.package is not None and version is None:
        raise tool.missing(run_context.node)
    failure = tool.refuses("", version, run_context.node) or busy.node_is_busy(
        run_context.node, run_context.policy
    )
    if failure is not None:
        raise failure


class OwnToolSession(NodeToolSession):
    """What a tool may do in one test of this node alone."""

    def __init__(self, run_context: RunContext, test: Test, tool: NodeTool, absent: set[str]) -> None:
        order = run_context.order
        fabric = order["fabrics"][int(work_order.roster_entry(order, run_context.node).get("fabric", 0))]
        self.test = test
        self.subject = test["subject"]
        self.node_class = str(fabric.get("node_class") or "hardware")
        self.own = Place(run_context.node, "", "", "")
        self.peer_address = ""
        self.policy = run_context.policy
        self.version = run_context.version_of(test)
        self.argvs: list[list[str]] = []
        self.exit_status: int | None = None
        self.started = utc_now()
        self._begun = time.monotonic()
        self._context = run_context
        self._absent = absent
        self._capabilities = tool.capabilities
        self._raw = run_context.record.raw_path(test)

    def company(self) -> Company:
        """Return what this node knows of all nodes.

        The wait for the first test is longer: nodes that measure tests again reach it later.
        """
        run_context, order, node = self._context, self._context.order, self._context.node
        wanted = together.rails_of_all(order)
        nodes = [str(entry["name"]) for entry in order["roster"]]
        first_rails = work_order.rails_of(order, nodes[0])
        job = "{} {}".format(self.test["check"], self.subject)
        first = [test["id"] for test in together.asked_lines(order, node)][:1] == [self.test["id"]]
        wait_s = (
            float(self.policy["first_rendezvous_timeout_s"]) + run_context.confirm_budget_s
            if first
            else float(self.policy["rendezvous_timeout_s"]) + run_context.waits.answer_s
        )
        return Company(
            nodes,
            self._absent,
            {rail: run_context.places[rail] for rail in wanted if rail in run_context.places},
            {rail: str(run_context.rails[rail]["hca"]) for rail in wanted if run_context.rails[rail]["hca"]},
            {rail: run_context.failures[rail] for rail in wanted if rail in run_context.failures},
            [str(first_rails[rail]["ip"]) for rail in wanted],
            int(self.policy["base_port"]) + 1,
            hmac.new(str(order["secret"]).encode(), job.encode(), "sha256").hexdigest(),
            wait_s,
        )

    def run(self, argv: list[str], limit_s: float, connection: bool = False) -> Finished:
        """Run a command without standard input."""
        return self.run_with(argv, limit_s)

    def run_with(self, argv: list[str], limit_s: float, stdin: int = NOTHING) -> Finished:
        """Run a command to its end."""
        run_context, offset = self._context, tool_session.get_size(self._raw)
        end = end_of(self.test, run_context.node)
        unit = launcher.tool_unit(str(run_context.order["run"]), str(self.test["id"]), end, len(self.argvs))
        self.argvs.append(argv)
        begun = time.monotonic()
        try:
            launched = run_context.launcher.start(
                unit, argv, limit_s + 2, self._raw, self._capabilities, None, stdin
            )
        except OSError as error:
            raise tool_session.start_error(argv[0], self.own.host, error) from error
        try:
            self.exit_status = launched.wait(limit_s, run_context.stop)
            ended = time.monotonic()
        finally:
            launched.end()
        if self.exit_status is None:
            raise tool_session.deadline_error(argv[0], self.own.host, limit_s)
        text = tool_session.read_from(self._raw, offset, _MOST_OUTPUT_BYTES)
        begun_s = begun - self._begun
        return Finished(self.exit_status, text, begun_s, begun_s, ended - self._begun)

    def note(self, text: str) -> None:
        """Append to the raw file."""
        with open(self._raw, "a", encoding="utf-8") as handle:
            handle.write(text)
