"""The NCCL profile of the notes' cluster, against the file written by hand from the notes.

Rendered offline: the role's defaults and its template by Jinja, with the settings of Ansible's template
action; the rails by the one address rule.
"""

import jinja2
import jinja2.nativetypes
import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.filter import nccl
from ansible_collections.railyard.fabric.plugins.module_utils.rails import plan
from railyard.base import paths
from support import programs

ROLE = paths.repo_root() / "roles" / "nccl_profile"
INVENTORIES = paths.repo_root() / "inventories"
# What NCCL's documentation lists; a name that is none of these would be read by nobody.
KNOWN_NAMES = {"NCCL_NET", "NCCL_IB_HCA", "NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_TC", "NCCL_SOCKET_IFNAME"}
KNOWN_NAMES |= {"NCCL_CROSS_NIC"}


def shown(rails, names):
    """Return facts of a node: the ports of its rails, of which the one at place k is called names[k]."""
    ports = [
        {"hca": name, "netdev": rail["netdev"], "pci": rail["pci"]}
        for rail, name in zip(rails, names, strict=True)
    ]
    netdevs = [{"netdev": rail["netdev"], "pci": rail["pci"]} for rail in rails if rail["netdev"]]
    # A node lists its ports by name, not in the order of the rails.
    return {"netdevs": netdevs, "hcas": sorted(ports, key=lambda port: port["hca"], reverse=True)}


def names_of(rails):
    return [f"mlx4_0:{place + 1}" for place in range(len(rails))]


