# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ports of a node a subnet manager serves: one per rail, since each rail is a fabric of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.module_utils.rules import rdma


def subnet_manager_ports(rails: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> list[str]:
    """Return the port GUIDs of the rails; see subnet_manager_ports.yml.

    Raises:
        AnsibleFilterError: a rail has no InfiniBand port on this node; all such rails are named.
    """
    guids: list[str] = []
    problems = []
    for name, bound in bind.bind(rails, facts).items():
        port = bound.hca
        if port is None:
            why = rdma.why_none(bound.rail, bound, bind.ports(facts))
            problems.append(f"rail {name} has no RDMA port on this node: {why}")
        elif port.get("link_layer") != "InfiniBand":
            problems.append(f"rail {name}: port {port['hca']} has link layer {port.get('link_layer')}")
        else:
            guid = _guid(port)
            if guid is None:
                problems.append(f"rail {name}: port {port['hca']} tells no GID 0, so no GUID")
            else:
                guids.append(guid)
    if problems:
        raise AnsibleFilterError(
            f"subnet_manager_ports: {'; '.join(problems)}. A subnet manager needs InfiniBand ports. Fix: "
            "load the driver and check which ports the rails name, or name the ports in "
            "rdma_stack_subnet_manager_ports"
        )
    return guids


def _guid(port: Mapping[str, Any]) -> str | None:
    """GID 0 of an InfiniBand port is its subnet's prefix and its GUID."""
    for row in port.get("gids") or []:
        groups = str(row.get("gid")).split(":")
        if row.get("index") == 0 and len(groups) == 8:
            return "0x" + "".join(groups[4:])
    return None


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"subnet_manager_ports": subnet_manager_ports}
