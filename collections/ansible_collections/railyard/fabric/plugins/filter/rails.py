# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filters through which roles see a node's rails and its other networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.railyard.fabric.plugins.module_utils.documents import Rail
from ansible_collections.railyard.fabric.plugins.module_utils.rails import networks, plan


def node_rails(
    fabric: Mapping[str, Any],
    name: str,
    node_index: int | None = None,
    scalable_unit: int | str | None = None,
    rail_overrides: Mapping[str, Any] | None = None,
) -> list[Rail]:
    """Return the rails of node `name` as `rails.plan_node` plans them; see node_rails.yml.

    Raises:
        AnsibleFilterError: the fabric gives this node no plan; the message names variable, rail and fix.
    """
    if not isinstance(fabric, Mapping):
        raise AnsibleFilterError("node_rails: fabric is not a dictionary. Fix: see group_vars/all/fabric.yml")
    try:
        return plan.plan_node(fabric, name, node_index, scalable_unit, rail_overrides)
    except (plan.PlanError, ValueError) as error:
        raise AnsibleFilterError(f"node_rails: host {name}: {error}") from error


def node_networks(
    fabric: Mapping[str, Any],
    name: str,
    node_index: int | None = None,
    network_addresses: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Return what node `name` has on the networks beside its rails; see node_networks.yml.

    Raises:
        AnsibleFilterError: the fabric gives this node no address there; the message names variable and fix.
    """
    if not isinstance(fabric, Mapping):
        message = "node_networks: fabric is not a dictionary. Fix: see group_vars/all/fabric.yml"
        raise AnsibleFilterError(message)
    try:
        return networks.plan_networks(fabric, name, node_index, network_addresses)
    except (plan.PlanError, ValueError) as error:
        raise AnsibleFilterError(f"node_networks: host {name}: {error}") from error


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"node_rails": node_rails, "node_networks": node_networks}
