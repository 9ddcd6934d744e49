# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When does a verdict rest on the one row of a test of a node by itself, and what does it say? Pure.

There is no second end to bear the row out: what does is the kernel's own account of what was used, before and
after, and it is reckoned again here. What no site bounds is `recorded`.
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
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.of_end import of_numbers
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.rule import broken
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome import causes
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row, unlike

#: Tells why a whole row's counters do not bear its numbers out, or None: of a tool, by its name.
DOUBTS: dict[str, Callable[[Row, Policy], str | None]] = {
    "fio": drives.doubt,
    "likwid-bench": memory.doubt,
    "smartctl": drive_health.doubt,
    "nccl-tests": gpu_links.doubt,
    "nvbandwidth": gpu_links.doubt,
    "torch_gloo": collectives.doubt,
    "torch_nccl": collectives.doubt,
}
#: Returns what a verdict shows of a row beside its numbers: of a tool, by its name.
SHOWN: dict[str, Callable[[Row], dict[str, str]]] = {
    "fio": drives.shown,
    "nccl-tests": gpu_links.shown,
    "nvbandwidth": gpu_links.shown,
}
#: Judges a row whose counters bear it out by what it says, not by bounds on its metrics: of a tool.
WEIGHED: dict[str, Callable[[Row], Answer]] = {"smartctl": drive_health.weigh}
#: Its exit status is a mask of what it found, which the row says of each drive.
_STATUS_IS_FOUND = ("smartctl",)
#: What was asked for by the inventory and is not there fails, as a missing device of a rail does.
_MISSING = ("storage_not_mounted",)
_ASKED = ("check", "tool", "node", "peer", "rail", "direction", "round", "subject")
_NO_AUTHORITY = "no authority bounds it; a site may, with fabric_policy.floors"


def judge(
    asked: AskedLine,
    run: str,
    rows: Sequence[Row],
    policy: Policy,
    clock: Clock,
    rails: Mapping[str, Bound],
) -> Answer:
    """Answer what a node was asked by itself.

    Args:
        asked: the asked line.
        run: the run id.
        rows: the line's rows.
        policy: the merged policy.
        clock: when the row can have been written.
        rails: the node's rails, bound.

    Returns:
        pass or fail where the site bounds it, recorded where nothing does, else unmeasured.
    """
    node = str(asked["node"])
    if len(rows) != 1:
        return Answer.unmeasured("duplicate_row" if rows else "no_row", f"{node}: {asked['id']}")
    if rows[0].get("status") != "measured":
        return _failed(rows[0], asked, run)
    if wrong := _garbled(rows[0], asked, run, policy, clock):
        return Answer.unmeasured("row_garbled", f"{node}: {wrong}")
    row: NodeRow = cast("NodeRow", rows[0])
    numbers = RowNumbers(row, policy, CHECKS[str(asked["check"])])
    for cause, seen in broken(of_numbers(numbers.check, "client"), numbers):
        return Answer.unmeasured(cause, f"{node}: {seen}")
    doubt = row["proof_reason"] or (None if row["proof"] == "proven" else "it says so itself")
    check = DOUBTS.get(str(asked["tool"]))
    if doubt := doubt or (check(row, policy) if check else f"nobody knows how {asked['tool']} is proven"):
        cause = "collective_elsewhere" if str(doubt).endswith(collectives.ELSEWHERE) else "not_borne_out"
        return Answer.unmeasured(cause, f"{node}: {doubt}")
    if weigh := WEIGHED.get(str(asked["tool"])):
        return weigh(row)
    metrics = numbers.metrics
    own = Bounds(basis=_NO_AUTHORITY)
    if asked["check"] in collectives.OPERATIONS:
        own = collectives.bounds(row, rails)
    bounds = apply_site_policy(str(asked["check"]), own, policy)
    above = [name for name, most in bounds.ceiling.items() if name in own.ceiling and metrics[name] > most]
    if above:
        return Answer.unmeasured("above_ceiling", f"{node}: {above[0]} {metrics[above[0]]:g}; {own.basis}")
    shown = SHOWN.get(str(asked["tool"]))
    return bounds_check.weigh({**metrics, **(shown(row) if shown else {})}, [metrics], bounds)


def _failed(row: Row, asked: AskedLine, run: str) -> Answer:
    """Return the answer of a row that says itself that it measured nothing."""
    node = str(asked["node"])
    try:
        failed = failures.read(row)
    except RefusedError as refused:
        return Answer.unmeasured("row_garbled", f"{node}: {refused}")
    answer, name = (
        Answer(UNMEASURED, cause=causes.explain_error(failed["error"], node)),
        failed["error"]["class"],
    )
    if not _of(row, asked, run):
        return answer
    if name in _MISSING:
        answer.outcome, answer.basis = FAIL, "what fabric_policy names has to be there"
    elif failed["status"] == "failed" and name in collectives.FAILURES:
        answer.outcome, answer.basis = FAIL, collectives.HAS_TO_END
    elif failed["status"] == "failed" and name == "gpu_wrong":
        answer.outcome, answer.basis = FAIL, "what GPUs exchange has to arrive as it was sent"
    return answer


def _of(row: Row, asked: AskedLine, run: str) -> bool:
    """Tell whether a row is this run's answer to this line."""
    wanted = {"schema": 1, "run": run, "host": asked["node"], **{key: asked.get(key) for key in _ASKED}}
    return unlike(row, wanted) is None


def _garbled(row: Row, asked: AskedLine, run: str, policy: Policy, clock: Clock) -> str | None:
    """Tell in what a row is not the asked line's, or no row at all, or None."""
    wanted = {"schema": 1, "run": run, "host": asked["node"], "end": "client", "status": "measured"}
    wanted |= {key: asked.get(key) for key in _ASKED}
    if key := unlike(row, wanted):
        return f"{key} is {row.get(key)!r}, asked was {wanted[key]!r}"
    if outside := clock.outside(str(asked["node"]), row):
        return outside
    if refused := records.refusal(row):
        return refused
    if asked["tool"] not in _STATUS_IS_FOUND and row["exit_status"] not in (0, None):
        return f"its tool's exit status is {row['exit_status']}"
    wanted_program = registry.NODE_TOOLS[str(asked["check"])]().program_of(str(asked["check"]), policy)
    for argv in row["argv"]:
        if argv[0] != wanted_program:
            return f"argv is {argv!r}, which runs no {wanted_program}"
    return None
