# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's counters around one test: those of its own rail, and those of rails that ought to be idle."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.facts import link_errors
from ansible_collections.railyard.fabric.plugins.module_utils.measure import counters, proof
from ansible_collections.railyard.fabric.plugins.module_utils.runner.context import RunContext

# Drivers of hardware NICs read their counters from the card now and then, not at every byte: bnxt once a
# second. So long they are waited for where they fall short, and stand still in between.
_COUNTERS_SETTLE_S, _COUNTERS_STILL_S, _LOOK_S = 3.0, 1.2, 0.1


class Watch:
    """Reads everything at once before the test and after it.

    Args:
        bench: this node's rails.
        test: the test.
        group_rails: the rails that are at work together with it.
        rdma: the test is one of RDMA, which the port's own counters must show.
        sys_root: where sysfs is.
    """

    def __init__(
        self,
        run_context: RunContext,
        test: Mapping[str, Any],
        group_rails: tuple[str, ...],
        rdma: bool,
        sys_root: str = "/sys",
    ) -> None:
        self._sys_root = sys_root
        self._run_context = run_context
        self._rail = str(test["rail"])
        self._rdma = rdma
        self._netdevs = {
            name: place.netdev
            for name, place in run_context.places.items()
            if name == self._rail or name not in group_rails
        }
        self._hcas = {name: run_context.rails[name]["hca"] for name in self._netdevs}
        self._drivers = {name: _driver(str(hca), sys_root) for name, hca in self._hcas.items() if hca}
        if self._rail in run_context.counts_late:
            self._let_settle()
        self._errors_before = self._errors_after = self._read_errors()
        self._before = self._after = self._read()
        self._ticks = counters.read_processor_ticks()
        self._begun = time.monotonic()
        self._ended = self._begun
        self.node_cpu_percent: float | None = None

    @property
    def driver(self) -> proof.Driver:
        """Return in which counters the test must show."""
        return self._drivers[self._rail] if self._rdma and self._rail in self._drivers else proof.NETDEV

    def begin_processor(self) -> None:
        """Count the node's processor from now on: while the others of a group were waited for it idled."""
        self._ticks = counters.read_processor_ticks()

    def finish(self) -> None:
        """Read the counters again; may be done once more when a driver counts late."""
        self._after = self._read()
        self._ended = time.monotonic()

    def finish_processor(self) -> None:
        """Note how busy the node was until now, and the error counters."""
        self.node_cpu_percent = counters.node_cpu_percent(self._ticks, counters.read_processor_ticks())
        self._errors_after = self._read_errors()

    def own(self) -> dict[str, Any]:
        """Return the rail's counters as a row carries them; an RDMA row holds the port's as well."""
        of_port = tuple(self.driver.port_files) if self._rdma else ()
        keys = (*counters.KEYS, *of_port) if self._netdevs[self._rail] else of_port
        return counters.spans(self._before[self._rail], self._after[self._rail], keys)

    def others(self) -> dict[str, Any]:
        """Return the byte counters of the rails that ought to be idle."""
        found = {}
        for rail in self._netdevs:
            if rail == self._rail:
                continue
            before, after = self._before[rail], self._after[rail]
            port = [name for name in proof.PORT_DATA if before.get(name) is not None]
            netdev = proof.NETDEV_BYTES if self._netdevs[rail] or not port else ()
            found[rail] = counters.spans(before, after, (*netdev, *port))
        return found

    def link_errors(self) -> dict[str, Any]:
        """Return the rail's error counters, before and after."""
        return link_errors.spans(self._errors_before, self._errors_after)

    def read_bytes(self) -> tuple[int, int] | None:
        """Return the bytes that the test's counters show now (sent, received), for the sampler."""
        names = self.driver.bytes
        if names == proof.NETDEV_BYTES:
            seen = counters.read(self._netdevs[self._rail], f"{self._sys_root}/class/net")
        else:
            seen = self._read_port(self._rail)
        sent, received = (seen.get(name) for name in names)
        if sent is None or received is None:
            return None
        return sent * proof.unit_bytes(names[0]), received * proof.unit_bytes(names[1])

    def prove(self, claim: proof.Claim | None, end: str, policy: Mapping[str, Any]) -> tuple[str, str | None]:
        """Return the proof and its reason; waits a moment for counters that fall short."""
        deadline = time.monotonic() + _COUNTERS_SETTLE_S
        while proof.falls_short(claim, end, self.own(), self.driver):
            if time.monotonic() >= deadline:
                break
            time.sleep(_LOOK_S)
            self.finish()
            if not proof.falls_short(claim, end, self.own(), self.driver):
                # What the last test moved would else be counted into the next.
                self._run_context.counts_late.add(self._rail)
                self._let_settle()
                self.finish()
        allowance = proof.Allowance(self.idle_bytes_per_s(policy), self._ended - self._begun)
        return proof.prove(claim, end, self.own(), self.others(), allowance, self.driver)

    def idle_bytes_per_s(self, policy: Mapping[str, Any]) -> float:
        """Return what the rails may carry beside the test: the policy's, or what they were seen to carry."""
        seen = max(self._run_context.background_bytes_per_s.values(), default=0.0)
        return max(float(policy["idle_bytes_per_s"]), proof.BACKGROUND_TIMES * seen)

    def _let_settle(self) -> None:
        """Wait until the rail's counters stand still for longer than a driver keeps them."""
        deadline = time.monotonic() + _COUNTERS_SETTLE_S
        seen, since = self._read()[self._rail], time.monotonic()
        while time.monotonic() < min(deadline, since + _COUNTERS_STILL_S):
            time.sleep(_LOOK_S)
            now = self._read()[self._rail]
            if now != seen:
                seen, since = now, time.monotonic()

    def _read(self) -> dict[str, counters.Snapshot]:
        seen = counters.read_all(self._netdevs, f"{self._sys_root}/class/net")
        for rail in self._drivers:
            seen[rail].update(self._read_port(rail))
        return seen

    def _read_port(self, rail: str) -> counters.Snapshot:
        driver = self._drivers[rail]
        root = f"{self._sys_root}/class/infiniband"
        return counters.read_port(str(self._hcas[rail]), driver.port_folder, driver.port_files, root)

    def _read_errors(self) -> dict[str, int]:
        return link_errors.read(self._netdevs[self._rail], self._hcas[self._rail], self._sys_root)


def _driver(hca: str, sys_root: str) -> proof.Driver:
    """Return how a port counts: Soft-RoCE by counters that only it has, everything else as cards do."""
    soft = proof.SOFT_ROCE
    seen = counters.read_port(hca, soft.port_folder, soft.port_files, f"{sys_root}/class/infiniband")
    return proof.HARDWARE if None in seen.values() else soft
