"""The demo's lab seen through an inventory that asks for one rail only, in little time."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import yaml
from e2e.support import ROOT, Cluster

NODES = ("gpuserver1", "gpuserver2")
RAILS = ("rail0", "rail1")
QUICK = {"bidirectional": False, "ping_count": 10, "rdma_duration_s": 3, "rdma_latency_s": 0.5}


def small_inventory(folder: Path, **policy: object) -> Cluster:
    """Copy the lab's inventory with its first rail only."""
    cluster = Cluster(folder, "small")
    cluster.lab_name = "lab"
    shutil.copytree(ROOT / "inventories" / "lab", cluster.inventory)
    for path in cluster.inventory.rglob("*.yml"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("{{ inventory_dir }}/../../.lab/", f"{ROOT}/.lab/"), encoding="utf-8")
    for path in cluster.inventory.rglob("*.yml"):
        variables = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        if "fabric" not in variables:
            continue
        variables["fabric"]["rails"] = variables["fabric"]["rails"][:1]
        variables["fabric_policy"] = {**variables.get("fabric_policy", {}), **QUICK, **policy}
        path.write_text(yaml.safe_dump(variables, sort_keys=False), encoding="utf-8")
    return cluster


def rdma_verdicts(run: object) -> list[dict]:
    """Return the verdicts of measured RDMA checks of a run."""
    return [one for one in run.verdicts if one["tool"].startswith("ib_")]  # type: ignore[attr-defined]


def put(cluster: Cluster, node: str, path: str, text: str) -> None:
    """Write an executable file on a node as root."""
    # Quoted for the one shell that ssh starts there; the text is the test's own.
    data = base64.b64encode(text.encode()).decode()
    cluster.ssh(node, f"echo {data} | base64 -d | sudo tee {path} >/dev/null && sudo chmod 755 {path}")
