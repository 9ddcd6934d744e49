"""`make demo` as a newcomer types it: two virtual machines with Soft-RoCE; the other tests use its lab.

Emulated machines are slow and dear, so everything that needs them uses one lab.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from e2e.support import ROOT, Cluster, needs_root, run
from rdma.support import small_inventory

RAILYARD = Path(sys.executable).parent / "railyard"


@dataclass
class Demo:
    """What the demo printed, how it ended, how long it took, and the lab that it left up."""

    output: str
    status: int
    took_s: float
    cluster: Cluster


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory):
    needs_root()
    run(str(RAILYARD), "lab", "down")
    cluster = Cluster(tmp_path_factory.mktemp("rdma"), "lab")
    cluster.inventory = ROOT / "inventories" / "lab"
    began = time.monotonic()
    try:
        done = subprocess.run(
            ["make", "demo"],
            cwd=ROOT,
            env=cluster.environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=1500,
            check=False,
        )
        print(done.stdout)
        print(f"the demo took {time.monotonic() - began:.0f} s")
        yield Demo(done.stdout, done.returncode, time.monotonic() - began, cluster)
    finally:
        print(run(str(RAILYARD), "lab", "down").stdout)


@pytest.fixture(scope="session")
def small(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """The same lab, with a policy of one rail and little time: a fault needs no more."""
    assert demo.status == 0, "the demo failed, and with it what builds on it"
    return small_inventory(tmp_path_factory.mktemp("small"), confirm=0)
