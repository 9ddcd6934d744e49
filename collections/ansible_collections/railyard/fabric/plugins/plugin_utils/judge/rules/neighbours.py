# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who answers on a rail, by which rail replies come, and which switch says that it is there. Pure.

A node asks one neighbour on each rail; what it heard is in its row. A neighbour that is not heard there
cannot be asked, and the cabling verdict of the same rail says why.
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

Told = Mapping[str, Any]


def judge(
    check: str,
    node: str,
    rail: Row,
    told: Told,
    addresses: Mapping[str, str],
    proxies: Collection[str] = (),
) -> Answer:
    """Answer a question about a cable's other end.

    Args:
        check: link_address_owner or reply_path.
        node: who asked.
        rail: its planned rail, with the netdev that it is bound to.
        told: the `cabling` part of its row.
        addresses: the plan's bare address of each other node on this rail.
        proxies: MAC addresses that answer for every address of the rail.
    """
    peer = told["peer"]
    if peer == node or told["peer_address"] != addresses.get(peer):
        return Answer.unmeasured("row_garbled", f"{node}: cabling is {dict(told)!r}")
    return _owner(node, rail, told, proxies) if check == "link_address_owner" else _reply(node, rail, told)


def _owner(node: str, rail: Row, told: Told, proxies: Collection[str]) -> Answer:
    peer, address, mac = told["peer"], told["peer_address"], told["peer_mac"]
    claimed, others, known = told["claimed_by"], told["other_claimed_by"], told["known"]
    wanted = {"claimed_by": [mac], "answers_for_other_rail": 0}
    foreign = sum(one == mac for one in others)
    answer = Answer.passed(
        {"claimed_by": list(claimed), "answers_for_other_rail": foreign},
        wanted,
        "one MAC address answers for an address, that of its rail, and for no other rail's address",
    )
    answering = [one for one in claimed if one in proxies]
    claimed, others = ([one for one in macs if one not in proxies] for macs in (claimed, others))
    where = f"{peer} {rail['name']} ({address}), asked by {node}"
    own_ports = {one for one, owner in known.items() if owner.rpartition(" ")[0] == peer}
    other_place = f"{told['other_address']} of its {told['other_rail']}"
    for what, macs in (("it", claimed), (other_place, others)):
        strangers = [one for one in macs if one != mac and one not in own_ports]
        if strangers:
            owners = [known.get(one) or maker_of(one) or "no known maker" for one in strangers]
            said = ", ".join(f"{one} ({owner})" for one, owner in zip(strangers, owners, strict=True))
            return answer.failed("address_in_use", f"{where}: {what} is also claimed by {said}")
    wrong = [one for one in claimed if one != mac]
    if wrong:
        said = " and ".join(f"{one} ({known[one]})" for one in wrong)
        return answer.failed("arp_flux", f"{where}: answered by {said}")
    if foreign:
        said = f"{where}: it also answers for {other_place}"
        return answer.failed("arp_flux", said)
    if answering:
        basis = (
            f"{', '.join(answering)} answers for every address of the rail, as a router's proxy ARP and a "
            "cloud's fabric do: whose an address is, ARP cannot tell here"
        )
        return replace(answer, outcome=RECORDED, basis=basis, proof="unproven")
    if not claimed:
        return answer.unknown("no_arp_answer", where)
    if others:
        return answer.unknown("peer_miswired", f"{where}: its {told['other_rail']} answers here too")
    return answer


def _reply(node: str, rail: Row, told: Told) -> Answer:
    peer, name = told["peer"], str(rail["name"])
    replies, route = told["replies"], told["route_netdev"]
    elsewhere = {other: count for other, count in replies.items() if other != name and count}
    came = replies.get(name, 0)
    wanted = {"route_netdev": rail["netdev"], "replies_elsewhere": 0}
    observed = {"route_netdev": route, "replies": came, "replies_elsewhere": sum(elsewhere.values())}
    basis = "a reply leaves by the rail that the request came by, here and at the peer"
    answer = Answer(PASS, observed, {**wanted, "replies": 1}, dict(wanted), basis, proof="proven")
    if route is not None and route != rail["netdev"]:
        said = f"{node} {name} would reply to {peer} by {route}, not by {rail['netdev']}"
        return answer.failed("reply_other_rail", said)
    if elsewhere:
        said = f"{peer} {name} was asked by {node}, and its replies came by {', '.join(sorted(elsewhere))}"
        return answer.failed("reply_other_rail", said)
    if not came:
        return answer.unknown("no_reply", f"{peer} {name}, asked by {node}")
    if route is None:
        return answer.unknown("route_unknown", f"{node} {name}")
    return answer


def judge_switch(node: str, rail: Row, found: Sequence[Switch]) -> Answer:
    """Answer which switch is at a cable's other end.

    Args:
        node: who asked.
        rail: its planned rail.
        found: the switches that it heard.
    """
    where = f"{node} {rail['name']}"
    leaf = str(rail.get("leaf"))
    wanted = {"switch": leaf}
    if not found:
        # Silence says nothing of the cable: nothing was compared, so nothing is recorded or proven either.
        return Answer(observed={"neighbours": 0}).unknown("no_lldp", f"{where}, planned is {leaf}")
    said = [one["switch"] or one["chassis"] for one in found]
    ports = ", ".join(f"{name} port {one['port']}" for name, one in zip(said, found, strict=True))
    answer = Answer(
        RECORDED, {"switch": ", ".join(said), "ports": ports}, dict(wanted), dict(wanted),
        "the leaf that the inventory names, as it says itself by LLDP, which nothing proves",
        proof="unproven",
    )  # fmt: skip
    if not any(_same_switch(name, leaf) for name in said):
        if not all(one["switch"] for one in found):
            return answer.unknown("switch_unnamed", f"{where} is at {ports}, planned is {leaf}")
        return answer.failed("wrong_leaf", f"{where} is at {ports}, planned is {leaf}")
    if not all(_same_switch(name, leaf) for name in said):
        return answer.unknown("neighbour_unclear", f"{where} hears {ports}")
    return answer


def _same_switch(said: str, leaf: str) -> bool:
    """Compare without case, and without the domain where one of the two has none."""
    one, other = said.lower(), leaf.lower()
    return one == other or (
        ("." in one) != ("." in other) and one.split(".", maxsplit=1)[0] == other.split(".", maxsplit=1)[0]
    )
