# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of others that configure a rail's netdev: an installer's, cloud-init's, somebody's own.

They are a finding. Asked to take over, the change moves them aside, but only those that speak of nothing
else: a file that also brings up the management network is edited by a person, not by us.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils import netplan_candidate, netplan_claims

# Outside netplan's `*.yaml` and networkd's `*.network`: still there for a person, read by nobody.
ASIDE = ".railyard-disabled"
# cloud-init writes its netplan file anew at boot unless this is said (its documentation, "Disabling network
# configuration").
CLOUD_INIT_FILE = "/etc/cloud/cloud.cfg.d/99-railyard-network.cfg"
CLOUD_INIT_TEXT = (
    "# Written by Railyard (role rail_network, rail_network_take_over): netplan has the network.\n"
    "network: {config: disabled}\n"
)
_MOVABLE = ("/etc/netplan", "/etc/systemd/network")


class Claim(NamedTuple):
    """A file that configures a netdev of ours.

    Attributes:
        netdev: the netdev.
        path: the file.
        reason: by what it claims the netdev.
        blocked: why it cannot be moved aside; empty when it can.
    """

    netdev: str
    path: str
    reason: str
    blocked: str


def spoken_of(texts: Mapping[str, str], present: Mapping[str, Mapping[str, str]]) -> tuple[set[str], bool]:
    """Return which netdevs these networkd files configure, and whether they also speak of absent ones.

    Args:
        texts: `{path: text}` of generated or hand-written files.
        present: `{netdev: {"mac", "driver"}}` of all netdevs of the node.
    """
    found: set[str] = set()
    absent = False
    for path, text in texts.items():
        if not path.endswith((".network", ".nmconnection")):
            continue
        own = {
            netdev
            for netdev, known in present.items()
            if netplan_claims.claims_netdev(text, netdev, known.get("mac", ""), known.get("driver", ""))
        }
        found |= own
        absent = absent or not own
    return found, absent


def blocked_by(
    path: str, texts: Mapping[str, str] | None, present: Mapping[str, Mapping[str, str]], ours: Sequence[str]
) -> str:
    """Say why a file cannot be moved aside; empty when it configures nothing but `ours`.

    Args:
        path: the file.
        texts: what it means to networkd; None when netplan does not take it alone.
        present: as `spoken_of`.
        ours: the netdevs that our files configure.
    """
    if os.path.dirname(path) not in _MOVABLE:
        return f"only files in {' and '.join(_MOVABLE)} are moved aside"
    if texts is None:
        return "it is not whole without other files"
    found, absent = spoken_of(texts, present)
    strangers = sorted(found - set(ours) - {"lo"})
    if strangers:
        return f"it also configures {', '.join(strangers)}"
    return "it also configures a netdev that is not there now" if absent else ""


def look(
    run: netplan_candidate.Run,
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
        CandidateError: netplan refuses the others' files as they are.
    """
    facts = netplan_candidate.netdev_facts(list(ours), sys_root)
    claims = netplan_candidate.claims_by_netplan(run, netplan, files, facts, work)
    claims += netplan_claims.claims(facts, written, {})
    if not claims:
        return []
    present = netplan_candidate.netdev_facts(_netdevs(sys_root), sys_root)
    blocked: dict[str, str] = {}
    for index, path in enumerate(sorted({path for _netdev, path, _reason in claims})):
        texts: Mapping[str, str] | None = {path: written[path]} if path in written else None
        if path in files:
            try:
                trial = os.path.join(work, f"moved{index}")
                texts, _said = netplan_candidate.generate(run, netplan, {path: files[path]}, {}, trial)
            except netplan_candidate.CandidateError:
                texts = None
        blocked[path] = blocked_by(path, texts, present, ours)
    return [Claim(netdev, path, reason, blocked[path]) for netdev, path, reason in claims]


def _netdevs(sys_root: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(sys_root, "class/net")))
    except OSError:
        return []


def moves(claims: Sequence[Claim]) -> list[dict[str, Any]]:
    """Return the change's entries that move the claiming files aside: the copy first, then the removal."""
    entries: list[dict[str, Any]] = []
    for path in sorted({claim.path for claim in claims if not claim.blocked}):
        with open(path, encoding="utf-8", errors="surrogateescape") as handle:
            text = handle.read()
        entries.append({"path": path + ASIDE, "text": text, "mode": 0o600})
        entries.append({"path": path, "text": None, "mode": 0o600})
    return entries


def cloud_init(root: str = "/") -> list[dict[str, Any]]:
    """Return the entry that keeps cloud-init off the network; none where cloud-init is not there."""
    if not os.path.isdir(os.path.join(root, os.path.dirname(CLOUD_INIT_FILE).lstrip("/"))):
        return []
    return [{"path": CLOUD_INIT_FILE, "text": CLOUD_INIT_TEXT, "mode": 0o644}]


def problems(claims: Sequence[Claim], owner: Mapping[str, str], path: str, *, take_over: bool) -> list[str]:
    """Say which claims keep the change from being made.

    Args:
        claims: as `look` returns them.
        owner: `{netdev: name of the rail or network}`.
        path: our file.
        take_over: whether files may be moved aside.
    """
    said = []
    for claim in claims:
        if take_over and not claim.blocked:
            continue
        fix = f"take {claim.netdev} out of that file, so that only {path} speaks of it"
        if take_over:
            fix = f"rail_network_take_over does not move it, since {claim.blocked}: {fix}"
        elif not claim.blocked:
            fix += "; or set rail_network_take_over: true, and it is moved aside"
        name = owner.get(claim.netdev, claim.netdev)
        said.append(
            f"{name}: {claim.path} also configures its netdev {claim.netdev} (by {claim.reason}); {fix}"
        )
    return said
