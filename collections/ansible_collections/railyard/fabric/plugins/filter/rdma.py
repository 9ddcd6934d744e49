# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA of a node's rails: RoCE v1 alone, which NCCL does not choose; Soft-RoCE; subnet managers, partitions.

A subnet manager serves one port per rail, since each rail is a fabric of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.railyard.fabric.plugins.module_utils.facts import gid
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.module_utils.rdma import opensm_partitions, soft_roce
from ansible_collections.railyard.fabric.plugins.module_utils.records.guid import normalize_guid
from ansible_collections.railyard.fabric.plugins.module_utils.rules import rdma


def roce_v1_rails(rails: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> list[str]:
    """Return the names of the rails whose address is a RoCE v1 GID alone; see roce_v1_rails.yml."""
    return [
        name
        for name, bound in bind.bind(rails, facts).items()
        if (found := rdma.choice(bound)) is not None and found.type == gid.ROCE_V1
    ]


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
                problems.append(f"rail {name}: port {port['hca']} reports no GID 0, so its GUID is not known")
            else:
                guids.append(guid)
    if problems:
        raise AnsibleFilterError(
            f"subnet_manager_ports: {'; '.join(problems)}. A subnet manager needs InfiniBand ports. Fix: "
            "load the driver and check which ports the rails name, or name the ports in "
            "rdma_stack_subnet_manager_ports"
        )
    return guids


def port_guids(rails: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> dict[str, str]:
    """Return rail -> GUID of its port, for the rails that have one; see port_guids.yml."""
    found = {rail: normalize_guid(guid) for rail, guid in bind.port_guids(rails, facts).items()}
    return {rail: guid for rail, guid in found.items() if guid is not None}


def partition_refusals(partitions: object) -> list[str]:
    """Return what opensm could not be given of these partitions; see partition_refusals.yml."""
    return opensm_partitions.refuse(partitions)


def _guid(port: Mapping[str, Any]) -> str | None:
    """GID 0 of an InfiniBand port is its subnet's prefix and its GUID."""
    for row in port.get("gids") or []:
        groups = str(row.get("gid")).split(":")
        if row.get("index") == 0 and len(groups) == 8:
            return "0x" + "".join(groups[4:])
    return None


def soft_roce_devices(rails: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return one device per rail; see soft_roce_devices.yml.

    Raises:
        AnsibleFilterError: a rail cannot have one; all such rails are named, each with the fix.
    """
    devices: list[dict[str, str]] = []
    problems = []
    for rail in rails:
        name, netdev = rail.get("name"), rail.get("netdev")
        device, _colon, port = str(rail.get("hca") or f"rxe_{netdev}:1").partition(":")
        if not netdev:
            problems.append(f"rail {name} names no netdev: give it one, or set rdma_stack_soft_roce_devices")
        elif port not in ("", "1"):
            problems.append(f"rail {name}: hca {rail['hca']}: a Soft-RoCE device has one port: {device}:1")
        else:
            devices.append({"device": device, "netdev": str(netdev)})
    try:
        soft_roce.check_devices(devices)
    except soft_roce.SoftRoceError as error:
        problems.append(str(error))
    if problems:
        raise AnsibleFilterError(f"soft_roce_devices: {'; '.join(problems)}")
    return devices


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "roce_v1_rails": roce_v1_rails,
            "partition_refusals": partition_refusals,
            "port_guids": port_guids,
            "soft_roce_devices": soft_roce_devices,
            "subnet_manager_ports": subnet_manager_ports,
        }
