# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Would the node's own firewall drop what comes in by a rail: a verdict from the rules, nothing is changed.

One question is put to the input chains: a new connection from the rail's subnet, in by its netdev, to its
address. A condition is true, false or unknown for it (a port, a protocol: true of some packets); only what
surely lets all of it in counts as allowed. ufw and firewalld are what they write: iptables or nftables.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, Union

from ansible_collections.railyard.fabric.plugins.module_utils.netplan import firewall_rules

# Python 3.9, which nodes may have, cannot evaluate `X | Y`.
Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]  # noqa: UP007 - see above
Run = Callable[[list[str]], "tuple[int, str, str]"]
ACCEPT, DROP, NEXT = "accept", "drop", "next"
_DEEPEST = 16


class Packet(NamedTuple):
    """What is asked about: a new connection in by a netdev, from anywhere in a subnet, to one address."""

    netdev: str
    source: Network
    target: Network

    @property
    def family(self) -> str:
        """`ip` or `ip6`, as nft names the families."""
        return "ip6" if self.source.version == 6 else "ip"


def holds(condition: firewall_rules.Condition, packet: Packet) -> bool | None:
    """Say whether a condition is true of the packet; None when that depends on more than we ask about."""
    answer = _holds(condition, packet)
    return answer if answer is None or not condition.negated else not answer


def _holds(condition: firewall_rules.Condition, packet: Packet) -> bool | None:
    values = condition.values
    if condition.kind == "netdev":
        return any(fnmatchcase(packet.netdev, value) for value in values)
    if condition.kind == "family":
        return packet.family in values
    if condition.kind == "state":
        return "new" in values
    if condition.kind == "target_type":
        return "local" in values
    if condition.kind in ("source", "target"):
        return _within(packet.source if condition.kind == "source" else packet.target, values)
    return None


def _within(network: Network, values: Sequence[str]) -> bool | None:
    parts = []
    for value in values:
        try:
            parts += list(firewall_rules.networks(value))
        except ValueError:
            return None
    own = [part for part in parts if part.version == network.version]
    if any(network.subnet_of(part) for part in own):
        return True
    return None if any(network.overlaps(part) for part in own) else False


def walk(
    chains: Mapping[str, Sequence[firewall_rules.Rule]], name: str, packet: Packet, depth: int = 0
) -> str:
    """Follow a packet through a chain: `accept`, `drop`, or `next` when no rule decides surely."""
    unsure_return = False
    for rule in chains.get(name, []) if depth < _DEEPEST else []:
        answers = [holds(condition, packet) for condition in rule.conditions]
        if False in answers:
            continue
        sure = None not in answers
        if rule.verdict == "return":
            if sure:
                return NEXT
            # Some of these packets leave the chain here: what it drops later is not surely ours.
            unsure_return = True
        elif not sure:
            continue
        elif rule.verdict == ACCEPT:
            return ACCEPT
        elif rule.verdict == DROP:
            return NEXT if unsure_return else DROP
        elif rule.target:
            found = walk(chains, rule.target, packet, depth + 1)
            if found != NEXT or rule.verdict == "goto":
                return NEXT if found == DROP and unsure_return else found
    return NEXT


def droppers(tables: Sequence[firewall_rules.Table], packet: Packet) -> list[str]:
    """Return where the packet would be dropped: `nft table inet filter, chain input (policy drop)`."""
    found = []
    for table in tables:
        if table.family not in ("inet", packet.family):
            continue
        for name, policy in table.input_chains.items():
            verdict = walk(table.chains, name, packet)
            if verdict == DROP or (verdict == NEXT and policy == DROP):
                why = "policy drop" if verdict == NEXT else "a rule that drops or rejects the rest"
                found.append(f"{table.tool} table {table.family} {table.name}, chain {name} ({why})")
    return found


def findings(rails: Sequence[Mapping[str, Any]], tables: Sequence[firewall_rules.Table]) -> list[str]:
    """Say for each rail and family by what the host's firewall keeps the rail's peers out.

    Args:
        rails: rail dicts with `name`, `netdev`, `address`, `address6`.
        tables: as `read` returns them.
    """
    said = []
    for rail in rails:
        for key in ("address", "address6"):
            if not rail.get(key):
                continue
            own = ipaddress.ip_interface(rail[key])
            packet = Packet(rail["netdev"], own.network, ipaddress.ip_network(own.ip))
            places = droppers(tables, packet)
            if places:
                said.append(_sentence(rail, own.network, places))
    return said


def _sentence(rail: Mapping[str, Any], network: Network, places: Sequence[str]) -> str:
    netdev = rail["netdev"]
    return (
        f"{rail['name']} ({netdev}): the host's firewall drops what comes from {network}: "
        f"{'; '.join(places)}. TCP, UDP and software RDMA on this rail will fail (RoCE of an adapter passes "
        f"it by). Let the rail in where those rules are written: ufw allow in on {netdev}; or firewall-cmd "
        f'--permanent --zone=trusted --add-interface={netdev}; or nft: iifname "{netdev}" accept'
    )


def read(run: Run) -> tuple[list[firewall_rules.Table], list[str]]:
    """Read the rules that are loaded; a tool that is not installed has none.

    Args:
        run: runs an argv list, returns exit status, standard output and error; 127 for a missing command.

    Returns:
        `(tables, warnings)`.
    """
    tables: list[firewall_rules.Table] = []
    warnings = []
    for family, tool in (("ip", "iptables"), ("ip6", "ip6tables")):
        # The legacy tables are the kernel's other set: both are passed through.
        for command in (f"{tool}-save", f"{tool}-legacy-save"):
            status, out, _err = run([command])
            parsed = firewall_rules.from_iptables(out, family, tool) if status == 0 else []
            tables += [table for table in parsed if table not in tables]
    status, out, err = run(["nft", "-j", "list", "ruleset"])
    if status == 0:
        try:
            listed = firewall_rules.from_nft(out)
        except ValueError as error:
            warnings.append(f"the answer of nft -j list ruleset was not understood ({error}); look by hand")
            listed = []
        # iptables-nft keeps its rules in tables of these names, which iptables-save shows more plainly.
        known = {(table.family, table.name) for table in tables}
        tables += [table for table in listed if (table.family, table.name) not in known]
    elif status != 127 and "json" in err.lower():
        warnings.append("nft is built without JSON here: its rules were not looked at")
    return tables, warnings
