# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths between rails: traces beside a reading, its rates and its error counters."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet_capture import Capture, Command
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import paths
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import judge
from support.fake_subnets import FDR, Net

SENDER, RECEIVER = ("gpu001", "rail0"), ("gpu006", "rail0")


@pytest.fixture
def net():
    """Two units of four nodes: gpu001 is at leaf0-0, gpu006 at leaf1-0."""
    return Net()


def links_of(net, spine=0):
    """Return the ports from gpu001 to gpu006 on rail0, by the way the net is wired."""
    start, end = net.adapter_key(0, 0), net.adapter_key(5, 0)
    up = net.list_uplinks(net.leaf(0, 0), net.spine(spine))[0]
    down = net.list_uplinks(net.spine(spine), net.leaf(1, 0))[0]
    return [(start, net.peer(start)), (up, net.peer(up)), (down, net.peer(down)), (net.peer(end), end)]


def printed(net, links, ends=True):
    """Return what `ibtracert -n` prints of links: a port's GUID in the hops, a device's at the ends."""
    text = f"From {{{links[0][0].guid}}}[{links[0][0].number}]\n"
    for out, into in links:
        is_adapter = net.devices[into.guid].kind == "adapter"
        guid = net.port_guid(into.guid) if is_adapter else into.guid
        text += f"[{out.number}] -> {{{guid}}}[{into.number}]\n"
    return text + (f"To {{{links[-1][1].guid}}}[{links[-1][1].number}]\n" if ends else "")


def follow(net, text, *, reading=None, rc=0, stderr="", known=None):
    reading = reading or net.reading()
    expected = net.expected()
    lids = [reading.port(key).lid for key in (net.adapter_key(0, 0), net.adapter_key(5, 0))]
    command = Command(("ibtracert",), f"ibtracert-{lids[0]}-{lids[1]}.txt", text, stderr, rc, 1.0, 0.1)
    subnet = paths.read_traces(
        Capture("gpu001", None, None, 1.0, (command,)), reading, judge(reading, expected)
    )
    guids = paths.find_port_guids(net.reading(), expected) if known is None else known
    return paths.follow_path([subnet], guids, SENDER, RECEIVER)


def test_each_link_has_its_ports_its_rate_and_its_errors(net):
    links = links_of(net)
    net.train(links[1][0], width=2, lane_gbps=FDR)
    net.after = {links[1][1]: {"SymbolErrorCounter": 12}, links[3][1]: {"PortRcvErrors": 1}}
    net.before = {links[3][1]: {"PortRcvErrors": 1}}
    way = follow(net, printed(net, links))
    assert (way["sender"], way["receiver"], way["unknown"]) == ("gpu001", "gpu006", None)
    shown = [(one["out"]["name"], one["into"]["name"], one["rate_gbps"]) for one in way["links"]]
    assert shown == [
        ("gpu001 rail0", "leaf0-0", 100.0),
        ("leaf0-0", "spine0", 28.0),
        ("spine0", "leaf1-0", 100.0),
        ("leaf1-0", "gpu006 rail0", 100.0),
    ]
    assert [(one["out"]["port"], one["into"]["port"]) for one in way["links"]] == [
        (out.number, into.number) for out, into in links
    ]
    # A counter that did not grow during the tests is no error of the tests.
    grown = {"end": "into", "counter": "SymbolErrorCounter", "by": 12, "at_least": False}
    assert [one["grown"] for one in way["links"]] == [[], [grown], [], []]


def test_errors_without_a_counter_are_not_zero(net):
    reading, text = net.reading(), printed(net, links_of(net))
    once = reading._replace(counters=reading.counters[:1])
    part = reading._replace(counters=(reading.counters[0], reading.counters[1]._replace(complete=False)))
    for one in (once, part):
        assert {link["grown"] is None for link in follow(net, text, reading=one)["links"]} == {True}


def test_a_counter_that_fell_or_is_full_is_not_known(net):
    links = links_of(net)
    net.before = {links[0][1]: {"SymbolErrorCounter": 9}, links[2][0]: {"SymbolErrorCounter": 65535}}
    net.after = {links[0][1]: {"SymbolErrorCounter": 2}, links[2][0]: {"SymbolErrorCounter": 65535}}
    grown = [one["grown"] for one in follow(net, printed(net, links))["links"]]
    full = {"end": "out", "counter": "SymbolErrorCounter", "by": 0, "at_least": True}
    assert grown == [None, [], [full], []]


def test_a_path_that_ends_early_is_not_completed(net):
    links = links_of(net)
    way = follow(
        net, printed(net, links[:2], ends=False), rc=255, stderr="ibwarn: [1] find_route: can't reach port\n"
    )
    assert len(way["links"]) == 2
    assert "can't reach port" in way["unknown"]


@pytest.mark.parametrize("kind", ["link", "device", "start", "end"])
def test_what_contradicts_the_reading_is_not_shown(net, kind):
    links = links_of(net)
    if kind == "link":
        # A cable that is in another port than the forwarding table says.
        other = links[2][0].number % 16 + 1
        assert net.peer(PortKey(net.spine(0), other)) != links[2][1]
        links[2] = (PortKey(net.spine(0), other), links[2][1])
        way = follow(net, printed(net, links))
        assert len(way["links"]) == 2
        assert f"spine0 port {other}" in way["unknown"]
    elif kind == "device":
        way = follow(net, printed(net, links).replace(net.leaf(1, 0), "0x00000000000000aa"))
        assert len(way["links"]) == 2
        assert "changed" in way["unknown"]
    else:
        other = net.adapter_key(1, 0)
        text = printed(net, links).splitlines(True)
        text[0 if kind == "start" else -1] = f"{'From' if kind == 'start' else 'To'} {{{other.guid}}}[1]\n"
        way = follow(net, "".join(text))
        assert (way["links"], "another port" in way["unknown"]) == ([], True)


def test_a_rail_without_a_port_or_a_link_has_no_path(net):
    text, known = printed(net, links_of(net)), paths.find_port_guids(net.reading(), net.expected())
    without = {place: guid for place, guid in known.items() if place != RECEIVER}
    assert "no port of gpu006 rail0" in follow(net, text, known=without)["unknown"]
    assert (
        "no subnet had both" in follow(net, text, known={**known, RECEIVER: "0x00000000000000aa"})["unknown"]
    )
    reading = net.reading()
    key = net.adapter_key(5, 0)
    device = reading.devices[key.guid]
    down = device._replace(ports={1: device.ports[1]._replace(lid=None)})
    # Its name is of the LID that it had.
    before = follow(net, text)
    assert before["unknown"] is None
    subnet = paths.read_traces(
        Capture(None, None, None, 1.0, ()),
        reading._replace(devices={**reading.devices, key.guid: down}),
        judge(reading, net.expected()),
    )
    assert "gpu006 rail0 has no LID" in paths.follow_path([subnet], known, SENDER, RECEIVER)["unknown"]
    untraced = subnet._replace(reading=reading, ports={**subnet.ports, known[RECEIVER]: device.ports[1]})
    assert paths.follow_path([untraced], known, SENDER, RECEIVER)["unknown"] == "it was not traced"
