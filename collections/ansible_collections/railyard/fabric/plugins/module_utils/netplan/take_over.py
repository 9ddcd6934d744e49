# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find foreign files that configure a rail's netdev: an installer's, cloud-init's, a user's.

They are a finding. With take-over the change moves them aside; from a file that also configures the
management network it moves only the stanzas of managed netdevs, and netplan writes the rest.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .. import node_files
from . import candidate
from . import claims as netplan_claims

# Matches neither netplan's `*.yaml` nor networkd's `*.network`: kept for the user, read by no program.
ASIDE = ".railyard-disabled"
# Without this cloud-init writes its netplan file again at boot (its documentation, "Disabling network
# configuration").
CLOUD_INIT_FILE = "/etc/cloud/cloud.cfg.d/99-railyard-network.cfg"
_DISABLED = "network: {config: disabled}"
CLOUD_INIT_TEXT = (
    "# Written by Railyard (role rail_network, rail_network_take_over): netplan has the network.\n"
    f"{_DISABLED}\n"
)
_MOVABLE = ("/etc/netplan", "/etc/systemd/network")
# netplan's keys for SR-IOV, which the stanza of a rail does not have; an ethernet's `link` makes it a virtual
# function of that port (netplan's YAML reference, "SR-IOV").
_VIRTUAL_FUNCTIONS = ("embedded-switch-mode", "virtual-function-count", "delay-virtual-functions-rebind")
_PORT = "link"
_CLOUD_INITS_OWN = "/etc/netplan/50-cloud-init.yaml"


class Claim(NamedTuple):
    """A foreign file that configures a managed netdev.

    Attributes:
        netdev: the netdev.
        path: the file.
        reason: by what it claims the netdev.
        blocked: why it cannot be moved aside; empty when it can.
        fix: the fix in that case; empty when it is to take the netdev out of the file.
        stays: the file's text without the stanzas of managed netdevs; None when it has nothing else.
    """

    netdev: str
    path: str
    reason: str
    blocked: str = ""
    fix: str = ""
    stays: str | None = None


def sort(
    texts: Mapping[str, str], present: Mapping[str, Mapping[str, str]], ours: Sequence[str]
) -> tuple[dict[str, list[str]], dict[str, list[str]], bool]:
    """Sort stanzas by whether they configure managed netdevs, others, or both.

    Args:
        texts: `{path: text}` that netplan generates from a file, or a manually written file of networkd.
        present: `{netdev: {"mac", "driver"}}` of all netdevs of the node, and of managed ones to come.
        ours: the netdevs that Railyard's files configure.

    Returns:
        `({section: ids} of stanzas with managed netdevs alone, {id: the others} of those with managed netdevs
        and others, whether there are more)`.
    """
    mine: dict[str, list[str]] = {}
    shared: dict[str, list[str]] = {}
    more = False
    for path, text in texts.items():
        if not path.endswith((".network", ".nmconnection")):
            continue
        found = {netdev for netdev, *_why in netplan_claims.claims(present, {path: text}, {})} - {"lo"}
        others = sorted(found - set(ours))
        if found & set(ours) and others:
            shared[netplan_claims.netdef(path)] = others
        elif found & set(ours):
            # A managed netdev is a port, or a VLAN on one.
            device = texts.get(re.sub(r"network\Z", "netdev", path), text)
            section = "vlans" if re.search(r"^(?:Kind|type)=vlan$", device, re.MULTILINE) else "ethernets"
            mine.setdefault(section, []).append(netplan_claims.netdef(path))
        else:
            more = True
    return mine, shared, more


def look(
    run: candidate.Run,
    netplan: str,
    files: Mapping[str, str],
    written: Mapping[str, str],
    ours: Sequence[str],
    work: str,
    sys_root: str = "/sys",
) -> list[Claim]:
    """Find who else configures our netdevs.

    Args:
        run: runs an argv list.
        netplan: path of the netplan command.
        files: `{path: where to read it}` of the others' netplan files.
        written: `{path: text}` of networkd files and NetworkManager profiles that netplan did not make.
        ours: netdevs.
        work: a folder for trials.
        sys_root: where sysfs is, for tests.

    Raises:
        CandidateError: netplan rejects the existing files.
    """
    facts = candidate.netdev_facts(list(ours), sys_root)
    claims = candidate.claims_by_netplan(run, netplan, files, facts, work)
    claims += netplan_claims.claims(facts, written, {})
    if not claims:
        return []
    # A managed VLAN may not exist yet.
    there = node_files.list_names(os.path.join(sys_root, "class/net"))
    present = candidate.netdev_facts(sorted({*there, *ours}), sys_root)
    parts: dict[str, tuple[str, str, str | None]] = {}
    for index, path in enumerate(sorted({path for _netdev, path, _reason in claims})):
        if os.path.dirname(path) not in _MOVABLE:
            parts[path] = f"only files in {' and '.join(_MOVABLE)} are moved aside", "", None
        elif path in files:
            trial = os.path.join(work, f"moved{index}")
            parts[path] = _part(run, netplan, path, files[path], present, ours, trial)
        else:
            parts[path] = *_shared(sort({path: written[path]}, present, ours)[1], ours), None
    return [Claim(*claim, *parts[claim[1]]) for claim in claims]


