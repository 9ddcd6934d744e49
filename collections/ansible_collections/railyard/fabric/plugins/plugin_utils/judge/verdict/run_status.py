# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find a run's exit status, why it is incomplete, and which rows belong to no planned test. Pure."""

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
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.slow_components import (
    Findings,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import clock
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.rows_by_test import list_writers
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import provenance
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Manifest, Order, Plan, Row

_KNOWN_OUTCOMES = (PASS, RECORDED, "not_applicable")


def find_exit_status(outcomes: Collection[str], is_complete: bool) -> int:
    """Return the exit status: 1 for a failure, 3 if not all results are known, else 0.

    Args:
        outcomes: the outcomes of all verdicts of the run.
        is_complete: the run is complete, and no line of its folder is missing.
    """
    outcomes = set(outcomes)
    if FAIL in outcomes:
        return 1
    if not is_complete or not outcomes <= set(_KNOWN_OUTCOMES):
        return 3
    if not outcomes & {PASS, RECORDED}:
        return 3  # no test was planned, or none applies
    return 0


def explain_incomplete(
    manifest: Manifest,
    asked: Sequence[AskedLine],
    plan: Plan,
    order: Order | None,
    second: Order | None = None,
) -> str | None:
    """Return why a run is incomplete, or None.

    Args:
        manifest: its manifest; a run without an end record, or an interrupted one, is incomplete.
        asked: the planned tests, compared with the tests that plan and schedule require.
        plan: the plan.
        order: the test schedule; None if it is lost.
        second: the second test schedule, None if the run has none.
    """
    if reason := explain_not_ended(manifest) or provenance.imported(manifest):
        return reason
    if manifest.get("asked") != requests.fingerprint(asked):
        return "asked.jsonl does not have the tests that this run planned"
    return (
        provenance.edited(manifest, plan)
        or requests.alone(asked)
        or requests.rdma_left_out(plan, asked)
        or requests.find_missing_tests(manifest, plan, order, asked, second)
    )


def explain_not_ended(manifest: Manifest) -> str | None:
    """Return why a run did not end, or None."""
    end = manifest.get("end")
    if not isinstance(end, Mapping) or not end.get("at"):
        return "the run has no end record"
    # Without these times rows of the run cannot be recognized.
    if clock.parse_moment(end) is None or clock.parse_moment(manifest.get("start")) is None:
        return "manifest.json does not have the run's start and end"
    return None if end.get("reason") == "completed" else f"the run was {end.get('reason')}"


def list_unplanned_rows(manifest: Manifest, asked: Sequence[AskedLine], strange: Sequence[Row]) -> list[str]:
    """List the result rows that belong to no planned test of their host (`RowsByTest.strange`)."""
    writers = {str(line["id"]): list_writers(line) for line in asked} if strange else {}
    found = []
    foreign: dict[str, list[Any]] = {}
    for row in strange:
        mine = writers.get(str(row.get("id")))
        if row.get("run") != manifest.get("run"):
            found.append(f"a row of run {row.get('run')!r} by {row.get('host')!r} (test {row.get('id')!r})")
        elif mine is None:
            found.append(f"a row of test {row.get('id')!r} by {row.get('host')!r}, which was not planned")
        elif row.get("host") not in mine:
            foreign.setdefault(repr(row.get("host")), []).append(row.get("id"))
    for host, ids in foreign.items():
        found.append(f"{len(ids)} rows by {host} of tests of other nodes (first: test {ids[0]!r})")
    return found


def explain_not_confirmed(
    manifest: Manifest,
    order: Order | None,
    asked: Sequence[AskedLine],
    second: Order | None,
    found: Findings,
) -> str | None:
    """Return why suspect components were not measured again, None if they were or there are none.

    Args:
        manifest: the run's.
        order: the common part of its test schedule.
        asked: the planned tests.
        second: the common part of its second schedule, None if it has none.
        found: the result of isolation.
    """
    if not found.doubtful or order is None or second is not None:
        return None
    if not order["policy"]["confirm"]:
        return "fabric_policy.confirm is 0"
    if (reason := explain_not_ended(manifest)) is not None:
        return reason
    gone = {str(entry["name"]) for entry in order["roster"]}.difference(manifest.get("archives") or {})
    if confirm.build_second_order(order, asked, found.doubtful, found.suspects, gone) is None:
        return "no node that is good on their rails is left to measure them with"
    return "the run ended before that"
