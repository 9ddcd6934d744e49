# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find out without a change what a node's rails need from its network; and prove the change afterwards."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..rails import resolve
from ..rollback import restore, snapshot
from . import candidate, firewall, networks, render, unmanaged
from . import claims as netplan_claims
from . import drift as netplan_state
from . import take_over as netplan_take_over

# Where a netdev may be configured outside netplan.
_NETWORKD_FOLDERS = ("/etc/systemd/network", "/run/systemd/network", "/etc/NetworkManager/system-connections")
# networkd continues after `netplan apply` returns: the state must stay correct for this long.
CALM_S = 1.0
# A link that was down needs this long to come up before "no carrier" counts.
CARRIER_PATIENCE_S = 8.0
PROOF_PATIENCE_S = 30.0


def examine(wanted: Mapping[str, Any], netplan: str, work: str) -> tuple[list[str], dict[str, Any]]:
    """Compare what is wanted with the node; reads only (its trial lives in `work`).

    Args:
        wanted: `rails` and `networks` (dicts of the plan), `frontend` (the inventory's), `path` (the rails'
            netplan file), `rp_filter`, `take_over` (whether foreign files may be moved aside),
            `accept_drift` (continue although the change would remove rules or apply foreign edits).
        netplan: path of the netplan command.
        work: an empty folder for trials.

    Returns:
        `(problems, findings)`; with problems nothing may be written. Findings: `rails` (resolved; managed
        networks are among them, marked `network`), `netdevs`, `files` (as `netplan_candidate.files`, each
        with `before`: text or None, and `wrong`: bool), `sysctls`, `drift`, `changed`, `warnings`,
        `snapshot`, `foreign_rules`, `own_rules`.
    """
    resolved, frontend, problems = _resolve(wanted)
    if problems:
        return problems, {}
    rp_filter = int(wanted["rp_filter"])
    netdevs = [rail["netdev"] for rail in resolved]
    # The parent of a VLAN gets an MTU, and a netdev that left the inventory loses its settings from our file:
    # a rollback restores both, and neither affects other configuration.
    before = "".join(_as_it_is({"path": path, "text": None})["before"] or "" for path in _own_paths(wanted))
    more = {rail["parent"] for rail in resolved if rail.get("parent")} | _netdevs_of(before)
    ports = netdevs + sorted(more - set(netdevs) - {str((wanted["frontend"] or {}).get("netdev"))})
    sysctls = candidate.sysctls(resolved, rp_filter)
    taken = restore.snapshot(ports, list(sysctls))
    problems += netplan_state.guards(resolved, taken, resolve.masters(ports))
    try:
        entries = candidate.files(resolved, wanted["path"], frontend, rp_filter)
    except render.RenderError as error:
        return [*problems, str(error)], {}
    owner = _owners(resolved, frontend)
    foreign, moved, warnings = _foreign(wanted, owner, entries, netplan, work)
    files = [{**entry, **_as_it_is(entry)} for entry in [*moved, *entries]]
    aside = [entry["path"] for entry in moved if candidate.is_netplan(entry["path"])]
    refused, said = _try_candidate(files, list(owner), aside, netplan, work)
    problems += foreign + refused
    drift = netplan_state.drift(resolved, taken) + netplan_state.sysctl_drift(resolved, taken, sysctls)
    changed = any(entry["wrong"] for entry in files) or bool(drift)
    swept: list[str] = []
    rules: dict[str, Any] = {"foreign_rules": [], "own_rules": []}
    if changed and not problems:
        # Checked only when there is something to apply: a run without a change removes nothing.
        swept, rules = _would_sweep(netdevs, taken, netplan, work)
        rules["own_rules"] += _rules_of(before, taken)
    findings = {
        "rails": resolved,
        "netdevs": ports,
        "files": files,
        "sysctls": sysctls,
        "drift": drift,
        "changed": changed,
        "warnings": [
            *warnings,
            *said,
            *netplan_state.without_carrier(resolved, taken),
            *firewall.warnings(restore.run),
            *(swept if wanted["accept_drift"] else []),
        ],
        "snapshot": taken,
        **rules,
    }
    return problems + ([] if wanted["accept_drift"] else swept), findings


