# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run's verdicts come to: its exit status, why it is incomplete, which rows answer nothing. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import confirm, requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    FAIL,
    PASS,
    RECORDED,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.culprits import Findings
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import clock
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.rows_by_test import writers
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import provenance
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Manifest, Order, Plan, Row

_SETTLED = (PASS, RECORDED, "not_applicable")


def status_of(outcomes: Collection[str], whole: bool) -> int:
    """Return what outcomes mean: 1 something failed, 3 not all is known, 0 all known and none failed.

    Args:
        outcomes: those of all verdicts of the run.
        whole: the run is complete, and no line of its folder was lost.
    """
    outcomes = set(outcomes)
    if FAIL in outcomes:
        return 1
    if not whole or not outcomes <= set(_SETTLED):
        return 3
    if not outcomes & {PASS, RECORDED}:
        return 3  # nothing was asked, or nothing of it applies: either way nothing is known
    return 0


def incomplete(
    manifest: Manifest,
    asked: Sequence[AskedLine],
    plan: Plan,
    order: Order | None,
    second: Order | None = None,
) -> str | None:
    """Tell why a run is incomplete, or None.

    Args:
        manifest: its manifest; without an end record, or interrupted, the run is incomplete.
        asked: the asked lines, compared with what had to be asked.
        plan: the plan, of which that follows.
        order: the work order, of which it follows too; None where it is lost.
        second: the second work order, None where the run has none.
    """
    if said := not_ended(manifest) or provenance.imported(manifest):
        return said
    if manifest.get("asked") != requests.fingerprint(asked):
        return "asked.jsonl is not what this run asked"
    return (
        provenance.edited(manifest, plan)
        or requests.alone(asked)
        or requests.rdma_left_out(plan, asked)
        or requests.find_missing_tests(manifest, plan, order, asked, second)
    )


def not_ended(manifest: Manifest) -> str | None:
    """Tell that a run did not come to its end, or None."""
    end = manifest.get("end")
    if not isinstance(end, Mapping) or not end.get("at"):
        return "the run has no end record"
    # Without them nobody knows which rows were written meanwhile.
    if clock.at(end) is None or clock.at(manifest.get("start")) is None:
        return "manifest.json does not say when the run began and ended"
    return None if end.get("reason") == "completed" else f"the run was {end.get('reason')}"


def strangers(manifest: Manifest, asked: Sequence[AskedLine], strange: Sequence[Row]) -> list[str]:
    """Name the result rows that answer nothing that was asked of who wrote them (`RowsByTest.strange`)."""
    of = {str(line["id"]): writers(line) for line in asked} if strange else {}
    said = []
    foreign: dict[str, list[Any]] = {}
    for row in strange:
        mine = of.get(str(row.get("id")))
        if row.get("run") != manifest.get("run"):
            said.append(f"a row of run {row.get('run')!r} by {row.get('host')!r} (test {row.get('id')!r})")
        elif mine is None:
            said.append(f"a row of test {row.get('id')!r} by {row.get('host')!r}, which was not asked")
        elif row.get("host") not in mine:
            foreign.setdefault(repr(row.get("host")), []).append(row.get("id"))
    for host, ids in foreign.items():
        said.append(f"{len(ids)} rows by {host}, of tests that it has no end of (test {ids[0]!r} the first)")
    return said


def why_not_further(
    manifest: Manifest,
    order: Order | None,
    asked: Sequence[AskedLine],
    second: Order | None,
    found: Findings,
) -> str | None:
    """Tell why nobody in doubt measured further, None where somebody did, or nobody is in doubt.

    Args:
        manifest: the run's.
        order: the common part of its work order.
        asked: what it asks.
        second: the common part of its second order, None where it has none.
        found: what its tests show.
    """
    if not found.doubtful or order is None or second is not None:
        return None
    if not order["policy"]["confirm"]:
        return "fabric_policy.confirm is 0"
    if (said := not_ended(manifest)) is not None:
        return said
    gone = {str(entry["name"]) for entry in order["roster"]}.difference(manifest.get("archives") or {})
    if confirm.build_second_order(order, asked, found.doubtful, found.suspects, gone) is None:
        return "no node that is good on their rails is left to meet them"
    return "the run ended without asking"
