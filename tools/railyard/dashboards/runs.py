# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dashboard of runs: what validation measured, what it found not good, when each node was last proven."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import OUTCOMES
from grafana_foundation_sdk.builders.dashboard import Dashboard, TextBoxVariable
from grafana_foundation_sdk.models import units

from railyard.dashboards.parts import (
    GREEN,
    ORANGE,
    RED,
    RUN_STATES,
    Column,
    Query,
    State,
    board,
    lines,
    node_link,
    rows,
    single,
    timeline,
    worst,
)
from railyard.dashboards.promql import CLUSTER, NODE, RAIL, default_limit

COMPLETE = (State(1, "yes", GREEN), State(0, "no", ORANGE))
REPORT = "${reports}/${__data.fields.Cluster}/${__data.fields.Run}/index.html"
END = f"railyard_run_end_timestamp_seconds{{{CLUSTER}}}"
# A run of many nodes exports least, median and greatest of each rail (label `stat`), not a series per test.
RUN_RAIL = f'{CLUSTER},rail=~"$rail"'
OF_NODE = f'quantile by (check, node, rail) (0.5, railyard_bandwidth_gbps{{stat="",{RAIL}}})'
LABELS = "check, rail, direction"


def _over_tests(metric: str, stat: str) -> str:
    """Return a statistic over all tests of a check and rail, of either form that a run exports."""
    over = {"min": "min by ({}) ({})", "median": "quantile by ({}) (0.5, {})", "max": "max by ({}) ({})"}[
        stat
    ]
    tests = over.format(LABELS, f'{metric}{{stat="",{RUN_RAIL}}}')
    return f'{tests} or max by ({LABELS}) ({metric}{{stat="{stat}",{RUN_RAIL}}})'


def make() -> Dashboard:
    """Build the dashboard."""
    return board(
        "railyard-runs",
        "Railyard: validation runs",
        "What `railyard validate` measured and found. Each point is the newest run at that time.",
        [
            "Newest run",
            single(
                "Result",
                "Exit status of the newest run: 0 passed, 1 something failed, 3 something was not measured.",
                Query(f"railyard_run_exit_status{{{CLUSTER}}}"),
                states=RUN_STATES,
                history=False,
            ),
            single(
                "Complete",
                "Whether the run ended and all of its results arrived.",
                Query(f"railyard_run_complete{{{CLUSTER}}}"),
                states=COMPLETE,
                history=False,
            ),
            single(
                "Age",
                "Time since it ended. Alert ValidationTooOld fires after 8 days.",
                Query(f"time() - {END}"),
                unit=units.Seconds,
                warn_from=default_limit("validation_age_seconds"),
                history=False,
            ),
            single(
                "Duration",
                "From its begin to its end.",
                Query(f"{END} - railyard_run_timestamp_seconds{{{CLUSTER}}}"),
                unit=units.Seconds,
                history=False,
            ),
            rows(
                "Report",
                "Name of the newest run. A click opens its report; see the field Reports at.",
                [f"max by (cluster, run) (railyard_run_info{{{CLUSTER}}})"],
                [
                    Column("Cluster", "cluster"),
                    Column(
                        "Run",
                        "run",
                        link=REPORT,
                    ),
                ],
                width=8,
                height=4,
            ),
            rows(
                "Verdicts",
                "Verdicts of each check by outcome.",
                [f'sum by (check) (railyard_verdicts{{outcome="{one}",{CLUSTER}}})' for one in OUTCOMES],
                [
                    Column("Check", "check"),
                    *(
                        Column(one.replace("_", " "), letter)
                        for one, letter in zip(OUTCOMES, "ABCDE", strict=True)
                    ),
                ],
                sort="fail",
                descending=True,
                width=12,
                height=10,
            ),
            rows(
                "Rails that are not good",
                "What the newest run found failed, unmeasured or unproven.",
                [f"max by (node, rail, outcome, cause) (railyard_rail_not_good{{{RAIL}}})"],
                [
                    Column("Node", "node", link=node_link()),
                    Column("Rail", "rail", width_px=80),
                    Column("Outcome", "outcome", width_px=110),
                    Column("Cause", "cause"),
                ],
                sort="Node",
                width=12,
                height=10,
            ),
            "What was measured",
            rows(
                "Bandwidth",
                "Least, median and greatest over all tests of the newest run, in Gbit/s (10^9 bit/s).",
                [_over_tests("railyard_bandwidth_gbps", one) for one in ("min", "median", "max")],
                [
                    Column("Check", "check"),
                    Column("Rail", "rail", width_px=80),
                    Column("Direction", "direction", width_px=100),
                    Column("Least", "A", unit=units.GigabitsPerSecond),
                    Column("Median", "B", unit=units.GigabitsPerSecond),
                    Column("Greatest", "C", unit=units.GigabitsPerSecond),
                ],
                sort="Rail",
                width=14,
                height=9,
            ),
            worst(
                "Ten slowest tests",
                "Node, its peer and the rail. Empty where the run was large: its numbers are then "
                "exported by rail.",
                Query(
                    f'bottomk(10, railyard_bandwidth_gbps{{stat="",{RAIL}}})',
                    "{{node}} to {{peer}}, {{rail}}, {{check}}",
                ),
                unit=units.GigabitsPerSecond,
                width=10,
                height=9,
            ),
            lines(
                "Median bandwidth by rail, run after run",
                "A rail that falls below the others of its check: compare the runs with `railyard compare`.",
                Query(_over_tests("railyard_bandwidth_gbps", "median"), "{{check}} {{rail}} {{direction}}"),
                unit=units.GigabitsPerSecond,
            ),
            lines(
                "Median bandwidth by node, run after run",
                "Median over peers of a node's tests: the twenty lowest. Choose nodes and rails above to "
                "see others.",
                Query(f"{OF_NODE} and bottomk(20, {OF_NODE})", "{{node}} {{rail}} {{check}}"),
                unit=units.GigabitsPerSecond,
            ),
            "Over time",
            timeline(
                "Result",
                "Result of the newest run at each time.",
                Query(f"max by (cluster) (railyard_run_exit_status{{{CLUSTER}}})", "{{cluster}}"),
                states=RUN_STATES,
                height=4,
            ),
            lines(
                "Verdicts by outcome",
                "All checks of the newest run.",
                Query(f"sum by (outcome) (railyard_verdicts{{{CLUSTER}}})", "{{outcome}}"),
                colors={"pass": GREEN, "fail": RED, "unmeasured": ORANGE},
            ),
            lines(
                "Rails that are not good",
                "By cause, as the newest run found them.",
                Query(f"count by (cause) (railyard_rail_not_good{{{RAIL}}})", "{{cause}}"),
                stacked=True,
            ),
            "Nodes",
            worst(
                "Twenty nodes that were proven longest ago",
                "Time since the last run in which the node was tested actively and was good. Alert "
                "NodeNotProven fires after "
                "15 days.",
                Query(f"topk(20, time() - railyard_node_proven_timestamp_seconds{{{NODE}}})", "{{node}}"),
                unit=units.Seconds,
            ),
            rows(
                "Nodes drained in Slurm",
                "By Railyard, which resumes them after a good run, or by somebody else.",
                [f"max by (node, by) (railyard_slurm_node_drained{{{NODE}}} == 1)"],
                [Column("Node", "node", link=node_link()), Column("By", "by")],
                sort="Node",
                width=12,
            ),
        ],
        more=[
            TextBoxVariable("reports")
            .label("Reports at")
            .description("Address under which the controller's folder `reports` is served.")
            .default_value("http://localhost:8000")
        ],
        span="30d",
    )