def _would_sweep(
    netdevs: Sequence[str], taken: Mapping[str, Any], netplan: str, work: str
) -> tuple[list[str], dict[str, Any]]:
    """Return where files and running state differ before the change: an apply would change that too."""
    facts = candidate.netdev_facts(list(netdevs))
    texts = unmanaged.networkd_texts()
    keeps = unmanaged.keeps_foreign_rules()
    foreign = [] if keeps else unmanaged.foreign_rules(taken["rules"], texts)
    found = [unmanaged.rule_sentence(rule) for rule in foreign]
    files = candidate.netplan_files()
    would_be, _said = candidate.generate(restore.run, netplan, files, {}, os.path.join(work, "as_it_is"))
    ours = {path: text for path, text in would_be.items() if path.startswith(restore.GENERATED_DIR)}
    loaded = {
        path: text
        for path, text in restore.generated_files().items()
        if not path.endswith(".link")  # sets names, and has no effect on an existing netdev
    }
    sources = {path: _read(source) for path, source in files.items()}
    found += unmanaged.pending_edits(ours, loaded, facts, sources)
    own = unmanaged.rules_of_rails(taken["rules"], texts, facts)
    return found, {"foreign_rules": foreign, "own_rules": own}


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as handle:
        return handle.read()


def _resolve(wanted: Mapping[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any] | None, list[str]]:
    resolved, problems = [], []
    own = [_as_it_is({"path": path, "text": None})["before"] or "" for path in _own_paths(wanted)]
    macs = resolve.macs_of("\n".join(own))
    for rail in [*wanted["rails"], *networks.as_rails(wanted["networks"])]:
        if not render.has_stanza(rail):
            continue
        try:
            resolved.append(resolve.place(rail, known_macs=macs))
        except resolve.ResolveError as error:
            problems.append(str(error))
    frontend = networks.managed_frontend(wanted["frontend"])
    if frontend is not None:
        try:
            frontend = resolve.place({**frontend, "name": "frontend"})
        except resolve.ResolveError as error:
            problems.append(str(error))
    return resolved, frontend, problems


def _own_paths(wanted: Mapping[str, Any]) -> tuple[str, str]:
    return wanted["path"], networks.FILE


def _netdevs_of(text: str) -> set[str]:
    """Return the existing netdevs that a file of Railyard configures."""
    names = {name.strip('"') for name in re.findall(r"^    ([^ #][^ ]*):$", text, re.MULTILINE)}
    return {name for name in names if os.path.exists(os.path.join("/sys/class/net", name))}


