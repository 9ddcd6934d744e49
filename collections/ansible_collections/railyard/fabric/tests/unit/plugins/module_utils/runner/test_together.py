# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all nodes do together, as two runners come to it: with torch for real where this machine has it."""

from __future__ import annotations

import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.runner import node_tests
from support.nodes import node_run

PYTHON = "/usr/bin/python3"
NODES = ("gpu1", "gpu2")


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_tests.busy, "node_is_busy", lambda _node, _policy: None)


@pytest.fixture
def base_port() -> int:
    """A rendezvous port whose next one, the first job's, is free: two checkouts may be tested at once."""
    with socket.create_server(("127.0.1.1", 0)) as free:
        return int(free.getsockname()[1]) - 1


def order(node: str, absent: list[str], **policy: Any) -> dict[str, Any]:
    # Both are this machine, whose loopback has all of these addresses.
    rails = [{"name": f"rail{k}", "netdev": "lo", "subnet": f"127.0.{k + 1}.0/24"} for k in (0, 1)]
    mine = {
        "collectives": "torch",
        "collective_operations": ["allreduce", "alltoall"],
        "collective_duration_s": 1,
        "collective_most_bytes": 65536,
        # On a busy machine a job lasts so long that an idle rail may carry more than its own.
        "idle_bytes_per_s": 0,
    }
    made = node_run.order(node, NODES, rails, **{**mine, **policy})
    return {**made, "absent": absent, "secret": "s" * 32}


def played(folder: Path, nodes: tuple[str, ...] = NODES, **changes: Any) -> dict[str, list[dict[str, Any]]]:
    def play(node: str) -> list[dict[str, Any]]:
        (folder / node).mkdir()
        return node_run.play(order(node, **{"absent": [], **changes}), folder / node)

    with ThreadPoolExecutor(len(nodes)) as pool:
        return dict(zip(nodes, pool.map(play, nodes), strict=True))


def test_two_runners_meet_for_each_job_and_each_writes_its_rows(tmp_path: Path, base_port: int) -> None:
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{PYTHON} has no torch (Debian: python3-torch)")
    found = played(tmp_path, base_port=base_port)
    for rows in found.values():
        assert [(row["check"], row["subject"], row["status"]) for row in rows] == [
            ("collective_allreduce", "rail0", "measured"),
            ("collective_allreduce", "rail1", "measured"),
            ("collective_allreduce", "all rails", "measured"),
            ("collective_alltoall", "all rails", "measured"),
            ("collective_training", "all rails", "measured"),
        ], [row["error"] for row in rows]
        assert {row["tool"] for row in rows} == {"torch_gloo"}
        assert all(row["collective"]["ranks"] == 2 for row in rows)
        # The loopback carries both nodes' share, and that of the other rail: nothing of it is proven.
        assert {row["proof"] for row in rows} == {"unproven"}
    first, second = found.values()
    assert [row["metrics"] for row in first] == [row["metrics"] for row in second]


def test_a_node_that_was_not_reached_is_not_waited_for(tmp_path: Path) -> None:
    (rows,) = played(tmp_path, ("gpu1",), absent=["gpu2"]).values()
    assert {(row["status"], row["error"]["class"]) for row in rows} == {("unmeasured", "peer_absent")}
    assert len(rows) == 5
    assert "gpu2" in rows[0]["error"]["message"]
