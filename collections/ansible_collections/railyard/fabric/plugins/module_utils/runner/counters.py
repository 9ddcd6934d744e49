# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the kernel's counters around a test: those of its rail, and of the rails that have to be idle."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ..catalogue import rdma_counters
from ..facts import link_errors
from ..measure import counters, proof
from .context import RunContext

# Drivers of hardware NICs update their counters from time to time (bnxt once a second) and not in between.
# How long to wait for counters that fall short, and how long they must stay unchanged to be final.
_COUNTERS_SETTLE_S, _COUNTERS_STILL_S, _LOOK_S = 3.0, 1.2, 0.1


class Watch:
    """Reads all counters before the test and after it.

    Args:
        run_context: this node's side of the run.
        test: the test.
        group_rails: the rails that are tested at the same time.
        rdma: it is an RDMA test, which the counters of the port must show.
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
        self._ports = {name: counters.Port(str(hca), sys_root) for name, hca in self._hcas.items() if hca}
        # A value that the driver caches may date from before the test.
        self._refresh_s = max((port.refresh_s for port in self._ports.values()), default=0.0)
        if self._rail in run_context.counts_late:
            self._let_settle()
        time.sleep(self._refresh_s)
        self._errors_before = self._errors_after = self._read_errors()
        self._before = self._after = self._read()
        self._ticks = counters.read_processor_ticks()
        self._begun = time.monotonic()
        self._ended = self._begun
        self.node_cpu_percent: float | None = None

    @property
    def driver(self) -> rdma_counters.Traffic | None:
        """Return the counters in which the test must show; None where the port has no readable ones."""
        if not self._rdma:
            return rdma_counters.NETDEV
        port = self._ports.get(self._rail)
        return port.traffic if port is not None else None

    def restart_cpu_count(self) -> None:
        """Restart the CPU measurement: while the node waited for the others of a group it was idle."""
        self._ticks = counters.read_processor_ticks()

    def finish(self) -> None:
        """Read the counters again, after the time for which the driver caches them; can be repeated."""
        time.sleep(self._refresh_s)
        self._after = self._read()
        self._ended = time.monotonic()

    def finish_cpu_count(self) -> None:
        """Record the node's CPU load until now, and the error counters."""
        self.node_cpu_percent = counters.node_cpu_percent(self._ticks, counters.read_processor_ticks())
        self._errors_after = self._read_errors()

    def rail_counters(self) -> dict[str, Any]:
        """Return the rail's counters for the row; those of an RDMA test include the port's."""
        driver = self.driver
        of_port = tuple(counter.name for counter in driver.counters) if driver is not None else ()
        keys = (*counters.KEYS, *of_port) if self._netdevs[self._rail] else of_port
        return counters.spans(self._before[self._rail], self._after[self._rail], keys)

    def idle_counters(self) -> dict[str, Any]:
        """Return the byte counters of the rails that should be idle."""
        found = {}
        for rail in self._netdevs:
            if rail == self._rail:
                continue
            before, after = self._before[rail], self._after[rail]
            of_port = self._ports[rail].traffic if rail in self._ports else None
            port = () if of_port is None or of_port.netdev_shows_rdma else of_port.bytes
            netdev = rdma_counters.NETDEV_BYTES if self._netdevs[rail] or not port else ()
            found[rail] = counters.spans(before, after, (*netdev, *port))
        return found

    def link_errors(self) -> dict[str, Any]:
        """Return the rail's error counters, before and after."""
        return link_errors.spans(self._errors_before, self._errors_after)

    def read_bytes(self) -> tuple[int, int] | None:
        """Return the current byte counts (sent, received) of the test's counters, for the sampler."""
        if self.driver is None:
            return None
        names = self.driver.bytes
        if names == rdma_counters.NETDEV_BYTES:
            seen = counters.read(self._netdevs[self._rail], self._net)
        else:
            seen = self._ports[self._rail].read()
        sent, received = (seen.get(name) for name in names)
        if sent is None or received is None:
            return None
        return sent * rdma_counters.unit_bytes(names[0]), received * rdma_counters.unit_bytes(names[1])

    def prove(self, claim: proof.Claim | None, end: str, policy: Mapping[str, Any]) -> tuple[str, str | None]:
        """Return the proof and its reason, after a short wait for counters that fall short."""
        driver = self.driver
        if driver is None:
            port = self._ports.get(self._rail)
            return proof.UNPROVEN, port.why_not if port is not None else f"{self._rail} has no RDMA port"
        deadline = time.monotonic() + _COUNTERS_SETTLE_S
        while proof.falls_short(claim, end, self.rail_counters(), driver):
            if time.monotonic() >= deadline:
                break
            time.sleep(_LOOK_S)
            self.finish()
            if not proof.falls_short(claim, end, self.rail_counters(), driver):
                # Otherwise the bytes of this test would count for the next one.
                self._run_context.counts_late.add(self._rail)
                self._let_settle()
                self.finish()
        allowance = proof.Allowance(self.idle_bytes_per_s(policy), self._ended - self._begun)
        return proof.prove(claim, end, self.rail_counters(), self.idle_counters(), allowance, driver)

    def idle_bytes_per_s(self, policy: Mapping[str, Any]) -> float:
        """Return the traffic that idle rails may carry: the configured or a multiple of the background."""
        seen = max(self._run_context.background_bytes_per_s.values(), default=0.0)
        return max(float(policy["idle_bytes_per_s"]), proof.BACKGROUND_TIMES * seen)

    def _let_settle(self) -> None:
        """Wait until the rail's counters are unchanged for longer than a driver caches them."""
        deadline = time.monotonic() + _COUNTERS_SETTLE_S
        seen, since = self._read()[self._rail], time.monotonic()
        while time.monotonic() < min(deadline, since + _COUNTERS_STILL_S):
            time.sleep(_LOOK_S)
            now = self._read()[self._rail]
            if now != seen:
                seen, since = now, time.monotonic()

    def _read(self) -> dict[str, counters.Snapshot]:
        seen = counters.read_all(self._netdevs, self._net)
        for rail, port in self._ports.items():
            seen[rail].update(port.read())
        return seen

    @property
    def _net(self) -> str:
        return f"{self._sys_root}/class/net"

    def _read_errors(self) -> dict[str, int]:
        return link_errors.read(self._netdevs[self._rail], self._hcas[self._rail], self._sys_root)
