# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds the RDMA stack's modules is known before its unit is restarted."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.rdma import holders

# `lsmod` in public reports (name, users, what depends on it), shortened. The first is a GDS host whose NVMe
# driver is the vendor's, with its root file system on NVMe; the second gpud's fixture, with nvidia-peermem.
GDS_HOST = """\
mlx_compat 9 rdma_cm,ib_ipoib,nvme,iw_cm,nvme_core,ib_core,ib_uverbs,mlx5_ib,mlx5_core
nvme 4
nvme_core 6 nvme
"""
PEERMEM_NODE = """\
ib_core 9 rdma_cm,ib_ipoib,nvidia_peermem,iw_cm,ib_umad,rdma_ucm,ib_uverbs,mlx5_ib,ib_cm
nvidia_peermem 0
ib_uverbs 2 rdma_ucm,mlx5_ib
"""


@pytest.fixture
def node(tmp_path):
    def load(table):
        for line in table.splitlines():
            name, count, *on_top = line.split()
            folder = tmp_path / "sys/module" / name
            (folder / "holders").mkdir(parents=True, exist_ok=True)
            (folder / "refcnt").write_text(f"{count}\n")
            for other in on_top[0].split(",") if on_top else []:
                (folder / "holders" / other).touch()
                (tmp_path / "sys/module" / other / "holders").mkdir(parents=True, exist_ok=True)
                if not (tmp_path / "sys/module" / other / "refcnt").exists():
                    (tmp_path / "sys/module" / other / "refcnt").write_text("0\n")
        return holders.plan(holders.read(Reader(*(str(tmp_path / one) for one in ("sys", "proc", "etc")))))

    return load


def test_a_node_without_the_stack_has_nothing_in_the_way(node):
    assert node("") == holders.Plan([], [], [], [])


def test_an_idle_stack_is_the_units_own_affair(node):
    assert node("ib_core 2 ib_uverbs,mlx5_ib\nib_uverbs 1 mlx5_ib\nmlx5_core 1 mlx5_ib\n") == ([], [], [], [])


def test_peermem_goes_first_and_comes_back(node):
    assert node(PEERMEM_NODE) == ([], [], ["nvidia_peermem"], ["nvidia_peermem"])


def test_peermem_in_use_is_waited_for(node):
    plan = node(PEERMEM_NODE.replace("nvidia_peermem 0", "nvidia_peermem 1"))
    (said,) = plan.busy
    assert said.startswith("nvidia_peermem is used, 1 time beside")
    assert (plan.refusals, plan.unload) == ([], [])


def test_a_root_file_system_on_the_vendors_nvme_is_refused(node):
    plan = node(GDS_HOST)
    said = " ".join(plan.refusals)
    assert "nvme (NVMe) is used, 4 times" in said
    assert "nvme_core (NVMe) is used, 5 times" in said
    assert "reboot the node" in said


@pytest.mark.parametrize(
    ("module", "what"),
    [
        ("nvme_rdma", "NVMe over RDMA"),
        ("ib_isert", "iSER"),
        ("ib_srp", "SRP"),
        ("rpcrdma", "NFS over RDMA"),
        ("ko2iblnd", "Lustre"),
    ],
)
@pytest.mark.parametrize("users", [0, 3])
def test_storage_in_use_is_refused_by_name_and_unused_goes_first(node, module, what, users):
    plan = node(f"ib_core 1 {module}\n{module} {users}\n")
    if users:
        assert [f"{module} ({what}" in text for text in plan.refusals] == [True]
        assert plan.unload == []
    else:
        assert plan == ([], [], [module], [])


def test_a_module_that_is_unknown_is_refused_even_unused(node):
    (said,) = node("ib_core 1 efa\nefa 0\n").refusals
    assert said.startswith("efa depends on the RDMA stack and is unknown")


def test_each_module_is_removed_before_what_it_depends_on(node):
    plan = node("ib_core 3 nvme_rdma,nvidia_peermem,rpcrdma\nrpcrdma 1 xprtrdma\nxprtrdma 0\n")
    assert plan.refusals == []
    assert plan.unload.index("xprtrdma") < plan.unload.index("rpcrdma")
    assert set(plan.unload) == {"nvme_rdma", "nvidia_peermem", "rpcrdma", "xprtrdma"}
    assert plan.reload == ["nvidia_peermem"]


@pytest.mark.parametrize("text", ["", "many", "-"])
def test_a_counter_that_cannot_be_read_is_not_taken_for_none(node, text):
    (said,) = node(f"ib_core 1 ib_uverbs\nib_uverbs {text or '?'}\n").busy
    assert "ib_uverbs has no readable usage count" in said


def test_what_is_built_into_the_kernel_is_no_ones_to_unload(tmp_path, node):
    (tmp_path / "sys/module/ib_core").mkdir(parents=True)
    assert node("") == ([], [], [], [])


def test_modules_that_name_each_other_end(node):
    assert node("ib_core 1 ib_cm\nib_cm 1 ib_core\n").refusals == []
