# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading inventories from files: what Ansible sees, where it is, what must not be opened or shown."""

from __future__ import annotations

import textwrap

import pytest
from ansible.parsing.vault import VaultLib, VaultSecret
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load, plan, trust, yaml_errors

FABRIC = """\
fabric:
  transport: tcp
  mtu: 9000
  rails:
    - name: rail0
      netdev: ens6
      subnet: 10.0.1.0/24
"""
HOSTS = """\
gpu_nodes:
  hosts:
    gpu2:
      ansible_host: 192.168.1.2
    gpu1:
      ansible_host: 192.168.1.1
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make an inventory folder `site`, sound until a test writes over it; the current folder is above it."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "site", {"hosts.yml": HOSTS, "group_vars/all/fabric.yml": FABRIC})
    return tmp_path / "site"


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))


def problems_of(folder, limit=None):
    return load.validate(load.load([str(folder)], limit))


def vault(text):
    return VaultLib([("default", VaultSecret(b"not the user's"))]).encrypt(text).decode()


def inline_vault(text, indent):
    return "!vault |\n" + textwrap.indent(vault(text), " " * indent)


def test_a_controller_without_netaddr_is_named_and_nothing_is_guessed(folder, monkeypatch):
    monkeypatch.setattr(load.addresses, "IPNetwork", None)
    (problem,) = problems_of(folder)
    assert "has no Python package netaddr" in problem.message
    assert "python3-netaddr" in problem.fix


def test_nodes_come_in_inventory_order_with_their_variables(folder):
    loaded = load.load([str(folder)])
    assert load.validate(loaded) == []
    assert loaded.cluster == "site"
    assert [(one.name, one.ansible_host) for one in loaded.nodes] == [
        ("gpu2", "192.168.1.2"),
        ("gpu1", "192.168.1.1"),
    ]


def test_the_hosts_file_alone_is_the_same_inventory(folder):
    by_file = load.load([str(folder / "hosts.yml")])
    assert by_file.cluster == "site"
    assert plan.build_plan(by_file) == plan.build_plan(load.load([str(folder)]))


def test_a_limit_selects_but_all_nodes_are_checked(folder):
    write(folder, {"host_vars/gpu2.yml": "node_index: 1\n"})
    loaded = load.load([str(folder)], "gpu1")
    assert list(plan.build_plan(loaded)["nodes"]) == ["gpu1"]
    assert [one.host for one in load.validate(loaded)] == ["gpu1"]  # gpu2 took the index first


def test_a_limit_that_leaves_no_node_is_a_problem(folder):
    for limit in ("all:!gpu_nodes", "gpu9*"):
        (problem,) = problems_of(folder, limit)
        assert problem.file == "--limit"


def test_node_types_have_their_own_fabric_and_equal_ones_are_one_object(folder):
    write(
        folder,
        {
            "hosts.yml": """\
                gpu_nodes:
                  children:
                    old:
                      hosts:
                        gpu[1:3]:
                    new:
                      hosts:
                        gpu[4:5]:
                """,
            "group_vars/new.yml": FABRIC.replace("ens6", "enp9s0"),
            "host_vars/gpu5.yml": FABRIC.replace("ens6", "enp9s0"),
        },
    )
    loaded = load.load([str(folder)])
    assert load.validate(loaded) == []
    old, new = loaded.nodes[:3], loaded.nodes[3:]
    assert {id(one.fabric) for one in old} == {id(old[0].fabric)}
    assert {id(one.fabric) for one in new} == {id(new[0].fabric)}
    assert new[0].fabric["rails"][0]["netdev"] == "enp9s0"


def test_host_variables_win_over_group_variables(folder):
    write(
        folder, {"group_vars/gpu_nodes.yml": "node_index: 7\n", "host_vars/gpu2/index.yml": "node_index: 9\n"}
    )
    assert [one.node_index for one in load.load([str(folder)]).nodes] == [9, 7]


@pytest.mark.parametrize("host", ["gpu2", "gpu1"])
def test_one_node_cannot_bring_a_policy_of_its_own(folder, host):
    # A lower floor on one node would have been every node's, or no node's, by the order of the hosts.
    lower = "fabric_policy: {floors: {tcp_bandwidth: {bandwidth_gbps: [0, null]}}}\n"
    everybodys = "fabric_policy: {ping_count: 20}\n"
    write(folder, {"group_vars/all/policy.yml": everybodys, f"host_vars/{host}.yml": lower})
    problems = problems_of(folder)
    assert [(one.host, "one policy" in one.message) for one in problems] == [("gpu1", True)]


def test_a_policy_of_all_is_the_runs(folder):
    write(folder, {"group_vars/all/policy.yml": "fabric_policy: {ping_count: 20}\n"})
    loaded = load.load([str(folder)])
    assert (loaded.policy, load.validate(loaded)) == ({"ping_count": 20}, [])


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (
            "budjet_min",
            "fabric_policy.budjet_min: is not known. Fix: did you mean budget_min? If not, correct",
        ),
        ("zzzz", "fabric_policy.zzzz: is not known; known keys: "),
    ],
)
def test_the_nearest_key_of_a_policy_replaces_the_list_of_all(folder, key, says):
    write(folder, {"group_vars/all/policy.yml": f"fabric_policy: {{{key}: 20}}\n"})
    (problem,) = problems_of(folder)
    assert says in problem.text()


def test_a_text_beside_the_inventory_is_not_read(folder):
    text = """\
        The ports are in [the list
        ([all ports](../ports.md)).
        gpu1 ansible_host=192.168.7.7
        [gpu_nodes]
        gpu2 ansible_host=192.168.7.8
        """
    write(folder, {"README.md": text, "old.bak": text})
    assert problems_of(folder) == []


def test_a_range_that_is_not_closed_is_a_problem(folder):
    for name in ("hosts.ini", "notes"):
        write(folder, {name: "[gpu_nodes]\n([gpu1 ansible_host=192.168.1.1\n"})
        assert "unbalanced brackets" in problems_of(folder)[0].message
        (folder / name).unlink()
    assert yaml_errors.range_of("([gpu1") == frozenset()


def test_an_ini_inventory_is_read_too(folder):
    (folder / "hosts.yml").unlink()
    write(folder, {"hosts.ini": "[gpu_nodes]\ngpu1 ansible_host=192.168.1.1\ngpu2 node_index=-4\n"})
    (problem,) = problems_of(folder)
    assert problem.file == "site/hosts.ini:3"
    assert problem.host == "gpu2"


def test_goldens_and_topologies_beside_the_hosts_are_no_inventory(folder):
    write(
        folder,
        {
            "expected/plan.json": '{"nodes": {"hosts": {"x": {}}}}',
            "topology.yml": "gpu_nodes: {hosts: {y: {}}}",
        },
    )
    assert [one.name for one in load.load([str(folder)]).nodes] == ["gpu2", "gpu1"]


def test_what_only_ansible_can_tell_stays_unknown(folder):
    write(
        folder,
        {
            "group_vars/all/connection.yml": "dns: example.org\n",
            "host_vars/gpu1.yml": 'ansible_host: "{{ dns }}"\n',
        },
    )
    loaded = load.load([str(folder)])
    assert load.validate(loaded) == []
    assert plan.build_plan(loaded)["nodes"]["gpu1"]["ansible_host"] is None


ALL, HOST = "group_vars/all/fabric.yml", "host_vars/gpu1.yml"


@pytest.mark.parametrize(
    ("name", "text", "line", "host", "rail"),
    [
        (HOST, "---\nnode_index: -1\n", 2, "gpu1", None),
        ("host_vars/gpu2/b.yml", "rail_overrides:\n  rail0:\n    mtu: 1500\n", 3, "gpu2", "rail0"),
    ],
    ids=["host-vars", "host-vars-folder"],
)
def test_a_problem_names_its_file_and_line(folder, name, text, line, host, rail):
    write(folder, {"host_vars/gpu2/a.yml": "x: 1\n", name: text})
    (problem,) = problems_of(folder)
    assert (problem.file, problem.host, problem.rail) == (f"site/{name}:{line}", host, rail)


def test_what_is_nowhere_is_named_by_its_variable(folder):
    write(folder, {ALL: "x: 1\n"})
    (problem,) = problems_of(folder)
    assert (problem.file, problem.host, problem.rail) == ("fabric", "gpu[1-2]", None)


def test_every_unreadable_file_is_named(folder):
    write(folder, {HOST: "a: b: c\n", "host_vars/gpu2.yml": "[\n"})
    assert [one.file for one in problems_of(folder)] == [f"site/{HOST}:1", "site/host_vars/gpu2.yml:2"]


DUPLICATE = "YAML parsing failed: Found duplicate mapping key "


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("b:\n  - {c: 1}\n  - c: 1\n    c: 3\na: 4\n", (4, f"{DUPLICATE}'c'")),
        ("a: 1\nb: 2\na: 3\n", (3, f"{DUPLICATE}'a'")),
        ("one: &one {a: 1}\ntwo: {<<: *one, b: 2}\nthree: [{a: 1}, {a: 2}]\n", None),
        # YAML would let the mapping's own key win; Ansible takes no key twice.
        ("one: &o {a: 1}\ntwo: {<<: *o, a: 2}\n", (2, f"{DUPLICATE}'a'")),
        ("o: &o {a: 1}\nt:\n  <<: [*o]\n  a: 2\n", (4, f"{DUPLICATE}'a'")),
        ("a: &a [*a]\n", (1, "an alias is inside the value that it names")),
        ("a: [1, !x 2]\n", (1, "YAML parsing failed: Could not determine a constructor for the tag '!x'")),
        ("", None),
    ],
)
def test_what_ansible_refuses_has_its_line_and_its_words(tmp_path, text, wrong):
    (tmp_path / "vars.yml").write_text(text)
    assert yaml_errors.syntax_error(str(tmp_path / "vars.yml")) == wrong


def test_a_missing_inventory_is_reported(tmp_path):
    (problem,) = problems_of(tmp_path / "nowhere")
    assert problem.file.endswith("nowhere")
    assert "no such inventory" in problem.message


def test_without_nodes_there_is_a_problem(folder):
    write(folder, {"hosts.yml": "gpu_nodes: {hosts: {}}\nx: {hosts: {a: {}}}\n"})
    (problem,) = problems_of(folder)
    assert "no host" in problem.message
    assert "gpu_nodes" in problem.message


@pytest.mark.parametrize(
    ("name", "text", "line", "host"),
    [
        (
            "hosts.yml",
            "gpu_nodes:\n  children:\n    a:\n      hosts:\n        log[a:c]in:\n",
            5,
            "logain,logbin,logcin",
        ),
        ("more.ini", "[gpu_nodes]\n# x\ngpu1\nlogin ansible_host=::1\n", 4, "login"),
    ],
    ids=["range-in-a-child", "ini"],
)
def test_what_a_node_lacks_is_reported_where_the_node_is_listed(folder, name, text, line, host):
    write(folder, {"hosts.yml": "all:\n", name: text})
    (problem,) = problems_of(folder)
    assert (problem.file, problem.host) == (f"site/{name}:{line}", host)
    assert problem.message.startswith("node_index: the host's name ends in no number")


CONNECTION = "group_vars/all/connection.yml"


@pytest.mark.parametrize(
    ("name", "text", "line", "variable"),
    [
        ("hosts.yml", HOSTS + "      bmc_password: hunter2\n", 7, "bmc_password"),
        ("more.ini", "[switches]\nleaf[1:4] ansible_become_pass=hunter2\n", 2, "ansible_become_pass"),
        (CONNECTION, "snmp:\n  - community: a\n    auth_passphrase: hunter2\n", 3, "snmp[0].auth_passphrase"),
        (CONNECTION, "bmc_password: 123456\n", 1, "bmc_password"),
        (CONNECTION, "munge:\n  secrets: [hunter2]\n", 2, "munge.secrets[0]"),
    ],
)
def test_a_readable_password_is_named_but_never_shown(folder, name, text, line, variable):
    write(folder, {name: text})
    (problem,) = problems_of(folder)
    assert problem.file == f"site/{name}:{line}"
    assert problem.message.startswith(f"{variable}: ")
    assert "hunter2" not in problem.text()
    assert "123456" not in problem.text()


@pytest.mark.parametrize(
    "text",
    [
        "ansible_password: \"{{ lookup('env', 'P') }}\"\n",
        "ansible_password:\nbmc_password: ''\n",
        "password_file: /run/x\nansible_ssh_private_key_file: k\n",
        "ansible_password: " + inline_vault("hunter2", 2),
        vault("ansible_password: hunter2\n"),
        "ask_for_password: true\n",
        "password_min_length: 12\n",
    ],
    ids=["expression", "empty", "file-names", "encrypted-value", "encrypted-file", "a-switch", "a-length"],
)
def test_what_is_no_readable_password_is_left_alone(folder, text):
    write(folder, {CONNECTION: text})
    assert problems_of(folder) == []


def test_an_encrypted_value_inside_the_fabric_is_refused_unopened(folder):
    write(
        folder,
        {"group_vars/all/fabric.yml": FABRIC.replace("netdev: ens6", "netdev: " + inline_vault("ens6", 8))},
    )
    (problem,) = problems_of(folder)
    assert (problem.file, problem.rail) == ("site/group_vars/all/fabric.yml:6", "rail0")
    assert "encrypted" in problem.message


def test_a_program_as_inventory_may_know_passwords(folder, monkeypatch):
    monkeypatch.setenv(trust.VARIABLE, ",".join(trust.ALL))
    script = folder / "dynamic"
    script.write_text(
        '#!/bin/sh\necho \'{"gpu_nodes": {"hosts": ["gpu3"]}, '
        '"_meta": {"hostvars": {"gpu3": {"ansible_password": "hunter2"}}}}\'\n'
    )
    script.chmod(0o755)
    loaded = load.load([str(folder)])
    assert load.validate(loaded) == []
    assert {one.name for one in loaded.nodes} == {"gpu1", "gpu2", "gpu3"}


def test_only_declared_gpus_are_in_the_plan(folder):
    write(folder, {"host_vars/gpu1.yml": "expected_gpus: {count: 8, model: H100}\n"})
    nodes = plan.build_plan(load.load([str(folder)]))["nodes"]
    assert nodes["gpu1"]["gpus"] == {"count": 8, "model": "H100"}
    assert "gpus" not in nodes["gpu2"]


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("gpu2,gpu3", "--limit: gpu3 matches no node and no group. Fix: did you mean gpu2? If not, remove"),
        # A node that was to be left out would be changed.
        ("all:!gpu9", "--limit: gpu9 matches no node and no group"),
        ("gpu_nodes:&rack7", "--limit: rack7 matches no node and no group. Fix: remove it from --limit"),
        ("gpu1,gpu3*", "--limit: gpu3* matches no node and no group"),
        ("@wrong", "--limit: gpu3 matches no node and no group"),
        *((good, None) for good in ("gpu2", "all", "g*", "~gpu[12]", "gpu_nodes[0]", "gpu1,localhost,")),
        ("@good", None),
    ],
)  # fmt: skip
def test_a_limit_with_an_unknown_name_is_a_problem(folder, limit, said):
    write(folder.parent, {"wrong": "gpu1\ngpu3\n", "good": "gpu1\n\n"})
    problems = [problem.text() for problem in problems_of(folder, limit)]
    assert (problems == []) if said is None else problems[0].startswith(said)
