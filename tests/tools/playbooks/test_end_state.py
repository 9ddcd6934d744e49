"""The end-state checks themselves: each must fail on a node that is not as planned, and name it."""

from __future__ import annotations

import copy
import json
import shlex
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest
from end_state import expect, expect_nccl
from end_state.fixtures import Node
from end_state.reading import NotReadError, command, read_all

RAIL = {
    "name": "rail0",
    "netdev": "ens6",
    "mac": None,
    "pci": None,
    "hca": "mlx4_0:1",
    "address": "10.0.1.1/24",
    "address6": "fd00::1/64",
    "mtu": 9000,
    "vlan": None,
    "gateway": None,
    "table": 6100,
}
NODE = {"transport": "roce", "rails": [RAIL], "frontend": {"netdev": "enp5s0"}, "ansible_host": "198.18.0.1"}
NETPLAN = "network: {version: 2, ethernets: {ens6: {addresses: [10.0.1.1/24], mtu: 9000}}}"
NCCL = "# profile\nNCCL_NET=IB\nNCCL_IB_HCA==mlx4_0:1\nNCCL_SOCKET_IFNAME==enp5s0\nNCCL_CROSS_NIC=0\n"


def device(name: str, *addresses: str, **changes: object) -> dict[str, object]:
    info = [{"local": one.split("/")[0], "prefixlen": int(one.split("/")[1])} for one in addresses]
    up = {
        "flags": ["BROADCAST", "UP", "LOWER_UP"],
        "operstate": "UP",
        "mtu": 9000,
        "address": "02:00:00:00:00:01",
    }
    return {"ifname": name, **up, "addr_info": info, **changes}


@pytest.fixture
def reading():
    return copy.deepcopy(
        {
            "addresses": [
                device("ens6", "10.0.1.1/24", "fd00::1/64", "fe80::1/64"),
                device("enp5s0", "198.18.0.1/24", mtu=1500, address="02:00:00:00:00:02"),
            ],
            "routes": [{"dst": "default", "gateway": "198.18.0.254", "dev": "enp5s0"}],
            "rules": [
                {"priority": 0, "src": "all", "table": "local"},
                {"priority": 6100, "src": "10.0.1.1", "table": "6100"},
                {"priority": 6100, "src": "fd00::1", "table": "6100"},
            ],
            "tables": [{"dst": "10.0.1.0/24", "dev": "ens6", "table": "6100", "scope": "link"}],
            "arp": {"ens6": {"arp_ignore": "1", "arp_announce": "2"}},
            "netplan": {
                "/etc/netplan/01-network.yaml": {
                    "mode": 0o600,
                    "owner": "root",
                    "text": "network: {ethernets: {enp5s0: {dhcp4: true}}}",
                },
                "/etc/netplan/60-railyard-rails.yaml": {"mode": 0o600, "owner": "root", "text": NETPLAN},
            },
            "netdevs": {"ens6": {"pci": "0000:03:00.0"}, "enp5s0": {"pci": "0000:05:00.0"}},
            "hcas": {"mlx4_0:1": "ens6"},
            "gids": [],
            "pkeys": [
                {"device": "mlx4_0", "port": "1", "index": "0", "pkey": "0xffff"},
                {"device": "mlx4_0", "port": "1", "index": "2", "pkey": "0x8001"},
            ],
            "ucx": None,
            "governors": ["performance"],
            "login_memlock": ["unlimited", "unlimited"],
            "service_memlock": "DefaultLimitMEMLOCK=infinity",
            "nccl": {
                path: {"mode": 0o644, "owner": "root", "text": NCCL} for path in ("/etc/nccl.conf", "/env")
            },
            "tools": dict.fromkeys(
                ("ping", "iperf3", "sockperf", "ib_write_bw", "ibv_devinfo", "numactl"), "/usr/bin/x"
            ),
            "listening": ["tcp LISTEN 0 128 0.0.0.0:22 0.0.0.0:* users:((sshd,pid=1))"],
            "processes": [],
            "units": ["railyard-cpu-governor.service loaded active exited Set the governor"],
            "pending": False,
        }
    )


def all_problems(reading):
    per_rail = (
        expect.link,
        expect.mtu,
        expect.addresses,
        expect.netplan_file,
        expect.own_table,
        expect.arp,
    )
    return [
        *(problem for check in per_rail for problem in check(RAIL, reading)),
        *expect.governor("performance", reading),
        *expect.memlock("hardware", reading),
        *expect_nccl.nccl(NODE, {}, reading),
        *expect.tools(NODE, {}, reading),
        *expect.leftovers(reading),
        *expect.management(NODE, reading),
    ]


def test_a_node_as_planned_has_no_problem(reading):
    assert all_problems(reading) == []


