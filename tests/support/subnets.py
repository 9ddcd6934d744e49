# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Made-up InfiniBand subnets, printed in the formats of infiniband-diags.

The formats are those of the print statements in infiniband-diags/{ibnetdiscover,iblinkinfo}.c of rdma-core 44
and of commit 691953d8 (August 2026), and of what Debian 12's tools printed of ibsim.
"""

from __future__ import annotations

import random
from typing import NamedTuple

SPEEDS = {"SDR": "2.5", "QDR": "10.0", "FDR": "14.0625", "EDR": "25.78125", "HDR": "53.125", "NDR": "106.25"}
GENERATION = {**SPEEDS, "XDR": "212.5"}
PREFIX = {"SW": "S", "CA": "H"}
HEAD = {"SW": "Switch", "CA": "Ca"}


class Box(NamedTuple):
    """A switch or an adapter; an adapter's ports have GUIDs after its own, as those of ConnectX-3 had."""

    guid: int
    kind: str
    name: str
    ports: int
    lid: int

    def port_guid(self, number: int) -> int:
        return self.guid if self.kind == "SW" else self.guid + number

    def port_lid(self, number: int) -> int:
        return self.lid if self.kind == "SW" else self.lid + number - 1


class Net(NamedTuple):
    """Boxes by GUID, and links: two ports, lanes, and the generation's name."""

    boxes: dict[int, Box]
    links: dict[tuple[int, int], tuple[int, int, int, str]]

    def ports(self):
        """Yield what libibnetdisc finds: all ports of a switch, of an adapter those that a link leads to."""
        for box in self.boxes.values():
            for number in range(1, box.ports + 1):
                link = self.links.get((box.guid, number))
                if box.kind == "SW" or link is not None:
                    yield box, number, link


def join(links, near, far, lanes=4, speed="NDR"):
    """Add a link in both directions."""
    links[near] = (*far, lanes, speed)
    links[far] = (*near, lanes, speed)


def make_net(seed: int, leaves: int = 2, spines: int = 2, hosts: int = 3) -> Net:
    """Return a net of two tiers: names, widths and generations by chance, some ports without a link."""
    chance = random.Random(seed)
    names = [
        "gpu{} mlx5_0",
        "MT4129 ConnectX7   Mellanox Technologies",
        "it's {} - 'x' \"y\"",
        "a;b:c {}",
        "gpü{} \x1b[31m<b>../x",
    ]
    boxes, links, free = {}, {}, {}
    lid = 1
    for at in range(leaves + spines):
        kind = "leaf" if at < leaves else "spine"
        guid = 0x2C5EAB0300000000 + at * 0x40
        boxes[guid] = Box(guid, "SW", f"MF0;{kind}-{at}:MQM9700/U1", 2 * hosts + leaves + spines + 2, lid)
        free[guid] = iter(range(1, 2 * hosts + leaves + spines + 3))
        lid += 1
    switches = list(boxes)
    for leaf in switches[:leaves]:
        for spine in switches[leaves:]:
            pair = (leaf, next(free[leaf])), (spine, next(free[spine]))
            join(links, *pair, chance.choice([1, 2, 4]), chance.choice(list(GENERATION)))
        for _host in range(hosts):
            guid = 0xE09D730300000000 + len(boxes) * 0x10
            two = chance.random() < 0.3
            boxes[guid] = Box(guid, "CA", chance.choice(names).format(len(boxes)), 1 + two, lid)
            lid += 2
            for number in range(1, 2 + two):
                # What has no link is not found.
                if number == 1 or chance.random() < 0.7:
                    join(links, (leaf, next(free[leaf])), (guid, number), 4, chance.choice(list(GENERATION)))
            if two:
                next(free[leaf], None)
    return Net(boxes, links)


def print_ports(net: Net) -> str:
    """Return what `ibnetdiscover -p` prints."""
    lines = []
    for box, number, link in net.ports():
        start = f"{box.kind:>2} {box.port_lid(number):5d} {number:2d} 0x{box.port_guid(number):016x}"
        if link is None:
            lines.append(f"{start} 4x SDR{'':36s}'{box.name}'")
            continue
        guid, far, lanes, speed = link
        peer = net.boxes[guid]
        lines.append(
            f"{start} {lanes}x {speed} - {peer.kind:>2} {peer.port_lid(far):5d} {far:2d}"
            f" 0x{peer.port_guid(far):016x} ( '{box.name}' - '{peer.name}' )"
        )
    return "\n".join(lines) + "\n"


