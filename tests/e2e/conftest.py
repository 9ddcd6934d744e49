"""Labs whose rails are shaped, so that verdicts have an authority; most end-to-end tests share one.

They need root and take minutes. Each has a name, a management subnet and an inventory of its own, so it can
run beside the demo's and molecule's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.support import RATE_GBPS, Cluster, edited, needs_root, write_lab

# A short policy: the tests are about verdicts, not about precise figures.
POLICY = {
    "iperf3_duration_s": 2,
    "iperf3_omit_s": 0,
    "sockperf_duration_s": 1,
    "ping_count": 10,
    # Once is enough to show that a failure is reproduced.
    "confirm": 1,
    "rendezvous_timeout_s": 4,
    "first_rendezvous_timeout_s": 20,
    "lease_s": 25,
}


@contextlib.contextmanager
def shaped_lab(folder: Path, name: str, subnet: str) -> Iterator[Cluster]:
    """Have a lab of two bare nodes with shaped rails up.

    Args:
        folder: for its inventory, run folders and log.
        name: of the lab, as it is in LABS of tests/leftovers.
        subnet: the first three bytes of the management network, with their dots.
    """
    needs_root()
    made = Cluster(folder, name)
    write_lab(made, subnet, "container")
    with edited(made.topology) as topology:
        # The demos have Debian 12.
        topology["image"]["suite"] = "trixie"
        for rail in topology["rails"]:
            rail["rate_gbps"] = RATE_GBPS
    with edited(made.fabric_file) as variables:
        for rail in variables["fabric"]["rails"]:
            rail["rate_gbps"] = RATE_GBPS
        variables["fabric_policy"] = POLICY
        # Lab containers answer at once: a cut-off node need not wait two minutes as real ones do.
        variables["rail_network_rollback_after_s"] = 20
    with made.up():
        yield made


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory):
    with shaped_lab(tmp_path_factory.mktemp("e2e"), "e2e", "198.18.2.") as made:
        yield made
