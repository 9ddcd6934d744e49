# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of RDMA devices by a udev rule of the site's own: which, at once or at the next boot, or refused.

The form of the rules is that of linux-rdma/rdma-core kernel-boot/rdma-persistent-naming.rules; the names that
a checker of clusters takes are `mlx5_N` and `roce_pN_railN`.
"""

from __future__ import annotations

import re

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rdma import device_names
from ansible_collections.railyard.fabric.plugins.module_utils.rdma.device_names import NamesError, Rename
from ansible_collections.railyard.fabric.plugins.modules import rdma_device_names
from support.nodes.module import FakeModule
from support.nodes.sysfs_tree import Tree

VALID = re.compile(r"mlx5_[0-9]+\Z|roce_p[0-9]+_rail[0-9]+\Z")
KERNEL_RULE = 'ACTION=="add", SUBSYSTEM=="infiniband", PROGRAM="rdma_rename %k NAME_KERNEL"'


def port(device, pci, netdev, number=1, **more):
    whole = {"hca": f"{device}:{number}", "device": device, "pci": pci, "netdev": netdev}
    return {**whole, "link_layer": "Ethernet", "driver_class": "hardware", **more}


def facts(*ports):
    netdevs = [{"netdev": one["netdev"], "pci": one["pci"]} for one in ports if one["netdev"]]
    return {"netdevs": netdevs, "hcas": list(ports)}


def rail(name, **keys):
    return {"name": name, **keys}


SPARK = facts(
    port("rocep1s0f0", "0000:01:00.0", "enp1s0f0np0"),
    port("rocep1s0f1", "0000:01:00.1", "enp1s0f1np1"),
    port("roceP2p1s0f0", "0002:01:00.0", "enP2p1s0f0np0"),
)
RAILS = [rail("rail0", netdev="enp1s0f0np0"), rail("rail1", pci="0002:01:00.0")]


def lines(plan):
    return [line for line in plan.rules.splitlines() if not line.startswith("#")]


def test_rails_are_named_by_their_pci_address_and_all_else_as_the_kernel_counts():
    plan = device_names.plan("rail", RAILS, SPARK, {}, False)
    assert lines(plan) == [
        'ACTION=="add", SUBSYSTEM=="infiniband", KERNELS=="0000:01:00.0", '
        'PROGRAM="rdma_rename %k NAME_FIXED roce_p1_rail0"',
        'ACTION=="add", SUBSYSTEM=="infiniband", KERNELS=="0002:01:00.0", '
        'PROGRAM="rdma_rename %k NAME_FIXED roce_p1_rail1"',
        KERNEL_RULE,
    ]
    assert plan.renames == [Rename("roceP2p1s0f0", "roce_p1_rail1"), Rename("rocep1s0f0", "roce_p1_rail0")]
    assert all(VALID.match(one.name) for one in plan.renames)
    assert plan.waiting == []
    assert "Managed by Railyard" in plan.rules


def test_the_second_run_has_nothing_to_do():
    named = facts(
        port("roce_p1_rail0", "0000:01:00.0", "enp1s0f0np0"),
        port("roce_p1_rail1", "0002:01:00.0", "enP2p1s0f0np0"),
    )
    first = device_names.plan("rail", RAILS, SPARK, {}, False)
    assert device_names.plan("rail", RAILS, named, {}, True) == (first.rules, [], [])


def test_a_device_that_is_used_waits_for_the_boot():
    plan = device_names.plan("rail", RAILS, SPARK, {"rocep1s0f0": ["nccl-tests", "ib_write_bw"]}, False)
    assert plan.renames == [Rename("roceP2p1s0f0", "roce_p1_rail1")]
    assert plan.waiting == [
        {
            "what": "give rocep1s0f0 the name roce_p1_rail0",
            "why": "nccl-tests, ib_write_bw has it open",
            "needs": "reboot",
        }
    ]
    # Cards were swapped: the name is another's until then.
    swapped = facts(
        port("roce_p1_rail1", "0000:01:00.0", "enp1s0f0np0"),
        port("roce_p1_rail0", "0002:01:00.0", "enP2p1s0f0np0"),
    )
    plan = device_names.plan("rail", RAILS, swapped, {}, True)
    assert plan.renames == []
    assert [one["why"] for one in plan.waiting] == ["another device has it now"] * 2


def test_names_that_count_otherwise():
    rails = [rail("rail7", netdev="enp1s0f0np0"), rail("rail9", pci="0002:01:00.0")]
    assert list(device_names.rail_names(rails, SPARK).values()) == ["roce_p1_rail7", "roce_p1_rail9"]
    rails = [rail("left", netdev="enp1s0f0np0"), rail("rail0", pci="0002:01:00.0")]
    assert list(device_names.rail_names(rails, SPARK).values()) == ["roce_p1_rail0", "roce_p1_rail1"]


def test_before_the_driver_is_there_the_rule_is_written_by_the_netdevs_address():
    bare = {"netdevs": SPARK["netdevs"], "hcas": []}
    plan = device_names.plan("rail", RAILS, bare, {}, False)
    assert 'KERNELS=="0000:01:00.0"' in lines(plan)[0]
    assert (plan.renames, plan.waiting) == ([], [])


@pytest.mark.parametrize(
    ("rails", "ports", "words"),
    [
        (
            [rail("rail0", pci="0000:18:00.0")],
            [port("ibp24s0", "0000:18:00.0", None, link_layer="InfiniBand")],
            "rail0: its port ibp24s0:1 is InfiniBand",
        ),
        (
            [rail("rail0", netdev="ens817"), rail("rail1", netdev="ens817d1")],
            [
                port("rocep129s0", "0000:81:00.0", "ens817"),
                port("rocep129s0", "0000:81:00.0", "ens817d1", 2),
            ],
            "rail1: it shares the RDMA device at 0000:81:00.0 with rail0, and a device has one name",
        ),
        (
            [rail("rail0", netdev="ens6")],
            [port("rxe0", None, "ens6", driver_class="software")],
            "rail0: the node shows no PCI address of its RDMA device",
        ),
        ([rail("rail0", netdev="ens9")], [], "rail0: the node shows no PCI address"),
    ],
)
def test_what_cannot_have_such_a_name_is_refused_with_the_reason(rails, ports, words):
    with pytest.raises(NamesError, match=words) as refused:
        device_names.plan("rail", rails, facts(*ports), {}, False)
    assert "Fix: set rdma_stack_device_names to keep or kernel" in str(refused.value)


def test_the_kernels_names_come_with_the_next_boot():
    plan = device_names.plan("kernel", RAILS, SPARK, {}, False)
    assert lines(plan) == [KERNEL_RULE]
    assert plan.renames == []
    assert [one["what"] for one in plan.waiting] == [
        "give roceP2p1s0f0, rocep1s0f0, rocep1s0f1 the kernel's names"
    ]
    for device in ("mlx5_0", "mlx4_1", "bnxt_re3", "irdma0", "mlx5_ib0", "rxe0", "mlx5_bond_0"):
        named = facts(port(device, "0000:01:00.0", "enp1s0f0np0"))
        assert device_names.plan("kernel", RAILS[:1], named, {}, True).waiting == []
    for device in ("ibp24s0", "ibo3", "rocex525400c0fe123455", "rocep193s0f0v0S99", "rdmap79s0", "iwp3s0f1"):
        named = facts(port(device, "0000:01:00.0", "enp1s0f0np0"))
        assert device_names.plan("kernel", RAILS[:1], named, {}, True).waiting != [], device


def test_back_at_keep_only_what_this_wrote_goes():
    named = facts(port("roce_p1_rail0", "0000:01:00.0", "enp1s0f0np0"))
    plan = device_names.plan("keep", RAILS[:1], named, {}, True)
    assert (plan.rules, plan.renames) == (None, [])
    assert [one["what"] for one in plan.waiting] == [
        "give roce_p1_rail0 the names of the distribution's rule"
    ]
    assert device_names.plan("keep", RAILS[:1], named, {}, False) == (None, [], [])


@pytest.fixture
def node(tmp_path, monkeypatch):
    tree = Tree(tmp_path)
    tree.host()
    for number, (pci, netdev) in enumerate((("0000:01:00.0", "ens1"), ("0000:02:00.0", "ens2"))):
        card = tree.pci(pci, "mlx5_core")
        tree.netdev(netdev, card)
        tree.gid(tree.port(f"rocep{number + 1}s0", 1, card), 0, "fe80::1", "RoCE v2", netdev)
        tree.write(f"sys/class/infiniband_verbs/uverbs{number}/ibdev", f"rocep{number + 1}s0")
    for pid, program, target in ((41, "python3", "/dev/infiniband/uverbs1"), (42, "cat", "/dev/null")):
        tree.write(f"proc/{pid}/comm", program)
        (tmp_path / f"proc/{pid}/fd").mkdir()
        (tmp_path / f"proc/{pid}/fd/7").symlink_to(target)
    monkeypatch.setattr(rdma_device_names, "ROOT", str(tmp_path))
    monkeypatch.setattr(rdma_device_names, "Reader", tree.reader)
    return tree


def hold(calls, check_mode=False, **params):
    def run(argv):
        calls.append(argv)
        return 0, "", ""

    rails = [rail("rail0", netdev="ens1"), rail("rail1", netdev="ens2")]
    asked = {"mode": "rail", "rails": rails, "rename": False, **params}
    return rdma_device_names.hold(FakeModule(asked, run, check_mode))


def test_the_module_renames_what_nothing_has_open(node):
    calls: list[list[str]] = []
    planned = hold(calls)
    assert (planned["changed"], calls) == (False, [])
    assert planned["waiting"][0]["why"] == "python3 has it open"
    told = hold(calls, check_mode=True, rename=True)
    assert (told["changed"], told["diff"]["after"], calls) == (True, "roce_p1_rail0\n", [])
    assert hold(calls, rename=True)["changed"]
    assert calls == [["/usr/bin/rdma", "dev", "set", "rocep1s0", "name", "roce_p1_rail0"]]


def test_the_module_knows_its_own_file(node):
    path = device_names.RULES.lstrip("/")
    node.write(path, 'ACTION=="add", SUBSYSTEM=="infiniband", PROGRAM="rdma_rename %k NAME_GUID"')
    assert not hold([], mode="keep")["is_ours"]
    node.write(path, hold([])["rules"])
    assert hold([], mode="keep")["is_ours"]
