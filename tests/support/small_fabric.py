# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small InfiniBand fabric as captured text: nodes with two rails, a leaf for each, two spines."""

from __future__ import annotations

import os
from pathlib import Path

from support.subnets import Box, Net, join, print_linkinfo, print_ports

LEAF, SPINE, HOST = 0x2C5EAB0300000000, 0x2C5EAB0300000800, 0xE09D730300000000
NODES, RAILS, SPINES = 4, 2, 2
TAKEN_AT_S = 1_790_000_000.0


def make_net(nodes: int = NODES, rails: tuple[int, ...] = (0, 1), name: str = "gpu{:02d} mlx5_{}") -> Net:
    """Make nodes with a leaf for each rail and two spines, two links to each leaf; NDR, four lanes."""
    boxes, links = {}, {}
    for rail in rails:
        boxes[LEAF + rail] = Box(LEAF + rail, "SW", f"leaf{rail}", nodes + 2 * SPINES, 10 + rail)
    for spine in range(SPINES):
        # Of each subnet its own.
        guid = SPINE + 16 * rails[0] + spine
        boxes[guid] = Box(guid, "SW", f"spine{spine}", 2 * RAILS, 20 + spine)
    for rail in rails:
        for spine in range(SPINES):
            for link in range(2):
                up = (SPINE + 16 * rails[0] + spine, 2 * rail + link + 1)
                join(links, (LEAF + rail, nodes + 2 * spine + link + 1), up)
        for node in range(nodes):
            guid = HOST + 16 * node + rail * 2
            boxes[guid] = Box(guid, "CA", name.format(node + 1, rail), 1, 100 + RAILS * node + rail)
            join(links, (LEAF + rail, node + 1), (guid, 1))
    return Net(boxes, links)


def cut(net: Net, port: tuple[int, int]) -> None:
    """Remove a link; a switch's port stays without a peer, an adapter is not found."""
    far = net.links.pop(port)[:2]
    net.links.pop(far)
    for guid, _number in (port, far):
        if net.boxes[guid].kind == "CA":
            del net.boxes[guid]


def write_capture(folder: Path, net: Net, taken_at_s: float = TAKEN_AT_S) -> Path:
    """Write a net as an operator captures it; the subnet manager runs on the first spine."""
    folder.mkdir()
    lid = next(box.lid for box in net.boxes.values() if box.name == "spine0")
    guid = next(box.guid for box in net.boxes.values() if box.name == "spine0")
    ports = sum(box.ports for box in net.boxes.values())
    counted = (
        f"\n## Summary: {len(net.boxes)} nodes checked, 0 bad nodes found\n"
        f"##          {ports} ports checked, 0 ports have errors beyond threshold\n## Thresholds: \n"
    )
    sminfo = f"sminfo: sm lid {lid} sm guid 0x{guid:x}, activity count 7 priority 14 state 3 SMINFO_MASTER\n"
    saquery = (
        f"IsSM ports\nPortInfoRecord dump:\n\t\tEndPortLid..............{lid}\n"
        f"\t\tPortNum.................0\n\t\tbase_lid................{lid}\n"
        f"\t\tmaster_sm_base_lid......{lid}\n\t\tcapability_mask.........0x50C04A\n\nIsSMdisabled ports\n"
    )
    texts = {
        "ibnetdiscover.txt": print_ports(net),
        "iblinkinfo.txt": print_linkinfo(net),
        "ibqueryerrors.1.txt": counted,
        "ibqueryerrors.2.txt": counted,
        "saquery-s.txt": saquery,
        "sminfo.txt": sminfo,
        f"sminfo-{lid}.txt": sminfo,
    }
    for place, (name, text) in enumerate(texts.items()):
        path = folder / name
        path.write_text(text, encoding="utf-8")
        # The second reading of the counters is the later one by this.
        os.utime(path, (taken_at_s + 60 * place, taken_at_s + 60 * place))
    return folder
