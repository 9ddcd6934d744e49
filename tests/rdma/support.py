"""The demo's lab seen through an inventory that asks for one rail only, in little time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from e2e.support import Cluster, edited, write_lab

NODES = ("gpuserver1", "gpuserver2")
RAILS = ("rail0", "rail1")
QUICK = {"bidirectional": False, "ping_count": 10, "rdma_duration_s": 3, "rdma_latency_s": 0.5}


def small_inventory(folder: Path, lab: str = "lab", subnet: str = "198.18.0.", **policy: object) -> Cluster:
    """Copy the lab's inventory with its first rail only, for a lab of this name and management network."""
    cluster = Cluster(folder, "small")
    cluster.lab_name = lab
    write_lab(cluster, subnet, "vm")
    with edited(cluster.fabric_file) as variables:
        variables["fabric"]["rails"] = variables["fabric"]["rails"][:1]
        del variables["rdma_stack_soft_roce_devices"][1:]
        variables["fabric_policy"] |= QUICK | policy
    return cluster


def rdma_verdicts(run: object) -> list[dict]:
    """Return the verdicts of measured RDMA checks of a run."""
    return [one for one in run.verdicts if one["tool"].startswith("ib_")]  # type: ignore[attr-defined]


class WhileMeasuring:
    """Does something to a node at the moment when a tool runs there, while the validation goes on.

    Args:
        cluster: whose node it is.
        node: where to look.
        tools: names of processes; the first that is seen calls.
        act: what to do, once.
    """

    def __init__(
        self, cluster: Cluster, node: str, tools: tuple[str, ...], act: Callable[[], object]
    ) -> None:
        self.done = False
        self._look = (cluster, node, tools)
        self._act = act
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._wait, daemon=True)

    def __enter__(self) -> WhileMeasuring:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join(60)

    def _wait(self) -> None:
        cluster, node, tools = self._look
        pattern = "|".join(tools)
        while not self._over.is_set():
            # Two seconds into the test: perftest has met its other end and is sending.
            seen = cluster.ssh(node, f"pgrep -x '{pattern}' && sleep 2 && pgrep -x '{pattern}'", check=False)
            if seen.split():
                self.done = True
                self._act()
                return
            time.sleep(0.3)


def find_verdict(run: object, check: str, node: str, tool: str | None = None) -> dict:
    """Return the one verdict of a check from a node."""
    found = [
        one
        for one in run.verdicts  # type: ignore[attr-defined]
        if (one["check"], one["node"]) == (check, node) and tool in (None, one["tool"])
    ]
    assert len(found) == 1, found
    return found[0]
