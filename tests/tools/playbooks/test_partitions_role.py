"""Role rdma_stack: partitions and ports on their way to module opensm_partitions, a stand-in here."""

from __future__ import annotations

import json
import sys

import pytest
import yaml
from support.programs import REPO, playbook, replace_plugins

FABRIC = {
    "transport": "infiniband",
    "mtu": 4092,
    "rails": [
        {"name": "rail0", "hca": "mlx5_0:1", "subnet": "10.0.0.0/24", "leaf": "leaf1"},
        {"name": "rail1", "hca": "mlx5_1:1"},
    ],
    "partitions": {0x7FFF: {"members": "all"}, 0x10: {"members": ["gpu1", "gpu2"]}},
}


def make_facts(node: int) -> dict[str, object]:
    ports = []
    for rail in range(2):
        guid = f"0002:c903:0000:{node:02x}{rail:02x}"
        gid = {
            "index": 0,
            "gid": f"fe80:0000:0000:0000:{guid}",
            "type": "IB",
            "netdev": None,
            "address": None,
        }
        ports.append(
            {
                "hca": f"mlx5_{rail}:1",
                "link_layer": "InfiniBand",
                "port_guid": guid,
                "pci": None,
                "netdev": None,
                "gids": [gid],
            }
        )
    return {"netdevs": [], "hcas": ports}


@pytest.fixture
def play(tmp_path):
    """Run an entry point on gpu1, gpu2 and gpu3, with modules that answer or record what they were given."""
    rail_info = (
        "from ansible.module_utils.basic import AnsibleModule\n"
        "import os\n"
        f"FACTS = { ({f'gpu{node}': make_facts(node) for node in range(1, 4)})!r}\n"
        "module = AnsibleModule({}, supports_check_mode=True)\n"
        "module.exit_json(rail_info=FACTS[os.environ['NODE']])\n"
    )
    opensm_partitions = (
        "from ansible.module_utils.basic import AnsibleModule\n"
        "import json, os\n"
        "keys = 'state partitions ports managers unit mtu_4096 record'.split()\n"
        "module = AnsibleModule({key: {'type': 'raw'} for key in keys}, supports_check_mode=True)\n"
        f"with open({str(tmp_path / 'given')!r}, 'a') as given:\n"
        "    given.write(json.dumps([os.environ['NODE'], module.params]) + '\\n')\n"
        "module.exit_json(changed=True, unread=['gpu3 rail1 (0x1)'], left=False)\n"
    )
    modules = {"rail_info": rail_info, "opensm_partitions": opensm_partitions}
    replace_plugins(tmp_path, "modules", modules)

    def run(
        *options: str, entry: str = "partitions.yml", **variables: object
    ) -> tuple[str, list[list[object]]]:
        variables = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "rdma_stack_subnet_manager": "gpu2",
            "fabric": FABRIC,
            **variables,
        }
        hosts = {f"gpu{node}": {} for node in range(1, 4)}
        (tmp_path / "hosts.yml").write_text(
            yaml.safe_dump({"gpu_nodes": {"hosts": hosts, "vars": variables}})
        )
        tasks = [{"ansible.builtin.include_role": {"name": "rdma_stack", "tasks_from": entry}}]
        environment = {"NODE": "{{ inventory_hostname }}"}
        (tmp_path / "play.yml").write_text(
            yaml.safe_dump(
                [{"hosts": "all", "gather_facts": False, "environment": environment, "tasks": tasks}]
            )
        )
        roles = {"ANSIBLE_COLLECTIONS_PATH": str(tmp_path), "ANSIBLE_ROLES_PATH": str(REPO / "roles")}
        done = playbook("play.yml", "hosts.yml", *options, cwd=tmp_path, **roles)
        given = tmp_path / "given"
        lines = given.read_text().splitlines() if given.exists() else []
        return done.stdout + done.stderr, [json.loads(line) for line in lines]

    return run


def test_the_manager_gets_the_ports_of_all_nodes(play):
    said, given = play()
    assert "failed=0" in said
    assert "these ports did not answer" in said
    assert "gpu3 rail1 (0x1)" in said
    [(node, params)] = given
    assert node == "gpu2"
    assert params["state"] == "present"
    assert params["ports"] == {
        f"gpu{node}": {f"rail{rail}": f"0x0002c9030000{node:02x}{rail:02x}" for rail in range(2)}
        for node in range(1, 4)
    }
    assert params["managers"] == ["0x0002c90300000200", "0x0002c90300000201"]
    assert params["partitions"] == {"32767": {"members": "all"}, "16": {"members": ["gpu1", "gpu2"]}}
    assert (params["unit"], params["mtu_4096"]) == ("opensm.service", True)


def test_a_limit_leaves_the_other_nodes_ports_unknown_unless_the_site_names_them(play):
    _said, [(_node, params)] = play(
        "--limit", "gpu1,gpu2", rdma_stack_partition_ports={"gpu3": {"rail0": "0x3"}}
    )
    assert params["ports"]["gpu3"] == {"rail0": "0x3"}
    assert params["ports"]["gpu1"]["rail1"] == "0x0002c90300000101"
    _said, found = play("--limit", "gpu1,gpu2")
    assert found[-1][1]["ports"]["gpu3"] == {}


def test_without_partitions_the_old_file_is_restored_and_no_host_is_queried(play):
    said, [(node, params)] = play(fabric={key: FABRIC[key] for key in ("transport", "mtu", "rails")})
    assert (node, params["state"]) == ("gpu2", "absent")
    assert "ok: [gpu1]" not in said


def test_the_vendors_opensm_is_started_by_its_own_unit(play):
    rails = [{**rail} for rail in FABRIC["rails"]]
    fabric = {**FABRIC, "ipoib_mode": "connected", "mtu": 65520, "rails": rails}
    _said, [(_node, params)] = play(rdma_stack_provider="doca", rdma_stack_version="3.2.0", fabric=fabric)
    assert (params["unit"], params["mtu_4096"]) == ("railyard-opensm.target", False)


@pytest.mark.parametrize(
    ("variables", "part"),
    [
        ({"fabric": {**FABRIC, "partitions": {1: {"members": "all"}}}}, "0x7fff is not declared"),
        ({"rdma_stack_partitions": {0x8001: {"members": "all"}}}, "rdma_stack_partitions.0x8001"),
        ({"fabric": {**FABRIC, "subnet_managers": ["gpu1"]}}, "gpu2 is not among fabric.subnet_managers"),
    ],
)  # fmt: skip
def test_what_opensm_would_drop_is_refused_before_a_node_is_touched(play, variables, part):
    said, _given = play("-e", json.dumps(variables), entry="preflight.yml")
    assert part in said
    assert said.count("failed=1") == 3
