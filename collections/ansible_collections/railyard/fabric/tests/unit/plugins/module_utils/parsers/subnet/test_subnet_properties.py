# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A printed subnet reads back as the subnet; damage takes links away and makes none."""

from __future__ import annotations

import random
import time

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet import capture
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet_capture import Capture, Command
from support import subnets

PRINTED = {
    "ibnetdiscover.txt": subnets.print_ports,
    "topology.txt": subnets.print_topology,
    "iblinkinfo.txt": subnets.print_linkinfo,
    "ibdiagnet2.db_csv": subnets.print_database,
}
ALL = tuple(PRINTED)


def read(texts):
    commands = (Command((), file, text, "", None, 1.0, 0.0) for file, text in texts.items())
    return capture.parse(Capture(None, None, None, 1.0, tuple(commands)))


def links_of(reading):
    return {
        (one.key, one.peer)
        for device in reading.devices.values()
        for one in device.ports.values()
        if one.peer
    }


def expected_links(net, by_device):
    """Return the links with the GUIDs that the texts have: of the devices, or of the ports alone."""

    def key(guid, number):
        return (f"0x{(guid if by_device else net.boxes[guid].port_guid(number)):016x}", number)

    return {(key(*near), key(*link[:2])) for near, link in net.links.items()}


@pytest.mark.parametrize(
    "files", [ALL, ALL[:3], ALL[:1], ALL[1:2], ALL[2:3], ALL[3:], ("topology.txt", "iblinkinfo.txt")]
)
@pytest.mark.parametrize("seed", range(6))
def test_a_printed_net_reads_back_as_the_net(seed, files):
    net = subnets.make_net(seed, leaves=3, spines=2, hosts=4)
    reading = read({file: PRINTED[file](net) for file in files})
    by_device = bool({"topology.txt", "ibdiagnet2.db_csv"} & {*files})
    assert links_of(reading) == expected_links(net, by_device)
    assert reading.problems == ()
    for (guid, number), (_far, _port, lanes, speed) in net.links.items():
        own = guid if by_device else net.boxes[guid].port_guid(number)
        port = reading.devices[f"0x{own:016x}"].ports[number]
        assert (port.width, port.lane_gbps) == (lanes, float(subnets.GENERATION[speed]))
        assert port.lid == net.boxes[guid].port_lid(number)
        assert port.port_guid == f"0x{net.boxes[guid].port_guid(number):016x}" or files == ALL[3:]


@pytest.mark.parametrize("seed", range(6))
def test_names_and_kinds_read_back(seed):
    net = subnets.make_net(seed, leaves=3, spines=2, hosts=4)
    for files in (ALL[:1], ALL[1:2], ALL[:3], ALL[3:]):
        reading = read({file: PRINTED[file](net) for file in files})
        for box in net.boxes.values():
            guids = {f"0x{box.guid:016x}", f"0x{box.port_guid(1):016x}"}
            device = next((reading.devices[guid] for guid in guids if guid in reading.devices), None)
            if device is not None:
                assert device.description == box.name, files
                assert device.kind == ("switch" if box.kind == "SW" else "adapter")


def test_blocks_of_iblinkinfo_name_peers_by_their_lids():
    net = subnets.make_net(3)
    reading = read({"iblinkinfo.txt": subnets.print_linkinfo(net, by_line=False)})
    assert links_of(reading) == expected_links(net, by_device=False)
    assert reading.problems == ()
    states = {one.state for device in reading.devices.values() for one in device.ports.values()}
    assert states == {"Active", "Down"}


def by_device(net, key):
    """Return a port with the GUID of its device where the text that was damaged named it by its own."""
    for box in net.boxes.values():
        if any(f"0x{box.port_guid(number):016x}" == key.guid for number in range(1, box.ports + 1)):
            return (f"0x{box.guid:016x}", key.number)
    return tuple(key)


@pytest.mark.parametrize("files", [(one,) for one in ALL] + [ALL, ALL[:3]])
def test_damage_never_raises_and_never_makes_a_link(files):
    chance = random.Random(len(files))
    for seed in range(3):
        net = subnets.make_net(seed)
        texts = {file: PRINTED[file](net) for file in files}
        whole = expected_links(net, by_device=True)
        for _try in range(60):
            file = chance.choice(files)
            data = bytearray(texts[file].encode())
            at = chance.randrange(len(data))
            if chance.random() < 0.5:
                data = data[:at]
            else:
                data[at] ^= 1 << chance.randrange(8)
            damaged = data.decode("utf-8", "replace")
            reading = read({**texts, file: damaged})
            left = {tuple(by_device(net, key) for key in link) for link in links_of(reading)}
            assert left <= whole, (file, at)
            # Damage in descriptions and LIDs may go unnoticed. Links that are lost may not.
            assert left == whole or reading.problems, (file, at)


def test_a_damaged_line_leaves_its_neighbours():
    net = subnets.make_net(1)
    for file in ALL[:3]:
        lines = PRINTED[file](net).split("\n")
        at = next(
            number
            for number, line in enumerate(lines)
            if "LinkUp" in line or " - SW" in line or "[1]" in line
        )
        whole = links_of(read({file: "\n".join(lines)}))
        lines[at] = lines[at][:14] + "\x00#!" + lines[at][14:]
        reading = read({file: "\n".join(lines)})
        assert len(whole - links_of(reading)) <= 2
        assert any(one.kind == "line" and one.source.line == at + 1 for one in reading.problems), file


def test_a_cut_text_is_reported():
    net = subnets.make_net(2)
    for file in ALL:
        text = PRINTED[file](net)
        for cut in (len(text) // 3, len(text) // 2):
            reading = read({file: text[:cut].rpartition("\n")[0] + "\n"})
            assert any(one.kind in ("damaged", "missing") for one in reading.problems), (file, cut)


def test_960_adapters_are_read_in_3_seconds():
    net = subnets.make_net(0, leaves=10, spines=8, hosts=96)
    assert sum(box.kind == "CA" for box in net.boxes.values()) == 960
    texts = {file: PRINTED[file](net) for file in ALL}
    began = time.process_time()
    reading = read(texts)
    assert time.process_time() - began < 3
    assert reading.problems == ()
