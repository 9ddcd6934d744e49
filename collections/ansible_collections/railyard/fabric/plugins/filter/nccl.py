# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What role nccl_profile asks: the catalogue of NCCL's variables, the ports' tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.module_utils.rules import rdma
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import port_tables, site


def nccl_hcas(rails: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> list[str]:
    """Return the rails' HCA ports, as the node calls them, none where one is not known; see nccl_hcas.yml."""
    names = list(bind.port_names(rails, facts).values())
    return [] if None in names else [str(name) for name in names]


def nccl_hcas_unknown(rails: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> list[str]:
    """Return why rails have no HCA port whose name is known; see nccl_hcas_unknown.yml."""
    names, bound = bind.port_names(rails, facts), bind.bind(rails, facts)
    return [
        f"{name}: {rdma.why_none(one.rail, one, bind.ports(facts))}"
        for name, one in bound.items()
        if names[name] is None
    ]


def nccl_gid_index(rails: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> int | str:
    """Return the one index of the rails' GIDs, empty where none is known; see nccl_gid_index.yml."""
    indices = {
        name: choice.index if (choice := rdma.choice(bound)) else None
        for name, bound in bind.bind(rails, facts).items()
    }
    try:
        index = port_tables.gid_index(indices)
    except port_tables.UnlikePortsError as error:
        raise AnsibleFilterError(str(error)) from error
    return "" if index is None else index


def nccl_pkey_index(rails: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], pkey: str) -> int:
    """Return the one index of a P_Key; see nccl_pkey_index.yml."""
    tables = {
        name: (bound.hca or {}).get("pkey_indices") or {} for name, bound in bind.bind(rails, facts).items()
    }
    try:
        return port_tables.pkey_index(tables, pkey)
    except port_tables.UnlikePortsError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "nccl_refused": site.refused,
            "nccl_reasons": site.reasons,
            "nccl_hcas": nccl_hcas,
            "nccl_hcas_unknown": nccl_hcas_unknown,
            "nccl_gid_index": nccl_gid_index,
            "nccl_pkey_index": nccl_pkey_index,
            "nccl_pkey_refusals": port_tables.refuse_pkey,
        }
