# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether nvidia-peermem fits the RDMA stack of each kernel."""

from __future__ import annotations

import os

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import peermem

KERNEL = "6.8.0-60-generic"
VENDORS = ("updates/dkms/ib_core.ko.zst", "updates/dkms/ib_uverbs.ko.zst")
OWN = ("kernel/drivers/infiniband/core/ib_core.ko.zst",)


@pytest.fixture
def node(tmp_path):
    def put(places, built_s=2000, stack_s=1000, name="nvidia-peermem.ko.zst", dkms="nvidia", kernel=KERNEL):
        folder = tmp_path / "lib/modules" / kernel
        peer = f"updates/dkms/{name}"
        for place in (*places, peer):
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).touch()
            os.utime(folder / place, (built_s if place == peer else stack_s,) * 2)
        (folder / "modules.dep").write_text("".join(f"{place}: x.ko\n" for place in (*places, peer)))
        if dkms:
            tree = tmp_path / "var/lib/dkms" / dkms / "580.95.05" / kernel / "x86_64/module"
            tree.mkdir(parents=True)
            (tree / name).touch()
            link = tmp_path / "var/lib/dkms" / dkms / f"kernel-{kernel}-x86_64"
            link.symlink_to(tree.parent)
        return tmp_path

    return put


def look(root, depends="nvidia,ib_uverbs\n"):
    return peermem.unfit(str(root), lambda _argv: depends)


def test_one_that_is_newer_and_needs_the_stack_fits(node):
    assert look(node(VENDORS)) == []


@pytest.mark.parametrize(
    ("depends", "built_s", "why"),
    [
        ("nvidia\n", 2000, "built without the peer-memory interface"),
        ("\n", 2000, "built without the peer-memory interface"),
        ("nvidia,ib_core\n", 500, "older than the RDMA stack"),
        # modinfo that fails says nothing; the file's age does.
        (None, 500, "older than the RDMA stack"),
    ],
)
def test_one_for_another_stack_does_not(node, depends, built_s, why):
    (found,) = look(node(VENDORS, built_s=built_s), depends)
    assert (found.kernel, found.module, found.version) == (KERNEL, "nvidia", "580.95.05")
    assert why in found.why


def test_the_kernels_own_stack_has_no_peer_memory_to_be_built_for(node):
    assert look(node(OWN, built_s=500), "nvidia\n") == []


def test_debians_module_is_known_by_its_name(node):
    (found,) = look(node(VENDORS, 500, name="nvidia-current-peermem.ko", dkms="nvidia-current"))
    assert found.module == "nvidia-current"


def test_one_that_dkms_did_not_build_is_reported(node):
    (found,) = look(node(VENDORS, 500, dkms=""))
    assert (found.module, found.version) == (None, None)


def test_a_node_without_modules_has_none(tmp_path):
    assert look(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "text", "wanted"),
    [
        ("sys/module/nvidia_peermem/refcnt", "0\n", True),
        ("etc/modules-load.d/railyard-nvidia.conf", "# how\nnvidia-current-peermem\n", True),
        ("etc/modules", "nvidia_peermem\n", True),
        ("etc/modules-load.d/railyard-nvidia.conf", "# nvidia-peermem\nib_umad\n", False),
        ("etc/modules-load.d/nvidia.conf.bak", "nvidia-peermem\n", False),
        ("etc/modules-load.d/binary.conf", "\udcff\udcfe", False),
    ],
)
def test_who_wants_it(tmp_path, path, text, wanted):
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    reader = Reader(*(str(tmp_path / one) for one in ("sys", "proc", "etc")))
    assert peermem.is_wanted(reader, str(tmp_path)) is wanted
