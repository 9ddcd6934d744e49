# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find side effects of a change: rules that no file declares, edits never applied, altered files."""

from __future__ import annotations

import configparser
import glob
import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..rollback import snapshot
from . import claims

_NETWORKD_DIRS = (
    "/etc/systemd/network",
    "/run/systemd/network",
    "/usr/lib/systemd/network",
    "/lib/systemd/network",
)
# Files that netplan writes elsewhere, or not at all, when the renderer changes.
_OF_THE_RENDERER = ("/run/systemd/network/", "/run/NetworkManager/", "/run/udev/rules.d/90-netplan.rules")
_CONF_DIRS = ("usr/lib/systemd", "run/systemd", "etc/systemd")
_TABLES = {"default": "253", "main": "254", "local": "255"}
_NO = {"no", "n", "false", "f", "off", "0"}


def networkd_texts(folders: Sequence[str] = _NETWORKD_DIRS) -> dict[str, str]:
    """Return `{path: text}` of all `.network` files and their drop-ins."""
    texts = {}
    for folder in folders:
        for pattern in ("*.network", "*.network.d/*.conf"):
            for path in sorted(glob.glob(os.path.join(folder, pattern))):
                with open(path, encoding="utf-8", errors="replace") as handle:
                    texts[path] = handle.read()
    return texts


def declared_rules(text: str) -> list[dict[str, str]]:
    """Return the `[RoutingPolicyRule]` sections of a `.network` file, keys in lower case."""
    found: list[dict[str, str]] = []
    section = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
            if section == "RoutingPolicyRule":
                found.append({})
        elif section == "RoutingPolicyRule" and "=" in line and line[0] not in "#;":
            key, _equals, value = line.partition("=")
            found[-1][key.strip().lower()] = value.strip()
    return found


def _network(text: str) -> str:
    return "" if text in ("", "all") else str(ipaddress.ip_network(text, strict=False))


def _is(rule: Mapping[str, Any], declared: Mapping[str, str]) -> bool:
    """Say whether a running rule is the one of a file: what the file says of it must hold."""
    length = f"/{rule['srclen']}" if "srclen" in rule else ""
    source = _network(f"{rule.get('src', 'all')}{length}")
    if _network(declared.get("from", "")) != source:
        return False
    if "priority" in declared and declared["priority"] != str(rule.get("priority")):
        return False
    if ("firewallmark" in declared) != bool(rule.get("fwmark")):
        return False
    table = _TABLES.get(str(rule.get("table")), str(rule.get("table")))
    wanted = declared.get("table", "254")
    return _TABLES.get(wanted, wanted) == table


