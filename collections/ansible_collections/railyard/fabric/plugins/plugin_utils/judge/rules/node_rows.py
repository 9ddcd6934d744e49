# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a test that a node runs by itself, from its single row. Pure.

There is no second end to confirm the row. The kernel's counters before and after must do so, and are checked
again here. Without a threshold of the site the result is `recorded`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from ansible_collections.railyard.fabric.plugins.module_utils.measure import registry
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.records import failures
from ansible_collections.railyard.fabric.plugins.module_utils.records import node_rows as records
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.records.node_rows import NodeRow
from ansible_collections.railyard.fabric.plugins.module_utils.records.reader import RefusedError
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.bounds import Bounds, apply_site_policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    CHECKS,
    FAIL,
    UNMEASURED,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.clock import Clock
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.views import RowNumbers
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import (
    bounds_check,
    collectives,
    drive_health,
    drives,
    gpu_links,
    memory,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.end_rules import list_number_rules
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.rule import find_broken
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome import causes
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row, unlike

#: Tool -> function that returns why a complete row's counters do not confirm its results, or None.
CONTRADICTIONS: dict[str, Callable[[Row, Policy], str | None]] = {
    "fio": drives.find_contradiction,
    "likwid-bench": memory.find_contradiction,
    "smartctl": drive_health.find_contradiction,
    "nccl-tests": gpu_links.find_contradiction,
    "nvbandwidth": gpu_links.find_contradiction,
    "torch_gloo": collectives.find_contradiction,
    "torch_nccl": collectives.find_contradiction,
}
#: Tool -> function that returns further observed values of a row.
DESCRIPTIONS: dict[str, Callable[[Row], dict[str, str]]] = {
    "fio": drives.describe_drives,
    "nccl-tests": gpu_links.describe_gpus,
    "nvbandwidth": gpu_links.describe_gpus,
}
#: Tool -> function that judges a confirmed row by its content, not by thresholds on its metrics.
JUDGES: dict[str, Callable[[Row], Answer]] = {"smartctl": drive_health.judge_drives}
#: Tools whose exit status is a bit mask of findings.
_STATUS_IS_FOUND = ("smartctl",)
#: Errors that fail: the inventory names it, and it is missing.
_MISSING = ("storage_not_mounted",)
_TEST_KEYS = ("check", "tool", "node", "peer", "rail", "direction", "round", "subject")
_NO_THRESHOLD = "no published threshold; set your own in fabric_policy.floors"


def judge(
    asked: AskedLine,
    run: str,
    rows: Sequence[Row],
    policy: Policy,
    clock: Clock,
    rails: Mapping[str, Bound],
) -> Answer:
    """Judge a test that a node runs by itself.

    Args:
        asked: the planned test.
        run: the run id.
        rows: the test's rows.
        policy: the merged policy.
        clock: when the row may have been written.
        rails: the node's rails, bound.

    Returns:
        pass or fail if the site sets a threshold, recorded without one, else unmeasured.
    """
    node = str(asked["node"])
    if len(rows) != 1:
        return Answer.unmeasured("duplicate_row" if rows else "no_row", f"{node}: {asked['id']}")
    if rows[0].get("status") != "measured":
        return _judge_failure(rows[0], asked, run)
    if wrong := _find_problem(rows[0], asked, run, policy, clock):
        return Answer.unmeasured("row_garbled", f"{node}: {wrong}")
    row: NodeRow = cast("NodeRow", rows[0])
    numbers = RowNumbers(row, policy, CHECKS[str(asked["check"])])
    for cause, seen in find_broken(list_number_rules(numbers.check, "client"), numbers):
        return Answer.unmeasured(cause, f"{node}: {seen}")
    doubt = row["proof_reason"] or (None if row["proof"] == "proven" else "the node reports it as unproven")
    check = CONTRADICTIONS.get(str(asked["tool"]))
    if doubt := doubt or (check(row, policy) if check else f"there is no proof for {asked['tool']}"):
        cause = "collective_elsewhere" if str(doubt).endswith(collectives.ELSEWHERE) else "not_borne_out"
        return Answer.unmeasured(cause, f"{node}: {doubt}")
    if judge_row := JUDGES.get(str(asked["tool"])):
        return judge_row(row)
    metrics = numbers.metrics
    own = Bounds(basis=_NO_THRESHOLD)
    if asked["check"] in collectives.OPERATIONS:
        own = collectives.find_bounds(row, rails)
    bounds = apply_site_policy(str(asked["check"]), own, policy)
    above = [name for name, most in bounds.ceiling.items() if name in own.ceiling and metrics[name] > most]
    if above:
        return Answer.unmeasured("above_ceiling", f"{node}: {above[0]} {metrics[above[0]]:g}; {own.basis}")
    describe = DESCRIPTIONS.get(str(asked["tool"]))
    observed = {**metrics, **(describe(row) if describe else {})}
    return bounds_check.check_bounds(observed, [metrics], bounds)


def _judge_failure(row: Row, asked: AskedLine, run: str) -> Answer:
    """Return the answer to a row without a measurement."""
    node = str(asked["node"])
    try:
        failed = failures.read(row)
    except RefusedError as refused:
        return Answer.unmeasured("row_garbled", f"{node}: {refused}")
    answer, name = (
        Answer(UNMEASURED, cause=causes.explain_error(failed["error"], node)),
        failed["error"]["class"],
    )
    if not _belongs_to(row, asked, run):
        return answer
    if name in _MISSING:
        answer.outcome, answer.basis = FAIL, "a path in fabric_policy must exist"
    elif failed["status"] == "failed" and name in collectives.FAILURES:
        answer.outcome, answer.basis = FAIL, collectives.HAS_TO_END
    elif failed["status"] == "failed" and name == "gpu_wrong":
        answer.outcome, answer.basis = FAIL, "data between GPUs must arrive unchanged"
    return answer


def _belongs_to(row: Row, asked: AskedLine, run: str) -> bool:
    """Tell whether a row belongs to this run and this planned test."""
    wanted = {"schema": 1, "run": run, "host": asked["node"], **{key: asked.get(key) for key in _TEST_KEYS}}
    return unlike(row, wanted) is None


def _find_problem(row: Row, asked: AskedLine, run: str, policy: Policy, clock: Clock) -> str | None:
    """Return why a row is invalid or does not belong to the planned test, or None."""
    wanted = {"schema": 1, "run": run, "host": asked["node"], "end": "client", "status": "measured"}
    wanted |= {key: asked.get(key) for key in _TEST_KEYS}
    if key := unlike(row, wanted):
        return f"{key} is {row.get(key)!r}, planned was {wanted[key]!r}"
    if outside := clock.explain_outside(str(asked["node"]), row):
        return outside
    if refused := records.refusal(row):
        return refused
    if asked["tool"] not in _STATUS_IS_FOUND and row["exit_status"] not in (0, None):
        return f"its tool's exit status is {row['exit_status']}"
    wanted_program = registry.NODE_TOOLS[str(asked["check"])]().program_of(str(asked["check"]), policy)
    for argv in row["argv"]:
        if argv[0] != wanted_program:
            return f"argv is {argv!r}, which does not run {wanted_program}"
    return None
