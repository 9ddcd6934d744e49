# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `nft -j list ruleset` and `iptables-save` print, in one form: chains of conditions and verdicts.

Only what the input path of one host needs; any other condition is kept as `unknown`.
"""

from __future__ import annotations

import ipaddress
import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Condition(NamedTuple):
    """One condition of a rule.

    Attributes:
        kind: `netdev`, `source`, `target`, `state`, `family`, `target_type` or `unknown`.
        values: any of these makes it true.
        negated: true of what none of them matches.
    """

    kind: str
    values: tuple[str, ...] = ()
    negated: bool = False


UNKNOWN = Condition("unknown")


class Rule(NamedTuple):
    """Conditions, and what becomes of a packet of which all are true.

    Attributes:
        conditions: all must hold.
        verdict: `accept`, `drop`, `return`, `jump`, `goto`, or empty for a rule that only counts or logs.
        target: the chain of a jump or goto.
    """

    conditions: tuple[Condition, ...]
    verdict: str
    target: str = ""


@dataclass
class Table:
    """A table that filters.

    Attributes:
        tool: `nft`, `iptables` or `ip6tables`.
        family: `ip`, `ip6` or `inet`.
        name: its name.
        input_chains: the chains that input passes, with their policy (`accept` or `drop`).
        chains: rules by chain.
    """

    tool: str
    family: str
    name: str
    input_chains: dict[str, str] = field(default_factory=dict)
    chains: dict[str, list[Rule]] = field(default_factory=dict)


def networks(text: str) -> Iterator[Any]:
    """Yield the networks of an address, a prefix or a range `first-last`; ValueError for anything else."""
    first, dash, last = text.partition("-")
    if dash:
        # mypy does not see that both ends are of one family; summarize_address_range checks it.
        begin: Any = ipaddress.ip_address(first)
        end: Any = ipaddress.ip_address(last)
        yield from ipaddress.summarize_address_range(begin, end)
    else:
        yield ipaddress.ip_network(text, strict=False)


def from_iptables(text: str, family: str, tool: str) -> list[Table]:
    """Parse the filter table of iptables-save's output; other tables decide nothing here."""
    table = Table(tool, family, "filter")
    section = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("*"):
            section = line[1:]
        elif section != "filter":
            continue
        elif line.startswith(":"):
            name, policy = line[1:].split()[:2]
            table.chains.setdefault(name, [])
            if name == "INPUT":
                table.input_chains[name] = policy.lower()
        elif line.startswith("-A "):
            words = shlex.split(line)
            table.chains.setdefault(words[1], []).append(_iptables_rule(words[2:]))
    return [table] if table.input_chains else []


_IPTABLES = {
    "-i": "netdev",
    "--in-interface": "netdev",
    "-s": "source",
    "-d": "target",
    "--ctstate": "state",
    "--state": "state",
    "--dst-type": "target_type",
}
_IPTABLES_VERDICTS = {"ACCEPT": "accept", "DROP": "drop", "REJECT": "drop", "RETURN": "return"}
# Targets that act and go on; whatever else is no chain name either is harmless: a missing chain has no rules.
_SILENT = {"--comment", "--log-prefix", "--log-level", "--reject-with", "--nflog-prefix", "--nflog-group"}


def _iptables_rule(words: list[str]) -> Rule:
    conditions: list[Condition] = []
    verdict, target = "", ""
    negated = False
    rest = iter(words)
    for word in rest:
        if word == "!":
            negated = True
            continue
        if word in ("-j", "-g"):
            name = next(rest, "")
            verdict = _IPTABLES_VERDICTS.get(name, "goto" if word == "-g" else "jump")
            target = "" if name in _IPTABLES_VERDICTS else name
        elif word in _IPTABLES:
            value = next(rest, "")
            values = value.lower().split(",") if word.startswith("--") else value.split(",")
            # iptables writes `ens+` for every name that begins so
            values = [one[:-1] + "*" if one.endswith("+") else one for one in values]
            conditions.append(Condition(_IPTABLES[word], tuple(values), negated))
        elif word in _SILENT or word == "-m":
            next(rest, "")
        elif word.startswith("-") and not verdict:
            # A port, a protocol, a limit: true of some packets.
            conditions.append(UNKNOWN)
        negated = False
    return Rule(tuple(conditions), verdict, target)


