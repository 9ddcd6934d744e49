# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module: check mode changes nothing and says the same, a cut-off run knows its devices again."""

from __future__ import annotations

import shutil

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rdma.soft_roce import SoftRoceError
from ansible_collections.railyard.fabric.plugins.modules import soft_roce
from support.nodes.module import FakeModule

DEVICES = [{"device": "rxe0", "netdev": "ens6"}, {"device": "rxe1", "netdev": "ens6d1"}]


class Kernel:
    """A node whose `rdma link` works on a folder that looks like sysfs."""

    def __init__(self, root):
        self.root = root
        self.calls = []
        self.refuse = None
        (root / "sys/module/rdma_rxe").mkdir(parents=True)
        (root / "sys/class/infiniband").mkdir(parents=True)
        for netdev in ("ens6", "ens6d1", "lo"):
            (root / "sys/class/net" / netdev).mkdir(parents=True)
        (root / "proc/sys/kernel/random").mkdir(parents=True)
        (root / "proc/sys/kernel/random/boot_id").write_text("b00t\n")

    def devices(self):
        return sorted(path.name for path in (self.root / "sys/class/infiniband").iterdir())

    def run(self, argv):
        assert argv[:2] == ["/usr/bin/rdma", "link"]
        return self.link(*argv[2:])

    def link(self, verb, name, *rest):
        self.calls.append((verb, name))
        if self.refuse == name:
            return 1, "", "error: Operation not permitted"
        real = self.root / "sys/devices/virtual/infiniband" / name
        if verb == "add":
            real.mkdir(parents=True)
            (real / "parent").write_text(rest[-1] + "\n")
            (real / "node_type").write_text("1: CA\n")
            (self.root / "sys/class/infiniband" / name).symlink_to(real)
        else:
            (self.root / "sys/class/infiniband" / name).unlink()
            shutil.rmtree(real)
        return 0, "", ""


def hold(kernel, devices, check_mode=False):
    params = {"devices": devices, "record": str(kernel.root / "var/record.json")}
    return soft_roce.hold(FakeModule(params, kernel.run, check_mode))


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    monkeypatch.setattr(soft_roce, "ROOT", str(tmp_path))
    return Kernel(tmp_path)


def test_check_real_check_real(kernel):
    checked = hold(kernel, DEVICES, check_mode=True)
    assert checked["changed"]
    assert (kernel.calls, kernel.devices()) == ([], [])
    assert not (kernel.root / "var").exists()
    done = hold(kernel, DEVICES)
    assert {**done} == {**checked}
    assert done["diff"]["after"] == "rxe0 on ens6\nrxe1 on ens6d1\n"
    assert kernel.devices() == ["rxe0", "rxe1"]
    for check_mode in (True, False):
        again = hold(kernel, DEVICES, check_mode)
        assert not again["changed"]
        assert again["diff"]["before"] == again["diff"]["after"]


def test_it_removes_what_it_made_and_only_that(kernel):
    kernel.link("add", "mine", "type", "rxe", "netdev", "lo")
    hold(kernel, DEVICES)
    result = hold(kernel, [])
    assert result["removed"] == ["rxe0", "rxe1"]
    assert result["foreign"] == [{"device": "mine", "netdev": "lo"}]
    assert kernel.devices() == ["mine"]
    assert not (kernel.root / "var/record.json").exists()


def test_a_run_that_broke_off_knows_its_devices_again(kernel):
    kernel.refuse = "rxe1"
    with pytest.raises(SoftRoceError, match=r"rdma link add rxe1 .*Operation not permitted"):
        hold(kernel, DEVICES)
    assert kernel.devices() == ["rxe0"]
    assert hold(kernel, [])["removed"] == ["rxe0"]


def test_a_container_is_refused_before_anything_is_changed(kernel):
    (kernel.root / "run/systemd").mkdir(parents=True)
    (kernel.root / "run/systemd/container").write_text("podman\n")
    with pytest.raises(SoftRoceError, match="container"):
        hold(kernel, DEVICES)
    assert kernel.calls == []


def test_a_kernel_without_the_module_is_refused_and_may_still_remove(kernel):
    (kernel.root / "sys/module/rdma_rxe").rmdir()
    with pytest.raises(SoftRoceError, match="boot the kernel"):
        hold(kernel, DEVICES)
    assert not hold(kernel, [])["changed"]
