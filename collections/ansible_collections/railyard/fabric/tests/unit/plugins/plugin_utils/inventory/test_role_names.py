# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of variables that look like a role's: what is refused, what was meant, what is left alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load, role_names

ROLES = Path(__file__).parents[9] / "roles"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("rail_network_takeover", "rail_network_take_over"),
        ("rail_network_rollback_after", "rail_network_rollback_after_s"),
        ("roce_qos_dcsp", "roce_qos_dscp"),
        ("Node_Tuning_Profile", "node_tuning_profile"),
        ("rdma-stack-provider", "rdma_stack_provider"),
        # Of the prefix itself a letter is wrong.
        ("node_tunning_profile", "node_tuning_profile"),
        ("nvidia_drivers_branch", "nvidia_driver_branch"),
        ("rdmastack_provider", "rdma_stack_provider"),
        # Of a playbook.
        ("railyard_network_bacth", "railyard_network_batch"),
        ("railyard_alow_reboot", "railyard_allow_reboot"),
        # Nothing is near: no word of what was meant.
        ("roce_qos_x", None),
        # Of NVIDIA's own role nvidia.nvidia_driver, which has variables with the same prefix.
        ("nvidia_driver_skip_reboot", None),
    ],
)
def test_a_name_that_no_role_reads_is_named_with_what_was_meant(name, meant):
    [finding] = role_names.check("gpu1", {name, "site_contact"})
    assert (finding.variable, finding.host, finding.meant) == (name, "gpu1", meant)
    assert (f"did you mean {meant}?" in finding.fix) == (meant is not None)
    assert ("playbook" if name.startswith("railyard") else "README.md") in finding.fix


def test_every_variable_of_every_role_is_known():
    specs = [yaml.safe_load(path.read_text()) for path in ROLES.glob("*/meta/argument_specs.yml")]
    entries = [entry for one in specs for entry in one["argument_specs"].values()]
    names = {name for entry in entries for name in entry["options"]}
    assert {"rail_network_take_over", "quick_check_state"} <= names
    assert not list(role_names.check("gpu1", names))


def test_every_variable_that_a_playbook_has_a_default_for_is_known():
    texts = [path.read_text() for path in (ROLES.parent / "playbooks").rglob("*.yml")]
    names = set(re.findall(r"\b(railyard_[a-z_]+) *\| *default", "\n".join(texts)))
    assert "railyard_network_batch" in names
    assert names <= set(role_names.PLAYBOOKS)
    assert not list(role_names.check("gpu1", role_names.PLAYBOOKS))


@pytest.mark.parametrize(
    "name",
    [
        "fabric",
        "ansible_user",
        "network_rails",
        "driver",
        "rail",
        "rail_network",
        "tuning_profile",
        "qos_dscp",
    ],
)
def test_other_names_are_left_alone(name):
    assert not list(role_names.check("gpu1", [name]))


def test_a_site_names_what_its_own_roles_read():
    own = ["nvidia_driver_skip_reboot", "apt_packages_extra"]
    names = [*own, "nvidia_driver_skip_boot", role_names.OWN]
    assert [one.variable for one in role_names.check("gpu1", names, own)] == ["nvidia_driver_skip_boot"]
    # A text is no list: `a in "abc"` would let parts of names through.
    assert len(list(role_names.check("gpu1", own, ",".join(own)))) == 2


def test_the_line_and_the_nodes_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {
        "site/hosts.yml": "gpu_nodes:\n  hosts:\n    gpu1:\n      node_tunning_profile: none\n"
        "    gpu2:\n    gpu3:\n",
        "site/group_vars/all/fabric.yml": "fabric:\n  transport: tcp\n  mtu: 9000\n  rails:\n"
        "    - {name: rail0, netdev: ens6, subnet: 10.0.1.0/24}\n",
        "site/group_vars/all/network.yml": "---\nrail_network_takeover: true\napt_packages_extra: []\n"
        "railyard_own_variables: [apt_packages_extra]\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    texts = [one.text() for one in load.validate(load.load([str(tmp_path / "site")]))]
    assert len(texts) == 2, texts
    assert any(
        one.startswith(
            "site/group_vars/all/network.yml:2, host gpu[1-3]: rail_network_takeover: role rail_network "
            "has no variable of this name. Fix: did you mean rail_network_take_over?"
        )
        for one in texts
    ), texts
    assert any(one.startswith("site/hosts.yml:4, host gpu1: node_tunning_profile: ") for one in texts), texts
