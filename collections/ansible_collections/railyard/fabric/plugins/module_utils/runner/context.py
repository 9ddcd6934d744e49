# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all parts of a runner share: test schedule, place on each rail, clock, stop event."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from .. import node_files
from ..channel.errors import MeasurementError
from ..channel.rail_socket import Place, no_management
from ..measure import base, registry
from ..schedule import node_tests, rounds, work_order
from . import confirm
from .launcher import Launcher
from .record import Record

RUNNER_VERSION = "0.1.0"


class Waits(NamedTuple):
    """How long this end waits for the other within a test, in seconds.

    A node that shares one CPU with its tools needs seconds to start one. The site's setting for slow nodes is
    the rendezvous time limit.
    """

    listening_s: float  # until a started server listens
    ready_s: float  # until the partner reports that its server listens; in a group the slowest decides
    answer_s: float  # for an answer that the partner can give only after it has started or ended a tool
    begin_s: float  # for a partner that may still be running a test on another rail

    @classmethod
    def from_policy(cls, policy: Mapping[str, Any]) -> Waits:
        """Derive the waits from a policy."""
        meeting_s = float(policy["rendezvous_timeout_s"])
        listening_s = max(8.0, meeting_s)
        return cls(listening_s, listening_s + 10.0, listening_s + 20.0, 50.0 + 2 * meeting_s)


class RunContext:
    """One node's side of a run."""

    def __init__(
        self, order: Mapping[str, Any], record: Record, launcher: Launcher, stop: threading.Event
    ) -> None:
        self.order = order
        self.node = str(order["node"])
        self.policy: Mapping[str, Any] = order["policy"]
        self.record = record
        self.launcher = launcher
        self.stop = stop
        self.stop_reason = "the runner received a stop signal"
        self.begun = time.monotonic()
        # Distinguishes a node from another with the same name, and from itself after a reboot.
        self.boot_id = node_files.read_word("/proc/sys/kernel/random/boot_id")
        self.rails = work_order.rails_of(order, self.node)
        self.waits = Waits.from_policy(self.policy)
        tests = itertools.chain(
            rounds.asked_tests(order, self.node), node_tests.asked_lines(order, self.node)
        )
        wanted = sorted({registry.program(test, self.policy) for test in tests})
        self.versions: dict[str, str | None] = {name: base.version_of(name) for name in wanted}
        self.versions["udp_probe"] = RUNNER_VERSION
        self.bounds: confirm.Bounds = order.get("bounds") or {}
        self.confirm_left_s = self.confirm_budget_s = confirm.budget_s(record.pace.left_s())
        # By rail, as it was before the last meeting on it.
        self.background_bytes_per_s: dict[str, float] = {}
        # Rails whose driver updates its counters late.
        self.counts_late: set[str] = set()
        self.places: dict[str, Place] = {}
        self.failures: dict[str, MeasurementError] = {}
        for name, rail in self.rails.items():
            self._place(name, rail)

    def _place(self, name: str, rail: Mapping[str, Any]) -> None:
        if "management" in rail:
            if rail["management"]:
                address, netdev = str(rail["management"]), str(rail["netdev"] or "")
                self.places[name] = Place(self.node, name, netdev, address, management=True)
            else:
                self.failures[name] = no_management(self.node, name, str(rail["why_not"]))
        elif not rail["netdev"]:
            self.failures[name] = MeasurementError(
                "no_netdev",
                f"{name} of {self.node} is bound to no netdev",
                self.node,
                "name its netdev in the inventory, or fix the NIC",
            )
        elif not rail["ip"]:
            self.failures[name] = MeasurementError(
                "no_address",
                f"{name} of {self.node} has no address in the plan",
                self.node,
                "give the rail a subnet",
            )
        else:
            self.places[name] = Place(self.node, name, str(rail["netdev"]), str(rail["ip"]))

    def measure_again(
        self, tests: Sequence[Mapping[str, Any]], wanted: Collection[str], left_s: float
    ) -> list[Mapping[str, Any]]:
        """Choose the tests of a meeting that are measured again, and add them to the total."""
        times = int(self.policy["confirm"])
        cost_s = {
            check: times * (self.record.pace.planned_s(check) + confirm.AROUND_S)
            for check in {str(test["check"]) for test in tests}
        }
        again = confirm.choose_tests(tests, wanted, left_s, cost_s)
        turns = {confirm.turn_of(test): cost_s[str(test["check"])] for test in again}
        self.confirm_left_s -= sum(turns.values())
        for attempt in range(2, 2 + times):
            self.record.more([{**test, "attempt": attempt} for test in again])
        return again

    def halt(self, reason: str) -> None:
        """Stop as soon as possible; rows already written stay."""
        if not self.stop.is_set():
            self.stop_reason = reason
            self.stop.set()

    def fault(self, error: Exception) -> MeasurementError:
        """Return the error of a test without a result because of a fault in the runner."""
        return MeasurementError(
            "internal",
            f"the runner failed: {type(error).__name__}: {error}",
            self.node,
            "this is a bug in Railyard: please report it with runner.log from the raw archive",
        )

    def interrupted(self) -> MeasurementError:
        """Return the error of the tests that were not run."""
        return MeasurementError(
            "interrupted", f"not measured: {self.stop_reason}", self.node, "start the validation again"
        )

    def version_of(self, test: Mapping[str, Any]) -> str | None:
        """Return this node's version of the test's tool."""
        return self.versions.get(registry.program(test, self.policy))

    def blank_row(self, test: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row with all that is known before the test."""
        return self.record.blank_row(test, self.rails.get(str(test["rail"]), {}), self.version_of(test))

    def build_failed_row(self, test: Mapping[str, Any], failure: MeasurementError) -> dict[str, Any]:
        """Return the row of a test that has no result."""
        row = self.blank_row(test)
        row.update({"status": failure.status, "error": failure.as_error()})
        if os.path.exists(self.record.raw_path(test)):
            row["raw"] = self.record.raw_reference(test)
        return row

    def refuse(self, test: Mapping[str, Any], failure: MeasurementError) -> dict[str, Any]:
        """Write the row of a test that has no result, and return it."""
        row = self.build_failed_row(test, failure)
        self.record.add([row])
        return row


def own_macs(root: str = "/sys/class/net") -> list[str]:
    """Return the MAC addresses of all netdevs of this node."""
    files = (os.path.join(root, netdev, "address") for netdev in node_files.list_names(root))
    return [mac for mac in map(node_files.read_word, files) if mac]


def link_state(netdev: str) -> str:
    """Return the kernel's state of a link, for messages: `up`, `down`, `no carrier`, `absent`."""
    if not netdev:
        return "absent"
    folder = "/sys/class/net/" + netdev
    try:
        with open(folder + "/operstate", encoding="ascii") as handle:
            state = handle.read().strip()
        with open(folder + "/carrier", encoding="ascii") as handle:
            carrier = handle.read().strip()
    except FileNotFoundError:
        return "absent"
    except OSError:
        return "down"  # the kernel refuses to read the carrier of a netdev that is administratively down
    return "no carrier" if carrier == "0" else state