def _part(
    run: candidate.Run,
    netplan: str,
    path: str,
    source: str,
    present: Mapping[str, Mapping[str, str]],
    ours: Sequence[str],
    work: str,
) -> tuple[str, str, str | None]:
    """Return `blocked`, `fix` and `stays` of a netplan file."""
    try:
        texts, _said = candidate.generate(run, netplan, {path: source}, {}, work)
    except candidate.CandidateError:
        return "it is not whole without other files", "", None
    mine, shared, more = sort(texts, present, ours)
    virtual = _virtual_functions(run, netplan, mine.get("ethernets", []), work)
    if virtual[0]:
        return *virtual, None
    if shared or not more:
        return *_shared(shared, ours), None
    ids = ", ".join(netdef for section in mine.values() for netdef in section)
    cannot = f"netplan cannot take {ids} out of it"
    try:
        stays = candidate.without(run, netplan, path, mine, work)
        left, _said = candidate.generate(run, netplan, {}, {path: stays}, work + "-stays")
    except candidate.CandidateError as error:
        return f"{cannot}: {error}", "", None
    if netplan_claims.claims({netdev: present[netdev] for netdev in ours}, left, {}):
        return cannot, "", None
    return "", "", stays


def _virtual_functions(run: candidate.Run, netplan: str, ids: Sequence[str], work: str) -> tuple[str, str]:
    """Return `blocked` and `fix` of stanzas whose virtual functions would go with them."""
    try:
        stanzas = candidate.stanza_keys(run, netplan, "ethernets", work)
    except candidate.CandidateError:
        return "", ""
    for netdef in ids:
        keys = [key for key in _VIRTUAL_FUNCTIONS if key in stanzas.get(netdef, {})]
        of_it = [name for name, stanza in stanzas.items() if stanza.get(_PORT) == netdef]
        port = stanzas.get(netdef, {}).get(_PORT)
        where = f"its stanza {netdef}"
        if port:
            return f"{where} is a virtual function of {port}, which netplan makes because of it", (
                f"have another stanza say how many there are (`virtual-function-count` of {port}, in a file "
                f"that names no rail), or use a port as the rail"
            )
        if keys or of_it:
            named = ", ".join([*keys, *(f"`link` of {name}" for name in of_it)])
            return f"{where} sets up virtual functions ({named}), which would go with it", (
                "set them up outside netplan (a udev rule that writes sriov_numvfs, `devlink dev eswitch "
                "set` for the switch mode), take these keys out, and run again"
            )
    return "", ""


def _shared(shared: Mapping[str, Sequence[str]], ours: Sequence[str]) -> tuple[str, str]:
    """Return `blocked` and `fix` of a stanza that matches managed netdevs and others."""
    for netdef, others in shared.items():
        each = f"`match: {{name: {others[0]}}}`" if netdef else f"`Name={' '.join(others)}`"
        where = f"its stanza {netdef}" if netdef else "its [Match]"
        fix = f"put a stanza for each of {', '.join(others)} in its place ({each} and what it says)"
        if not netdef:
            fix = f"have it match these alone ({each})"
        return f"{where} also configures {', '.join(others)}", fix
    return "", ""


def moves(claims: Sequence[Claim]) -> list[dict[str, Any]]:
    """Return the change's entries for each claiming file: the copy first, then its removal or what stays."""
    entries: list[dict[str, Any]] = []
    for path, stays in sorted({claim.path: claim.stays for claim in claims if not claim.blocked}.items()):
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as handle:
            text, status = handle.read(), os.stat(handle.fileno())
        kept = {"mode": stat.S_IMODE(status.st_mode), "owner": [status.st_uid, status.st_gid]}
        entries.append({"path": path + ASIDE, "text": text, "mode": 0o600})
        entries.append({"path": path, "text": stays, **kept})
    return entries


def moved_aside(root: str = "/") -> list[str]:
    """Return the paths of the files that were moved aside and are still there."""
    folders = [os.path.join(root, folder.lstrip("/")) for folder in _MOVABLE]
    return [
        os.path.join(folder, name)
        for folder in folders
        for name in sorted(node_files.list_names(folder))
        if name.endswith(ASIDE)
    ]


def cloud_init(root: str = "/") -> list[dict[str, Any]]:
    """Return the entry that disables cloud-init's network configuration; none without cloud-init."""
    if not os.path.isdir(os.path.join(root, os.path.dirname(CLOUD_INIT_FILE).lstrip("/"))):
        return []
    return [{"path": CLOUD_INIT_FILE, "text": CLOUD_INIT_TEXT, "mode": 0o644}]


def problems(claims: Sequence[Claim], owner: Mapping[str, str], path: str, *, take_over: bool) -> list[str]:
    """Return the claims that prevent the change.

    Args:
        claims: as `look` returns them.
        owner: `{netdev: name of the rail or network}`.
        path: Railyard's file.
        take_over: whether files may be moved aside.
    """
    said = []
    for claim in claims:
        if take_over and not claim.blocked:
            continue
        fix = claim.fix or f"take {claim.netdev} out of that file, so that only {path} configures it"
        if claim.path == _CLOUD_INITS_OWN:
            fix += f", and write `{_DISABLED}` to {CLOUD_INIT_FILE}, or cloud-init may undo it at a boot"
        if take_over or claim.fix:
            fix = f"rail_network_take_over does not move it, since {claim.blocked}: {fix}"
        elif not claim.blocked:
            moved = "it is" if claim.stays is None else "its stanzas of such netdevs alone are"
            fix += f"; or set rail_network_take_over: true, and {moved} moved aside"
        name = owner.get(claim.netdev, claim.netdev)
        said.append(
            f"{name}: {claim.path} also configures its netdev {claim.netdev} (by {claim.reason}); {fix}"
        )
    return said
