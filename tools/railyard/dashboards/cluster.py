# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dashboard of a cluster: what is wrong now, where, and since when."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.dashboard import DynamicConfigValue

from railyard.dashboards.parts import (
    ORANGE,
    RED,
    RUN_STATES,
    Column,
    Query,
    board,
    lines,
    node_link,
    rows,
    single,
    worst,
)
from railyard.dashboards.promql import (
    BY_RAIL,
    CLUSTER,
    NODE,
    RAIL,
    count,
    default_limit,
    firing_since,
    limit,
    metrics_age,
)

PROVEN_AGE = f"time() - railyard_node_proven_timestamp_seconds{{{NODE}}}"
FIRING = f'ALERTS{{alertstate="firing",{CLUSTER}}}'
ALERT_LABELS = "severity, alertname, node, rail, gpu, pci"
BELOW_RATE = (
    f"railyard_rail_rate_bytes_per_second{{{RAIL}}} < on ({BY_RAIL}) "
    f"railyard_rail_expected_rate_bytes_per_second and on ({BY_RAIL}) railyard_rail_rate_bytes_per_second > 0"
)


def make() -> Dashboard:
    """Build the dashboard."""
    return board(
        "railyard-cluster",
        "Railyard: cluster",
        "What is wrong in a cluster now, where, and since when. Start here.",
        [
            "Now",
            single(
                "Nodes that answer",
                "Nodes whose node_exporter answers, and nodes of the inventory. Of a node that does not "
                "answer nothing "
                "below is known.",
                Query(f'sum(up{{job="railyard-node",{NODE}}})', "answer"),
                Query(f'count(up{{job="railyard-node",{NODE}}})', "declared"),
            ),
            single(
                "Rails without a link",
                "Declared rails whose netdev has no carrier or is gone.",
                Query(count(f"railyard:rail_carrier{{{RAIL}}} == 0")),
                bad_from=1,
            ),
            single(
                "Rails below their rate",
                "Rails with a link that trained to less than the declared rate.",
                Query(count(BELOW_RATE)),
                bad_from=1,
            ),
            single(
                "Rails that are not good",
                "`wrong`: without a link or RDMA port, below the declared rate or with another MTU. "
                "`errors`: its error counters grow, or it is paused.",
                Query(count(f"railyard:rail_state{{{RAIL}}} == 2"), "wrong"),
                Query(count(f"railyard:rail_state{{{RAIL}}} == 1"), "errors"),
                bad_from=1,
            ),
            single(
                "GPUs missing",
                "Declared GPUs that are not on their node's PCI bus.",
                Query(f"sum(railyard_expected_gpus{{{NODE}}} - railyard_gpus > 0) or vector(0)"),
                bad_from=1,
            ),
            single(
                "Alerts firing",
                "Alerts of Prometheus by severity. Alertmanager may silence some of them.",
                *(
                    Query(count(f'ALERTS{{alertstate="firing",severity="{one}",{CLUSTER}}}'), one)
                    for one in ("critical", "warning", "info")
                ),
            )
            .override_by_name("critical", _red_from_one(RED))
            .override_by_name("warning", _red_from_one(ORANGE)),
            single(
                "Last validation",
                "Result of the newest run of `railyard validate`.",
                Query(f"railyard_run_exit_status{{{CLUSTER}}}"),
                states=RUN_STATES,
                history=False,
            ),
            single(
                "Its age",
                "Time since the newest run ended. Alert ValidationTooOld fires after 8 days.",
                Query(f"time() - railyard_run_end_timestamp_seconds{{{CLUSTER}}}"),
                unit=units.Seconds,
                warn_from=default_limit("validation_age_seconds"),
                history=False,
            ),
            single(
                "Nodes not proven lately",
                "Nodes without an active test that was good in the last 15 days. Passive checks go on.",
                Query(count(f"{PROVEN_AGE} > {limit('node_proven_age_seconds')}")),
                warn_from=1,
                history=False,
            ),
            single(
                "Nodes drained in Slurm",
                "Who drained them: Railyard resumes its own drains only.",
                *(
                    Query(count(f'railyard_slurm_node_drained{{by="{by}",{NODE}}} == 1'), by)
                    for by in ("railyard", "other")
                ),
            ),
            single(
                "CPUs with a wrong governor",
                "CPUs whose frequency governor is not the declared one.",
                Query(f"sum(railyard_cpus_with_wrong_governor{{{NODE}}}) or vector(0)"),
                warn_from=1,
            ),
            single(
                "Metrics that are old",
                "Nodes that answer with metrics of Railyard older than 5 minutes. Alert NodeMetricsStale.",
                Query(count(f"abs({metrics_age(NODE)}) > {limit('metrics_age_seconds')}")),
                warn_from=1,
            ),
            "What is wrong",
            rows(
                "Alerts",
                "Alerts that fire now. A click on a node opens its dashboard; `docs/troubleshooting.md` "
                "has what to do.",
                [firing_since(ALERT_LABELS, CLUSTER)],
                [
                    Column("Severity", "severity", width_px=90),
                    Column("Alert", "alertname", width_px=190),
                    Column("Node", "node", link=node_link()),
                    Column("Rail", "rail", width_px=80),
                    Column("GPU", "gpu", width_px=60),
                    Column("GPU's PCI address", "pci"),
                    Column("Since", "A", unit=units.DateTimeFromNow),
                ],
                sort="Severity",
                width=14,
                height=11,
            ),
            worst(
                "Ten rails with the most errors",
                "Growth of the rail's error counters in an hour, by kind.",
                Query(
                    f"topk(10, railyard:rail_errors:increase1h{{{RAIL}}} > 0)", "{{node}} {{rail}} {{kind}}"
                ),
                width=10,
                height=11,
            ),
            rows(
                "Findings of the quick check",
                "What `railyard-quick` found wrong or could not read on each node at its last look.",
                [f"max by (cause, node, rail) (railyard_quick_finding{{{NODE}}})"],
                [
                    Column("Cause", "cause"),
                    Column("Node", "node", link=node_link()),
                    Column("Rail", "rail", width_px=80),
                ],
                sort="Cause",
                width=12,
            ),
            worst(
                "Rails that are not good, by scalable unit",
                "Many of one unit and few of others: look at its leaf switches first.",
                Query(
                    f"sort_desc(sum by (scalable_unit) (railyard:rail_state{{{RAIL}}} > bool 0) > 0)",
                    "{{scalable_unit}}",
                ),
            ),
            "Over time",
            lines(
                "Rails that are not good",
                "Rails by state. Rails of nodes that do not answer are missing.",
                Query(f"count(railyard:rail_state{{{RAIL}}} == 2) or vector(0)", "wrong"),
                Query(f"count(railyard:rail_state{{{RAIL}}} == 1) or vector(0)", "errors"),
                colors={"wrong": RED, "errors": ORANGE},
                stacked=True,
            ),
            lines(
                "Alerts",
                "Alerts that fire, by name.",
                Query(f"count by (alertname) ({FIRING})", "{{alertname}}"),
                stacked=True,
            ),
            lines(
                "Nodes that answer",
                "Nodes whose node_exporter answers.",
                Query(f'sum(up{{job="railyard-node",{NODE}}})', "answer"),
                Query(f'count(up{{job="railyard-node",{NODE}}})', "declared"),
            ),
            lines(
                "Traffic of all rails",
                "Sum over the rails. RDMA is counted by the HCA, TCP/IP by the netdev.",
                Query(f"8 * sum(railyard:rail_rdma_receive_bytes:rate2m{{{RAIL}}})", "RDMA received"),
                Query(f"8 * sum(railyard:rail_rdma_transmit_bytes:rate2m{{{RAIL}}})", "RDMA sent"),
                Query(f"8 * sum(railyard:rail_receive_bytes:rate2m{{{RAIL}}})", "TCP/IP received"),
                Query(f"8 * sum(railyard:rail_transmit_bytes:rate2m{{{RAIL}}})", "TCP/IP sent"),
                unit=units.BitsPerSecondSI,
            ),
        ],
    )


def _red_from_one(color: str) -> list[DynamicConfigValue]:
    steps = [{"value": None, "color": "green"}, {"value": 1, "color": color}]
    return [DynamicConfigValue(id_val="thresholds", value={"mode": "absolute", "steps": steps})]