def render(
    fabric, host, scalable_unit=None, *, roce_v1=False, template="nccl.conf", facts=(), hcas=None, **overrides
):
    """Return the profile of `host` as text.

    Args:
        fabric: of the inventory.
        host: the node.
        scalable_unit: its unit.
        roce_v1: what its GID table says.
        template: the file.
        facts: what others of the role's variables that rest on facts are.
        hcas: what the node calls the ports of its rails, None for as many as it has of a ConnectX-3.
        overrides: variables of the role.
    """
    defaults = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
    rails = defaults["nccl_profile_rails"] = plan.plan_node(fabric, host, scalable_unit=scalable_unit)
    transport = overrides.get("nccl_profile_transport", fabric["transport"])
    named = shown(rails, hcas or names_of(rails))
    native = jinja2.nativetypes.NativeEnvironment()
    native.filters["bool"] = bool
    variables = {
        "__nccl_profile_roce_v1": roce_v1,
        "__nccl_profile_hcas": nccl.nccl_hcas(rails, named) if transport != "tcp" else [],
        **dict(facts),
    }
    for name, value in {**overrides, **defaults, **overrides}.items():
        is_template = isinstance(value, str) and "{{" in value
        variables[name] = (
            native.from_string(value).render(fabric=fabric, **variables) if is_template else value
        )
    environment = jinja2.Environment(
        trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    return environment.from_string((ROLE / f"templates/etc/{template}.j2").read_text()).render(variables)


def settings(text):
    pairs = [line.split("=", 1) for line in text.splitlines() if not line.startswith("#")]
    # Of a name that stands twice NCCL takes the first, systemd and docker the last.
    assert len({name for name, _value in pairs}) == len(pairs)
    return dict(pairs)


@pytest.fixture
def v100_fabric():
    return yaml.safe_load((INVENTORIES / "v100-pair/group_vars/all/fabric.yml").read_text())["fabric"]


@pytest.mark.parametrize("host", ["gpuserver1", "gpuserver2"])
def test_v100_pair_is_what_the_notes_say(v100_fabric, host):
    golden = (INVENTORIES / "v100-pair/expected/nccl.conf").read_text()
    assert render(v100_fabric, host, roce_v1=True) == golden


# Each rail has a leaf of its own; one switch joins those of v100-pair-switched, computed-512 names none.
RAIL_OPTIMISED = {"hgx-h100-roce", "dgx-h100-infiniband", "hgx-a100-hdr", "dual-port", "three-networks"}
RAIL_OPTIMISED |= {"mi300x-thor2", "gb200-nvl72-tray", "rail-p2p-31"}
# Two cables' ends at each node: as good as a leaf for each.
CABLED = {"dgx-spark-pair"}
# Their switches sort nothing: NVIDIA's multi-sparks-through-switch sets no QoS, and role roce_qos is off.
WITHOUT_QOS = {"dgx-spark-switched"}
# Beside v100-pair: node, its unit, and the HCAs in the order of the rails, counted out by hand.
LAYOUTS = {
    "v100-pair-switched": ("gpuserver1", None, "mlx4_0:1,mlx4_0:2"),
    "hgx-h100-roce": ("gpu033", "su2", ",".join(f"mlx5_{port}:1" for port in range(8))),
    "dgx-h100-infiniband": ("dgx01", None, ",".join(f"mlx5_{n}:1" for n in (0, 3, 4, 5, 6, 9, 10, 11))),
    "hgx-a100-hdr": ("a100-16", None, "mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1"),
    "dual-port": ("node4", None, "mlx5_0:1,mlx5_1:1"),
    "three-networks": ("gpu4", None, "mlx5_0:1,mlx5_1:1"),
    "computed-512": ("gpu512", None, ",".join(f"mlx5_{port}:1" for port in range(8))),
    "dgx-spark-pair": ("spark1", None, "rocep1s0f0:1,roceP2p1s0f0:1"),
    "dgx-spark-switched": ("spark4", None, "rocep1s0f0:1,roceP2p1s0f0:1"),
    "mi300x-thor2": ("mi16", None, ",".join(f"rocep{b}s0:1" for b in (28, 62, 79, 96, 158, 190, 206, 222))),
    "gb200-nvl72-tray": ("r1-tray01", None, "ibp3s0:1,ibP2p3s0:1,ibP16p3s0:1,ibP18p3s0:1"),
    "rail-p2p-31": ("gpu01", None, ",".join(f"mlx5_{port}:1" for port in range(8))),
}


def settings_of(layout):
    """Return what the layout sets of the roles' own variables."""
    files = (INVENTORIES / layout / "group_vars" / "all").glob("*.yml")
    found = {key: value for file in files for key, value in yaml.safe_load(file.read_text()).items()}
    return {key: value for key, value in found.items() if key.startswith(("nccl_profile_", "roce_qos_"))}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_has_its_golden(layout):
    node, unit, hcas = LAYOUTS[layout]
    fabric = yaml.safe_load((INVENTORIES / layout / "group_vars/all/fabric.yml").read_text())["fabric"]
    golden = (INVENTORIES / layout / "expected/nccl.conf").read_text()
    connectx3 = hcas.startswith("mlx4")  # which has RoCE v1 alone
    own = settings_of(layout)
    assert render(fabric, node, unit, roce_v1=connectx3, hcas=hcas.split(","), **own) == golden
    # The second = asks for the exact names: without it mlx5_1 would take mlx5_10 too.
    assert settings(golden) == {
        "NCCL_NET": "IB",
        "NCCL_IB_HCA": f"={hcas}",
        **({"NCCL_IB_ROCE_VERSION_NUM": "1"} if connectx3 else {}),
        # DSCP 26, with ECN's ECT(0): what the kernel's own mlx5 does not put on RoCE packets.
        # Back to back there is no switch that would read it.
        **(
            {"NCCL_IB_TC": "106"}
            if fabric["transport"] == "roce" and not connectx3 and layout not in CABLED | WITHOUT_QOS
            else {}
        ),
        **({"NCCL_CROSS_NIC": "0"} if layout in RAIL_OPTIMISED | CABLED else {}),
        "NCCL_SOCKET_IFNAME": f"={fabric['frontend']['netdev']}",
    }


def test_order_of_the_hcas_is_that_of_the_rails(v100_fabric):
    v100_fabric["rails"].reverse()
    found = settings(render(v100_fabric, "gpuserver1", hcas=["mlx4_0:2", "mlx4_0:1"]))
    assert found["NCCL_IB_HCA"] == "=mlx4_0:2,mlx4_0:1"


def test_one_unknown_hca_leaves_the_whole_list_out(v100_fabric):
    rails = plan.plan_node(v100_fabric, "gpuserver1")
    facts = shown(rails[:1], ["mlx4_0:1"])
    known = {"__nccl_profile_hcas": nccl.nccl_hcas(rails, facts)}
    assert "NCCL_IB_HCA" not in settings(render(v100_fabric, "gpuserver1", facts=known))


def test_devices_that_a_reboot_has_renamed_are_named_as_they_are_now(v100_fabric):
    """Debian's rdma-core calls mlx4_0 at 06:00.0 rocep6s0, from the first reboot on."""
    before = settings(render(v100_fabric, "gpuserver1"))["NCCL_IB_HCA"]
    after = settings(render(v100_fabric, "gpuserver1", hcas=["rocep6s0:1", "rocep6s0:2"]))["NCCL_IB_HCA"]
    assert (before, after) == ("=mlx4_0:1,mlx4_0:2", "=rocep6s0:1,rocep6s0:2")


def test_tcp_asks_for_sockets_and_names_no_hca(v100_fabric):
    v100_fabric["transport"] = "tcp"
    assert settings(render(v100_fabric, "gpuserver1")) == {
        "NCCL_NET": "Socket",
        "NCCL_SOCKET_IFNAME": "=enp5s0",
    }


@pytest.mark.parametrize(
    ("fabric_says", "role_says", "wanted"),
    [
        ({}, {}, "106"),
        ({}, {"roce_qos_dscp": 24}, "98"),
        ({}, {"rdma_stack_provider": "doca"}, None),
        ({}, {"rdma_stack_provider": "doca", "roce_qos_not_asked": ["traffic_class"]}, "106"),
        ({}, {"roce_qos_enabled": False}, None),
        ({}, {"nccl_profile_settings": {"NCCL_IB_TC": 42}}, "42"),
        ({"cabling": "back_to_back"}, {}, None),
        ({"node_class": "virtual"}, {}, None),
        ({"transport": "infiniband"}, {}, None),
    ],
)
def test_nccl_marks_what_the_driver_does_not_and_a_switch_sorts(fabric_says, role_says, wanted):
    fabric = yaml.safe_load((INVENTORIES / "dual-port/group_vars/all/fabric.yml").read_text())["fabric"]
    assert settings(render({**fabric, **fabric_says}, "node1", **role_says)).get("NCCL_IB_TC") == wanted


@pytest.mark.parametrize(
    ("says", "leaves", "wanted"),
    [
        ({}, [None, None], "0"),  # back to back: a cable joins two like rails
        ({"cabling": "switched"}, ["a", "b"], "0"),
        ({"cabling": "switched"}, ["a", "a"], None),
        ({"cabling": "switched"}, ["a", None], None),
        ({"cabling": "switched"}, [None, None], None),
        ({"transport": "tcp"}, ["a", "b"], None),
    ],
)
def test_no_ring_crosses_between_rails_of_their_own_leaves(v100_fabric, says, leaves, wanted):
    for rail, leaf in zip(v100_fabric["rails"], leaves, strict=True):
        rail |= {"leaf": leaf} if leaf else {}
    assert settings(render({**v100_fabric, **says}, "gpuserver1")).get("NCCL_CROSS_NIC") == wanted


def test_one_rail_alone_crosses_nothing(v100_fabric):
    del v100_fabric["rails"][1]
    assert "NCCL_CROSS_NIC" not in settings(render(v100_fabric, "gpuserver1"))


def test_extra_settings_come_last_and_sorted(v100_fabric):
    text = render(v100_fabric, "gpuserver1", nccl_profile_settings={"NCCL_IB_TC": 106, "NCCL_CROSS_NIC": "0"})
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines[-2:] == ["NCCL_CROSS_NIC=0", "NCCL_IB_TC=106"]
    assert text.count("NCCL_CROSS_NIC") == 1  # the site's word alone


def layout(name):
    return yaml.safe_load((INVENTORIES / name / "group_vars/all/fabric.yml").read_text())["fabric"]


IB, ROCE = ("dgx-h100-infiniband", "dgx01"), ("dual-port", "node1")


@pytest.mark.parametrize(
    ("where", "role_says", "facts", "more"),
    [
        (IB, {"nccl_profile_overlays": ["sharp"]}, {}, {"NCCL_NET": None, "NCCL_COLLNET_ENABLE": "1"}),
        (IB, {"nccl_profile_service_level": 3}, {}, {"NCCL_IB_SL": "3"}),
        (ROCE, {"nccl_profile_service_level": 3}, {}, {}),
        (IB, {"nccl_profile_pkey": "0x8001"}, {"__nccl_profile_pkey_index": 0}, {"NCCL_IB_PKEY": "0"}),
        (ROCE, {}, {"__nccl_profile_gid_index": 3}, {"NCCL_IB_GID_INDEX": "3"}),
        (ROCE, {"nccl_profile_overlays": ["multi_rail"]}, {}, {"NCCL_IB_MERGE_NICS": "0"}),
        (
            ROCE,
            {"nccl_profile_overlays": ["debug"]},
            {},
            {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV,NET"},
        ),
        (
            ROCE,
            {"nccl_profile_overlays": ["debug"], "nccl_profile_settings": {"NCCL_DEBUG": "TRACE"}},
            {},
            {"NCCL_DEBUG": "TRACE", "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV,NET"},
        ),
    ],
)
def test_overlays_and_what_facts_tell(where, role_says, facts, more):
    fabric = layout(where[0])
    plain = settings(render(fabric, where[1]))
    wanted = {name: value for name, value in {**plain, **more}.items() if value is not None}
    text = render(fabric, where[1], facts=facts, **role_says)
    assert settings(text) == wanted
    assert not any(line.startswith("#") and "=" in line for line in text.splitlines())


def test_sockets_over_the_rails_where_they_are_tcp(v100_fabric):
    v100_fabric["transport"] = "tcp"
    v100_fabric["rails"][1]["vlan"] = 42
    found = settings(render(v100_fabric, "gpuserver1", nccl_profile_overlays=["multi_rail"]))
    assert found == {
        "NCCL_NET": "Socket",
        "NCCL_CROSS_NIC": "0",
        "NCCL_SOCKET_IFNAME": "=ens6,ens6d1.42",
    }


@pytest.mark.parametrize(
    ("role_says", "wanted"),
    [
        ({"nccl_profile_net_plugin": "efa"}, {"NCCL_NET": "Libfabric"}),
        (
            {
                "nccl_profile_net_plugin": "efa",
                "nccl_profile_net_plugin_library": "ofi",
                "nccl_profile_net": "",
            },
            {"NCCL_NET_PLUGIN": "ofi"},
        ),
        ({"nccl_profile_net_plugin": "UCX", "nccl_profile_net_plugin_library": ""}, {"NCCL_NET": "UCX"}),
        (
            {"nccl_profile_net_plugin": "tcpxo"},
            {
                "NCCL_NET": "FasTrak",
                "NCCL_CROSS_NIC": "0",
                "NCCL_FASTRAK_IFNAME": "ens6,ens6d1",
                "NCCL_FASTRAK_CTRL_DEV": "enp5s0",
            },
        ),
        (
            {
                "nccl_profile_net_plugin": "tcpx",
                "nccl_profile_settings": {"NCCL_GPUDIRECTTCPX_CTRL_DEV": "enp7s0"},
            },
            {
                "NCCL_NET": "GPUDirectTCPX_v7",
                "NCCL_CROSS_NIC": "0",
                "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME": "ens6,ens6d1",
                "NCCL_GPUDIRECTTCPX_CTRL_DEV": "enp7s0",
            },
        ),
    ],
)
def test_a_clouds_plugin_is_named_and_configured_from_the_fabric(v100_fabric, role_says, wanted):
    v100_fabric["transport"] = "tcp"
    text = render(v100_fabric, "gpuserver1", **role_says)
    assert settings(text) == {**wanted, "NCCL_SOCKET_IFNAME": "=enp5s0"}
    lines = text.splitlines()
    assert [line.startswith("#") for line in lines[1:]] == [True, False] * (len(lines) // 2)


@pytest.mark.parametrize(
    ("where", "role_says", "facts", "wanted"),
    [
        (ROCE, {}, {}, {"UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1", "UCX_IB_TRAFFIC_CLASS": "106"}),
        (ROCE, {"nccl_profile_traffic_class": 0}, {}, {"UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1"}),
        (
            ROCE,
            {"nccl_profile_settings": {"NCCL_IB_TC": 98, "NCCL_IB_GID_INDEX": 5}},
            {},
            {
                "UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1",
                "UCX_IB_GID_INDEX": "5",
                "UCX_IB_TRAFFIC_CLASS": "98",
            },
        ),
        (
            ROCE,
            {},
            {"__nccl_profile_gid_index": 3, "__nccl_profile_roce_v1": True},
            {"UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1", "UCX_IB_GID_INDEX": "3"},
        ),
        (
            IB,
            {"nccl_profile_service_level": 3, "nccl_profile_pkey": "0x8042"},
            {},
            {
                "UCX_NET_DEVICES": ",".join(f"mlx5_{n}:1" for n in (0, 3, 4, 5, 6, 9, 10, 11)),
                "UCX_IB_SL": "3",
                # UCX takes 0 to 0x7fff.
                "UCX_IB_PKEY": "0x0042",
            },
        ),
        (ROCE, {"nccl_profile_transport": "tcp"}, {}, {"UCX_NET_DEVICES": "eno1"}),
    ],
)
def test_ucx_gets_the_same_settings(where, role_says, facts, wanted):
    fabric = layout(where[0])
    hcas = LAYOUTS[where[0]][2].split(",")
    text = render(fabric, where[1], template="railyard/ucx.env", facts=facts, hcas=hcas, **role_says)
    assert settings(text) == wanted
    lines = text.splitlines()
    assert [line.startswith("#") for line in lines[1:]] == [True, False] * (len(lines) // 2)


def test_slurms_task_prolog_hands_on_what_a_job_has_not_set(tmp_path):
    script = (ROLE / "templates/etc/railyard/nccl-task-prolog.j2").read_text()
    assert "{{" not in script
    (tmp_path / "nccl.env").write_text(
        "# NCCL_X\nNCCL_NET=IB\nNCCL_IB_HCA==mlx5_0:1,mlx5_1:1\n\nNCCL_DEBUG=WARN\n"
    )
    (tmp_path / "ucx.env").write_text("UCX_NET_DEVICES=mlx5_0:1\n$(touch x)=1\n")
    program = tmp_path / "prolog"
    program.write_text(script.replace("/etc/railyard/", f"{tmp_path}/"))
    # Slurm gives it no PATH; a variable that a job has emptied is its word too.
    done = programs.run(["/bin/sh", program], env={"NCCL_DEBUG": "INFO", "NCCL_NET": ""}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "export NCCL_IB_HCA==mlx5_0:1,mlx5_1:1",
        "export UCX_NET_DEVICES=mlx5_0:1",
    ]
    assert not (tmp_path / "x").exists()


def test_every_line_is_one_that_nccl_reads(v100_fabric):
    lines = render(v100_fabric, "gpuserver1").splitlines()
    assert all(line.startswith("#") or not line.count("#") for line in lines), "NCCL has no inline comments"
    # To NCCL before 2.26 a comment with a = is a variable.
    assert not any(line.startswith("#") and "=" in line for line in lines)
    # Each setting has its reason above it.
    assert [line.startswith("#") for line in lines[1:]] == [True, False] * (len(lines) // 2)
    assert {line.partition("=")[0] for line in lines if not line.startswith("#")} <= KNOWN_NAMES


PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  vars_files: [{role}/defaults/main.yml, {role}/vars/main.yml]
  tasks:
    - ansible.builtin.copy:
        content: "{{{{ lookup('ansible.builtin.template', '{role}/templates/etc/nccl.conf.j2') }}}}"
        dest: "{folder}/{{{{ index }}}}"
        mode: "0644"
      loop: "{{{{ cases }}}}"
      loop_control: {{index_var: index}}
      vars:
        nccl_profile_transport: "{{{{ item.transport }}}}"
        nccl_profile_settings: "{{{{ item.settings }}}}"
        nccl_profile_rails: "{{{{ rails }}}}"
        __nccl_profile_facts: "{{{{ item.facts }}}}"
"""


def test_the_gid_table_decides_the_roce_version(v100_fabric, tmp_path):
    planned = plan.plan_node(v100_fabric, "gpuserver1")

    def facts(*types):
        gids = {
            rail["netdev"]: [
                {"index": 2 * index, "type": kind, "gid": "", "address": rail["address"].split("/")[0]}
                for index, kind in enumerate(types)
            ]
            for rail in planned
        }
        netdevs = [{"netdev": rail["netdev"]} for rail in planned]
        hcas = [{"hca": f"{netdev}:1", "netdev": netdev, "gids": gids[netdev]} for netdev in gids]
        return {"rail_info": {"netdevs": netdevs, "hcas": hcas}}

    v1, index = {"NCCL_IB_ROCE_VERSION_NUM": "1"}, {"NCCL_IB_GID_INDEX": "2"}
    cases = [
        ("roce", {}, facts("RoCE v1"), v1),
        ("roce", {}, facts("RoCE v1", "RoCE v2"), {}),
        ("roce", {}, facts(), {}),
        ("roce", index, facts("RoCE v1"), index),  # the site's word
        ("tcp", {}, {"skipped": True}, {}),
        # Of EFA the plugin takes every device, and no port is named though the facts show it.
        ("efa", {}, facts("RoCE v1"), {}),
    ]
    keys = ("transport", "settings", "facts")
    told = {
        "cases": [dict(zip(keys, case, strict=False)) for case in cases],
        "rails": planned,
        "fabric": v100_fabric,
    }
    done = programs.play_here(tmp_path, PLAYBOOK.format(role=ROLE, folder=tmp_path), told)
    assert done.returncode == 0, done.stdout + done.stderr
    for number, (transport, *_case, wanted) in enumerate(cases):
        found = settings((tmp_path / str(number)).read_text())
        assert {name: found[name] for name in found if name in {**v1, **index}} == wanted, number
        assert ("NCCL_IB_HCA" in found) is (transport == "roce")
        assert found["NCCL_NET"] == {"roce": "IB", "tcp": "Socket", "efa": "Libfabric"}[transport]


@pytest.mark.parametrize(("mode", "found"), [("802.3ad", "2"), ("balance-xor", "2"), ("active-backup", None)])
def test_a_connection_over_a_bond_that_spreads_has_a_queue_pair_for_each_port(mode, found):
    bond = {"mode": mode, "ports": ["ens1f0np0", "ens1f1np1"]}
    rail = {"name": "rail0", "netdev": "bond0", "subnet": "10.20.0.0/24", "rate_gbps": 200, "bond": bond}
    fabric = {"transport": "roce", "mtu": 9000, "rails": [rail], "frontend": {"netdev": "eno1"}}
    text = render(fabric, "gpu1", hcas=["mlx5_bond_0:1"])
    assert settings(text).get("NCCL_IB_QPS_PER_CONNECTION") == found
    assert settings(text)["NCCL_IB_HCA"] == "=mlx5_bond_0:1"
    own = render(
        fabric, "gpu1", hcas=["mlx5_bond_0:1"], nccl_profile_settings={"NCCL_IB_QPS_PER_CONNECTION": "4"}
    )
    assert settings(own)["NCCL_IB_QPS_PER_CONNECTION"] == "4"
