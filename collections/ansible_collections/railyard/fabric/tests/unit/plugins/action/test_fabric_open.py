# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a run begins, and which earlier ones can be gone back to."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.railyard.fabric.plugins.action import fabric_open
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory, Node
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder

ROCE = {"transport": "roce", "node_class": "hardware", "cabling": "switched"}


@pytest.mark.parametrize(
    ("qos", "policy", "traffic_class", "warned"),
    [
        ({}, {}, 106, False),
        ({"roce_qos_dscp": "{{ site_dscp }}"}, {}, None, True),
        ({"roce_qos_dscp": "{{ site_dscp }}"}, {"rdma_traffic_class": 98}, 98, False),
    ],
)
def test_a_run_in_the_default_class_begins_with_a_warning(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, qos: Any, policy: Any, traffic_class: Any, warned: bool
) -> None:
    said: list[str] = []
    monkeypatch.setattr(fabric_open.plan, "build_plan", lambda _inventory: {"nodes": {}})
    monkeypatch.setattr(fabric_open.display, "warning", said.append)
    node = Node("gpu1", ROCE, 1, None, None, None, (), qos=qos)
    inventory = Inventory("lab", [], [node], frozenset(["gpu1"]), policy=policy)
    folder = fabric_open._new(str(tmp_path), None, inventory)
    assert folder.manifest()["policy"]["rdma_traffic_class"] == traffic_class
    assert bool(said) is warned
    assert all("gpu1: roce_qos_dscp" in one and "rdma_traffic_class" in one for one in said)


def test_a_run_made_of_files_cannot_be_resumed(tmp_path: Any) -> None:
    folder = run_folder.create(tmp_path, "lab", None, {"policy": {}})
    assert fabric_open._existing(str(tmp_path), "lab", folder.name).path == folder.path
    folder.update_manifest(imported=[])
    with pytest.raises(AnsibleActionFail, match="was made of files by `railyard parse run`"):
        fabric_open._existing(str(tmp_path), "lab", folder.name)
