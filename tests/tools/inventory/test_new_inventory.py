"""`railyard new-inventory`: what it writes plans cleanly; what it refuses leaves no trace."""

from __future__ import annotations

import os
import subprocess
import sys
from ipaddress import ip_interface
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from railyard.base import paths
from railyard.base.errors import UserError
from railyard.new_inventory import command
from railyard.new_inventory.wanted import Wanted
from railyard.plan import view

RAILYARD = Path(sys.executable).parent / "railyard"
ROCE = {"nodes": "gpu[001-032]", "rails": 8, "transport": "roce"}


def plan_of(folder):
    plan, problems = view.plan_or_problems([str(folder)])
    assert [problem.text() for problem in problems] == []
    return plan


def make(tmp_path, **wanted):
    folder = tmp_path / "mine"
    assert command.run(Wanted(**{**ROCE, **wanted}), folder) == 0
    return plan_of(folder), folder


def rail_of(plan, node, rail):
    return next(item for item in plan["nodes"][node]["rails"] if item["name"] == rail)


def addresses(plan):
    return [rail["address"] for node in plan["nodes"].values() for rail in node["rails"]]


def railyard(*argv, cwd):
    return subprocess.run(
        [RAILYARD, *map(str, argv)],
        cwd=cwd,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=600,
        check=False,
    )


