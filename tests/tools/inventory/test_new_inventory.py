"""What `railyard new-inventory` writes plans cleanly."""

from __future__ import annotations

import re
import shlex
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
from support.programs import railyard, run

ROCE = {"nodes": "gpu[001-032]", "rails": 8, "transport": "roce", "netdev": "ens{rail}np0"}


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


def test_the_shortest_command_writes_an_inventory_that_plans(tmp_path):
    words = ("--nodes", "gpu[001-032]", "--rails", "8", "--transport", "roce", "--netdev", "ens{rail}np0")
    done = railyard("new-inventory", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "inventories" / "gpu"
    assert str(folder) in done.stdout
    plan = plan_of(folder)
    assert list(plan["nodes"]) == [f"gpu{number:03}" for number in range(1, 33)]
    # Rail k has the k-th /24 of 10.224.0.0/12, a node the number that ends its name.
    rail = rail_of(plan, "gpu017", "rail3")
    assert (rail["netdev"], rail["address"], rail["mtu"]) == ("ens3np0", "10.224.3.17/24", 9000)
    # The names of a node's RDMA devices are not given, and none is assumed.
    assert rail["hca"] is None
    assert "hca" not in (folder / "group_vars/all/fabric.yml").read_text()
    assert "mlx5" not in done.stdout + (folder / "README.md").read_text()
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
    done = run([sys.executable, "-m", "yamllint", "--strict", "-c", config, *files])
    assert done.returncode == 0, done.stdout
    assert (folder / "README.md").read_text().startswith("# mine\n")
    assert "ansible_user: ops" in (folder / "group_vars/all/connection.yml").read_text()


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


def test_infiniband_has_no_addresses_by_default(tmp_path):
    plan, _folder = make(tmp_path, transport="infiniband")
    assert set(addresses(plan)) == {None}
    rail = rail_of(plan, "gpu001", "rail0")
    assert (rail["netdev"], rail["mtu"], rail["gateway"]) == ("ens0np0", None, None)


def test_infiniband_ports_by_their_pci_addresses(tmp_path):
    ports = ["0000:18:00.0", "0000:40:00.0"]
    plan, folder = make(tmp_path, transport="infiniband", netdev=None, pci=",".join(ports), rails=2)
    rails = plan["nodes"]["gpu001"]["rails"]
    assert [(rail["pci"], rail["netdev"], rail["hca"]) for rail in rails] == [
        (one, None, None) for one in ports
    ]
    assert "| rail1 | pci 0000:40:00.0 |" in (folder / "README.md").read_text()


def test_efa_devices_by_their_pci_addresses(tmp_path):
    ports = ["0000:4f:00.0", "0000:50:00.0"]
    plan, folder = make(tmp_path, transport="efa", netdev=None, pci=",".join(ports), rails=2)
    rails = plan["nodes"]["gpu001"]["rails"]
    assert [(one["pci"], one["netdev"], one["address"], one["mtu"]) for one in rails] == [
        (one, None, None, None) for one in ports
    ]
    fabric = yaml.safe_load((folder / "group_vars/all/fabric.yml").read_text())["fabric"]
    assert "mtu" not in fabric


def test_infiniband_with_addresses(tmp_path):
    plan, _folder = make(tmp_path, transport="infiniband", supernet="10.8.0.0/16", mtu=2044)
    assert rail_of(plan, "gpu032", "rail7")["address"] == "10.8.7.32/24"


@pytest.mark.parametrize(
    ("nodes", "more", "expected"),
    [
        # What the name says, where it fits.
        ("gpu[1-3]", {}, {"gpu1": "10.224.0.1/24", "gpu3": "10.224.0.3/24"}),
        # From 0: the network's own address belongs to no node.
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


@pytest.mark.parametrize(
    ("nodes", "pattern", "expected"),
    [
        ("gpuserver[1-2]", "192.168.1.73,192.168.1.71", {"gpuserver1": ".73", "gpuserver2": ".71"}),
        # The list is in the order in which the nodes are written, whatever the order of hosts.yml.
        ("gpuserver2,gpuserver1", "192.168.1.71, 192.168.1.73", {"gpuserver1": ".73", "gpuserver2": ".71"}),
        ("gpuserver[2,1]", "192.168.1.[71,73]", {"gpuserver1": ".73", "gpuserver2": ".71"}),
    ],
)
def test_a_list_gives_each_node_its_own_address(tmp_path, capsys, nodes, pattern, expected):
    more = {"netdev": "ens6,ens6d1", "rails": 2, "cabling": "back_to_back"}
    plan, folder = make(tmp_path, nodes=nodes, ansible_host=pattern, bmc_address="192.168.1.[80-81]", **more)
    reached = {name: node["ansible_host"] for name, node in plan["nodes"].items()}
    assert reached == {name: f"192.168.1{last}" for name, last in expected.items()}
    first = nodes.split(",")[0] if "[" not in nodes else f"gpuserver{nodes[10]}"
    assert plan["nodes"][first]["bmc_address"] == "192.168.1.80"
    assert "counted up" not in capsys.readouterr().out + (folder / "README.md").read_text()


def test_an_address_that_was_not_given_is_reported(tmp_path, capsys):
    _plan, folder = make(tmp_path, nodes="node[1-2]", ansible_host="192.168.1.71")
    said = capsys.readouterr().out
    words = "node2 is reached at 192.168.1.72: counted up from 192.168.1.71; where a BMC or another machine"
    assert f"assumed: {words}" in said
    assert words in (folder / "README.md").read_text()
    make(tmp_path / "b", nodes="node1", ansible_host="192.168.1.71")
    assert "counted up" not in capsys.readouterr().out


def test_the_command_of_the_first_day_describes_the_pair_of_the_layout(tmp_path):
    text = (paths.repo_root() / "docs" / "first-day.md").read_text()
    command_line = re.search(r"^ +(railyard new-inventory (?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert command_line is not None
    *words, folder = shlex.split(command_line.group(1).replace("\\\n", " "))[1:]
    done = railyard(*words, folder, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = plan_of(tmp_path / folder)["nodes"]
    # By hand, from the notes of these two servers.
    expected = plan_of(paths.repo_root() / "inventories" / "v100-pair")["nodes"]
    for node in (*written.values(), *expected.values()):
        del node["networks"]
    assert written == expected


def test_nodes_from_a_file(tmp_path):
    hosts = tmp_path / "hosts.txt"
    # With a byte order mark and carriage returns, as an editor of another system writes it.
    hosts.write_bytes(
        b"\xef\xbb\xbf# the pair\r\ngpuserver2\t192.168.1.71  # left\r\n\r\ngpuserver1 192.168.1.73 admin\r\n"
    )
    plan, folder = make(tmp_path, nodes=None, hosts_from=hosts, rails=2)
    assert {name: node["ansible_host"] for name, node in plan["nodes"].items()} == {
        "gpuserver2": "192.168.1.71",
        "gpuserver1": "192.168.1.73",
    }
    assert list(plan["nodes"]) == ["gpuserver2", "gpuserver1"]
    written = yaml.safe_load((folder / "hosts.yml").read_text())["gpu_nodes"]["hosts"]
    assert [one.get("ansible_user") for one in written.values()] == [None, "admin"]
    assert not (folder / "group_vars/all/connection.yml").exists()


def test_the_folder_is_called_as_the_nodes_of_the_file_are(tmp_path):
    (tmp_path / "hosts.txt").write_text("gpuserver1 192.168.1.73\ngpuserver2 192.168.1.71\n")
    words = ("--hosts-from", "hosts.txt", "--rails", "2", "--transport", "roce", "--netdev", "ens6,ens6d1")
    done = railyard("new-inventory", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list(plan_of(tmp_path / "inventories" / "gpuserver")["nodes"]) == ["gpuserver1", "gpuserver2"]


@pytest.mark.parametrize(
    ("lines", "option", "common", "own"),
    [
        ("gpu1 10.9.0.1 ops\ngpu2 10.9.0.2 ops\n", None, "ops", [None, None]),
        ("gpu1 10.9.0.1\ngpu2 10.9.0.2 ops\n", "admin", "admin", [None, "ops"]),
        ("gpu1 10.9.0.1 admin\ngpu2 gpu2.example.org\n", "admin", "admin", [None, None]),
        ("gpu1\ngpu2\n", None, None, [None, None]),
    ],
)
def test_the_user_is_set_once_where_it_is_the_same(tmp_path, lines, option, common, own):
    (tmp_path / "hosts").write_text(lines)
    _plan, folder = make(tmp_path, nodes=None, hosts_from=tmp_path / "hosts", user=option, rails=1)
    connection = folder / "group_vars/all/connection.yml"
    said = yaml.safe_load(connection.read_text())["ansible_user"] if connection.exists() else None
    hosts = yaml.safe_load((folder / "hosts.yml").read_text())["gpu_nodes"]["hosts"]
    assert (said, [(one or {}).get("ansible_user") for one in hosts.values()]) == (common, own)


def test_names_that_yaml_takes_for_something_else_stay_names(tmp_path):
    plan, _folder = make(tmp_path, nodes="no,on,1e3,0x1f,12,2026-11-21", rails=1)
    assert set(plan["nodes"]) == {"no", "on", "1e3", "0x1f", "12", "2026-11-21"}
    assert len(set(addresses(plan))) == 6


def test_names_keep_their_order_and_may_repeat(tmp_path):
    plan, _folder = make(tmp_path, hca="mlx5_[3,0],mlx5_[1-2]", rails=4, leaf="b,b,a,a")
    rails = (
        plan["nodes"]["gpu1"]["rails"]
        if "gpu1" in plan["nodes"]
        else next(iter(plan["nodes"].values()))["rails"]
    )
    assert [rail["hca"] for rail in rails] == ["mlx5_3:1", "mlx5_0:1", "mlx5_1:1", "mlx5_2:1"]
    assert [rail["leaf"] for rail in rails] == ["b", "b", "a", "a"]


def test_the_same_arguments_write_the_same_bytes(tmp_path):
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
def test_any_request_is_planned_or_refused(
    tmp_path_factory, first, count, rails, per_unit, gateway, prefix, supernet
):
    folder = tmp_path_factory.mktemp("any") / "mine"
    prefix = prefix + 34 if prefix and supernet == "fd00::/40" else prefix
    wanted = Wanted(
        f"gpu[{first}-{first + count - 1}]",
        rails,
        "roce",
        netdev="ens{rail}np0",
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


def test_an_overlay_is_a_file_of_its_own_and_its_variables_are_the_roles(tmp_path):
    _plan, folder = make(tmp_path, overlay="clustermax")
    written = yaml.safe_load((folder / "group_vars/all/clustermax.yml").read_text())
    known = {}
    for role in ("node_tuning", "benchmark_tools", "nvidia_driver", "rdma_stack"):
        specs = yaml.safe_load((paths.repo_root() / f"roles/{role}/meta/argument_specs.yml").read_text())
        known |= specs["argument_specs"]["main"]["options"]
    assert written.keys() <= known.keys()
    # What is default already would turn nothing on.
    assert [name for name, value in written.items() if value == known[name].get("default")] == []
    text = (folder / "group_vars/all/clustermax.yml").read_text()
    assert len(re.findall(r"Cost: |No cost to security", text)) >= 5
    # Without it there is none; it comes first, so that the site's own files win.
    assert not (make(tmp_path / "other")[1] / "group_vars/all/clustermax.yml").exists()
    assert sorted(path.name for path in (folder / "group_vars/all").iterdir())[0] == "clustermax.yml"


def test_an_overlay_that_is_none_is_refused_with_those_that_there_are(tmp_path):
    with pytest.raises(UserError) as refused:
        make(tmp_path, overlay="clustermux")
    assert "clustermux" in str(refused.value)
    assert not (tmp_path / "mine").exists()