def _rules_of(text: str, taken: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the running rules of a file of Railyard, including those of rails that left the inventory."""
    tables = set(re.findall(r"^ +table: ([0-9]+)$", text, re.MULTILINE))
    # networkd marks rules from files as static; a manual rule has protocol boot.
    return [
        rule
        for rule in taken["rules"]
        if str(rule.get("table")) in tables and rule.get("protocol") == "static"
    ]


def _as_it_is(entry: Mapping[str, Any]) -> dict[str, Any]:
    try:
        with open(entry["path"], encoding="utf-8", errors="replace") as handle:
            text = handle.read()
        status = os.stat(entry["path"])
    except FileNotFoundError:
        return {"before": None, "wrong": entry["text"] is not None}
    owned = stat.S_IMODE(status.st_mode) == entry.get("mode") and status.st_uid == 0
    return {"before": text, "wrong": text != entry["text"] or not owned}


def _owners(resolved: Sequence[Mapping[str, Any]], frontend: Mapping[str, Any] | None) -> dict[str, str]:
    """Return `{netdev: name of the rail or network}` for all netdevs that Railyard's files configure."""
    owner = {str(rail["parent"]): rail["name"] for rail in resolved if rail.get("parent")}
    owner.update({rail["netdev"]: rail["name"] for rail in resolved})
    if frontend is not None:
        owner[frontend["netdev"]] = "frontend"
    return owner


def _foreign(
    wanted: Mapping[str, Any],
    owner: Mapping[str, str],
    entries: Sequence[Mapping[str, Any]],
    netplan: str,
    work: str,
) -> tuple[list[str], list[dict[str, Any]], list[str]]:
    """Return the problems with foreign files, the entries that move files aside, and warnings."""
    ours = {entry["path"] for entry in entries}
    files = {path: source for path, source in candidate.netplan_files().items() if path not in ours}
    written = netplan_claims.read_networkd(_NETWORKD_FOLDERS)
    try:
        claims = netplan_take_over.look(restore.run, netplan, files, written, list(owner), work)
    except candidate.CandidateError as error:
        return [f"netplan rejects the existing files on the node, fix them first: {error}"], [], []
    facts = candidate.netdev_facts(list(owner))
    claims += [
        netplan_take_over.Claim(*claim, "it is ifupdown's, whose other lines belong to somebody")
        for claim in netplan_claims.claims(facts, {}, netplan_claims.read_ifupdown())
    ]
    take_over = bool(wanted["take_over"])
    problems = netplan_take_over.problems(claims, owner, wanted["path"], take_over=take_over)
    if not take_over:
        return problems, [], []
    moved = netplan_take_over.moves(claims)
    warnings = [
        f"{one['path']} is moved to {one['path']}{netplan_take_over.ASIDE}"
        + ("" if one["text"] is None else "; the stanzas of others stay")
        for one in moved[1::2]
    ]
    return problems, [*moved, *netplan_take_over.cloud_init()], warnings


def _try_candidate(
    entries: Sequence[Mapping[str, Any]], owned: Sequence[str], aside: Sequence[str], netplan: str, work: str
) -> tuple[list[str], list[str]]:
    """Run netplan generate on all files as they will be; return problems and unexpected lines of its output.

    What it generates from foreign files must not change: `_foreign` has left that in the folder of its trial.
    """
    ours = {entry["path"] for entry in entries}
    files = {path: source for path, source in candidate.netplan_files().items() if path not in ours}
    candidates = {
        entry["path"]: entry["text"]
        for entry in entries
        if entry["text"] is not None and candidate.is_netplan(entry["path"])
    }
    trial = os.path.join(work, "candidate")
    try:
        _texts, said = candidate.generate(restore.run, netplan, files, candidates, trial)
    except candidate.CandidateError as error:
        return [f"netplan rejects the candidate for {', '.join(candidates)}: {error}"], []
    altered = unmanaged.altered(
        candidate.tree(os.path.join(work, candidate.OTHERS)),
        candidate.tree(trial),
        candidate.netdev_facts(list(owned)),
    )
    problems = [unmanaged.altered_sentence(path, fate, aside) for path, fate in altered]
    return problems, netplan_state.unexpected_lines(said)


def prove(record: Mapping[str, Any], applied: Mapping[str, Any] | None) -> tuple[list[str], list[str]]:
    """Check an applied change once; return `(problems, rails without carrier)`."""
    if applied is None:
        return ["netplan apply has not finished"], []
    netdevs = record["netdevs"]
    target = record.get("target")
    wanted = list(target["sysctls"] if target else record["sysctls"])
    now = restore.snapshot(netdevs, wanted)
    rows = netplan_state.drift(record["rails"], now)
    rows += netplan_state.sysctl_drift(record["rails"], now, record["sysctls"])
    problems = [netplan_state.sentence(row) for row in rows]
    if target:
        problems += snapshot.differences(
            snapshot.of_rails(target, netdevs), snapshot.of_rails(now, netdevs), netdevs
        )
    own = record.get("own_rules", [])
    before = {
        **record["snapshot"],
        "rules": [rule for rule in record["snapshot"].get("rules", []) if rule not in own],
    }
    problems += snapshot.lost_management(before, now, netdevs)
    return problems, netplan_state.without_carrier(record["rails"], now)


def await_applied(record: Mapping[str, Any], read_applied: Any) -> bool:
    """Wait until netplan is done; return False when it is not before the deadline or the time limit."""
    end = min(time.monotonic() + PROOF_PATIENCE_S, record["expires_monotonic_s"])
    while read_applied() is None:
        if time.monotonic() >= end:
            return False
        time.sleep(0.1)
    return True


def await_proof(
    record: Mapping[str, Any], read_applied: Any, patience_s: float = PROOF_PATIENCE_S
) -> tuple[list[str], list[str]]:
    """Check until the change is proven, or until the deadline or the time limit; return like `prove`."""
    started = time.monotonic()
    # Leaves time for the rollback: a proof in the last second would race with it.
    end = min(started + patience_s, record["expires_monotonic_s"] - 1.0)
    carrier_end = min(started + CARRIER_PATIENCE_S, started + (end - started) / 2)
    calm_since: float | None = None
    while True:
        problems, away = prove(record, read_applied())
        now = time.monotonic()
        if problems:
            calm_since = None
        elif calm_since is None:
            calm_since = now
        if calm_since is not None and now - calm_since >= CALM_S and (not away or now >= carrier_end):
            return [], away
        if now >= end:
            return problems or ["the deadline came before the network had been right for a second"], away
        time.sleep(0.2)