def test_the_shortest_command_writes_an_inventory_that_plans(tmp_path):
    words = ("--nodes", "gpu[001-032]", "--rails", "8", "--transport", "roce")
    done = railyard("new-inventory", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "inventories" / "gpu"
    assert str(folder) in done.stdout
    assert "assumed: RDMA devices mlx5_{rail}:1" in done.stdout
    plan = plan_of(folder)
    assert list(plan["nodes"]) == [f"gpu{number:03}" for number in range(1, 33)]
    # Rail k has the k-th /24 of 10.224.0.0/12, a node the number that ends its name.
    rail = rail_of(plan, "gpu017", "rail3")
    assert (rail["hca"], rail["address"], rail["mtu"]) == ("mlx5_3:1", "10.224.3.17/24", 9000)
    assert railyard("plan", "-i", folder, cwd=tmp_path).returncode == 0
    again = railyard("new-inventory", *words, cwd=tmp_path)
    assert again.returncode == 2
    assert "is there already" in again.stderr


def test_the_files_are_as_tidy_as_this_repository_s(tmp_path):
    _plan, folder = make(
        tmp_path, nodes_per_unit=8, leaf="leaf-{unit}-r{rail}", user="ops", frontend="eth0", rate_gbps=400
    )
    config = paths.repo_root() / ".yamllint"
    config = config if config.exists() else paths.repo_root() / ".yamllint.yml"
    files = sorted(str(file) for file in folder.rglob("*.yml"))
    assert [Path(file).name for file in files] == ["connection.yml", "fabric.yml", "rdma.yml", "hosts.yml"]
    argv = [sys.executable, "-m", "yamllint", "--strict", "-c", str(config), *files]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert (folder / "README.md").read_text().startswith("# mine\n")
    assert "ansible_user: ops" in (folder / "group_vars/all/connection.yml").read_text()


@pytest.mark.parametrize(
    ("wanted", "what", "fix"),
    [
        ({"supernet": "10.0.0.5/16"}, "10.0.0.5/16 has host bits set", "write it as 10.0.0.0/16"),
        ({"supernet": "banana"}, "'banana' is no network", "write it as 10.224.0.0/12"),
        (
            {"subnets": ["10.0.7.1/24"], "rails": 1},
            "10.0.7.1/24 has host bits set",
            "write it as 10.0.7.0/24",
        ),
        ({"rail_prefix": 99}, "--rail-prefix: 99 is no prefix length of IPv4", "up to 32"),
        ({"rail_prefix": 2}, "10.224.0.0/12 does not hold 8 subnets of /2", "give a longer --rail-prefix"),
        ({"rail_prefix": 129, "supernet": "fd00::/32"}, "129 is no prefix length of IPv6", "up to 128"),
    ],
)
def test_a_network_that_is_none_is_refused_with_the_one_that_was_meant(tmp_path, wanted, what, fix):
    with pytest.raises(UserError) as refused:
        command.run(Wanted(**{**ROCE, **wanted}), tmp_path / "mine")
    said, _fix, remedy = str(refused.value).rpartition("Fix: ")
    assert what in said
    assert fix in remedy
    assert not (tmp_path / "mine").exists()


def test_the_next_command_can_be_pasted(tmp_path, capsys):
    assert command.run(Wanted(**ROCE), tmp_path / "my nodes") == 0
    assert f"Next: railyard plan -i '{tmp_path}/my nodes'" in capsys.readouterr().out


@pytest.mark.minutes
def test_scalable_units_have_subnets_leaves_and_gateways_of_their_own(tmp_path):
    plan, folder = make(
        tmp_path, nodes="gpu[001-512]", nodes_per_unit=32, leaf="leaf-{unit}-r{rail}", leaf_uplink_gbps=6400
    )
    assert len(set(addresses(plan))) == 512 * 8
    # 16 units: rail k begins at the 16k-th /24. The first address is the gateway's, so nodes begin at .2.
    rail = rail_of(plan, "gpu033", "rail2")
    assert (rail["address"], rail["gateway"]) == ("10.224.33.2/24", "10.224.33.1")
    assert rail["leaf"] == "leaf-su2-r2"
    assert plan["nodes"]["gpu033"]["scalable_unit"] == "su2"
    fabric = yaml.safe_load((folder / "group_vars/all/fabric.yml").read_text())["fabric"]
    assert len(fabric["leaves"]) == 16 * 8
    assert fabric["leaves"]["leaf-su16-r7"] == {"uplink_gbps": 6400}


def test_infiniband_has_no_addresses_until_asked(tmp_path):
    plan, _folder = make(tmp_path, transport="infiniband")
    assert set(addresses(plan)) == {None}
    rail = rail_of(plan, "gpu001", "rail0")
    assert (rail["hca"], rail["mtu"], rail["gateway"]) == ("mlx5_0:1", None, None)


def test_infiniband_with_addresses(tmp_path):
    plan, _folder = make(tmp_path, transport="infiniband", supernet="10.8.0.0/16", mtu=2044)
    assert rail_of(plan, "gpu032", "rail7")["address"] == "10.8.7.32/24"


@pytest.mark.parametrize(
    ("nodes", "more", "expected"),
    [
        # What the name says, where it fits.
        ("gpu[1-3]", {}, {"gpu1": "10.224.0.1/24", "gpu3": "10.224.0.3/24"}),
        # From 0: the network's own address belongs to nobody.
        ("gpu[0-3]", {}, {"gpu0": "10.224.0.1/24", "gpu3": "10.224.0.4/24"}),
        # Too high for a /24, and shifted as a whole.
        ("gpu[1001-1032]", {}, {"gpu1001": "10.224.0.1/24", "gpu1032": "10.224.0.32/24"}),
        # Too far apart: counted.
        ("gpu[1,5000]", {}, {"gpu1": "10.224.0.1/24", "gpu5000": "10.224.0.2/24"}),
        # Numbers that repeat, and no numbers at all.
        ("rack[1-2]n[1-2]", {}, {"rack1n1": "10.224.0.1/24", "rack2n2": "10.224.0.4/24"}),
        ("a,b", {}, {"a": "10.224.0.1/24", "b": "10.224.0.2/24"}),
        ("gpu[1-3]", {"gateway": "first"}, {"gpu1": "10.224.0.2/24", "gpu3": "10.224.0.4/24"}),
        ("gpu[1-3]", {"gateway": "last"}, {"gpu1": "10.224.0.1/24"}),
        ("gpu[1-3]", {"host_offset": 100}, {"gpu1": "10.224.0.101/24"}),
        # 254 nodes and a gateway are one too many for a /24.
        ("gpu[1-254]", {}, {"gpu254": "10.224.0.254/24"}),
        ("gpu[1-254]", {"gateway": "last"}, {"gpu254": "10.224.0.254/23"}),
        # RFC 3021: a /31 has two addresses and no other.
        ("gpu[1-2]", {"rail_prefix": 31}, {"gpu1": "10.224.0.0/31", "gpu2": "10.224.0.1/31"}),
    ],
)
def test_a_node_gets_a_free_address_whatever_its_name(tmp_path, nodes, more, expected):
    plan, _folder = make(tmp_path, nodes=nodes, rails=1, **more)
    found = {node: rail_of(plan, node, "rail0")["address"] for node in expected}
    assert found == expected


def test_ipv6(tmp_path):
    plan, _folder = make(tmp_path, supernet="fd00:1::/48")
    assert rail_of(plan, "gpu031", "rail7")["address6"] == "fd00:1:0:7::1f/64"


def test_given_subnets_and_interfaces_go_to_their_rails(tmp_path):
    plan, _folder = make(
        tmp_path,
        rails=2,
        subnets=("10.0.1.0/24", "10.0.0.0/24"),
        netdev="ens6,ens6d1",
        hca="mlx4_0:[1-2]",
        rate_gbps=40.0,
    )
    rows = [
        (rail["netdev"], rail["hca"], rail["address"], rail["rate_gbps"])
        for rail in plan["nodes"]["gpu007"]["rails"]
    ]
    assert rows == [("ens6", "mlx4_0:1", "10.0.1.7/24", 40), ("ens6d1", "mlx4_0:2", "10.0.0.7/24", 40)]


def test_devices_of_a_server_whose_numbers_have_gaps(tmp_path):
    plan, _folder = make(tmp_path, hca="mlx5_[0-3,6-9]")
    assert [rail["hca"] for rail in plan["nodes"]["gpu001"]["rails"]][3:5] == ["mlx5_3:1", "mlx5_6:1"]


@pytest.mark.parametrize(
    ("pattern", "second", "last"),
    [
        ("{name}.mgmt.example.org", "gpu002.mgmt.example.org", "gpu032.mgmt.example.org"),
        ("192.168.1.{index}", "192.168.1.2", "192.168.1.32"),
        ("192.168.0.250", "192.168.0.251", "192.168.1.25"),
        ("fd00::fffe", "fd00::ffff", "fd00::1:1d"),
    ],
)
def test_where_ansible_reaches_the_nodes(tmp_path, pattern, second, last):
    plan, _folder = make(tmp_path, ansible_host=pattern)
    reached = [node["ansible_host"] for node in plan["nodes"].values()]
    assert (reached[1], reached[-1]) == (second, last)


def test_names_that_yaml_takes_for_something_else_stay_names(tmp_path):
    plan, _folder = make(tmp_path, nodes="no,on,1e3,0x1f,12,2026-11-21", rails=1)
    assert set(plan["nodes"]) == {"no", "on", "1e3", "0x1f", "12", "2026-11-21"}
    assert len(set(addresses(plan))) == 6


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
        ({"transport": "iwarp"}, ["fabric.transport", "roce, infiniband or tcp"]),
        ({"transport": "tcp"}, ["--netdev", "ens{rail}"]),
        ({"netdev": "ens6,ens7"}, ["--netdev", "2 names for --rails 8"]),
        ({"netdev": "ens[6-"}, ["--netdev", "bracket"]),
        ({"netdev": "averyveryverylongname{rail}"}, ["netdev", "15"]),
        ({"netdev": "{{ x }}{rail}"}, ["Jinja"]),
        ({"hca": "mlx5_{rail}:x"}, ["hca", "mlx5_0:x"]),
        ({"supernet": "10.0.0.0"}, ["--supernet", "does not hold"]),
        ({"supernet": "10.0.0.1/8"}, ["--supernet", "host bits"]),
        ({"supernet": "10.0.0.0/24"}, ["--supernet", "does not hold 8 subnets of /24", "/21"]),
        ({"supernet": "224.0.0.0/8"}, ["multicast"]),
        ({"rail_prefix": 29}, ["subnet", "larger"]),
        ({"subnets": ("10.0.1.0/24",)}, ["--subnet", "1 given for --rails 8"]),
        ({"subnets": ("10.0.1.0/24",) * 8}, ["overlaps"]),
        ({"subnets": ("10.0.1.7/24",) * 8}, ["--subnet", "host bits"]),
        ({"subnets": ("10.0.1.0/24",), "supernet": "10.0.0.0/8", "rails": 1}, ["--supernet", "keep one"]),
        ({"subnets": ("10.0.1.0/24",), "rails": 1, "nodes_per_unit": 8}, ["--subnet", "scalable units"]),
        ({"gateway": "middle"}, ["gateway", "first, last or none"]),
        ({"transport": "infiniband", "gateway": "first"}, ["--gateway", "no addresses"]),
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


def test_names_keep_their_order_and_may_repeat(tmp_path):
    plan, _folder = make(tmp_path, hca="mlx5_[3,0],mlx5_[1-2]", rails=4, leaf="b,b,a,a")
    rails = (
        plan["nodes"]["gpu1"]["rails"]
        if "gpu1" in plan["nodes"]
        else next(iter(plan["nodes"].values()))["rails"]
    )
    assert [rail["hca"] for rail in rails] == ["mlx5_3:1", "mlx5_0:1", "mlx5_1:1", "mlx5_2:1"]
    assert [rail["leaf"] for rail in rails] == ["b", "b", "a", "a"]


@pytest.mark.parametrize(
    "text", ["mlx5_[0-3", "mlx5_0]", "mlx5_[3-0]", "a,,b,c", "mlx5_[a-d]", "mlx5_[1-99999999]"]
)
def test_names_that_do_not_unfold_are_refused(tmp_path, text):
    with pytest.raises(UserError, match="--hca"):
        make(tmp_path, hca=text, rails=4)


def test_all_that_is_wrong_is_told_at_once(tmp_path):
    wanted = Wanted("gpu[1-4]", 2, "roce", netdev="a,b,c", hca="d", leaf="x-{unit}", ansible_host="{who}")
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


def test_the_same_words_write_the_same_bytes(tmp_path):
    _plan, first = make(tmp_path / "a", nodes_per_unit=8, leaf="leaf-{unit}-{rail}")
    _plan, second = make(tmp_path / "b", nodes_per_unit=8, leaf="leaf-{unit}-{rail}")
    for file in first.rglob("*"):
        if file.is_file():
            assert file.read_bytes() == (second / file.relative_to(first)).read_bytes()


@pytest.mark.minutes
def test_a_thousand_nodes(tmp_path):
    plan, _folder = make(tmp_path, nodes="gpu[0001-1000]", ansible_host="192.168.0.1")
    # 1,000 hosts need a /22: 1022 usable addresses.
    assert rail_of(plan, "gpu1000", "rail7")["address"] == "10.224.31.232/22"


@settings(max_examples=25, deadline=None)
@given(
    first=st.integers(0, 2000),
    count=st.integers(1, 40),
    rails=st.integers(1, 9),
    per_unit=st.none() | st.integers(1, 40),
    gateway=st.sampled_from([None, "first", "last", "none"]),
    prefix=st.none() | st.integers(20, 30),
    supernet=st.sampled_from([None, "10.0.0.0/8", "172.16.0.0/12", "fd00::/40"]),
)
def test_whatever_is_asked_is_planned_or_refused(
    tmp_path_factory, first, count, rails, per_unit, gateway, prefix, supernet
):
    folder = tmp_path_factory.mktemp("any") / "mine"
    prefix = prefix + 34 if prefix and supernet == "fd00::/40" else prefix
    wanted = Wanted(
        f"gpu[{first}-{first + count - 1}]",
        rails,
        "roce",
        supernet=supernet,
        rail_prefix=prefix,
        gateway=gateway,
        nodes_per_unit=per_unit,
    )
    try:
        command.run(wanted, folder)
    except UserError:
        assert not folder.exists()
        assert prefix is not None, "without a prefix length of the user's own there is room for all"
        return
    plan = plan_of(folder)
    taken = [
        ip_interface(rail["address"] or rail["address6"])
        for node in plan["nodes"].values()
        for rail in node["rails"]
    ]
    assert len({one.ip for one in taken}) == count * rails
