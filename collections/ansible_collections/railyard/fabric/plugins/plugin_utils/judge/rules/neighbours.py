# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge ARP owners, the path of replies, and the switch at a cable's other end. Pure.

A node queries one neighbor on each rail, and its row has the replies. If the neighbor's beacons do not
arrive, it cannot be queried, and the cabling verdict of the rail explains that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records.cable_rows import Switch
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    PASS,
    RECORDED,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.addresses import maker_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

Heard = Mapping[str, Any]


def judge(
    check: str,
    node: str,
    rail: Row,
    heard: Heard,
    addresses: Mapping[str, str],
    proxies: Collection[str] = (),
) -> Answer:
    """Judge a test of a cable's other end.

    Args:
        check: link_address_owner or reply_path.
        node: the querying node.
        rail: its planned rail, with the bound netdev.
        heard: the `cabling` part of its row.
        addresses: the plan's bare address of each other node on this rail.
        proxies: MAC addresses that answer for every address of the rail.
    """
    peer = heard["peer"]
    if peer == node or heard["peer_address"] != addresses.get(peer):
        return Answer.unmeasured("row_garbled", f"{node}: cabling is {dict(heard)!r}")
    return (
        _judge_owner(node, rail, heard, proxies)
        if check == "link_address_owner"
        else _judge_reply(node, rail, heard)
    )


def _judge_owner(node: str, rail: Row, heard: Heard, proxies: Collection[str]) -> Answer:
    peer, address, mac = heard["peer"], heard["peer_address"], heard["peer_mac"]
    claimed, others, known = heard["claimed_by"], heard["other_claimed_by"], heard["known"]
    wanted = {"claimed_by": [mac], "answers_for_other_rail": 0}
    foreign = sum(one == mac for one in others)
    answer = Answer.passed(
        {"claimed_by": list(claimed), "answers_for_other_rail": foreign},
        wanted,
        "only the MAC address of the rail answers for the rail's address, and for no other rail's address",
    )
    answering = [one for one in claimed if one in proxies]
    claimed, others = ([one for one in macs if one not in proxies] for macs in (claimed, others))
    where = f"{peer} {rail['name']} ({address}), queried by {node}"
    own_ports = {one for one, owner in known.items() if owner.rpartition(" ")[0] == peer}
    other_place = f"{heard['other_address']} of its {heard['other_rail']}"
    for what, macs in (("it", claimed), (other_place, others)):
        foreign_macs = [one for one in macs if one != mac and one not in own_ports]
        if foreign_macs:
            owners = [known.get(one) or maker_of(one) or "unknown vendor" for one in foreign_macs]
            claims = ", ".join(f"{one} ({owner})" for one, owner in zip(foreign_macs, owners, strict=True))
            return answer.failed("address_in_use", f"{where}: {what} is also claimed by {claims}")
    wrong = [one for one in claimed if one != mac]
    if wrong:
        claims = " and ".join(f"{one} ({known[one]})" for one in wrong)
        return answer.failed("arp_flux", f"{where}: answered by {claims}")
    if foreign:
        return answer.failed("arp_flux", f"{where}: it also answers for {other_place}")
    if answering:
        basis = (
            f"{', '.join(answering)} answers for every address of the rail, as a router's proxy ARP and a "
            "cloud's fabric do, so ARP cannot show the owner of an address"
        )
        return replace(answer, outcome=RECORDED, basis=basis, proof="unproven")
    if not claimed:
        return answer.unknown("no_arp_answer", where)
    if others:
        return answer.unknown("peer_miswired", f"{where}: its {heard['other_rail']} answers here too")
    return answer


def _judge_reply(node: str, rail: Row, heard: Heard) -> Answer:
    peer, name = heard["peer"], str(rail["name"])
    replies, route = heard["replies"], heard["route_netdev"]
    elsewhere = {other: count for other, count in replies.items() if other != name and count}
    came = replies.get(name, 0)
    wanted = {"route_netdev": rail["netdev"], "replies_elsewhere": 0}
    observed = {"route_netdev": route, "replies": came, "replies_elsewhere": sum(elsewhere.values())}
    basis = "a reply leaves by the rail that received the request, here and at the peer"
    answer = Answer(PASS, observed, {**wanted, "replies": 1}, dict(wanted), basis, proof="proven")
    if route is not None and route != rail["netdev"]:
        detail = f"{node} {name} would reply to {peer} by {route}, not by {rail['netdev']}"
        return answer.failed("reply_other_rail", detail)
    if elsewhere:
        detail = f"{peer} {name} was pinged by {node}, and its replies came by {', '.join(sorted(elsewhere))}"
        return answer.failed("reply_other_rail", detail)
    if not came:
        return answer.unknown("no_reply", f"{peer} {name}, pinged by {node}")
    if route is None:
        return answer.unknown("route_unknown", f"{node} {name}")
    return answer


def judge_switch(node: str, rail: Row, found: Sequence[Switch]) -> Answer:
    """Judge which switch is at a cable's other end.

    Args:
        node: the node.
        rail: its planned rail.
        found: the switches that it received LLDP from.
    """
    where = f"{node} {rail['name']}"
    leaf = str(rail.get("leaf"))
    wanted = {"switch": leaf}
    if not found:
        # Without LLDP nothing was compared, so nothing is recorded or proven.
        return Answer(observed={"neighbours": 0}).unknown("no_lldp", f"{where}, planned is {leaf}")
    names = [one["switch"] or one["chassis"] for one in found]
    ports = ", ".join(f"{name} port {one['port']}" for name, one in zip(names, found, strict=True))
    answer = Answer(
        RECORDED, {"switch": ", ".join(names), "ports": ports}, dict(wanted), dict(wanted),
        "the leaf in the inventory has the name that the switch sends by LLDP, which is not proven",
        proof="unproven",
    )  # fmt: skip
    if not any(_is_same_switch(name, leaf) for name in names):
        if not all(one["switch"] for one in found):
            return answer.unknown("switch_unnamed", f"{where} is at {ports}, planned is {leaf}")
        return answer.failed("wrong_leaf", f"{where} is at {ports}, planned is {leaf}")
    if not all(_is_same_switch(name, leaf) for name in names):
        return answer.unknown("neighbour_unclear", f"{where} receives LLDP from {ports}")
    return answer


def _is_same_switch(name: str, leaf: str) -> bool:
    """Compare names case-insensitively, and without the domain if one of them has none."""
    one, other = name.lower(), leaf.lower()
    return one == other or (
        ("." in one) != ("." in other) and one.split(".", maxsplit=1)[0] == other.split(".", maxsplit=1)[0]
    )
