# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines as tools of several ages print them: formats from public outputs and sources, values made up.

Sources: infiniband-diags of rdma-core (commit 691953d8), NVIDIA/topograph tests/output/ibnetdiscover,
treydock/infiniband_exporter collectors/fixtures, and outputs in public notes on Quantum, SB7700, SX6036 and
Infiniscale-IV switches.
"""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.common import NotThisTool
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet import (
    answers,
    db_csv,
    iblinkinfo,
    ibnetdiscover,
    ibqueryerrors,
    messages,
    outputs,
)

LEAF, HOST = "0x00000000000000aa", "0x00000000000000bb"
PORT = "SW   479 22 0x00000000000000aa {} - CA     7  1 0x00000000000000bb ( 'leaf' - 'gpu01 mlx5_0' )\n"


@pytest.mark.parametrize(
    ("printed", "lanes", "lane_gbps"),
    [
        ("4x SDR", 4, 2.5),
        ("4x FDR10", 4, 10.3125),
        ("2x HDR", 2, 53.125),
        ("4x NDR", 4, 106.25),
        ("4x XDR", 4, 212.5),
        ("?? ???", None, None),
    ],
)
def test_rates_of_ibnetdiscover(printed, lanes, lane_gbps):
    found = ibnetdiscover.parse(PORT.format(printed), "x")
    assert [(one.width, one.lane_gbps) for one in found.statements] == [(lanes, lane_gbps)]
    assert found.problems == []


def test_an_unknown_speed_is_a_problem_and_the_link_stays():
    # treydock/infiniband_exporter tests the same with ZDR.
    found = ibnetdiscover.parse(PORT.format("4x ZDR"), "x")
    assert found.statements[0].peer.port_guid == HOST
    assert found.statements[0].lane_gbps is None
    assert "'ZDR'" in found.problems[0].text


@pytest.mark.parametrize(
    "name", ["'Infiniscale-IV Mellanox Technologies'", "Infiniscale-IV Mellanox Technologies"]
)
def test_a_port_without_a_peer_has_its_name_with_and_without_quotes(name):
    text = f"SW   479 22 0x00000000000000aa 4x QDR{'':36s}{name}\n"
    (found,) = ibnetdiscover.parse(text, "x").statements
    assert (found.peer, found.end.name) == (None, "Infiniscale-IV Mellanox Technologies")


def test_names_with_a_separator_in_them_are_split_by_other_lines():
    text = (
        "SW     1  1 0x00000000000000aa 4x NDR - CA     7  1 0x00000000000000bb ( 'le' - 'af' -"
        " 'gpu01 mlx5_0' )\n"
        "CA     7  1 0x00000000000000bb 4x NDR - SW     1  1 0x00000000000000aa ( 'gpu01 mlx5_0'"
        " - 'le' - 'af' )\n"
        f"SW     1  2 0x00000000000000aa 4x SDR{'':36s}'le' - 'af'\n"
    )
    found = ibnetdiscover.parse(text, "x").statements
    assert {one.end.name for one in found} == {"le' - 'af", "gpu01 mlx5_0"}
    assert {one.peer.name for one in found if one.peer} == {"le' - 'af", "gpu01 mlx5_0"}


def test_a_topology_file_of_a_managed_switch_with_an_aggregation_node():
    text = (
        "vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0xaa\nswitchguid=0xaa(aa)\n"
        'Switch\t65 "S-00000000000000aa"\t\t# "MF0;a-b:MQM9701/U1" enhanced port 0 lid 73 lmc 0\n'
        '[1]\t"H-00000000000000bb"[1](bc) \t\t# "a08-p1-dgx-04-c01 mlx5_5" lid 647 4xNDR\n'
        # Spaces for tabs, and a speed that is missing: outputs as they are pasted.
        '[2] "S-00000000000000ad"[23] # "MF0;leaf:MQM8700/U1" lid 383 \n'
        '[65]\t"H-00000000000000ae"[1](ae) \t\t# "Mellanox Technologies Aggregation Node" lid 193 4xNDR\n'
        '[66][ext 3]\t"S-00000000000000af"[7][ext 9]\t\t# "it" lid 3 4xEDR s=4 w=2 v=8\n'
    )
    found = ibnetdiscover.parse(text, "x")
    assert found.problems == []
    assert [(one.guid, one.kind, one.name, one.lid) for one in found.devices] == [
        (LEAF, "switch", "MF0;a-b:MQM9701/U1", 73)
    ]
    assert [(one.end.number, one.peer.kind, one.peer.lid, one.width) for one in found.statements] == [
        (1, "adapter", 647, 4),
        (2, "switch", 383, None),
        (65, "aggregation", 193, 4),
        (66, "switch", 3, 4),
    ]
    assert found.statements[0].peer.port_guid == "0x00000000000000bc"


def test_a_head_with_another_guid_than_the_line_before_takes_no_ports():
    text = (
        "vendid=0x2c9\ndevid=0x1\nsysimgguid=0xaa\nswitchguid=0xaa(aa)\n"
        'Switch\t65 "S-00000000000000ab"\t\t# "leaf" base port 0 lid 7 lmc 0\n'
        '[1]\t"S-00000000000000bb"[1]\t\t# "spine" lid 6 4xNDR\n'
    )
    found = ibnetdiscover.parse(text, "x")
    assert (found.devices, found.statements) == ([], [])
    assert [one.source.line for one in found.problems] == [5, 6]


LINK = '0x00000000000000aa "{:>30}"      4   21[{}] ==({})==>  {}\n'
PEER = '0x00000000000000bb     40    1[  ] "node3 HCA-2" ({})'


@pytest.mark.parametrize(
    ("link", "width", "lane_gbps"),
    [
        (" 4X      25.78125 Gbps Active/  LinkUp", 4, 25.78125),
        (" 4X 25.78 Gbps Active/  LinkUp", 4, 25.78125),
        (" 4X          10.0 Gbps Active/ LinkUp", 4, 10.0),
        (" 4X 10.0 Gbps (FDR10) Active/  LinkUp", 4, 10.3125),
        (" 2X        53.125 Gbps Active/  LinkUp", 2, 53.125),
        ("12X         212.5 Gbps  Armed/  LinkUp", 12, 212.5),
        ("undefined (0) undefined (16) Active/  LinkUp", None, None),
        (" 4X    Extended speed Initialize/  LinkUp", 4, None),
        (" 4X        53.125 Gbps Active/  LinkUp) (HOQ:18 VL_Stall:7", 4, 53.125),
    ],
)
def test_states_of_iblinkinfo(link, width, lane_gbps):
    text = LINK.format("leaf", "  ", link, PEER.format(" Could be 53.125 Gbps"))
    found = iblinkinfo.parse(text, "x")
    assert found.problems == []
    (one,) = found.statements
    assert (one.width, one.lane_gbps, one.physical) == (width, lane_gbps, "LinkUp")
    assert (one.end.port_guid, one.end.lid, one.end.number) == (LEAF, 4, 21)
    assert (one.peer.port_guid, one.peer.lid, one.peer.name) == (HOST, 40, "node3 HCA-2")
    assert one.could_be == ("53.125 Gbps",)


@pytest.mark.parametrize("rest", ['           [  ] "" ( )', '    "Port not available"'])
def test_ports_of_iblinkinfo_without_a_peer(rest):
    text = LINK.format("leaf", "17", " 4X 106.25 Gbps Active/  LinkUp", "").rstrip(" \n") + rest + "\n"
    (one,) = iblinkinfo.parse(text, "x").statements
    assert (one.peer, one.state, one.lane_gbps) == (None, "Active", 106.25)


def test_a_description_that_looks_like_a_port():
    text = LINK.format("{}", "  ", " 4X 106.25 Gbps Active/  LinkUp", PEER.format(" "))
    half = iblinkinfo.parse(text.format('x"      9    9[  ] ==( 4X 2.5 Gbps Active/  LinkUp)==>  '), "x")
    assert [one.end.number for one in half.statements] == [21]
    # A description has 64 bytes, enough for a whole port: then the line has two meanings and is not read.
    hostile = 'x" 9 9[  ] ==( 4X 2.5 Gbps Active/LinkUp)==> 0xcc 1 1[] "y'
    assert len(hostile) <= 64
    found = iblinkinfo.parse(text.format(hostile), "x")
    assert (found.statements, [one.kind for one in found.problems]) == ([], ["line"])


def test_errors_of_ports_old_and_new():
    text = (
        'Errors for "c015 HCA-1"\n   GUID 0x800380001389e62 port 1: [PortRcvErrors == 52]\n'
        'Errors for 0xaa "MF0;ys23ib4:SX6036/U1"\n'
        "   GUID 0xaa port ALL: [LinkDownedCounter == 48] [PortXmitWait == 4294967295]\n"
        "   GUID 0xaa port 0: [PortXmitWait == 76959324]\n"
        "   GUID 0xaa port 7: [SymbolErrorCounter == 65535] [PortXmitDiscards == 5]\n"
        '       Link info:    122   1[  ] ==( 4X 10.0 Gbps Active/  LinkUp)==>  0xbb 2 34[  ] "l" ( )\n'
        "   GUID 0xaa port 8: [SymbolErrorCounter == 1073741824 (1.000G)] [PortXmitData == 5 (1.0B)]\n"
        "\n## Summary: 4 nodes checked, 4 bad nodes found\n"
        "##          43 ports checked, 14 ports have errors beyond threshold\n## Thresholds: \n"
        "## Suppressed:\n"
    )
    found = ibqueryerrors.parse(text, "x")
    assert found.problems == []
    assert found.counters == {
        ("0x0800380001389e62", 1): {"PortRcvErrors": 52},
        (LEAF, 0): {"PortXmitWait": 76959324},
        (LEAF, 7): {"SymbolErrorCounter": 65535, "PortXmitDiscards": 5},
        (LEAF, 8): {"SymbolErrorCounter": 1073741824},
    }
    assert found.complete is True


END = (
    "## Summary: 1 nodes checked, 0 bad nodes found\n"
    "##          3 ports checked, 0 ports have errors beyond threshold\n"
)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        (END + "## (null)\n## Suppressed:\n", True),
        (END + "## Thresholds: [SymbolErrorCounter = 10][LinkDownedCounter = 10]\n## Suppressed:\n", False),
        (END + "## Thresholds: [SymbolErrorCounter = 0]\n## Suppressed:\n", True),
        (END + "## (null)\n##          2 PMA query failures\n## Suppressed:\n", False),
        (END + "## (null)\n## Suppressed: PortXmitWait\n", False),
        ('Errors for "x"\n   GUID 0xaa port 1: [PortRcvErrors == 5]\n', False),
        ("   GUID 0xaa port 1: [PortRcvErrors == 5\n" + END, False),
    ],
)
def test_what_a_port_without_errors_tells(text, complete):
    assert ibqueryerrors.parse(text, "x").complete is complete


def test_sminfo():
    text = (
        "sminfo: sm lid 64 sm guid 0x2c9030037a2f1, activity count 524649304 priority 14 state 3"
        " SMINFO_MASTER\n"
    )
    found, problems = answers.parse_sminfo(text, "x")
    assert (found.lid, found.port_guid, found.priority, found.state) == (
        64,
        "0x0002c9030037a2f1",
        14,
        "MASTER",
    )
    assert problems == []
    damaged, problems = answers.parse_sminfo(text.replace("state 3", "state 2"), "x")
    assert damaged is None
    assert problems[0].kind == "line"
    assert answers.parse_sminfo("sminfo: iberror: failed: query\n", "x") == (None, [])


RECORD = (
    "PortInfoRecord dump:\n\t\tEndPortLid..............{0}\n\t\tPortNum.................1\n"
    "\t\tcapability_mask.........{1}\n"
)


def test_ports_with_a_manager():
    text = f"IsSM ports\n{RECORD.format(1, '0x50C04A')}{RECORD.format(9, '0x50C04A')}\nIsSMdisabled ports\n"
    text += RECORD.format(12, "0x500448")
    assert answers.parse_saquery(text, "x") == ((1, 9), True, [])


@pytest.mark.parametrize(
    "record",
    [RECORD.format(8, "0x0"), RECORD.format(0, "0x50C04A"), RECORD.format(65000, "0x2"), "garbage\n"],
)
def test_a_cut_answer_of_the_administrator(record):
    # ibsim sends the first records only, and whatever was in memory as the last one; exit status 0.
    text = f"IsSM ports\n{RECORD.format(1, '0x50C04A')}{record}\nIsSMdisabled ports\n"
    found = answers.parse_saquery(text, "x")
    assert (found.lids, found.complete) == ((1,), False)
    assert answers.parse_saquery("IsSM ports\n" + RECORD.format(1, "0x50C04A"), "x").complete is False


def test_tables_of_pkeys():
    row = "   0: 0x7fff 0x8001 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000\n"
    end = "8 pkeys capacity for this port\n"
    assert answers.parse_pkeys(row + end, "x") == ((0x7FFF, 0x8001), [])
    for damaged in (row, row.replace("   0:", "   8:") + end, row[:-5] + "\n" + end, row + "16" + end[1:]):
        keys, problems = answers.parse_pkeys(damaged, "x")
        assert keys is None
        assert problems


def test_the_nodes_own_address():
    address = answers.parse_ibaddr("GID fe80::10:1 LID start 0x1 end 0x1\n")
    assert address == ("0xfe80000000000000", "0x0000000000100001")
    assert answers.parse_ibaddr("ibaddr: iberror: failed: can't resolve destination\n") is None


def test_messages():
    text = (
        "src/query_smp.c:199; umad (DR path slid 0; dlid 0; 0,1,20,34 Attr 0x11:0) bad status"
        " 110; Connection timed out\n"
        "src/query_smp.c:199; mad (DR path slid 0; dlid 0; 0,1 Attr 0xff90:3) bad status 0xc\n"
        "./libibnetdisc/ibnetdisc.c:667; Duplicate Port: Port with guid 0x00000000000000bb"
        " already exists in ports DB\n"
        "./libibnetdisc/ibnetdisc.c:379; Error Occurred when trying to insert new port guid 0xbb to DB\n"
        "ibwarn: [7867] print_errors: IB_GSI_PORT_COUNTERS query failed on gpu, Lid 12 port 1\n"
        "ibwarn: [8208] mad_rpc: _do_madrpc failed; dport (Lid 999)\n"
        "Query SA failed: Connection timed out\n"
        "something new\n"
    )
    found = messages.parse(text, "x.err")
    assert [(one.route, one.lid, one.port) for one in found.silent] == [
        ((0, 1, 20, 34), None, None),
        ((), 12, 1),
        ((), 999, None),
    ]
    assert [guid for guid, _text, _line in found.duplicates] == [HOST]
    assert [(one.kind, one.source.line) for one in found.problems] == [("command", 7), ("line", 8)]


@pytest.mark.parametrize(
    "text",
    [
        (
            "ibwarn: [12] mad_rpc_open_port2: can't open UMAD port ((null):0)\n"
            "./ibnetdisc.c:811; can't open UMAD port\n"
        ),
        "ibpanic: [12] main: can't open UMAD port (mlx5_0:1)\n",
        "smpquery: Failed to open '(null)' port '0': Permission denied\n",
    ],
)
def test_refusals(text):
    found = messages.parse(text, "x.err")
    assert [one.kind for one in found.problems] == ["denied"]
    assert "/dev/infiniband/umad" in found.problems[0].text


DATABASE = (
    "START_NODES\nNodeGUID,NodeType,NodeDesc,SystemImageGUID,PortGUID\n"
    '0xaa,2,"MF0;leaf,01:MQM9700/U1",0xaa,0xaa\n0xbb,1,"server01 mlx5_0",0xbb,0xbb\nEND_NODES\n'
    "START_PORTS\nNodeGuid,PortGuid,PortNum,LID,LinkWidthActv,LinkSpeedActv,PortPhyState,PortState\n"
    "0xaa,0xaa,1,10,2,2048,5,4\n0xaa,0xaa,2,10,2,1,2,1\n0xbb,0xbb,1,20,2,2048,5,4\nEND_PORTS\n"
    "START_OTHER\nx\nEND_OTHER\n"
    "START_LINKS\nNodeGuid1,PortNum1,NodeGuid2,PortNum2\n0xaa,1,0xbb,1\nEND_LINKS\n"
    "START_PM_INFO\nNodeGUID,PortNumber,LinkDownedCounter,LinkDownedCounterExt,PortXmitPktsExtended,"
    "SymbolErrorCounter\n"
    "0xaa,1,255,1000,7,3\n0xbb,1,0,0,7,0xN/A\nEND_PM_INFO\n"
)


def test_the_database_of_ibdiagnet():
    found = db_csv.parse(DATABASE, "ibdiagnet2.db_csv")
    assert found.found.problems == []
    assert found.counters == {(LEAF, 1): {"LinkDownedCounter": 1000, "SymbolErrorCounter": 3}, (HOST, 1): {}}
    assert {one.name for one in found.found.devices} == {"MF0;leaf,01:MQM9700/U1", "server01 mlx5_0"}
    ports = {(one.end.device_guid, one.end.number): one for one in found.found.statements}
    assert (ports[LEAF, 1].peer.device_guid, ports[LEAF, 1].lane_gbps) == (HOST, 106.25)
    assert (ports[LEAF, 2].peer, ports[LEAF, 2].state, ports[LEAF, 2].physical) == (None, "Down", "Polling")


@pytest.mark.parametrize("section", ["PM_INFO", "LINKS", "NODES"])
def test_a_section_of_ibdiagnet_without_its_end(section):
    found = db_csv.parse(DATABASE[: DATABASE.index(f"END_{section}")], "x").found
    assert f"x: section {section} has no end" in [one.text for one in found.problems]


@pytest.mark.parametrize("link", ["0xaa,2,0xbb,1", "0xaa,1,0xcc,1", "0xaa,1,0xbb,", "0xaa,1,0xbb"])
def test_links_of_ibdiagnet_that_ports_contradict(link):
    found = db_csv.parse(DATABASE.replace("0xaa,1,0xbb,1", link), "x").found
    assert [one for one in found.statements if one.peer] == []
    assert found.problems


def test_what_railyard_parse_prints_of_a_link():
    mirrored = (
        "CA     7  1 0x00000000000000bb 2x HDR - SW   479 22 0x00000000000000aa ( 'gpu01 mlx5_0' - 'leaf' )\n"
    )
    found = outputs.parse_ibnetdiscover(PORT.format("2x HDR") + mirrored)
    assert (found["valid"], found["error"]) == (True, None)
    leaf, host = found["outputs"][0]["devices"]
    assert (leaf["description"], leaf["kind"], host["kind"]) == ("leaf", "switch", "adapter")
    assert leaf["ports"][0]["peer"] == {"guid": HOST, "port": 1}
    assert (leaf["ports"][0]["rate_gbps"], leaf["ports"][0]["lane_gbps"]) == (100, 53.125)
    cut = outputs.parse_ibnetdiscover(PORT.format("2x HDR"))
    assert (cut["valid"], cut["error"]["class"]) == (False, "truncated")


def test_what_railyard_parse_prints_of_counters_that_thresholds_hide():
    text = END + "## Thresholds: [SymbolErrorCounter = 10]\n## Suppressed:\n"
    found = outputs.parse_ibqueryerrors(text)
    assert (found["valid"], found["error"], found["outputs"]) == (
        False,
        None,
        [{"complete": False, "ports": []}],
    )
    assert "--threshold-file /dev/null" in found["warnings"][0]


@pytest.mark.parametrize(
    "parser",
    [
        outputs.parse_ibnetdiscover,
        outputs.parse_iblinkinfo,
        outputs.parse_ibqueryerrors,
        outputs.parse_sminfo,
    ],
)
def test_texts_of_other_tools(parser):
    with pytest.raises(NotThisTool, match="the text begins with"):
        parser("CA 'mlx5_0'\n\tCA type: MT4129\n")