def foreign_rules(rules: Sequence[Mapping[str, Any]], texts: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """Return the rules of a snapshot that networkd does not know, and so deletes when it starts or reloads.

    Args:
        rules: as `netplan_snapshot.take` returns them.
        texts: `{path: text}` of networkd's files.
    """
    declared = [rule for text in texts.values() for rule in declared_rules(text)]
    return [
        rule
        for rule in rules
        # networkd leaves alone what the kernel made (a VRF's rule).
        if rule.get("protocol") != "kernel" and not any(_is(rule, known) for known in declared)
    ]


def rules_of_rails(
    rules: Sequence[Mapping[str, Any]], texts: Mapping[str, str], facts: Mapping[str, Mapping[str, str]]
) -> list[Mapping[str, Any]]:
    """Return the rules that the rails' own files declare: a change of those files may take them away."""
    ours = {path: text for path, text in texts.items() if claims.claims(facts, {path: text}, {})}
    foreign = foreign_rules(rules, ours)
    return [rule for rule in rules if rule not in foreign]


def keeps_foreign_rules(root: str = "/") -> bool:
    """Say whether networkd.conf has `ManageForeignRoutingPolicyRules=no`; its default is yes."""
    paths = []
    for folder in _CONF_DIRS:
        paths.append(os.path.join(root, folder, "networkd.conf"))
        paths += sorted(glob.glob(os.path.join(root, folder, "networkd.conf.d/*.conf")))
    parser = configparser.ConfigParser(strict=False, interpolation=None, allow_no_value=True)
    for path in paths:
        try:
            parser.read(path, encoding="utf-8")
        except configparser.Error:
            continue
    value = parser.get("Network", "ManageForeignRoutingPolicyRules", fallback="yes") or "yes"
    return value.strip().lower() in _NO


def rule_sentence(rule: Mapping[str, Any]) -> str:
    """Return the message about a rule that no file declares, with the fix."""
    text = " ".join(snapshot.rule_argv("add", rule)[4:])
    return (
        f"routing rule `{text}` is in no file of netplan or networkd: networkd deletes it when a change is "
        "applied; declare it in netplan, set ManageForeignRoutingPolicyRules=no in networkd.conf, or have it "
        "put back after the change: rail_network_accept_drift=true"
    )


def pending_edits(
    would_be: Mapping[str, str],
    loaded: Mapping[str, str],
    facts: Mapping[str, Mapping[str, str]],
    yaml_texts: Mapping[str, str],
) -> list[str]:
    """Return the networkd files, without the rails', that netplan would generate differently than loaded.

    Args:
        would_be: `{path: text}` that netplan generates from the files on the node.
        loaded: `{path: text}` that it generated at the last apply.
        facts: `{netdev: {"mac", "driver"}}` of the rails.
        yaml_texts: `{path: text}` of the node's netplan files, to name the likely one.
    """
    found = []
    for path in sorted(set(would_be) | set(loaded)):
        old, new = loaded.get(path), would_be.get(path)
        if old == new or claims.claims(facts, {path: old or new or ""}, {}):
            continue
        name = re.sub(r".*netplan-(.*)\.[a-z]+\Z", r"\1", path)
        files = [file for file, text in yaml_texts.items() if name in text]
        change = "be changed" if old and new else "go" if old else "be new"
        found.append(
            f"an edit of {' or '.join(files) or 'a netplan file'} was never applied "
            f"({os.path.basename(path)} would {change}), and applying the rails would apply it too: apply it "
            "(netplan try) or revert it, or set rail_network_accept_drift=true"
        )
    return found


def altered(
    before: Mapping[str, str], after: Mapping[str, str], facts: Mapping[str, Mapping[str, str]]
) -> list[tuple[str, str]]:
    """Return `(generated file, what becomes of it)` for foreign files that a change would alter.

    Args:
        before: `{path: text}` of all that netplan generates from foreign files alone, as they are.
        after: what it generates from all files after the change.
        facts: `{netdev: {"mac", "driver"}}` of managed netdevs, whose foreign files the user has opted to
            move.
    """
    managed = {claims.netdef(path) for _netdev, path, _reason in claims.claims(facts, before, {})}
    names = "|".join(re.escape(name) for name in {*facts, *managed}) or "(?!)"
    named = re.compile(rf"(?<![\w.-])(?:{names})(?![\w.-])")
    found = []
    for path, old in before.items():
        netdef, new = claims.netdef(path), after.get(path)
        if new == old or netdef in managed:
            continue
        if not netdef and (named.search(old) or (new is not None and _has_all(new, old))):
            continue
        found.append((path, "go" if new is None else "be changed"))
    return found


def altered_sentence(path: str, fate: str, moved: Sequence[str]) -> str:
    """Return the message about a foreign file that a change would alter, with the fix.

    Args:
        path: the generated file.
        fate: what becomes of it, as `altered` has it.
        moved: foreign files that the change moves aside, or from which it moves stanzas.
    """
    fix = "give no other stanza the name of a rail's netdev"
    if moved:
        files = " and ".join(moved)
        fix = f"it is needed for something that {files} sets up: take the rails out of {files} by hand"
        if path.startswith(_OF_THE_RENDERER):
            fix = (
                f"what stays needs something of {files}, such as its global `renderer`: say that in a file "
                f"that stays (`network: {{version: 2, renderer: ...}}`), or take the rails out of {files} by "
                "hand"
            )
    return f"{path}, which netplan generates from other files, would {fate} with the change; {fix}"


def _has_all(new: str, old: str) -> bool:
    """Return whether each line of the old text is in the new one, which may have more from shared files."""
    lines = [set(line.split()) for line in new.splitlines()]
    return all(any(set(line.split()) <= one for one in lines) for line in old.splitlines())
