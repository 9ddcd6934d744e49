# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tests of a node by itself, after the last round: each ends in a row, whatever happens.

By then no partner waits for this node, so what they take of it disturbs no rail of it.
"""

from __future__ import annotations

import contextlib
import hmac
import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import Place
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rendezvous import Cancelled, mind_stop
from ansible_collections.railyard.fabric.plugins.module_utils.measure import registry
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import Finished
from ansible_collections.railyard.fabric.plugins.module_utils.measure.node_tool import (
    NOTHING,
    Company,
    NodeTool,
    NodeToolSession,
)
from ansible_collections.railyard.fabric.plugins.module_utils.runner import busy, launcher, tool_session
from ansible_collections.railyard.fabric.plugins.module_utils.runner.context import RunContext
from ansible_collections.railyard.fabric.plugins.module_utils.runner.record import end_of, utc_now
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import node_tests, together, work_order

Test = Mapping[str, Any]
#: Far more than such a tool prints; what is cut there is no whole output.
_MOST_OUTPUT_BYTES = 16 << 20


class NodeTests:
    """This node's own tests."""

    def __init__(self, run_context: RunContext) -> None:
        self._context = run_context
        self._tools: dict[tuple[str, object], NodeTool] = {}
        self._absent = set(map(str, run_context.order["absent"]))

    def run(self) -> None:
        """Run all tests; raises `Cancelled` only, and then the tests that are left have no row yet."""
        run_context, about = self._context, None
        try:
            for test in node_tests.asked_lines(run_context.order, run_context.node):
                mind_stop(run_context.stop)
                if about != (test["tool"], test["subject"]):
                    self._release()
                about = (test["tool"], test["subject"])
                run_context.record.begin([test])
                self._one(test)
        finally:
            self._release()

    def _one(self, test: Test) -> None:
        run_context = self._context
        tool = self._tools.setdefault(
            (test["tool"], test["subject"]), registry.NODE_TOOLS[str(test["check"])]()
        )
        play = OwnToolSession(run_context, test, tool, self._absent)
        row = run_context.blank_row(test)
        try:
            _mind_obstacles(run_context, test, tool)
            reading = tool.measure(play, str(test["check"]))
            row.update({"status": "measured", "metrics": reading.metrics, "window_s": reading.window_s})
            row.update({"counters": reading.counters, "proof_reason": reading.doubt, **(reading.extra or {})})
            row["proof"] = "unproven" if reading.doubt else "proven"
        except MeasurementError as obstacle:
            row.update({"status": obstacle.status, "error": obstacle.as_error()})
        except Cancelled:
            raise
        except Exception as error:
            # A fault of ours must cost one test, not the run; the row says that it is ours.
            ours = run_context.fault(error)
            row.update({"status": ours.status, "error": ours.as_error()})
        if play.argvs:
            row.update({"argv": play.argvs, "exit_status": play.exit_status})
            row["raw"] = run_context.record.raw_reference(test)
        row["started"] = play.started
        run_context.record.add([row])

    def _release(self) -> None:
        for tool in self._tools.values():
            with contextlib.suppress(OSError):
                tool.release()
        self._tools.clear()


def _mind_obstacles(run_context: RunContext, test: Test, tool: NodeTool) -> None:
    """Raise what stands in a test's way before it begins."""
    version = run_context.version_of(test)
    if tool.package is not None and version is None:
        raise tool.missing(run_context.node)
    obstacle = tool.refuses("", version, run_context.node) or busy.node_is_busy(
        run_context.node, run_context.policy
    )
    if obstacle is not None:
        raise obstacle


class OwnToolSession(NodeToolSession):
    """What a tool may do in one test of this node by itself."""

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
        """Return what this node knows of all of them.

        They come to the first of such tests at different times: what looked bad was measured again by some.
        """
        run_context, order, node = self._context, self._context.order, self._context.node
        wanted = together.rails_of_all(order)
        nodes = [str(entry["name"]) for entry in order["roster"]]
        theirs = work_order.rails_of(order, nodes[0])
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
            {rail: run_context.obstacles[rail] for rail in wanted if rail in run_context.obstacles},
            [str(theirs[rail]["ip"]) for rail in wanted],
            int(self.policy["base_port"]) + 1,
            hmac.new(str(order["secret"]).encode(), job.encode(), "sha256").hexdigest(),
            wait_s,
        )

    def run(self, argv: list[str], limit_s: float, connection: bool = False) -> Finished:
        """Run a command that reads nothing."""
        return self.run_with(argv, limit_s)

    def run_with(self, argv: list[str], limit_s: float, stdin: int = NOTHING) -> Finished:
        """Run a command to its end."""
        run_context, offset = self._context, tool_session.size_of(self._raw)
        end = end_of(self.test, run_context.node)
        unit = launcher.tool_unit(str(run_context.order["run"]), str(self.test["id"]), end, len(self.argvs))
        self.argvs.append(argv)
        begun = time.monotonic()
        try:
            launched = run_context.launcher.start(
                unit, argv, limit_s + 2, self._raw, self._capabilities, None, stdin
            )
        except OSError as error:
            raise tool_session.not_started(argv[0], self.own.host, error) from error
        try:
            self.exit_status = launched.wait(limit_s, run_context.stop)
            ended = time.monotonic()
        finally:
            launched.end()
        if self.exit_status is None:
            raise tool_session.too_long(argv[0], self.own.host, limit_s)
        text = tool_session.text_from(self._raw, offset, _MOST_OUTPUT_BYTES)
        begun_s = begun - self._begun
        return Finished(self.exit_status, text, begun_s, begun_s, ended - self._begun)

    def note(self, text: str) -> None:
        """Add to the raw file."""
        with open(self._raw, "a", encoding="utf-8") as handle:
            handle.write(text)
