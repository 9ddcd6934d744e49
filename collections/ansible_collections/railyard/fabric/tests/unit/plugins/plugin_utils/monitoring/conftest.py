# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An inventory with a monitoring host, in which each test changes what it is about."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory

FABRIC = {
    "transport": "tcp",
    "mtu": 9000,
    "rails": [{"name": "rail0", "netdev": "ens6", "subnet": "10.0.0.0/16"}],
}
HOSTS: dict[str, Any] = {
    "gpu_nodes": {
        "hosts": {
            "gpu1": {"ansible_host": "192.0.2.1", "scalable_unit": "su1"},
            "gpu2": {"ansible_host": "192.0.2.2"},
        },
        "vars": {"node_metrics_state": "present"},
    },
    "monitoring": {"hosts": {"monitor1": {"ansible_host": "192.0.2.9"}}},
}
MONITORING: dict[str, Any] = {"monitoring_state": "present"}

Make = Callable[..., Inventory]


@pytest.fixture
def inventory(tmp_path: Path) -> Make:
    """Write and load an inventory.

    Its arguments: variables of group monitoring, by name; `gpu1`, `gpu2`, `monitor1`: more of that host;
    `nodes`: more of group gpu_nodes; `everyone`: of group all; `without_monitors`.
    """

    def make(
        *,
        nodes: dict[str, Any] | None = None,
        everyone: dict[str, Any] | None = None,
        without_monitors: bool = False,
        **variables: Any,
    ) -> Inventory:
        hosts = copy.deepcopy(HOSTS)
        for group, name in (("gpu_nodes", "gpu1"), ("gpu_nodes", "gpu2"), ("monitoring", "monitor1")):
            hosts[group]["hosts"][name].update(variables.pop(name, {}))
        hosts["gpu_nodes"]["vars"].update(nodes or {})
        if without_monitors:
            del hosts["monitoring"]
        folder = tmp_path / "big"
        (folder / "group_vars").mkdir(parents=True)
        (folder / "hosts.yml").write_text(yaml.safe_dump(hosts, sort_keys=False))
        of_all = {"fabric": FABRIC, **(everyone or {})}
        (folder / "group_vars" / "all.yml").write_text(yaml.safe_dump(of_all, sort_keys=False))
        if not without_monitors:
            of_group = yaml.safe_dump({**MONITORING, **variables}, sort_keys=False)
            (folder / "group_vars" / "monitoring.yml").write_text(of_group)
        return load.load([str(folder)])

    return make
