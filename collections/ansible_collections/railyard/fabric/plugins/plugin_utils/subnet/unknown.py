# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rule: every adapter is a node's of the inventory, by a name that is its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.cabling import PlannedLeaf
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.finding import build_finding
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Finding, Severity
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.names import (
    Misnamed,
    Place,
    has_host_name,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.view import View, place_of, show_place

#: More unknown hosts than these are one finding.
_MOST_HOSTS = 8


def check_names(
    view: View, planned: dict[Place, PlannedLeaf], explained: set[Place]
) -> tuple[list[Finding], set[Place]]:
    """Return what is wrong with names, and the rails that are among adapters without a known name.

    Args:
        view: the reading.
        planned: the leaf of each rail, where known.
        explained: rails whose place is taken by something that could not be read.
    """
    lost = [
        one
        for one in view.expected.ports
        if not one.absent and view.port_of(place_of(one)) is None and place_of(one) not in explained
    ]
    findings = [*_report_misnamed(view), *_report_replaced_leaves(view)]
    unidentified: set[Place] = set()
    strangers, unnamed = _list_strangers(view)
    findings += _report_twice(view, planned, {place_of(one) for one in lost}, unidentified)
    findings += _report_unnamed(view, planned, {place_of(one) for one in lost}, unnamed, unidentified)
    nameless = {place_of(one) for one in lost if one.hca is None and one.port_guid is None}
    findings += _report_rails(view, nameless - unidentified, unidentified)
    findings += _report_strangers(view, strangers)
    return findings, unidentified


def _report_misnamed(view: View) -> Iterator[Finding]:
    by_nodes: dict[tuple[str, str], list[Misnamed]] = {}
    for one in view.owners.misnamed:
        by_nodes.setdefault((one.node, one.claimed), []).append(one)
    for (node, claimed), found in by_nodes.items():
        guids = named([one.key.guid for one in found])
        text = f"by its GUIDs ({guids}) it is {node}, and it calls itself {claimed}"
        rail, ports = found[0].rail if len(found) == 1 else None, [one.key for one in found]
        yield build_finding("host_misnamed", "warn", text, node=node, rail=rail, ports=ports)


def _report_replaced_leaves(view: View) -> Iterator[Finding]:
    for name, match in view.leaves.items():
        leaf = view.expected.leaves.get(name)
        if leaf is not None and leaf.guid is not None and leaf.guid != match.guid:
            how = "is called so" if match.by == "name" else "has most of its rails"
            text = f"leaf {name} is declared as {leaf.guid}, which is not in the subnet; {match.guid} {how}"
            yield build_finding("switch_guid_differs", "warn", text, ports=[PortKey(match.guid, 0)])


def _report_twice(
    view: View, planned: dict[Place, PlannedLeaf], lost: set[Place], unidentified: set[Place]
) -> Iterator[Finding]:
    """Yield names that several adapters have; rails that are lost may be behind one of them."""
    by_node: dict[str, dict[str, list[PortKey]]] = {}
    for (node, rail), keys in view.owners.twice.items():
        by_node.setdefault(node, {})[rail] = keys
    for node, rails in by_node.items():
        may_be: list[Place] = []
        for rail, keys in rails.items():
            here = {peer.guid for key in keys if (peer := view.peer_of(key))}
            fitting = [
                place
                for place in sorted(lost - unidentified)
                if place[1] == rail and (place not in planned or planned[place].guid in here)
            ]
            if len(fitting) < len(keys):
                may_be += fitting
        unidentified |= set(may_be)
        ports = [key for keys in rails.values() for key in keys]
        text = f"several adapters call themselves {node} {named(list(rails))}: {_show_linked(view, ports)}"
        others = list(dict.fromkeys(place[0] for place in may_be))
        text += f"; one of them is likely {named(others, between=' or ')}" if others else ""
        severity: Severity = "unmeasured" if may_be else "warn"
        only = min(rails) if len(rails) == 1 else None
        yield build_finding("name_not_unique", severity, text, node=node, rail=only, ports=ports)


def _show_linked(view: View, keys: Iterable[PortKey]) -> str:
    """Return adapter ports by their GUIDs, each with the port that it is connected to."""
    return named([f"{key.guid} at {view.show_port(peer)}" for key in keys if (peer := view.peer_of(key))])


def _list_strangers(view: View) -> tuple[dict[str, list[PortKey]], list[PortKey]]:
    """Return linked ports of unknown hosts by host name, and those whose adapter names no host."""
    strangers: dict[str, list[PortKey]] = {}
    unnamed: list[PortKey] = []
    for key, owner in view.owners.of_port.items():
        if owner.node is not None or key not in view.link_at:
            continue
        if has_host_name(view.reading.devices[key.guid].description):
            strangers.setdefault(owner.shown.split()[0], []).append(key)
        else:
            unnamed.append(key)
    return strangers, unnamed


def _report_unnamed(
    view: View,
    planned: dict[Place, PlannedLeaf],
    lost: set[Place],
    unnamed: list[PortKey],
    unidentified: set[Place],
) -> Iterator[Finding]:
    if not unnamed:
        return
    at: dict[str, int] = {}
    for key in unnamed:
        peer = view.peer_of(key)
        if peer is not None:
            at[peer.guid] = at.get(peer.guid, 0) + 1
    may_be: list[Place] = []
    by_leaf: dict[str | None, list[Place]] = {}
    for place in sorted(lost - unidentified):
        by_leaf.setdefault(planned[place].guid if place in planned else None, []).append(place)
    for leaf, places in by_leaf.items():
        room = len(unnamed) if leaf is None else at.get(leaf, 0)
        if len(places) <= room:
            may_be += places
    unidentified |= set(may_be)
    where = named([
        f"{view.owners.of_port[key].shown} {key.guid} at {view.show_port(peer)}"
        for key in unnamed if (peer := view.peer_of(key))
    ])  # fmt: skip
    text = f"{len(unnamed)} adapter ports name no node: {where}"
    text += f"; among them are likely {named([show_place(place) for place in may_be])}" if may_be else ""
    yield build_finding("adapter_unknown", "unmeasured" if may_be else "warn", text, ports=unnamed)


def _report_rails(view: View, nameless: set[Place], unidentified: set[Place]) -> Iterator[Finding]:
    """Yield nodes whose adapters are known, but not which rail each of them is."""
    spare: dict[str, list[PortKey]] = {}
    for key, owner in view.owners.of_port.items():
        if owner.node is not None and owner.rail is None and key in view.link_at:
            spare.setdefault(owner.node, []).append(key)
    wanted: dict[str, list[Place]] = {}
    for place in nameless:
        wanted.setdefault(place[0], []).append(place)
    unclear = {node: keys for node, keys in spare.items() if 0 < len(wanted.get(node, ())) <= len(keys)}
    if not unclear:
        return
    unidentified |= {place for node in unclear for place in wanted[node]}
    text = (
        f"which rail each adapter of {named(list(unclear))} is is not known: neither inventory (hca) nor "
        "facts name the rail's device"
    )
    ports = [key for keys in unclear.values() for key in keys]
    node = min(unclear) if len(unclear) == 1 else None
    yield build_finding("adapter_unknown", "unmeasured", text, node=node, ports=ports)


def _report_strangers(view: View, strangers: dict[str, list[PortKey]]) -> Iterator[Finding]:
    def show(host: str) -> str:
        return f"{host} ({_show_linked(view, strangers[host])})"

    if len(strangers) > _MOST_HOSTS:
        text = f"{len(strangers)} hosts are not in the inventory: {named([show(host) for host in strangers])}"
        ports = [key for keys in strangers.values() for key in keys]
        yield build_finding("adapter_unknown", "warn", text, ports=ports)
        return
    for host, keys in strangers.items():
        yield build_finding("adapter_unknown", "warn", f"{show(host)} is not in the inventory", ports=keys)
