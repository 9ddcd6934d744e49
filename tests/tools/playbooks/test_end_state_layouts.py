"""What the end-state tests want of each layout in inventories/ is what its goldens say that roles write."""

from __future__ import annotations

import ipaddress
import json

import pytest
import yaml
from end_state import expect, expect_nccl, expect_rdma
from railyard.base import paths

INVENTORIES = paths.repo_root() / "inventories"
FOLDERS = sorted(path.parent for path in INVENTORIES.glob("*/expected/plan.json"))
NODES = [
    (folder, name) for folder in FOLDERS for name in json.loads((folder / "plan.json").read_text())["nodes"]
]
CONNECTX3 = "0x15b3:0x1003"
# What the nodes of the layouts call their rails' ports, by the READMEs and the vendor's tables; others count.
NAMES = {
    "v100-pair": ["mlx4_0:1", "mlx4_0:2"],
    "v100-pair-switched": ["mlx4_0:1", "mlx4_0:2"],
    "dgx-spark-pair": ["rocep1s0f0:1", "roceP2p1s0f0:1"],
    "dgx-spark-switched": ["rocep1s0f0:1", "roceP2p1s0f0:1"],
    "mi300x-thor2": [f"rocep{bus}s0:1" for bus in (28, 62, 79, 96, 158, 190, 206, 222)],
    "gb200-nvl72-tray": ["ibp3s0:1", "ibP2p3s0:1", "ibP16p3s0:1", "ibP18p3s0:1"],
    "dgx-h100-infiniband": [f"mlx5_{number}:1" for number in (0, 3, 4, 5, 6, 9, 10, 11)],
}


def device(name, mtu, *addresses):
    return {
        "ifname": name,
        "flags": ["UP", "LOWER_UP"],
        "operstate": "UP",
        "mtu": mtu,
        "addr_info": [
            {"local": str(one.ip), "prefixlen": one.network.prefixlen}
            for one in map(ipaddress.ip_interface, addresses)
        ],
    }


def _pci(rail):
    """Stand for the bus address of a port whose layout does not say it: one for each."""
    return f"0000:{10 + int(rail['name'].removeprefix('rail'))}:00.0"


def state(folder, name, node):
    """A node as the kernel shows it after the roles; files are the goldens' own text where there is one."""
    names = NAMES.get(folder.parent.name) or [f"mlx5_{place}:1" for place in range(len(node["rails"]))]
    rails = [{**rail, "hca": hca} for rail, hca in zip(node["rails"], names, strict=True)]
    v1_alone = rails[0]["hca"].startswith("mlx4")
    roce = node["transport"] == "roce"
    rules, tables, gids = [], [], []
    for rail in rails:
        for address in filter(None, (rail["address"], rail["address6"])):
            own = ipaddress.ip_interface(address)
            rules.append({"src": str(own.ip), "table": str(rail["table"])})
            tables.append({"table": str(rail["table"]), "dst": str(own.network), "dev": rail["netdev"]})
        if roce:
            words = [f"{byte:02x}" for byte in ipaddress.ip_interface(rail["address"]).ip.packed]
            mapped = "0000:0000:0000:0000:0000:ffff:{}{}:{}{}".format(*words)
            hca, port = rail["hca"].split(":")
            gids += [
                {"device": hca, "port": port, "gid": mapped, "type": kind}
                for kind in ("IB/RoCE v1", *(() if v1_alone else ("RoCE v2",)))
            ]
    files = {
        f"/etc/netplan/{path.name}": {"mode": 0o600, "owner": "root", "text": path.read_text()}
        for path in (folder / name).glob("*.yaml")
    }
    profile = {"mode": 0o644, "owner": "root", "text": (folder / "nccl.conf").read_text()}
    modules = ["ib_uverbs", "ib_umad", "rdma_ucm"]
    hcas = sorted({rail["hca"].split(":")[0] for rail in rails})
    return {
        "addresses": [
            device(node["frontend"]["netdev"], 1500, "192.0.2.1/24"),
            *(
                device(rail["netdev"], rail["mtu"], *filter(None, (rail["address"], rail["address6"])))
                for rail in rails
                if rail["netdev"]
            ),
        ],
        "routes": [{"dev": node["frontend"]["netdev"], "gateway": "192.0.2.254"}],
        "rules": rules,
        "tables": tables,
        "arp": {rail["netdev"]: {"arp_ignore": "1", "arp_announce": "2"} for rail in rails},
        "netplan": files,
        "netdevs": {rail["netdev"]: {"pci": rail["pci"] or _pci(rail)} for rail in rails if rail["netdev"]},
        # The kernel names no netdev beside an InfiniBand port's GIDs.
        "hcas": {rail["hca"]: rail["netdev"] for rail in rails} if roce else {},
        "nccl": {"/etc/nccl.conf": profile, "/etc/railyard/nccl.env": profile},
        "rdma_links": [
            {
                "ifname": rail["hca"].split(":")[0],
                "port": int(rail["hca"].split(":")[1]),
                "state": "ACTIVE",
                **({"netdev": rail["netdev"]} if roce else {}),
            }
            for rail in rails
        ],
        "rdma_devices": {
            hca: {
                "is_software": False,
                "pci_id": CONNECTX3 if v1_alone else "0x15b3:0x1021",
                "pci": next(rail["pci"] or _pci(rail) for rail in rails if rail["hca"].startswith(f"{hca}:")),
            }
            for hca in hcas
        },
        "gids": gids,
        "modules": modules,
        "modules_at_boot": modules,
        "openibd_enabled": False,
        "udev_rules": [],
    }


@pytest.mark.parametrize(("folder", "name"), NODES, ids=[f"{one.parent.name}-{name}" for one, name in NODES])
def test_a_node_as_the_roles_leave_it_passes(folder, name):
    plan = json.loads((folder / "plan.json").read_text())
    node = {"cabling": plan["cabling"], **plan["nodes"][name]}
    reading = state(folder, name, node)
    per_rail = [expect.link, expect.mtu, expect.addresses, expect.own_table, expect.arp]
    per_rail += [expect_rdma.port, expect_rdma.at_boot]
    if reading["netplan"]:
        per_rail.append(expect.netplan_file)
    if node["transport"] == "roce":
        per_rail.append(expect_rdma.gid)
    problems = [one for rail in node["rails"] for check in per_rail for one in check(rail, reading)]
    qos = folder.parent / "group_vars/all/qos.yml"
    options = yaml.safe_load(qos.read_text()) if qos.exists() else {}
    problems += expect_nccl.nccl(node, options, reading) + expect_rdma.modules(reading)
    problems += expect.management(node, reading)
    assert problems == []