def from_nft(text: str) -> list[Table]:
    """Parse the output of `nft -j list ruleset` (libnftables-json(5)).

    Raises:
        ValueError: it is no such output.
    """
    answer = json.loads(text)
    listing = answer.get("nftables") if isinstance(answer, dict) else None
    if not isinstance(listing, list):
        raise ValueError("it has no list `nftables`")
    tables: dict[tuple[str, str], Table] = {}
    for item in listing:
        if "chain" in item:
            chain = item["chain"]
            table = _table(tables, chain["family"], chain["table"])
            table.chains.setdefault(chain["name"], [])
            if chain.get("hook") == "input":
                table.input_chains[chain["name"]] = chain.get("policy", "accept")
        elif "rule" in item:
            rule = item["rule"]
            rows = _table(tables, rule["family"], rule["table"]).chains.setdefault(rule["chain"], [])
            rows += _nft_rules(rule.get("expr") or [])
    return [table for table in tables.values() if table.input_chains]


def _table(tables: dict[tuple[str, str], Table], family: str, name: str) -> Table:
    return tables.setdefault((family, name), Table("nft", family, name))


_NFT_VERDICTS = {"accept": "accept", "drop": "drop", "reject": "drop", "return": "return"}
_NFT_SILENT = {"counter", "log", "comment", "mangle", "set", "notrack"}


def _nft_rules(expressions: list[Any]) -> list[Rule]:
    """Return a rule; a verdict map becomes one rule per element."""
    conditions: list[Condition] = []
    for expression in expressions:
        # nft prints some statements without arguments as plain strings.
        named: dict[str, Any] = expression if isinstance(expression, dict) else {str(expression): {}}
        word, value = next(iter(named.items()))
        if word == "match":
            conditions.append(_nft_condition(value))
        elif word in _NFT_VERDICTS:
            return [Rule(tuple(conditions), _NFT_VERDICTS[word])]
        elif word in ("jump", "goto"):
            return [Rule(tuple(conditions), word, value["target"])]
        elif word == "vmap":
            return _verdict_map(conditions, value)
        elif word not in _NFT_SILENT:
            conditions.append(UNKNOWN)
    return [Rule(tuple(conditions), "")]


def _verdict_map(conditions: list[Condition], value: Mapping[str, Any]) -> list[Rule]:
    rules = []
    data = value.get("data")
    for key, verdict in data.get("set", []) if isinstance(data, Mapping) else []:
        one = _nft_condition({"op": "==", "left": value["key"], "right": key})
        rules += [
            Rule((*conditions, one, *rule.conditions), rule.verdict, rule.target)
            for rule in _nft_rules([verdict])
        ]
    return rules


def _nft_condition(match: Mapping[str, Any]) -> Condition:
    kind = _nft_kind(match["left"])
    try:
        values = tuple(_nft_values(match["right"]))
    except ValueError:
        return UNKNOWN
    if kind.startswith("ip"):
        # `ip saddr` is true of IPv4 alone, which its addresses say as well.
        kind = kind.split(" ", 1)[1]
    return Condition(kind, values, match.get("op") == "!=") if kind != "unknown" else UNKNOWN


def _nft_kind(left: Any) -> str:
    if not isinstance(left, Mapping):
        return "unknown"
    if left.get("meta", {}).get("key") in ("iif", "iifname"):
        return "netdev"
    if left.get("meta", {}).get("key") == "nfproto":
        return "family"
    if left.get("ct", {}).get("key") == "state" and "dir" not in left["ct"]:
        return "state"
    if left.get("fib", {}).get("result") == "type" and left["fib"].get("flags") in (["daddr"], "daddr"):
        return "target_type"
    payload = left.get("payload", {})
    if payload.get("protocol") in ("ip", "ip6") and payload.get("field") in ("saddr", "daddr"):
        return f"ip {'source' if payload['field'] == 'saddr' else 'target'}"
    return "unknown"


def _nft_values(right: Any) -> Iterator[str]:
    """Yield what a match compares with; ValueError for a named set, whose elements are not in the rule."""
    if isinstance(right, str) and not right.startswith("@"):
        yield {"ipv4": "ip", "ipv6": "ip6"}.get(right, right)
    elif isinstance(right, list):
        for one in right:
            yield from _nft_values(one)
    elif isinstance(right, Mapping) and "set" in right:
        yield from _nft_values(right["set"])
    elif isinstance(right, Mapping) and "prefix" in right:
        yield f"{right['prefix']['addr']}/{right['prefix']['len']}"
    elif isinstance(right, Mapping) and "range" in right:
        yield f"{right['range'][0]}-{right['range'][1]}"
    elif isinstance(right, Mapping) and "elem" in right:
        yield from _nft_values(right["elem"]["val"])
    else:
        raise ValueError("a named set, or nothing that can be compared here")
