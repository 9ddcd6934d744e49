# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find what else configures a rail's netdev: other netplan files, networkd's files, ifupdown.

Netplan's YAML is not parsed here (the standard library has no YAML parser, and netplan merges the files):
netplan generates networkd's files from the other YAML files, and those show what they match.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Mapping, Sequence


def match_section(text: str) -> dict[str, list[str]]:
    """Return the match section of a networkd or NetworkManager file: `{key: [values]}`, lower-case keys."""
    found: dict[str, list[str]] = {}
    section = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].lower()
        elif section in ("match", "connection", "ethernet") and "=" in line and line[0] not in "#;":
            key, _equals, value = line.partition("=")
            name = ("" if section == "match" else section + ".") + key.strip().lower()
            found.setdefault(name, []).extend(value.split() or [""])
    return found


def netdef(path: str) -> str:
    """Return the id of the stanza of a file that netplan generated; empty for any other file."""
    found = re.search(r"netplan-(.+)\.(?:network|netdev|link|nmconnection|rules)\Z", path)
    return found.group(1) if found else ""


def _name_matches(patterns: Sequence[str], netdev: str) -> bool:
    # networkd: a list that begins with `!` matches names that none of its patterns matches
    if patterns and patterns[0].startswith("!"):
        rest = [patterns[0][1:], *patterns[1:]]
        return not any(fnmatch.fnmatchcase(netdev, pattern) for pattern in rest)
    return any(fnmatch.fnmatchcase(netdev, pattern) for pattern in patterns)


def _same_mac(values: Sequence[str], mac: str) -> bool:
    plain = re.sub(r"[^0-9a-f]", "", mac.lower())
    return bool(plain) and any(re.sub(r"[^0-9a-f]", "", value.lower()) == plain for value in values)


def claims_netdev(text: str, netdev: str, mac: str, driver: str = "") -> str:
    """Return by what a generated `.network`/`.nmconnection` file claims a netdev; empty when it does not.

    As in networkd, all conditions of a `[Match]` section must hold; one that cannot be evaluated here (a
    path, a kernel command line) counts as true, so that the user checks it.
    """
    match = match_section(text)
    if "connection.type" in match or "connection.interface-name" in match:
        if netdev in match.get("connection.interface-name", []):
            return f"interface-name {netdev}"
        patterns = [one for value in match.get("interface-name", []) for one in value.split(";") if one]
        if _name_matches(patterns, netdev):
            return "interface-name " + " ".join(patterns)
        macs = match.get("ethernet.mac-address", [])
        return f"mac-address {mac}" if _same_mac(macs, mac) else ""
    reasons = []
    for key in ("name", "originalname"):
        if key in match:
            if not _name_matches(match[key], netdev):
                return ""
            reasons.append("name " + " ".join(match[key]))
    for key in ("macaddress", "permanentmacaddress"):
        if key in match:
            if not _same_mac(match[key], mac):
                return ""
            reasons.append(f"MAC address {mac}")
    if "driver" in match:
        if driver and not _name_matches(match["driver"], driver):
            return ""
        reasons.append("driver " + " ".join(match["driver"]))
    if "type" in match and not _name_matches(match["type"], "ether"):
        return ""
    if not reasons and match:
        reasons.append("its [Match] section")
    return " and ".join(reasons)


_IFUPDOWN = re.compile(r"(?:iface|auto|allow-[a-z]+|no-auto-down|mapping|rename)\s+(.*)")


def ifupdown_claims(text: str, netdev: str) -> str:
    """Return the line of an `interfaces` file by which ifupdown claims a netdev; empty when it does not."""
    for raw in text.splitlines():
        line = raw.strip()
        found = _IFUPDOWN.match(line)
        if not found:
            continue
        words = found.group(1).split()
        names = words[:1] if line.startswith("iface") else words
        for word in names:
            # `ens6=rails` and `/ens*/` are ifupdown's syntax for an alias and a pattern
            pattern = word.split("=")[0].strip("/")
            if fnmatch.fnmatchcase(netdev, pattern):
                return line
    return ""


def claims(
    netdevs: Mapping[str, Mapping[str, str]], networkd: Mapping[str, str], ifupdown: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """Return `(netdev, file, reason)` for each claim.

    Args:
        netdevs: `{netdev: {"mac": ..., "driver": ...}}` of the rails.
        networkd: `{path: text}` of networkd and NetworkManager files, without Railyard's.
        ifupdown: `{path: text}` of ifupdown's files.
    """
    found = []
    for netdev, known in netdevs.items():
        for path, text in sorted(networkd.items()):
            reason = claims_netdev(text, netdev, known.get("mac", ""), known.get("driver", ""))
            if reason:
                found.append((netdev, path, reason))
        for path, text in sorted(ifupdown.items()):
            reason = ifupdown_claims(text, netdev)
            if reason:
                found.append((netdev, path, reason))
    return found


def read_networkd(folders: Sequence[str]) -> dict[str, str]:
    """Read manually written `.network` files and NetworkManager profiles, without netplan's output."""
    texts = {}
    for folder in folders:
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            if name.endswith((".network", ".nmconnection")) and "netplan-" not in name:
                texts[os.path.join(folder, name)] = _text(os.path.join(folder, name))
    return texts


def read_ifupdown(root: str = "/") -> dict[str, str]:
    """Read `/etc/network/interfaces` and the files of `interfaces.d`, which Debian's file sources."""
    main = os.path.join(root, "etc/network/interfaces")
    folder = os.path.join(root, "etc/network/interfaces.d")
    paths = [main] if os.path.isfile(main) else []
    if os.path.isdir(folder):
        paths += [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    return {path: _text(path) for path in paths if os.path.isfile(path)}


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as handle:
        return handle.read()
