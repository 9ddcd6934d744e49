# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""opensm's partition file, and the tables that follow from it.

What opensm makes of these files is tried on ibsim in tests/infiniband/test_opensm_partitions.py.
"""

from __future__ import annotations

import re

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rdma.opensm_partitions import (
    HEADER,
    PartitionsError,
    allows_both,
    compare,
    make_tables,
    read_intent,
    read_table,
    render,
)
from support.pkeys import write_table

MANAGER = "0x0000000000000011"
PORTS = {
    "gpu1": {"rail0": "0000:0000:0000:0011", "rail1": "0x12"},
    "gpu2": {"rail0": "0x21", "rail1": "0x22"},
    "gpu3": {"rail0": "0x31"},
}
DEFAULT = {0x7FFF: {"name": "Default", "members": "all"}}


def intent(partitions, ports=None, managers=(MANAGER,), both=False):
    return read_intent(partitions, PORTS if ports is None else ports, list(managers), both)


def guid(number):
    return f"0x{number:016x}"


def tables(partitions, **keys):
    return {int(key, 16): set(entries) for key, entries in make_tables(intent(partitions, **keys)).items()}


def test_an_open_subnet():
    assert render(intent(DEFAULT)) == (
        HEADER + "Default=0x7fff, ipoib : ALL=full ;\nDefault=0x7fff : SELF=full ;\n"
    )
    assert tables(DEFAULT) == {key: {0xFFFF} for key in (0x11, 0x12, 0x21, 0x22, 0x31)}


def test_a_storage_partition():
    partitions = {
        0x10: {"members": {"0x99": "full", "all": "limited", "gpu1": None}, "ipoib": False},
        0x7FFF: {"members": {"gpu2": "limited", "all": "full"}},
    }
    assert render(intent(partitions), mtu_4096=True) == HEADER + (
        "0x7fff, ipoib, mtu=5 : ALL=full ;\n"
        "0x7fff : 0x0000000000000021=limited, 0x0000000000000022=limited ;\n"
        "0x7fff : SELF=full ;\n"
        "0x0010 : ALL=limited ;\n"
        "0x0010 : 0x0000000000000011=full, 0x0000000000000012=full ;\n"
        "0x0010 : 0x0000000000000099=full ;\n"
    )
    assert tables(partitions) == {
        0x11: {0xFFFF, 0x8010},
        0x12: {0xFFFF, 0x8010},
        0x21: {0x7FFF, 0x0010},
        0x22: {0x7FFF, 0x0010},
        0x31: {0xFFFF, 0x0010},
    }


def test_tenants():
    partitions = {
        0x7FFF: {"members": "all", "membership": "limited"},
        1: {"name": "a", "members": ["gpu1"]},
        2: {"name": "b", "members": {"gpu2": "full", "0x31": "limited"}},
    }
    assert tables(partitions) == {
        # The port that opensm serves is always a full member of the default partition.
        0x11: {0xFFFF, 0x8001},
        0x12: {0x7FFF, 0x8001},
        0x21: {0x7FFF, 0x8002},
        0x22: {0x7FFF, 0x8002},
        0x31: {0x7FFF, 0x0002},
    }


def test_who_is_not_named_is_a_limited_member_of_the_default_partition():
    assert tables({0x7FFF: {"members": ["gpu2"]}})[0x31] == {0x7FFF}
    assert "ALL=limited" in render(intent({0x7FFF: {"members": ["gpu2"]}}))


def test_both_needs_opensms_leave():
    partitions = {**DEFAULT, 1: {"members": {"gpu1": "full", "gpu2": "both"}}}
    with pytest.raises(PartitionsError, match="allow_both_pkeys TRUE"):
        intent(partitions)
    assert tables(partitions, both=True)[0x21] == {0xFFFF, 0x8001, 0x0001}


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        (None, False),
        ("", False),
        ("# Allow both\nallow_both_pkeys FALSE\n", False),
        ("# allow_both_pkeys TRUE\n", False),
        ("subnet_timeout 18\nallow_both_pkeys TRUE\n", True),
        ("not_allow_both_pkeys TRUE\n", False),
    ],
)
def test_whether_opensm_allows_both(text, allowed):
    assert allows_both(text) is allowed


def test_no_line_is_longer_than_opensm_reads():
    # NVIDIA, UFM Enterprise user manual, "Appendix - Partitioning": at most 4096 characters in a line, and a
    # P_Key's members may be split over several definitions.
    ports = {f"gpu{node}": {f"rail{rail}": node * 8 + rail + 1 for rail in range(8)} for node in range(1000)}
    partitions = {**DEFAULT, 1: {"name": "x" * 31, "members": dict.fromkeys(ports, "limited")}}
    partitions[1]["members"]["gpu0"] = "full"
    lines = render(intent(partitions, ports, [guid(1)])).splitlines()[1:]
    assert max(map(len, lines)) < 4000
    assert all(re.fullmatch(r"\S+=0x[0-7][0-9a-f]{3}(, ipoib)? : [^;:#]+ ;", line) for line in lines)
    named = [one for line in lines for one in re.findall(r"(0x[0-9a-f]{16})=(?:full|limited)", line)]
    assert named == [guid(number) for number in range(1, 8001)]
    # The flags make a broadcast group, once.
    assert sum("ipoib" in line for line in lines) == 2


@pytest.mark.parametrize(
    ("keys", "part"),
    [
        ({"partitions": {1: {"members": "all"}}}, "0x7fff is not declared"),
        ({"partitions": {}}, "no mapping of P_Keys"),
        ({"partitions": {**DEFAULT, 0x8001: {"members": "all"}}}, "partitions.0x8001: 0x8001 has"),
        ({"partitions": {**DEFAULT, 1: {"members": ["gpu7", "gpu1"]}}}, "gpu7: the GUIDs of its ports"),
        ({"partitions": {**DEFAULT, 1: {"members": ["gpu4"]}}, "ports": {"gpu4": {}}}, "gpu4: the GUIDs"),
        ({"partitions": DEFAULT, "ports": {"gpu1": {"rail0": "no\nguid"}}}, "gpu1 rail0: the node's answer"),
        (
            {"partitions": DEFAULT, "ports": {"gpu1": {"rail0": "0x1"}, "gpu2": {"rail0": "0x01"}}},
            "gpu2 rail0: 0x0000000000000001 is also the port of gpu1 rail0",
        ),
        ({"partitions": DEFAULT, "managers": []}, "no GUIDs of opensm's ports"),
        ({"partitions": DEFAULT, "ports": ["0x11"]}, "partition_ports: is ['0x11'], not an object. Fix"),
        ({"partitions": DEFAULT, "ports": {"gpu1": "0x11"}}, "gpu1 is '0x11', not an object"),
        ({"partitions": DEFAULT, "managers": ["mlx5_0"]}, "no GUIDs of opensm's ports"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_named(keys, part):
    with pytest.raises(PartitionsError) as error:
        intent(**keys)
    assert part in str(error.value)
    assert "Fix: " in str(error.value)


def test_keys_may_have_become_texts():
    # So does JSON, on the way from the controller to the node.
    assert intent({"32767": {"members": "all"}}) == intent({0x7FFF: {"members": "all"}})


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        (write_table([0xFFFF, 0x8010, *[0] * 20, 0x0012]), {0xFFFF, 0x8010, 0x0012}),
        (write_table([]), set()),
        ("", None),
        ("64 pkeys capacity for this port\n", None),
        ("smpquery: iberror: failed: can't resolve destination port 0x123457\n", None),
        ("   0: 0xfffff 0x0001\n", None),
    ],
)
def test_a_table_is_read(text, entries):
    assert read_table(text) == entries


def test_what_differs_is_named_by_node_and_rail():
    wanted = intent({**DEFAULT, 0x10: {"members": ["gpu1"]}})
    right = make_tables(wanted)
    assert compare(wanted, right) == []
    assert compare(wanted, {}) == []
    assert compare(wanted, {**right, guid(0x21): None}) == []
    assert compare(wanted, {**right, guid(0x12): frozenset({0xFFFF, 0x0010}), guid(0x31): frozenset()}) == [
        "gpu1 rail1 (0x0000000000000012) has 0x0010 limited, 0x7fff full, "
        "and is to have 0x0010 full, 0x7fff full",
        "gpu3 rail0 (0x0000000000000031) has none, and is to have 0x7fff full",
    ]  # fmt: skip
