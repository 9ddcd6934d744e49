"""One lab for the whole end-to-end session, its rails shaped so that verdicts have an authority.

Needs root and takes minutes. The lab has a name, a management subnet and an inventory of its own, so it can
run beside the demo's and molecule's.
"""

from __future__ import annotations

import os

import pytest
from e2e.support import Cluster, write_inventory


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory):
    if os.geteuid() != 0:
        pytest.skip("the lab needs root")
    made = Cluster(tmp_path_factory.mktemp("e2e"), "e2e")
    # The demos have Debian 12.
    write_inventory(made, "198.18.2.", "trixie")
    try:
        made.lab("up")
        yield made
    finally:
        print(made.railyard("lab", "down", "--topology", str(made.topology)).stdout)
        for line in made.log.read_text(encoding="utf-8").splitlines()[-40:]:
            print(line)
