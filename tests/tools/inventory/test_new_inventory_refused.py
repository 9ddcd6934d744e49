"""What `railyard new-inventory` refuses names the fix, and leaves no trace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from railyard.base.errors import UserError
from railyard.new_inventory import command
from railyard.new_inventory.wanted import Wanted
from railyard.plan import view

ROCE = {"nodes": "gpu[001-032]", "rails": 8, "transport": "roce", "netdev": "ens{rail}np0"}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"nodes": ""}, ["--nodes", "names no node"]),
        ({"nodes": "gpu[1-"}, ["--nodes", "gpu[1-"]),
        ({"nodes": "gpu[3-1]"}, ["--nodes", "3-1"]),
        ({"nodes": "gpu[1-99999999999]"}, ["--nodes", "more than 16384"]),
        ({"nodes": "n[1-999]x[1-999]x[1-999]"}, ["--nodes", "more than 16384"]),
        ({"nodes": "@racks"}, ["--nodes", "@racks"]),
        ({"nodes": "gpu 1"}, ["--nodes", "gpu 1"]),
        ({"nodes": "gpu_nodes"}, ["--nodes", "gpu_nodes"]),
        ({"rails": 0}, ["--rails", "1 to 256"]),
        ({"rails": 257}, ["--rails", "1 to 256"]),
        ({"transport": "iwarp"}, ["fabric.transport", "roce, infiniband, efa (AWS) or tcp"]),
        ({"transport": "tcp", "netdev": None}, ["--netdev", "ens{rail}"]),
        ({"transport": "tcp", "netdev": None, "hca": "mlx5_{rail}"}, ["--netdev", "ens{rail}"]),
        # No name is guessed: the first reboot after rdma-core came would make mlx5_0 another.
        ({"netdev": None}, ["--netdev", "nothing says which interfaces", "--pci"]),
        ({"netdev": None, "pci": "0000:18:00.0"}, ["--pci", "1 name for --rails 8"]),
        ({"netdev": "ens6,ens7"}, ["--netdev", "2 names for --rails 8"]),
        ({"netdev": "ens[6-"}, ["--netdev", "bracket"]),
        ({"netdev": "averyveryverylongname{rail}"}, ["netdev", "15"]),
        ({"netdev": "{{ x }}{rail}"}, ["Jinja"]),
        ({"hca": "mlx5_{rail}:x"}, ["hca", "mlx5_0:x"]),
        ({"supernet": "10.0.0.0"}, ["--supernet", "does not hold"]),
        ({"supernet": "10.0.0.5/16"}, ["--supernet", "has host bits set", "write it as 10.0.0.0/16"]),
        ({"supernet": "banana"}, ["'banana' is no network", "write it as 10.224.0.0/12"]),
        ({"supernet": "10.0.0.0/24"}, ["--supernet", "does not hold 8 subnets of /24", "/21"]),
        ({"supernet": "224.0.0.0/8"}, ["multicast"]),
        ({"rail_prefix": 29}, ["subnet", "larger"]),
        ({"rail_prefix": 99}, ["--rail-prefix: 99 is no prefix length of IPv4", "up to 32"]),
        ({"rail_prefix": 2}, ["10.224.0.0/12 does not hold 8 subnets of /2", "give a longer --rail-prefix"]),
        ({"rail_prefix": 129, "supernet": "fd00::/32"}, ["no prefix length of IPv6", "up to 128"]),
        ({"subnets": ("10.0.1.0/24",)}, ["--subnet", "1 given for --rails 8"]),
        ({"subnets": ("10.0.1.0/24",) * 8}, ["overlaps"]),
        ({"subnets": ("10.0.1.7/24",), "rails": 1}, ["--subnet", "host bits", "write it as 10.0.1.0/24"]),
        ({"subnets": ("10.0.1.0/24",), "supernet": "10.0.0.0/8", "rails": 1}, ["--supernet", "keep one"]),
        ({"subnets": ("10.0.1.0/24",), "rails": 1, "nodes_per_unit": 8}, ["--subnet", "scalable units"]),
        ({"gateway": "middle"}, ["gateway", "first, last or none"]),
        ({"transport": "infiniband", "gateway": "first"}, ["--gateway", "no addresses"]),
        ({"transport": "efa", "gateway": "first"}, ["--gateway", "no addresses"]),
        ({"transport": "efa"}, ["netdev", "an EFA device has none"]),
        ({"mtu": 100000}, ["fabric.mtu", "9978"]),
        ({"rate_gbps": -1.0}, ["--rate-gbps"]),
        ({"rate_gbps": float("nan")}, ["--rate-gbps"]),
        ({"nodes_per_unit": 0}, ["--nodes-per-unit"]),
        ({"nodes_per_unit": 8, "leaf": "leaf{rail}"}, ["--leaf", "{unit}"]),
        ({"leaf": "leaf-{unit}"}, ["--leaf", "--nodes-per-unit"]),
        ({"leaf": "leaf{port}"}, ["--leaf", "braces besides {rail}"]),
        ({"leaf_uplink_gbps": 6400.0}, ["--leaf-uplink-gbps", "--leaf"]),
        ({"host_offset": 250}, ["host_offset"]),
        ({"ansible_host": "{nodename}"}, ["--ansible-host", "{nodename}", "{name}"]),
        ({"ansible_host": "mgmt.example.org"}, ["--ansible-host", "the same address"]),
        ({"ansible_host": "10.1.0.{index}", "nodes": "gpu[290-300]"}, ["--ansible-host", "gpu290"]),
        ({"ansible_host": "255.255.255.250"}, ["--ansible-host"]),
        ({"ansible_host": "10.9.0.1,10.9.0.2"}, ["--ansible-host", "is 2 for 32 nodes"]),
        ({"nodes": "a,b", "ansible_host": "10.9.0.1,10.9.0.1"}, ["--ansible-host", "the same address"]),
        ({"nodes": "a,b", "ansible_host": "10.9.0.1,10.9.0.300"}, ["--ansible-host", "gives b no address"]),
        ({"nodes": "a,b", "ansible_host": "10.9.0.1,"}, ["--ansible-host", "'' is no name"]),
        # The notes' own pair: the address that is counted up is the other server's BMC.
        (
            {"nodes": "a,b", "ansible_host": "192.168.1.71", "bmc_address": "192.168.1.70,192.168.1.72"},
            ["--ansible-host", "192.168.1.72 of b is the address of the BMC of b", "in the order of --nodes"],
        ),
        (
            {"nodes": "a,b", "ansible_host": "10.9.0.1,10.9.0.3", "bmc_address": "10.9.0.3,10.9.0.4"},
            ["--ansible-host", "10.9.0.3 of b is the address of the BMC of a"],
        ),
        ({"bmc_address": "bmc-{name}"}, ["bmc_address", "bmc-gpu001"]),
        ({"bmc_address": "10.224.3.100"}, ["bmc_address", "10.224.3.0/24", "rail3"]),
        ({"nodes": None}, ["--nodes", "no nodes are given", "--hosts-from FILE"]),
        ({"hosts_from": Path("hosts.txt")}, ["--nodes: the lines of hosts.txt say it"]),
        (
            {"nodes": None, "hosts_from": Path("hosts.txt"), "ansible_host": "10.9.0.1"},
            ["--ansible-host: the lines of hosts.txt say it"],
        ),
        ({"ansible_host": "10.224.3.100"}, ["10.224.3.0/24", "rail3"]),
        ({"frontend": "ens3", "netdev": "ens{rail}"}, ["the frontend"]),
        ({"cabling": "back_to_back"}, ["back_to_back", "at most 2"]),
        ({"node_class": "cloud"}, ["fabric.node_class"]),
        ({"user": " "}, ["--user"]),
        ({"user": "{{ me }}"}, ["--user"]),
    ],
)
def test_bad_input_names_the_fix_and_writes_nothing(tmp_path, wrong, words):
    with pytest.raises(UserError) as refused:
        command.run(Wanted(**{**ROCE, **wrong}), tmp_path / "mine")
    said = str(refused.value)
    assert refused.value.exit_status == 2
    for word in [*words, "ix: ", "nothing was written"]:
        assert word in said, said
    assert "railyard-new-" not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["mlx5_[0-3", "mlx5_0]", "mlx5_[3-0]", "a,,b,c", "mlx5_[a-d]", "mlx5_[1-99999999]"]
)
def test_names_that_do_not_unfold_are_refused(tmp_path, text):
    with pytest.raises(UserError, match="--hca"):
        command.run(Wanted(**{**ROCE, "hca": text, "rails": 4}), tmp_path / "mine")


def test_all_that_is_wrong_is_reported_at_once(tmp_path):
    more = {"netdev": "a,b,c", "hca": "d", "leaf": "x-{unit}", "ansible_host": "{who}"}
    wanted = Wanted("gpu[1-4]", 2, "roce", **more)
    with pytest.raises(UserError) as refused:
        command.run(wanted, tmp_path / "mine")
    for option in ("4 problems", "--netdev", "--hca", "--leaf", "--ansible-host"):
        assert option in str(refused.value)


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_nothing_is_overwritten(tmp_path, kind):
    place = tmp_path / "mine"
    if kind == "folder":
        place.mkdir()
    elif kind == "file":
        place.write_text("precious")
    else:
        place.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match="is there already"):
        command.run(Wanted(**ROCE), place)
    assert sorted(tmp_path.iterdir()) == [place]
    assert kind != "file" or place.read_text() == "precious"


@pytest.mark.parametrize("looked_again", [True, False])
def test_a_folder_that_appears_meanwhile_is_left_alone(tmp_path, monkeypatch, looked_again):
    place = tmp_path / "mine"
    planned = view.plan_or_problems

    def slow(*sources):
        place.mkdir()
        (place / "hosts.yml").write_text("theirs")
        if not looked_again:  # it appears between the last look and the rename
            monkeypatch.setattr(command, "_refuse_existing", lambda _target: None)
        return planned(*sources)

    monkeypatch.setattr(view, "plan_or_problems", slow)
    with pytest.raises(UserError, match="is there already"):
        command.run(Wanted(**ROCE), place)
    assert (place / "hosts.yml").read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [place]


def test_a_full_disk_leaves_no_trace(tmp_path, monkeypatch):
    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left on device"):
        command.run(Wanted(**ROCE), tmp_path / "deep" / "down" / "mine")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_bad_input(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        command.run(Wanted(**ROCE), tmp_path / "file" / "mine")
