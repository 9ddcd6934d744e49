# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node's rails ask of its network, found out without changing anything; and the proof afterwards."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils import (
    netplan_candidate,
    netplan_claims,
    netplan_foreign,
    netplan_render,
    netplan_resolve,
    netplan_running,
    netplan_snapshot,
    netplan_state,
)

# Where others may configure a netdev outside netplan.
_NETWORKD_FOLDERS = (
    "/etc/systemd/network",
    "/run/systemd/network",
    "/etc/NetworkManager/system-connections",
)
# networkd goes on working after `netplan apply` returns: what is right must stay right for so long.
CALM_S = 1.0
# A link that was down needs this long to find its partner before "no carrier" is believed.
CARRIER_PATIENCE_S = 8.0
PROOF_PATIENCE_S = 30.0


def examine(
    rails: Sequence[Mapping[str, Any]], path: str, netplan: str, work: str, accept_drift: bool = False
) -> tuple[list[str], dict[str, Any]]:
    """Compare rails with the node; reads only (its trial lives in `work`).

    Args:
        rails: rail dicts of the plan.
        path: the netplan file of the rails, which belongs to Railyard.
        netplan: path of the netplan command.
        work: an empty folder for trials.
        accept_drift: go on although the change would sweep away rules or apply others' edits.

    Returns:
        `(problems, findings)`; with problems nothing may be written. Findings: `rails` (resolved), `netdevs`,
        `files` (as `netplan_candidate.files`, each with `before`: text or None, and `wrong`: bool),
        `sysctls`, `drift`, `changed`, `warnings`, `snapshot`, `foreign_rules`, `own_rules`.
    """
    resolved, problems = _resolve(rails)
    if problems:
        return problems, {}
    netdevs = [rail["netdev"] for rail in resolved]
    sysctls = netplan_candidate.sysctls(resolved)
    taken = netplan_running.snapshot(netdevs, list(sysctls))
    problems += netplan_state.guards(resolved, taken, netplan_resolve.masters(netdevs))
    try:
        files = [{**entry, **_as_it_is(entry)} for entry in netplan_candidate.files(resolved, path)]
    except netplan_render.RenderError as error:
        return [*problems, str(error)], {}
    claim_problems, warnings = _try_files(resolved, path, files, netplan, work)
    problems += claim_problems
    drift = netplan_state.drift(resolved, taken) + netplan_state.sysctl_drift(resolved, taken, sysctls)
    changed = any(entry["wrong"] for entry in files) or bool(drift)
    swept: list[str] = []
    rules: dict[str, Any] = {"foreign_rules": [], "own_rules": []}
    if changed and not problems:
        # Looked at only when there is something to apply: a run without a change sweeps nothing.
        swept, rules = _would_sweep(netdevs, taken, netplan, work)
    findings = {
        "rails": resolved,
        "netdevs": netdevs,
        "files": files,
        "sysctls": sysctls,
        "drift": drift,
        "changed": changed,
        "warnings": warnings
        + netplan_state.without_carrier(resolved, taken)
        + (swept if accept_drift else []),
        "snapshot": taken,
        **rules,
    }
    return problems + ([] if accept_drift else swept), findings


def _would_sweep(
    netdevs: Sequence[str], taken: Mapping[str, Any], netplan: str, work: str
) -> tuple[list[str], dict[str, Any]]:
    """Say where files and running state differ before we begin, so that an apply would do more than ours."""
    facts = netplan_candidate.netdev_facts(list(netdevs))
    texts = netplan_foreign.networkd_texts()
    keeps = netplan_foreign.keeps_foreign_rules()
    foreign = [] if keeps else netplan_foreign.foreign_rules(taken["rules"], texts)
    found = [netplan_foreign.rule_sentence(rule) for rule in foreign]
    files = netplan_candidate.netplan_files()
    would_be, _said = netplan_candidate.generate(
        netplan_running.run, netplan, files, {}, os.path.join(work, "as_it_is")
    )
    ours = {path: text for path, text in would_be.items() if path.startswith(netplan_running.GENERATED_DIR)}
    loaded = {
        path: text
        for path, text in netplan_running.generated_files().items()
        if not path.endswith(".link")  # speaks of names, and does not take effect on a live netdev
    }
    sources = {path: _read(source) for path, source in files.items()}
    found += netplan_foreign.pending_edits(ours, loaded, facts, sources)
    own = netplan_foreign.rules_of_rails(taken["rules"], texts, facts)
    return found, {"foreign_rules": foreign, "own_rules": own}


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as handle:
        return handle.read()