def set_in(*path):
    """Return a change of the reading: the last of `path` is the value."""

    def change(reading):
        place = reading
        for key in path[:-2]:
            place = place[key]
        place[path[-2]] = path[-1]

    return change


RAILS_FILE = "/etc/netplan/60-railyard-rails.yaml"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_in("addresses", 0, "flags", ["BROADCAST", "UP"]), "ens6 is not LOWER_UP"),
        (set_in("addresses", 0, "operstate", "DOWN"), "operstate DOWN"),
        (set_in("addresses", 0, "mtu", 1500), "ens6 has MTU 1500, planned is 9000"),
        (set_in("addresses", 0, "addr_info", []), "ens6 has no address, planned is 10.0.1.1/24, fd00::1/64"),
        (
            lambda r: r["addresses"][0]["addr_info"].append({"local": "10.9.9.9", "prefixlen": 24}),
            "10.9.9.9/24",
        ),
        (lambda r: r["addresses"].pop(0), "no netdev for it (netdev ens6"),
        (lambda r: r["rules"].pop(1), "no routing rule sends what comes from 10.0.1.1 to table 6100"),
        (lambda r: r["rules"].pop(2), "no routing rule sends what comes from fd00::1 to table 6100"),
        (set_in("rules", 1, "table", "6101"), "no routing rule sends what comes from 10.0.1.1"),
        (set_in("tables", 0, "dev", "enp5s0"), "table 6100 has no route to 10.0.1.0/24 by ens6"),
        (set_in("tables", 0, "table", "main"), "table 6100 has no route to 10.0.1.0/24 by ens6"),
        (set_in("arp", "ens6", "arp_ignore", "0"), "ens6 has arp_ignore 0, wanted is 1"),
        (set_in("arp", {}), "ens6 has arp_announce unknown"),
        (set_in("netplan", RAILS_FILE, "mode", 0o644), "mode 0644"),
        (set_in("netplan", RAILS_FILE, "owner", "games"), "owner games"),
        (lambda r: r["netplan"].pop(RAILS_FILE), "no netplan file"),
        (
            set_in("netplan", "/etc/netplan/01-network.yaml", "text", "network: {ethernets: {ens6: {}}}"),
            "it must stand in one",
        ),
        (
            set_in(
                "netplan", "/etc/netplan/01-network.yaml", "text", "network: {bonds: {x: {set-name: ens6}}}"
            ),
            "it must stand in one",
        ),
        (set_in("netplan", RAILS_FILE, "text", "a: [b"), "is no YAML"),
        (set_in("governors", ["performance", "powersave"]), "performance, powersave"),
        (set_in("login_memlock", ["8192", "unlimited"]), "8192 KiB"),
        (set_in("login_memlock", ["8192", "8192"]), "not any amount"),
        (set_in("login_memlock", []), "could not be read"),
        (set_in("service_memlock", "DefaultLimitMEMLOCK=8388608"), "8388608"),
        (set_in("nccl", "/etc/nccl.conf", None), "/etc/nccl.conf is missing"),
        # A single = is a prefix to NCCL: mlx4_0:1 would be mlx4_0:10 as well.
        (set_in("nccl", "/env", "text", NCCL.replace("==mlx", "=mlx")), "NCCL_IB_HCA=mlx4_0:1"),
        (set_in("nccl", "/env", "text", NCCL.replace("IB_HCA", "IB_HCAS")), "NCCL_IB_HCA=None"),
        (set_in("nccl", "/env", "mode", 0o666), "written by others"),
        (set_in("tools", "sockperf", None), "sockperf is not installed"),
        (set_in("tools", "ib_write_bw", None), "ib_write_bw is not installed"),
        (set_in("processes", ["iperf3 -s"]), "still running: iperf3 -s"),
        (set_in("listening", ['tcp LISTEN *:5201 users:(("iperf3",pid=7))']), "still listening"),
        (set_in("units", ["railyard-runner-x.service loaded active running R"]), "railyard-runner-x.service"),
        (set_in("pending", True), "neither confirmed nor undone"),
        (lambda r: r["addresses"].pop(1), "frontend enp5s0 is not there"),
        (set_in("addresses", 1, "addr_info", []), "enp5s0 has no address"),
        (
            set_in("routes", [{"gateway": "10.0.1.254", "dev": "ens6"}]),
            "default route leaves by the rail ens6",
        ),
    ],
)
def test_what_is_not_as_planned_is_named(reading, change, words):
    change(reading)
    assert words in "\n".join(all_problems(reading))


