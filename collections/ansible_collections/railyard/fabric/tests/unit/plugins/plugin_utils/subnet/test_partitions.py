# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Partitions: P_Key tables against the inventory."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.records.partitions import Partition
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import judge
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Judgement
from support.fake_subnets import Net, describe

DEFAULT = Partition(0x7FFF, None, {"all": "limited", "gpu001": "full"})
COMPUTE = Partition(0x1, "compute", {"all": "full"})
STORAGE = Partition(0x2, "storage", {"gpu001": "full", "gpu002": "limited"})
DECLARED = {0x7FFF: DEFAULT, 0x1: COMPUTE, 0x2: STORAGE}


def make_tables() -> tuple[Net, dict[PortKey, tuple[int, ...]]]:
    """Return a subnet with the tables of P_Keys as declared, and these tables."""
    net, pkeys = Net(), {}
    for node in range(net.units * net.nodes_each):
        own = {0: (0xFFFF, 0x8001, 0x8002), 1: (0x7FFF, 0x8001, 0x0002)}.get(node, (0x7FFF, 0x8001))
        pkeys |= {net.adapter_key(node, rail): own for rail in range(net.rails)}
    net.pkeys = pkeys
    return net, pkeys


def judge_tables(net: Net, declared: dict[int, Partition] | None = None) -> Judgement:
    return judge(net.reading(), net.expected(partitions=declared if declared is not None else DECLARED))


def test_tables_as_declared_are_healthy() -> None:
    net, _pkeys = make_tables()
    assert judge_tables(net).findings == ()


@pytest.mark.parametrize(
    ("node", "table", "cause", "pkey", "severity"),
    [
        (4, (0x7FFF, 0x0001), "pkey_limited", "0x0001", "fail"),
        (4, (0x7FFF,), "pkey_missing", "0x0001", "fail"),
        (4, (0xFFFF, 0x8001), "pkey_full", "0x7fff", "fail"),
        (4, (0x7FFF, 0x8001, 0x0002), "pkey_extra", "0x0002", "fail"),  # a declared one, of others
        (4, (0x7FFF, 0x8001, 0x8009), "pkey_extra", "0x0009", "warn"),  # one that is not declared
        (1, (0x7FFF, 0x8001, 0x8002), "pkey_full", "0x0002", "fail"),
        (0, (0x7FFF, 0x8001, 0x8002), "pkey_limited", "0x7fff", "fail"),
    ],
)
def test_what_differs_is_named(
    node: int, table: tuple[int, ...], cause: str, pkey: str, severity: str
) -> None:
    net, pkeys = make_tables()
    pkeys[net.adapter_key(node, 2)] = table
    (found,) = judge_tables(net).findings
    assert describe(found) == (cause, severity, net.node(node), "rail2")
    assert pkey in found.text
    assert found.ports == (net.adapter_key(node, 2),)


def test_all_rails_of_a_node_are_one_finding() -> None:
    net, pkeys = make_tables()
    pkeys |= {net.adapter_key(4, rail): (0x7FFF, 0x0001) for rail in range(net.rails)}
    (found,) = judge_tables(net).findings
    assert (found.node, found.rail, len(found.ports)) == ("gpu005", None, 4)


def test_a_port_may_be_both() -> None:
    net, pkeys = make_tables()
    declared = {0x1: Partition(0x1, None, {"all": "both"})}
    pkeys |= dict.fromkeys(pkeys, (0xFFFF, 0x8001, 0x0001))
    assert judge_tables(net, declared).findings == ()
    pkeys[net.adapter_key(0, 0)] = (0xFFFF, 0x8001)
    assert [one.cause for one in judge_tables(net, declared).findings] == ["pkey_full"]


def test_everybody_a_full_member_has_its_own_sentence() -> None:
    # opensm that cannot parse its file falls back to that, and the subnet comes up [sim]
    net, pkeys = make_tables()
    net.pkeys = dict.fromkeys(pkeys, (0xFFFF,))
    (found,) = judge_tables(net).findings
    assert (found.cause, found.severity, found.node) == ("partitions_default", "fail", None)
    assert "PARSE ERROR" in found.next
    assert judge_tables(net, {0x7FFF: Partition(0x7FFF, None, {"all": "full"})}).findings == ()


def test_a_partition_that_all_lack_is_one_finding() -> None:
    net, pkeys = make_tables()
    net.pkeys = {key: tuple(one for one in table if one != 0x8001) for key, table in pkeys.items()}
    (found,) = judge_tables(net).findings
    assert (found.cause, found.node) == ("pkey_missing", None)
    assert "gpu[001-008]" in found.text


def test_a_member_may_be_the_guid_of_a_port() -> None:
    net, pkeys = make_tables()
    guid = net.port_guid(net.adapter(5, 1))
    declared = {**DECLARED, 0x3: Partition(0x3, None, {guid: "full"})}
    assert [one.cause for one in judge_tables(net, declared).findings] == ["pkey_missing"]
    pkeys[net.adapter_key(5, 1)] = (0x7FFF, 0x8001, 0x8003)
    assert judge_tables(net, declared).findings == ()


def test_tables_that_were_not_read_are_not_healthy() -> None:
    judgement = judge_tables(Net())
    assert [one.cause for one in judgement.findings] == ["subnet_unread"]
    assert judgement.status == 3
    net, pkeys = make_tables()
    del pkeys[net.adapter_key(3, 3)]
    judgement = judge_tables(net)
    assert [(one.cause, one.severity) for one in judgement.findings] == [("subnet_unread", "unmeasured")]
    assert "gpu004 rail3" in judgement.findings[0].text


def test_without_a_declaration_an_odd_port_is_a_hint() -> None:
    net, pkeys = make_tables()
    pkeys |= dict.fromkeys(pkeys, (0xFFFF,))
    pkeys[net.adapter_key(2, 2)] = (0x7FFF,)
    (found,) = judge(net.reading(), net.expected()).findings
    assert describe(found) == ("pkey_limited", "warn", "gpu003", None)
    assert found.inferred
