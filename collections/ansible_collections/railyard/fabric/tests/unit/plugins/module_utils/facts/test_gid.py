# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GID of a rail: RoCE v2 with its address, v1 only for want of v2, never a guess."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts.gid import Choice, choose

LINK_LOCAL = "fe80:0000:0000:0000:0000:00ff:fe00:0101"
MAPPED = "0000:0000:0000:0000:0000:ffff:0a00:0101"


def gid(index: int, kind: str | None, address: str | None, netdev: str | None = "ens6") -> dict[str, Any]:
    return {"index": index, "gid": MAPPED, "type": kind, "netdev": netdev, "address": address}


V1 = gid(0, "RoCE v1", "10.0.1.1")
V2 = gid(3, "RoCE v2", "10.0.1.1")


def test_v2_is_taken_though_v1_is_before_it():
    assert choose([V1, V2], "10.0.1.1", "ens6") == Choice(3, "RoCE v2", MAPPED)


def test_v1_only_when_there_is_no_v2_of_that_address():
    others = gid(5, "RoCE v2", "fe80::ff:fe00:101")
    assert choose([V1, others], "10.0.1.1", "ens6") == Choice(0, "RoCE v1", MAPPED)


def test_the_lowest_index_of_equals_whatever_their_order():
    assert choose([gid(9, "RoCE v2", "10.0.1.1"), V2], "10.0.1.1") == Choice(3, "RoCE v2", MAPPED)


@pytest.mark.parametrize(
    "gids",
    [
        [],
        [gid(0, "RoCE v2", "fe80::ff:fe00:101")],
        [gid(0, "RoCE v2", "10.0.1.10")],  # an address of which the rail's is a prefix
        [gid(0, "IB", None)],
        [gid(0, None, "10.0.1.1")],  # the entry vanished between its GID and its type
        [gid(0, "RoCE v2", "not an address")],
    ],
)
def test_no_gid_of_the_address_is_none(gids):
    assert choose(gids, "10.0.1.1", "ens6") is None


def test_a_vlan_with_the_same_address_is_another_netdev():
    vlan = gid(1, "RoCE v2", "10.0.1.1", "ens6.100")
    assert choose([vlan, V2], "10.0.1.1", "ens6") == Choice(3, "RoCE v2", MAPPED)
    assert choose([vlan], "10.0.1.1", "ens6") is None
    assert choose([vlan], "10.0.1.1", "ens6.100") == Choice(1, "RoCE v2", MAPPED)


def test_a_netdev_that_either_side_does_not_know_does_not_exclude():
    assert choose([gid(1, "RoCE v2", "10.0.1.1", None)], "10.0.1.1", "ens6") == Choice(1, "RoCE v2", MAPPED)
    assert choose([V2], "10.0.1.1") == Choice(3, "RoCE v2", MAPPED)


def test_ipv6_is_compared_as_an_address_not_as_text():
    long = gid(4, "RoCE v2", "fd00:0:0:1::1")
    assert choose([long], "FD00:0000:0000:0001:0000:0000:0000:0001", "ens6") == Choice(4, "RoCE v2", MAPPED)


def test_a_rail_without_address_has_no_gid():
    assert choose([V2], "") is None
