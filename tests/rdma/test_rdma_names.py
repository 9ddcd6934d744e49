"""RDMA devices that get other names at a reboot, by a udev rule of the site's own: nothing has to be edited.

rdma-core's own rule names cards by their PCI address and leaves Soft-RoCE as it is (rdma_rename.c in its
kernel-boot/), so a rule with `rdma dev set` stands for it. Runs after the other tests of this lab, whose
devices are rxe0 and rxe1.
"""

from __future__ import annotations

import pytest
from e2e.support import Cluster
from rdma.conftest import Demo
from rdma.support import NODES, RAILS

RULE = "/etc/udev/rules.d/61-site-rdma-names.rules"
# %n is the number that ends the kernel's name.
RULE_TEXT = (
    'ACTION=="add", SUBSYSTEM=="infiniband", KERNEL=="rxe*", RUN+="/usr/bin/rdma dev set %k name fabric%n"\n'
)


def listed(cluster: Cluster, node: str) -> str:
    """Return the line of nccl.conf that names the devices."""
    lines = cluster.ssh(node, "cat /etc/nccl.conf").splitlines()
    return next(line for line in lines if line.startswith("NCCL_IB_HCA="))


def hcas_of(run) -> set[tuple[str, str]]:
    return {
        (row["rail"], row["hca"]) for row in run.lines("results.jsonl") if row["check"] == "rdma_bandwidth"
    }


@pytest.fixture
def renamed_at_boot(demo: Demo):
    """Have a rule on both nodes that renames at the next boot; at the end names are as before."""
    cluster = demo.cluster
    for node in NODES:
        cluster.put(node, RULE, RULE_TEXT)
    try:
        yield
    finally:
        for node in NODES:
            back = " ".join(f"sudo rdma dev set fabric{n} name rxe{n};" for n in range(len(RAILS)))
            cluster.ssh(node, f"sudo rm -f {RULE}; {back} true", check=False)


@pytest.mark.usefixtures("renamed_at_boot")
def test_devices_that_a_reboot_renames_need_no_edit(demo: Demo, small: Cluster) -> None:
    cluster = demo.cluster
    said = cluster.fabric_file.read_text(encoding="utf-8")
    assert "hca" not in said
    status, run, output = small.validate()
    assert status == 0, output
    assert hcas_of(run) == {("rail0", "rxe0:1")}
    assert {listed(cluster, node) for node in NODES} == {"NCCL_IB_HCA==rxe0:1,rxe1:1"}

    done = cluster.playbook("playbooks/reboot.yml", "-e", "railyard_allow_reboot=true")
    assert done.returncode == 0, done.stdout
    assert "rxe0:1, rxe1:1 are fabric0:1, fabric1:1 now" in " ".join(done.stdout.split())
    for node in NODES:
        links = cluster.ssh(node, "rdma link")
        assert (links.count("fabric"), links.count("rxe"), links.count("ACTIVE")) == (2, 0, 2), links

    # The measurement asks the node; the inventory is as before.
    status, run, output = small.validate()
    assert status == 0, output
    assert run.not_good() == []
    assert hcas_of(run) == {("rail0", "fabric0:1")}

    # A job would end: that is reported, with the command that fixes it.
    quick = cluster.railyard("validate", "--quick", "-i", str(cluster.inventory), timeout=420)
    assert quick.returncode == 1, quick.stdout
    words = " ".join(quick.stdout.split())
    assert "/etc/nccl.conf" in words
    assert "no device is called rxe0:1, rxe1:1; the rails' ports are fabric0:1, fabric1:1 now" in words

    done = cluster.railyard("provision", "-i", str(cluster.inventory), "--", "--tags", "nccl", timeout=900)
    assert done.returncode == 0, done.stdout
    assert {listed(cluster, node) for node in NODES} == {"NCCL_IB_HCA==fabric0:1,fabric1:1"}
    quick = cluster.railyard("validate", "--quick", "-i", str(cluster.inventory), timeout=420)
    assert "no device is called" not in quick.stdout

    # The role that makes the devices at boot knows them by their netdevs, and changes nothing.
    done = cluster.playbook("playbooks/drivers.yml")
    assert done.returncode == 0, done.stdout
    for node in NODES:
        links = cluster.ssh(node, "rdma link")
        assert (links.count("fabric"), links.count("rxe")) == (2, 0), links
    done = cluster.railyard("verify", "-i", str(cluster.inventory), timeout=420)
    assert done.returncode == 0, done.stdout
    assert cluster.fabric_file.read_text(encoding="utf-8") == said
