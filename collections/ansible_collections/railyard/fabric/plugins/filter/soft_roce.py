# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Soft-RoCE devices a node's planned rails ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.railyard.fabric.plugins.module_utils.rdma import soft_roce


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
        return {"soft_roce_devices": soft_roce_devices}
