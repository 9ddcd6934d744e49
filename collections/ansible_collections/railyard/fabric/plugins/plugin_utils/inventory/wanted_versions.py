# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the versions that an inventory requests with the minimum versions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import minimum_versions
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.minimum_versions import Comparison


def compare_variable(name: str, value: Any) -> list[Comparison]:
    """Compare the versions in a role's variable; most variables have none.

    Args:
        name: of the variable.
        value: rendered, of the type that the role declares.
    """
    if name == "nvidia_driver_cuda" and value is not None:
        return [minimum_versions.compare("cuda", str(value))]
    if name == "nvidia_driver_pins" and isinstance(value, Mapping):
        return minimum_versions.compare_packages(value)
    if name == "rdma_stack_firmware_wanted" and isinstance(value, Mapping):
        return [minimum_versions.compare("connectx_firmware", str(one)) for one in value.values()]
    if name == "rdma_stack_firmware_images" and isinstance(value, Mapping):
        versions = [one.get("version") for one in value.values() if isinstance(one, Mapping)]
        return [minimum_versions.compare("connectx_firmware", str(one)) for one in versions if one]
    return []
