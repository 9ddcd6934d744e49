"""Two bare virtual machines with Soft-RoCE: a site run with the discovered inventory measures RDMA."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from e2e.support import BIN, NODES, Cluster, Run, edited, needs_root, run, write_lab

RAILS = {"rail0": "ens6", "rail1": "ens6d1"}
# As a node that somebody used before: its ports are up, and have RDMA devices.
USED = """
modprobe rdma_rxe
ip link set ens6 up
ip link set ens6d1 up
rdma link add rxe0 type rxe netdev ens6
rdma link add rxe1 type rxe netdev ens6d1
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    needs_root()
    made = Cluster(tmp_path_factory.mktemp("discovered"), "discovered")
    write_lab(made, "198.18.95.", "vm")
    with made.up(timeout=900):
        for node in NODES:
            made.ssh(node, "sudo", "sh", "-ec", f"'{USED}'", timeout=120)
        yield made


def discover(lab: Cluster, target: Path) -> str:
    done = run(
        BIN / "railyard", "discover", "-o", target, "--hosts-from", lab.inventory, "--yes",
        "--limit-s", "180", timeout=400, env=lab.environment(),
    )  # fmt: skip
    print(done.stdout)
    assert done.returncode == 0
    return done.stdout


def test_the_inventory_is_right_and_measured(lab: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "found"
    discover(lab, folder)
    written = yaml.safe_load((folder / "group_vars/all/fabric.yml").read_text())["fabric"]
    assert (written["transport"], written["cabling"], written["node_class"]) == (
        "roce", "back_to_back", "virtual",
    )  # fmt: skip
    assert {rail["name"]: rail["netdev"] for rail in written["rails"]} == RAILS
    # What only this lab needs: its key and host keys, and patience with emulated machines.
    for path in (lab.inventory / "group_vars/all").iterdir():
        if path.name != "fabric.yml":
            shutil.copy(path, folder / "group_vars/all" / path.name)
    patience = yaml.safe_load(lab.fabric_file.read_text())
    with edited(folder / "group_vars/all/fabric.yml") as variables:
        variables |= {
            name: value
            for name, value in patience.items()
            if name != "fabric" and not name.startswith("rdma_stack")
        }
    done = lab.railyard("site", "-i", folder, timeout=2400)
    assert done.returncode == 0, done.stdout
    [run_folder] = [path for path in (lab.reports / "found").iterdir() if path.is_dir()]
    verdicts = Run(run_folder).verdicts
    measured = {(row["check"], row.get("rail")) for row in verdicts if row["outcome"] in ("pass", "recorded")}
    assert {("rdma_bandwidth", rail) for rail in RAILS} <= measured


def test_crossed_cables_are_named_with_both_ends(lab: Cluster, tmp_path: Path) -> None:
    lab.lab("fault", "swap", "gpuserver2", "rail0", "rail1")
    try:
        said = discover(lab, tmp_path / "crossed")
    finally:
        lab.lab("heal", "--all")
    for one, other in (("ens6", "ens6d1"), ("ens6d1", "ens6")):
        pattern = rf"crossed cable: gpuserver1 {one} \(\S+\) is cabled to gpuserver2 {other} \("
        assert re.search(pattern, said), said
