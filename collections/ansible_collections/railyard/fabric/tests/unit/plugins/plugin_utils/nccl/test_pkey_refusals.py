# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The P_Key that NCCL is to use, beside the partitions that the inventory declares."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.port_tables import refuse_pkey

TENANTS = {
    0x7FFF: {"members": "all", "membership": "limited"},
    1: {"members": ["gpu1", "gpu2"]},
    2: {"members": {"gpu3": "both", "gpu1": "limited"}},
}


@pytest.mark.parametrize(
    ("partitions", "node", "pkey"),
    [
        (None, "gpu1", "0x8001"),
        ({}, "gpu1", ""),
        (TENANTS, "gpu1", "0x8001"),
        (TENANTS, "gpu2", "0x0001"),
        (TENANTS, "gpu3", "0x2"),
        ({0x7FFF: {"members": "all"}}, "gpu1", ""),
        # What the default partition is, is unknown where it is not declared.
        ({1: {"members": ["gpu1"]}}, "gpu1", ""),
        # Malformed: the role says so elsewhere.
        (TENANTS, "gpu1", "8001"),
    ],
)
def test_what_may_be_used(partitions, node, pkey):
    assert refuse_pkey(partitions, node, pkey) == []


@pytest.mark.parametrize(
    ("node", "pkey", "parts"),
    [
        ("gpu1", "", ("it is empty", "0x7fff", "gpu1 is no full member", "is one: 0x0001")),
        ("gpu1", "0x8002", ("0x8002", "gpu1 is no full member", "is one: 0x0001")),
        ("gpu3", "0x0001", ("0x0001", "gpu3 is no full member", "is one: 0x0002")),
        ("gpu9", "0x8001", ("gpu9 is no full member", "is one: none")),
        ("gpu1", "0x8005", ("0x8005 is none of fabric.partitions", "is one: 0x0001")),
    ],
)
def test_what_may_not_be_used_is_named(node, pkey, parts):
    [reason] = refuse_pkey(TENANTS, node, pkey)
    assert reason.startswith("nccl_profile_pkey: ")
    assert all(part in reason for part in parts), reason
