# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rails of a node speak RoCE v1 alone, which NCCL does not choose by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.facts import gid
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.module_utils.rules import rdma


def roce_v1_rails(rails: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> list[str]:
    """Return the names of the rails whose address is a RoCE v1 GID alone; see roce_v1_rails.yml."""
    return [
        name
        for name, bound in bind.bind(rails, facts).items()
        if (found := rdma.choice(bound)) is not None and found.type == gid.ROCE_V1
    ]


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"roce_v1_rails": roce_v1_rails}
