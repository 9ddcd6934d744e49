# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A capture becomes one reading: faults of a subnet as ibsim showed them, and texts that disagree."""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet import capture
from ansible_collections.railyard.fabric.plugins.module_utils.records import reader, subnet_json
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet_capture import Capture, Command
from support import subnets

LEAF, OTHER, SPINE = "0x00000000000000a0", "0x00000000000000a1", "0x00000000000000a8"
UMAD = "./libibnetdisc/query_smp.c:186; umad (DR path slid 0; dlid 0; {} Attr 0x11:0) bad status 110; x\n"
DUPLICATE = (
    "./libibnetdisc/ibnetdisc.c:667; Duplicate Port: Port with guid 0x{:016x} already exists in ports DB\n"
)


def net():
    """Return two leaves, a spine and four adapters: ports 1 and 2 of a leaf, and 3 to the spine."""
    boxes = {0xA0 + at: subnets.Box(0xA0 + at, "SW", f"leaf{at}", 4, 1 + at) for at in (0, 1)}
    boxes[0xA8] = subnets.Box(0xA8, "SW", "spine0", 4, 3)
    links = {}
    for at in range(4):
        boxes[0xB00 + 16 * at] = subnets.Box(0xB00 + 16 * at, "CA", f"gpu{at} mlx5_0", 1, 10 + at)
        subnets.join(links, (0xA0 + at % 2, 1 + at // 2), (0xB00 + 16 * at, 1), 4, "EDR")
    for at in (0, 1):
        subnets.join(links, (0xA0 + at, 3), (0xA8, 1 + at), 4, "EDR")
    return subnets.Net(boxes, links)


def texts(one):
    return {
        "ibnetdiscover.txt": subnets.print_ports(one),
        "topology.txt": subnets.print_topology(one),
        "iblinkinfo.txt": subnets.print_linkinfo(one),
    }


def read(files, errors=None, **more):
    commands = [
        Command((), file, text, (errors or {}).get(file, ""), None, 5.0, 0.0) for file, text in files.items()
    ]
    commands += [Command((), name, text, "", None, 7.0, 2.0) for name, text in more.items()]
    return capture.parse(Capture("gpu00", "mlx5_0", 1, 1.0, tuple(commands)))


def without(one, guid, number, both=True):
    """Take a link away; with its far device where that has no other."""
    links = dict(one.links)
    far = links.pop((guid, number))
    links.pop(far[:2])
    boxes = {key: box for key, box in one.boxes.items() if key != far[0] or box.kind == "SW"}
    return subnets.Net(boxes, links)


def test_a_healthy_subnet():
    reading = read(texts(net()))
    assert (reading.problems, reading.silent, reading.duplicates) == ((), (), ())
    assert (reading.host, reading.device, reading.taken_at_s) == ("gpu00", "mlx5_0:1", 1.0)
    port = reading.devices[LEAF].ports[1]
    assert port.peer == PortKey("0x0000000000000b00", 1)
    assert (port.rate_gbps, port.state, port.physical, port.lid) == (100, "Active", "LinkUp", 1)
    assert {one.file for one in port.sources} == {"ibnetdiscover.txt", "topology.txt", "iblinkinfo.txt"}
    assert reading.devices[LEAF].ports[4].width is None


def test_a_silent_adapter_is_behind_the_port_that_its_route_ends_at():
    one = without(net(), 0xA1, 2)
    reading = read(texts(one), {"iblinkinfo.txt": UMAD.format("0,1,3,2,2")})
    assert [(silent.target, silent.behind) for silent in reading.silent] == [("0,1,3,2,2", PortKey(OTHER, 2))]
    # The simulator's adapter 0 is at port 1 of the first leaf, as the topology file's first line says.
    assert reading.port(PortKey(OTHER, 2)).peer is None


def test_a_route_through_what_is_not_known_has_no_end():
    reading = read(texts(net()), {"iblinkinfo.txt": UMAD.format("0,1,4,9,2") + UMAD.format("0,7,1")})
    assert [silent.behind for silent in reading.silent] == [None, None]


def test_a_first_switch_that_does_not_answer_is_a_refusal():
    alone = "CA    10  1 0x00000000000000b1 4x EDR{}'gpu0 mlx5_0'\n".format(" " * 36)
    reading = read({"ibnetdiscover.txt": alone}, {"ibnetdiscover.txt": UMAD.format("0,1")})
    assert "M_Key" in next(one.text for one in reading.problems if one.kind == "denied")
    known = read(texts(net()), {"ibnetdiscover.txt": UMAD.format("0,1")})
    assert [one for one in known.problems if one.kind == "denied"] == []


def test_a_duplicate_guid_is_named_with_both_ports():
    one = net()
    files = {**texts(without(one, 0xA1, 2))}
    # The port of the second owner is up, and the tools have no peer for it.
    down = f'{2:6d} {2:4d}[  ] ==(              {"Down":>6}/{"Polling":>8})==>             [  ] "" ( )'
    assert down in files["iblinkinfo.txt"]
    up = f'{2:6d} {2:4d}[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>      "Port not available"'
    files["iblinkinfo.txt"] = files["iblinkinfo.txt"].replace(down, up)
    reading = read(files, {"iblinkinfo.txt": DUPLICATE.format(0xB11)})
    (found,) = reading.duplicates
    assert (found.guid, found.keys) == ("0x0000000000000b11", (PortKey(OTHER, 1), PortKey(OTHER, 2)))
    # Something silent may be behind that port as well: then the second owner is not known.
    reading = read(files, {"iblinkinfo.txt": DUPLICATE.format(0xB11) + UMAD.format("0,1,3,2,2")})
    assert reading.duplicates[0].keys == (PortKey(OTHER, 1),)


def test_two_devices_with_one_port_guid_are_distinguished_by_their_lids():
    one = net()
    text = {name: content.replace("b31", "b21") for name, content in texts(one).items()}
    text = {
        name: content.replace("0x0000000000000b31", "0x0000000000000b21") for name, content in text.items()
    }
    reading = read(text)
    assert reading.devices[OTHER].ports[2].peer == PortKey("0x0000000000000b30", 1)
    assert reading.devices[LEAF].ports[2].peer == PortKey("0x0000000000000b20", 1)
    # Only iblinkinfo prints states, and it names both by the GUID that they share.
    assert [reading.devices[f"0x0000000000000b{at}0"].ports[1].state for at in (2, 3)] == ["Active"] * 2
    (found,) = reading.duplicates
    assert (found.guid, {*found.keys}) == ("0x0000000000000b21", {PortKey(LEAF, 2), PortKey(OTHER, 2)})


def test_texts_that_disagree_about_a_link():
    files = texts(net())
    files["iblinkinfo.txt"] = subnets.print_linkinfo(without(net(), 0xA0, 3))
    reading = read(files)
    assert {one.kind for one in reading.problems} == {"changed"}
    assert "iblinkinfo.txt: no peer" in reading.problems[0].text
    assert reading.devices[LEAF].ports[3].peer is None
    assert reading.devices[LEAF].ports[1].peer is not None


def test_a_text_whose_ends_of_a_link_disagree():
    one = net()
    links = dict(one.links)
    del links[0xA8, 1]
    for text in ("ibnetdiscover.txt", "iblinkinfo.txt", "topology.txt"):
        reading = read({text: texts(one._replace(links=links))[text]})
        assert [one.kind for one in reading.problems] == ["damaged"]
        assert reading.devices[LEAF].ports[3].peer is None
        assert reading.devices[OTHER].ports[3].peer == PortKey(SPINE, 2)


def test_peers_whose_lids_no_one_explains_are_reported_and_contradict_nothing():
    blocks = subnets.print_linkinfo(net(), by_line=False)
    topology = re.sub(r"lid [0-9]+", "lid 0", subnets.print_topology(net()))
    only_leaf = blocks[: blocks.index("Switch: 0x00000000000000a1")]
    reading = read({"topology.txt": topology, "iblinkinfo.txt": only_leaf})
    assert [one.kind for one in reading.problems] == ["missing"]
    assert "3 ports have LIDs" in reading.problems[0].text
    assert reading.devices[LEAF].ports[1].peer == PortKey("0x0000000000000b00", 1)


def test_texts_that_disagree_about_a_rate():
    files = texts(net())
    files["iblinkinfo.txt"] = files["iblinkinfo.txt"].replace(" 4X      25.78125", " 1X      25.78125", 1)
    (problem,) = read(files).problems
    assert (problem.kind, "4 lanes" in problem.text, "1 lanes" in problem.text) == ("changed", True, True)


def test_texts_of_two_subnets():
    moved = {key + 0x1000: box._replace(guid=box.guid + 0x1000) for key, box in net().boxes.items()}
    links = {
        (key + 0x1000, number): (far + 0x1000, *rest) for (key, number), (far, *rest) in net().links.items()
    }
    reading = read({**texts(net()), "iblinkinfo.txt": subnets.print_linkinfo(subnets.Net(moved, links))})
    assert any("no device in common" in one.text for one in reading.problems)


def test_aggregation_nodes_and_names_of_the_vendor():
    one = net()
    boxes = {**one.boxes, 0xB00: one.boxes[0xB00]._replace(name="Mellanox Technologies Aggregation Node")}
    for files in (
        texts(one._replace(boxes=boxes)),
        {"iblinkinfo.txt": subnets.print_linkinfo(one._replace(boxes=boxes))},
    ):
        kinds = {device.description: device.kind for device in read(files).devices.values()}
        assert kinds["Mellanox Technologies Aggregation Node"] == "aggregation"
        assert kinds["gpu1 mlx5_0"] == "adapter"
        assert kinds["leaf0"] == "switch"


SUMMARY = "## Summary: 7 nodes checked, 1 bad nodes found\n##          9 ports checked, 1 ports have errors\n"


def test_counters_have_the_port_of_the_device():
    text = f'Errors for "gpu1 mlx5_0"\n   GUID 0xb11 port 1: [SymbolErrorCounter == 4]\n{SUMMARY}'
    files = {**texts(net()), "ibqueryerrors.1.txt": text, "ibqueryerrors.2.txt": text.replace("== 4", "== 9")}
    reading = read(files)
    key = PortKey("0x0000000000000b10", 1)
    assert [one.errors for one in reading.counters] == [{key: {"SymbolErrorCounter": n}} for n in (4, 9)]
    assert [one.taken_at_s for one in reading.counters] == [5.0, 5.0]
    late = Command((), "ibqueryerrors.1.txt", text, "", 1, 9.0, 4.0)
    both = (late, late._replace(file="ibqueryerrors.2.txt", started_at_s=3.0))
    reading = capture.parse(Capture(None, None, None, 1.0, both))
    assert [one.taken_at_s for one in reading.counters] == [5.0, 11.0]
    # Its exit status counts the ports with errors.
    assert [one for one in reading.problems if one.kind == "command"] == []


def test_managers():
    answer = "sminfo: sm lid {0} sm guid 0xb0{1}, activity count 5 priority 0 state 3 SMINFO_MASTER\n"
    record = "PortInfoRecord dump:\n\t\tEndPortLid..............{}\n\t\tcapability_mask.........0x2\n"
    ports = "IsSM ports\n" + "".join(map(record.format, (10, 12, 13))) + "\nIsSMdisabled ports\n"
    files = {
        **texts(net()),
        "saquery-s.txt": ports,
        "sminfo.txt": answer.format(10, 1),
        "sminfo-10.txt": answer.format(10, 1),
        "sminfo-12.txt": answer.format(12, 9),
        "sminfo-13.txt": "sminfo: iberror: failed: query\n",
    }
    failed = {"sminfo-13.txt": "ibwarn: [5] mad_rpc: _do_madrpc failed; dport (Lid 13)\n"}
    reading = read(files, failed)
    assert {(one.lid, one.state) for one in reading.managers} == {(10, "MASTER"), (12, "MASTER"), (13, None)}
    assert (reading.problems, reading.silent) == ((), ())
    assert read(texts(net())).managers is None
    nobody = read({**texts(net()), "saquery-s.txt": "", "sminfo.txt": ""})
    assert nobody.managers == ()
    assert [one.kind for one in nobody.problems] == ["command"]
    refused = dict.fromkeys(
        ("saquery-s.txt", "sminfo.txt"), "ibpanic: [1] main: can't open UMAD port (mlx5_0:1)\n"
    )
    assert read({**texts(net()), "saquery-s.txt": "", "sminfo.txt": ""}, refused).managers is None


def test_pkeys_of_ports():
    table = "   0: 0x7fff 0x8001 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000\n8 pkeys capacity for this port\n"
    files = {
        **texts(net()),
        "smpquery-pkeys-10-1.txt": table,
        "smpquery-pkeys-11-1.txt": "",
        "smpquery-pkeys-99-1.txt": table,
    }
    reading = read(files)
    assert reading.pkeys == {PortKey("0x0000000000000b00", 1): (0x7FFF, 0x8001)}
    told = [one.text for one in reading.problems]
    assert len(told) == 2
    assert any("LID 11" in one and "gpu1 mlx5_0" in one for one in told)
    assert any("LID 99" in one for one in told)


def test_how_commands_ended():
    files = texts(net())
    commands = [
        Command(("iblinkinfo", "-l"), "iblinkinfo.txt", files["iblinkinfo.txt"], "", None, 5.0, 60.0, True)
    ]
    commands += [Command(("smpquery",), "smpquery-pkeys-10-1.txt", "", "", None, 5.0, 0.0, True)]
    commands += [Command(("ibnetdiscover",), "topology.txt", "", "", 1, 5.0, 0.1)]
    commands += [Command(("ibqueryerrors",), "ibqueryerrors.1.txt", "", "", -11, 5.0, 0.1)]
    told = [one.text for one in capture.parse(Capture(None, None, None, 1.0, tuple(commands))).problems]
    assert "`iblinkinfo -l` did not end in 60 s" in told
    assert "`smpquery` was not started: the time for the whole reading was over" in told
    assert "`ibnetdiscover` ended with exit status 1" in told
    assert "topology.txt is empty" in told
    assert "ibqueryerrors.1.txt is empty: the tool ended by signal 11" in told


def rich():
    table = "   0: 0x7fff 0x8001 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000\n8 pkeys capacity for this port\n"
    files = {
        **texts(without(net(), 0xA1, 2)),
        "ibaddr.txt": "GID fe80::b01 LID start 0xa end 0xa\n",
        "smpquery-pkeys-10-1.txt": table,
        "sminfo.txt": "sminfo: sm lid 10 sm guid 0xb01, activity count 5 priority 0 state 3 SMINFO_MASTER\n",
        "ibqueryerrors.1.txt": f'Errors for "x"\n   GUID 0xa0 port 1: [SymbolErrorCounter == 4]\n{SUMMARY}',
    }
    errors = {"iblinkinfo.txt": DUPLICATE.format(0xB11) + UMAD.format("0,1,3,2,2") + "what is new\n"}
    return read(files, errors)


def test_a_reading_is_the_same_after_json():
    reading = rich()
    assert reading.prefix == "0xfe80000000000000"
    assert subnet_json.load(json.loads(json.dumps(subnet_json.dump(reading)))) == reading


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("schema",), 2),
        (("devices", 0, "guid"), "0xA0"),
        (("devices", 0, "kind"), "toaster"),
        (("devices", 0, "ports", 0, "width"), 0),
        (("devices", 0, "ports", 0, "peer"), {"guid": "0x1", "number": 1}),
        (("counters", 0, "complete"), 1),
        (("problems", 0, "kind"), "else"),
        (("managers", 0, "state"), "KING"),
        (("host",), 7),
    ],
)
def test_json_of_another_form_is_refused(place, value):
    document = json.loads(json.dumps(subnet_json.dump(rich())))
    part = document
    for step in place[:-1]:
        part = part[step]
    part[place[-1]] = value
    with pytest.raises(reader.RefusedError, match=str(place[-1])):
        subnet_json.load(document, "reading.json")
