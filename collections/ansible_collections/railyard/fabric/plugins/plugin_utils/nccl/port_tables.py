# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Indices into tables of the rails' ports: NCCL takes one for all ports, so that they have to be alike."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ansible_collections.railyard.fabric.plugins.module_utils.records.partitions import (
    BOTH,
    DEFAULT_PKEY,
    FULL,
    parse_partitions,
    show_pkey,
)

# A P_Key without its top bit, which says whether the port is a full member.
_PARTITION, _FULL = 0x7FFF, 0x8000


class UnlikePortsError(Exception):
    """No index is right on all ports."""


def gid_index(indices: Mapping[str, int | None]) -> int | None:
    """Return the index of the GIDs of the rails' addresses, None where none is known.

    Args:
        indices: rail -> index of its address's GID, None where it is not known.

    Raises:
        UnlikePortsError: it differs from rail to rail, or is known of some alone.
    """
    different = set(indices.values())
    if len(different) > 1:
        told = ", ".join(f"{rail} {'none' if index is None else index}" for rail, index in indices.items())
        raise UnlikePortsError(
            f"the GIDs of the rails' addresses have the indices {told}, and NCCL before 2.21 takes one for "
            "all: update NCCL, which then finds them itself"
        )
    return next(iter(different), None)


def pkey_index(tables: Mapping[str, Mapping[str, int]], pkey: str) -> int:
    """Return the index of a P_Key in the tables of the rails' ports.

    Args:
        tables: rail -> P_Key of its port -> index.
        pkey: as `0x8001` or `0x0001`, which is the same partition.

    Raises:
        UnlikePortsError: a port is no full member, or has it at another index than others.
    """
    wanted = int(pkey, 16) & _PARTITION | _FULL
    found: dict[str, int] = {}
    for rail, table in tables.items():
        index = next((at for key, at in table.items() if int(key, 16) == wanted), None)
        if index is None:
            raise UnlikePortsError(
                f"{rail} is no full member of the partition {wanted:#06x} (its P_Keys: "
                f"{', '.join(table) or 'none'}): the subnet manager hands them out"
            )
        found[rail] = index
    if len(set(found.values())) != 1:
        told = ", ".join(f"{rail} {index}" for rail, index in found.items()) or "none"
        raise UnlikePortsError(f"{wanted:#06x} has the indices {told}, and NCCL takes one for all ports")
    return next(iter(found.values()))


def refuse_pkey(partitions: object, node: str, pkey: str) -> list[str]:
    """Return why NCCL cannot use a P_Key, by the inventory, before the node is checked.

    Args:
        partitions: `fabric.partitions`; where it declares nothing, nothing is refused.
        node: the node's name.
        pkey: as `0x8001` or `0x0001`; empty for the first of a port's table, the default partition.
    """
    found, _problems = parse_partitions(partitions)
    if not found or not re.fullmatch(r"(0x[0-9a-fA-F]{1,4})?", pkey):
        return []
    wanted = int(pkey, 16) & _PARTITION if pkey else DEFAULT_PKEY
    of_node = [key for key, one in found.items() if one.membership_of(node) in (FULL, BOTH)]
    if wanted in of_node or (not pkey and wanted not in found):
        return []
    full = ", ".join(map(show_pkey, of_node)) or "none"
    which = f"{pkey} is" if pkey else f"it is empty, so NCCL uses the default partition {show_pkey(wanted)},"
    what = (
        "none of fabric.partitions"
        if wanted not in found
        else f"a partition of which {node} is no full member"
    )
    return [f"nccl_profile_pkey: {which} {what}. Those of which it is one: {full}"]