V1 = {"device": "mlx4_0", "port": "1", "gid": "0000:0000:0000:0000:0000:ffff:0a00:0101", "type": "IB/RoCE v1"}
HCA, SOCKET = "NCCL_IB_HCA==mlx4_0:1", "NCCL_SOCKET_IFNAME==enp5s0"
IB = f"NCCL_NET=IB {HCA} {SOCKET}"
TWO_LEAVES = [{"hca": "a:1", "leaf": "x"}, {"hca": "b:1", "leaf": "y"}]
QOS = {"roce_qos_enabled": True}


def profile(**options):
    """Return options of role nccl_profile."""
    return {f"nccl_profile_{name}": value for name, value in options.items()}


# Options, the port's GIDs, and the lines as role nccl_profile writes them, in any order.
PROFILES = [
    (profile(net=""), [], f"{HCA} {SOCKET}"),
    (profile(net="UCX"), [], f"NCCL_NET=UCX {HCA} {SOCKET}"),
    (profile(transport="tcp"), [V1], f"NCCL_NET=Socket {SOCKET}"),
    (
        profile(transport="tcp", net_plugin="efa", net_plugin_library="ofi"),
        [],
        f"NCCL_NET=Libfabric NCCL_NET_PLUGIN=ofi {SOCKET}",
    ),
    (profile(transport="efa"), [], f"NCCL_NET=Libfabric {SOCKET}"),
    (
        profile(transport="tcp", net_plugin="tcpxo"),
        [],
        f"NCCL_NET=FasTrak NCCL_FASTRAK_IFNAME=ens6 NCCL_FASTRAK_CTRL_DEV=enp5s0 NCCL_CROSS_NIC=0 {SOCKET}",
    ),
    (profile(socket_netdev=""), [], f"NCCL_NET=IB {HCA}"),
    (profile(socket_netdev="eno1"), [], f"NCCL_NET=IB {HCA} NCCL_SOCKET_IFNAME==eno1"),
    (profile(rails=[{"hca": "mlx5_2:1"}]), [], f"NCCL_NET=IB NCCL_IB_HCA==mlx5_2:1 {SOCKET}"),
    (profile(rails=TWO_LEAVES), [], f"NCCL_NET=IB NCCL_IB_HCA==a:1,b:1 NCCL_CROSS_NIC=0 {SOCKET}"),
    (
        profile(rails=TWO_LEAVES, cross_nic="2"),
        [],
        f"NCCL_NET=IB NCCL_IB_HCA==a:1,b:1 NCCL_CROSS_NIC=2 {SOCKET}",
    ),
    (profile(overlays=["debug"]), [], f"{IB} NCCL_DEBUG=INFO"),
    (profile(overlays=["multi_rail"]), [], f"{IB} NCCL_IB_MERGE_NICS=0"),
    (profile(overlays=["multi_rail"], transport="tcp"), [], "NCCL_NET=Socket NCCL_SOCKET_IFNAME==ens6"),
    (
        profile(transport="infiniband", overlays=["sharp"], service_level=3, pkey="0x1"),
        [],
        f"{HCA} {SOCKET} NCCL_COLLNET_ENABLE=1 NCCL_IB_SL=3 NCCL_IB_PKEY=2",
    ),
    (
        profile(version="2.19.3"),
        [{**V1, "index": "2"}, {**V1, "index": "3", "type": "RoCE v2"}],
        f"{IB} NCCL_IB_GID_INDEX=3",
    ),
    (profile(version="2.19.3"), [{**V1, "index": "2"}], f"{IB} NCCL_IB_GID_INDEX=2"),
    (profile(version="2.21.5"), [V1], f"{IB} NCCL_IB_ROCE_VERSION_NUM=1"),
    (profile(settings={"NCCL_IB_TC": 106}), [], f"{IB} NCCL_IB_TC=106"),
    ({}, [V1], f"{IB} NCCL_IB_ROCE_VERSION_NUM=1"),
    (QOS, [], f"{IB} NCCL_IB_TC=106"),
    ({**QOS, "rdma_stack_provider": "doca"}, [], IB),
    ({**QOS, "roce_qos_not_asked": ["traffic_class"], "roce_qos_dscp": 24}, [], f"{IB} NCCL_IB_TC=98"),
    (QOS, [V1], f"{IB} NCCL_IB_ROCE_VERSION_NUM=1"),
    (profile(traffic_class=98), [], f"{IB} NCCL_IB_TC=98"),
    ({}, [V1, {**V1, "type": "RoCE v2"}], IB),
    (profile(settings={"NCCL_IB_GID_INDEX": 2}), [V1], f"{IB} NCCL_IB_GID_INDEX=2"),
]