def _resolve(rails: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    resolved, problems = [], []
    for rail in rails:
        if not netplan_render.has_stanza(rail):
            continue
        try:
            resolved.append({**rail, "netdev": netplan_resolve.netdev_of(rail)})
        except netplan_resolve.ResolveError as error:
            problems.append(str(error))
    return resolved, problems


def _as_it_is(entry: Mapping[str, Any]) -> dict[str, Any]:
    try:
        with open(entry["path"], encoding="utf-8", errors="replace") as handle:
            text = handle.read()
        status = os.stat(entry["path"])
    except FileNotFoundError:
        return {"before": None, "wrong": entry["text"] is not None}
    owned = stat.S_IMODE(status.st_mode) == entry["mode"] and status.st_uid == 0
    return {"before": text, "wrong": text != entry["text"] or not owned}


def _try_files(
    rails: Sequence[Mapping[str, Any]],
    path: str,
    entries: Sequence[Mapping[str, Any]],
    netplan: str,
    work: str,
) -> tuple[list[str], list[str]]:
    netdevs = [rail["netdev"] for rail in rails]
    rail_of = {rail["netdev"]: rail["name"] for rail in rails}
    facts = netplan_candidate.netdev_facts(netdevs)
    ours = {entry["path"] for entry in entries}
    files = {
        place: source for place, source in netplan_candidate.netplan_files().items() if place not in ours
    }
    run = netplan_running.run
    try:
        claims = netplan_candidate.claims_by_netplan(run, netplan, files, facts, work)
    except netplan_candidate.CandidateError as error:
        return [f"netplan refuses the files that are on the node already, mend them first: {error}"], []
    claims += netplan_claims.claims(
        facts, netplan_claims.read_networkd(_NETWORKD_FOLDERS), netplan_claims.read_ifupdown()
    )
    problems = [
        f"{rail_of[netdev]}: {file} also configures its netdev {netdev} (by {reason}); "
        f"take {netdev} out of that file, so that only {path} speaks of it"
        for netdev, file, reason in claims
    ]
    candidates = {
        entry["path"]: entry["text"]
        for entry in entries
        if entry["text"] is not None and netplan_candidate.is_netplan(entry["path"])
    }
    try:
        _texts, said = netplan_candidate.generate(
            run, netplan, files, candidates, os.path.join(work, "candidate")
        )
    except netplan_candidate.CandidateError as error:
        return [*problems, f"netplan refuses the candidate for {', '.join(candidates)}: {error}"], []
    return problems, netplan_state.unexpected_lines(said)


def prove(record: Mapping[str, Any], applied: Mapping[str, Any] | None) -> tuple[list[str], list[str]]:
    """Look once at an applied change; returns `(problems, rails without carrier)`."""
    if applied is None:
        return ["netplan apply has not finished"], []
    netdevs = record["netdevs"]
    target = record.get("target")
    wanted = list(target["sysctls"] if target else record["sysctls"])
    now = netplan_running.snapshot(netdevs, wanted)
    rows = netplan_state.drift(record["rails"], now)
    rows += netplan_state.sysctl_drift(record["rails"], now, record["sysctls"])
    problems = [netplan_state.sentence(row) for row in rows]
    if target:
        problems += netplan_snapshot.differences(
            netplan_snapshot.of_rails(target, netdevs), netplan_snapshot.of_rails(now, netdevs), netdevs
        )
    own = record.get("own_rules", [])
    before = {
        **record["snapshot"],
        "rules": [rule for rule in record["snapshot"].get("rules", []) if rule not in own],
    }
    problems += netplan_snapshot.lost_management(before, now, netdevs)
    return problems, netplan_state.without_carrier(record["rails"], now)


def await_applied(record: Mapping[str, Any], read_applied: Any) -> bool:
    """Wait until netplan is done; False when it is not before the deadline, or patience runs out."""
    end = min(time.monotonic() + PROOF_PATIENCE_S, record["expires_monotonic_s"])
    while read_applied() is None:
        if time.monotonic() >= end:
            return False
        time.sleep(0.1)
    return True


def await_proof(
    record: Mapping[str, Any], read_applied: Any, patience_s: float = PROOF_PATIENCE_S
) -> tuple[list[str], list[str]]:
    """Look until the change is proven or patience or the deadline runs out; returns as `prove` does."""
    started = time.monotonic()
    # Leaves the undo its time: a proof in the last second would only race with it.
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