def print_topology(net: Net) -> str:
    """Return what `ibnetdiscover` prints without an option."""
    start = next(box for box in net.boxes.values() if box.kind == "CA")
    text = "#\n# Topology file: generated on Wed Aug  6 16:11:23 2025\n#\n"
    text += f"# Initiated from node {start.guid:016x} port {start.port_guid(1):016x}\n"
    for kind, word in (("SW", "switch"), ("CA", "ca")):
        for box in net.boxes.values():
            if box.kind != kind:
                continue
            own = f"({box.guid:x})" if kind == "SW" else ""
            tail = f" enhanced port 0 lid {box.lid} lmc 0" if kind == "SW" else ""
            text += (
                f"\nvendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x{box.guid:x}\n{word}guid=0x{box.guid:x}{own}\n"
            )
            text += f'{HEAD[kind]}\t{box.ports} "{PREFIX[kind]}-{box.guid:016x}"\t\t# "{box.name}"{tail}\n'
            text += "".join(_link(net, box, number) for number in range(1, box.ports + 1))
    return text


def _link(net: Net, box: Box, number: int) -> str:
    link = net.links.get((box.guid, number))
    if link is None:
        return ""
    guid, far, lanes, speed = link
    peer = net.boxes[guid]
    own = f"({box.port_guid(number):x}) " if box.kind == "CA" else ""
    theirs = f"({peer.port_guid(far):x}) " if peer.kind == "CA" else ""
    lid = f"lid {box.port_lid(number)} lmc 0 " if box.kind == "CA" else ""
    return (
        f'[{number}]{own}\t"{PREFIX[peer.kind]}-{guid:016x}"[{far}]{theirs}\t\t# {lid}"{peer.name}"'
        f" lid {peer.port_lid(far)} {lanes}x{speed}\n"
    )


def print_linkinfo(net: Net, by_line: bool = True) -> str:
    """Return what `iblinkinfo -l` prints, or `iblinkinfo`."""
    text, last = "", None
    for box, number, link in net.ports():
        own = f"0x{box.port_guid(number):016x} "
        if by_line:
            text += f'{own}"{box.name:>30}" '
        else:
            if last is not box:
                head = f"Switch: 0x{box.guid:016x} " if box.kind == "SW" else "CA: "
                text += f"{head}{box.name}:\n"
            text += "      " + (own if box.kind == "CA" else "")
        last = box
        text += f"{box.port_lid(number):6d} {number:4d}[  ] =="
        if link is None:
            text += f'(              {"Down":>6}/{"Polling":>8})==>             [  ] "" ( )\n'
            continue
        guid, far, lanes, speed = link
        peer = net.boxes[guid]
        rate = f"{GENERATION[speed]} Gbps"
        theirs = f"0x{peer.port_guid(far):016x} " if by_line else ""
        theirs += f"{peer.port_lid(far):6d} {far:4d}"
        text += f"({lanes:>2}X {rate:>18} {'Active':>6}/{'LinkUp':>8})==>  {theirs}"
        text += f'[  ] "{peer.name}" ( )\n'
    return text


def print_database(net: Net) -> str:
    """Return the sections of `ibdiagnet2.db_csv` that are read."""
    speeds = {"SDR": 1, "QDR": 4, "FDR": 256, "EDR": 512, "HDR": 1024, "NDR": 2048, "XDR": 4096}
    widths = {1: 1, 2: 16, 4: 2}
    text = (
        "START_NODES\nNodeDesc,NumPorts,NodeType,ClassVersion,BaseVersion,SystemImageGUID,NodeGUID,PortGUID\n"
    )
    for box in net.boxes.values():
        name = box.name.replace('"', '""')
        kind, guid = ("2" if box.kind == "SW" else "1"), f"0x{box.guid:016x}"
        text += f'"{name}",{box.ports},{kind},1,1,{guid},{guid},0x{box.port_guid(1):016x}\n'
    text += "END_NODES\n\nSTART_PORTS\n"
    text += "NodeGuid,PortGuid,PortNum,GIDPrfx,LID,LinkWidthActv,LinkSpeedActv,PortPhyState,PortState\n"
    for box, number, link in net.ports():
        up = f"{widths[link[2]]},{speeds[link[3]]},5,4" if link else "2,1,2,1"
        text += f"0x{box.guid:016x},0x{box.port_guid(number):016x},{number},0xfe80000000000000,"
        text += f"{box.port_lid(number)},{up}\n"
    text += "END_PORTS\n\nSTART_LINKS\nNodeGuid1,PortNum1,NodeGuid2,PortNum2\n"
    for (guid, number), (far_guid, far, _lanes, _speed) in net.links.items():
        if (guid, number) < (far_guid, far):
            text += f"0x{guid:016x},{number},0x{far_guid:016x},{far}\n"
    return text + "END_LINKS\n"