@pytest.mark.parametrize(("options", "gids", "lines"), PROFILES)
def test_the_nccl_profile_follows_the_inventory(reading, options, gids, lines):
    reading["gids"] = gids
    for is_whole in (True, False):
        for file in reading["nccl"].values():
            file["text"] = "".join(f"{line}\n" for line in lines.split()[: None if is_whole else -1])
        assert (expect_nccl.nccl(NODE, options, reading) == []) == is_whole


def test_forms_that_are_not_configured_need_not_be_there(reading):
    reading["nccl"]["/etc/enroot/environ.d/60-railyard-nccl.env"] = None
    del reading["nccl"]["/env"]
    assert expect_nccl.nccl(NODE, {}, reading) == []
    enroot = expect_nccl.nccl(NODE, {"nccl_profile_forms": ["env", "enroot"]}, reading)
    assert enroot == ["/etc/enroot/environ.d/60-railyard-nccl.env is missing"]


def test_ucx_gets_the_same_settings(reading):
    options = {"nccl_profile_ucx": True, "roce_qos_enabled": True}
    for file in reading["nccl"].values():
        file["text"] += "NCCL_IB_TC=106\n"
    assert expect_nccl.nccl(NODE, options, reading) == ["/etc/railyard/ucx.env is missing"]
    text = "# UCX\nUCX_NET_DEVICES=mlx4_0:1\nUCX_IB_TRAFFIC_CLASS=106\n"
    reading["ucx"] = {"mode": 0o644, "owner": "root", "text": text}
    assert expect_nccl.nccl(NODE, options, reading) == []
    reading["ucx"]["text"] = text.replace("mlx4_0:1", "mlx4_0:2")
    assert "UCX_NET_DEVICES=mlx4_0:2, wanted is mlx4_0:1" in expect_nccl.nccl(NODE, options, reading)[0]


def test_perftest_is_required_where_the_inventory_says_so(reading):
    reading["tools"].update(ib_write_bw=None, ibv_devinfo=None, numactl=None)
    assert expect.tools(NODE, {"benchmark_tools_rdma": False}, reading) == []
    assert expect.tools({**NODE, "transport": "tcp"}, {"benchmark_tools_rdma": True}, reading) != []


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, ("performance", True)),
        ({"node_tuning_state": "restored"}, ("", False)),
        ({"node_tuning_profile": "none", "node_tuning_governor": "performance"}, ("", False)),
        ({"node_tuning_profile": "powersave"}, ("saving", True)),
        ({"node_tuning_node_class": "virtual"}, ("", True)),
        ({"node_tuning_governor": "powersave", "node_tuning_memlock_unlimited": False}, ("powersave", False)),
    ],
)
def test_tuning_is_required_as_the_inventory_says(options, wanted):
    node = Node("gpu1", {"node_class": "hardware"}, SimpleNamespace(options=lambda name: options))
    assert (node.governor, node.memlock_unlimited) == wanted


def test_a_container_may_be_held_to_less_memory(reading):
    reading["login_memlock"] = ["8192", "8192"]
    assert expect.memlock("container", reading) == []


@pytest.mark.parametrize(
    "rail",
    [{"mac": "02:00:00:00:00:01"}, {"pci": "0000:03:00.0"}, {"hca": "mlx4_0:1"}, {"netdev": "ens6"}],
)
def test_a_rail_is_found_by_each_way_that_an_inventory_has(reading, rail):
    assert expect.netdev_of(rail, reading) == "ens6"
    assert expect.netdev_of({**rail, "vlan": 7}, reading) == "ens6.7"


def test_the_program_that_reads_a_node_runs_here_and_prints_one_object():
    done = subprocess.run(shlex.split(command(sys.executable)), capture_output=True, text=True, check=False)
    if done.returncode and "sudo" in done.stderr:
        pytest.skip(f"this user may not become root without a password: {done.stderr.strip()}")
    [line] = [line for line in done.stdout.splitlines() if line.startswith("railyard-state ")]
    state = json.loads(line.removeprefix("railyard-state "))
    assert any(one["ifname"] == "lo" for one in state["addresses"])
    assert {"netplan", "governors", "nccl", "tools", "listening", "units", "pending", "hcas"} <= set(state)


def test_a_node_that_does_not_answer_differs_from_one_that_fails(tmp_path, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    inventory = tmp_path / "hosts.json"
    host = {"ansible_host": "127.0.0.1", "ansible_port": port, "ansible_connection": "ssh"}
    inventory.write_text(json.dumps({"gpu_nodes": {"hosts": {"gpu1": host}}}))
    from railyard.operate.ansible import ansible_environment

    for name, value in ansible_environment().items():
        monkeypatch.setenv(name, value)
    state = read_all(["gpu1"], str(inventory), force_ansible=False)["gpu1"]
    assert isinstance(state, NotReadError)
    assert "refused" in str(state)
