# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dashboard of one node: its rails beside what is planned, its counters, its own check, its machine."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.models import units

from railyard.dashboards.parts import (
    PRESENT,
    QUICK_STATES,
    RAIL_STATES,
    Column,
    Query,
    State,
    board,
    lines,
    rows,
    single,
    timeline,
)
from railyard.dashboards.promql import NODE, RAIL, default_limit, firing_since, metrics_age


def _age(moment: str) -> str:
    """Return the age in seconds of a moment that the node wrote, by the node's own clock."""
    return f"node_time_seconds{{{NODE}}} - on (cluster, node) {moment}{{{NODE}}}"


def _of_rail(metric: str, more: str = "") -> str:
    return f"max by (rail) ({metric}{{{RAIL}{more}}})"


def make() -> Dashboard:
    """Build the dashboard."""
    return board(
        "railyard-node",
        "Railyard: node",
        "One node: its rails beside what is planned, counters, the quick check, GPUs, CPU and memory.",
        [
            "Now",
            single(
                "Answers",
                "Whether node_exporter answers.",
                Query(f'up{{job="railyard-node",{NODE}}}'),
                states=PRESENT,
            ),
            single(
                "Quick check",
                "Result of the last `railyard-quick` on the node: 0 good, 1 wrong, 3 unknown.",
                Query(f"railyard_quick_status{{{NODE}}}"),
                states=QUICK_STATES,
            ),
            single(
                "Its age",
                "Time since the last quick check ended. Alert QuickCheckOld fires after 20 minutes.",
                Query(_age("railyard_quick_timestamp_seconds")),
                unit=units.Seconds,
                warn_from=default_limit("quick_check_age_seconds"),
            ),
            single(
                "Age of the metrics",
                "Time since Railyard's metrics were written. Alert NodeMetricsStale fires after 5 minutes.",
                Query(metrics_age(NODE)),
                unit=units.Seconds,
                warn_from=default_limit("metrics_age_seconds"),
            ),
            single(
                "Last proven",
                "Time since the last run in which this node was tested actively and was good.",
                Query(f"time() - railyard_node_proven_timestamp_seconds{{{NODE}}}"),
                unit=units.Seconds,
                warn_from=default_limit("node_proven_age_seconds"),
                history=False,
            ),
            single(
                "Drained in Slurm",
                "Whether Slurm has the node drained, and who did it.",
                *(
                    Query(f'max(railyard_slurm_node_drained{{by="{by}",{NODE}}}) or vector(0)', f"by {by}")
                    for by in ("railyard", "other")
                ),
                states=(State(0, "no", "green"), State(1, "yes", "orange")),
                history=False,
            ),
            "Rails",
            rows(
                "Rails",
                "What each rail is, beside what is planned or declared. Empty: not reported by the node, "
                "or not planned.",
                [
                    _of_rail("railyard:rail_state"),
                    f"8 * {_of_rail('railyard_rail_rate_bytes_per_second')}",
                    f"8 * {_of_rail('railyard_rail_expected_rate_bytes_per_second')}",
                    _of_rail("railyard_rail_mtu_bytes", ',layer="netdev"'),
                    _of_rail("railyard_rail_expected_mtu_bytes", ',layer="netdev"'),
                    _of_rail("railyard_rail_mtu_bytes", ',layer="rdma"'),
                    _of_rail("railyard_rail_rdma_port_active"),
                    _of_rail("railyard_rail_gid_present"),
                    _of_rail("railyard_rail_gid_index"),
                    _of_rail("railyard_rail_pcie_lanes"),
                    _of_rail("railyard_rail_pcie_lanes_max"),
                    f"max by (rail, netdev, device) (railyard_rail_info{{{RAIL}}})",
                ],
                [
                    Column("Rail", "rail", width_px=70),
                    Column("State", "A", states=RAIL_STATES, width_px=80),
                    Column("Netdev", "netdev"),
                    Column("RDMA device", "device"),
                    Column("Rate", "B", unit=units.BitsPerSecondSI),
                    Column("Declared", "C", unit=units.BitsPerSecondSI),
                    Column("MTU", "D"),
                    Column("Planned", "E"),
                    Column("RDMA MTU", "F"),
                    Column("RDMA port active", "G", states=PRESENT),
                    Column("GID", "H", states=PRESENT),
                    Column("GID index", "I"),
                    Column("PCIe lanes", "J"),
                    Column("Possible", "K"),
                ],
                sort="Rail",
                height=9,
            ),
            timeline(
                "State of the rails",
                "Red: no link, RDMA port down, below the declared rate, other MTU. Orange: errors, pauses.",
                Query(f"max by (rail) (railyard:rail_state{{{RAIL}}})", "{{rail}}"),
                states=RAIL_STATES,
                height=7,
            ),
            lines(
                "RDMA",
                "Counted by the HCA. Received above zero, sent below.",
                Query(f"8 * railyard:rail_rdma_receive_bytes:rate2m{{{RAIL}}}", "{{rail}} received"),
                Query(f"-8 * railyard:rail_rdma_transmit_bytes:rate2m{{{RAIL}}}", "{{rail}} sent"),
                unit=units.BitsPerSecondSI,
            ),
            lines(
                "TCP/IP",
                "Counted by the netdev. Received above zero, sent below. On most cards RDMA is not among it.",
                Query(f"8 * railyard:rail_receive_bytes:rate2m{{{RAIL}}}", "{{rail}} received"),
                Query(f"-8 * railyard:rail_transmit_bytes:rate2m{{{RAIL}}}", "{{rail}} sent"),
                unit=units.BitsPerSecondSI,
            ),
            lines(
                "Errors in an hour",
                "Growth of the rail's error counters in an hour, by kind.",
                Query(f"railyard:rail_errors:increase1h{{{RAIL}}}", "{{rail}} {{kind}}"),
            ),
            rows(
                "Error counters",
                "The driver's counters that are above 0, and how much they grew in an hour.",
                [
                    f"max by (rail, kind, counter) (railyard_rail_error_counter_total{{{RAIL}}})",
                    f"max by (rail, kind, counter) "
                    f"(increase(railyard_rail_error_counter_total{{{RAIL}}}[1h]))",
                ],
                [
                    Column("Rail", "rail", width_px=70),
                    Column("Kind", "kind", width_px=90),
                    Column("Counter", "counter"),
                    Column("Total", "A"),
                    Column("In an hour", "B", unit=units.Short, width_px=100),
                ],
                sort="In an hour",
                descending=True,
                width=12,
            ),
            lines(
                "Paused share of the time",
                "rx: the switch pauses the node. tx: the node pauses the switch; look at its PCI Express "
                "and memory.",
                Query(f"railyard:rail_pause_share{{{RAIL}}}", "{{rail}} {{direction}} {{priority}}"),
                unit=units.PercentUnit,
            ),
            lines(
                "Congestion control",
                "Packets per second by counter, all rails shown. Not a fault of the node by itself.",
                Query(
                    f"sum by (counter) (rate(railyard_rail_congestion_total{{{RAIL}}}[$__rate_interval]))",
                    "{{counter}}",
                ),
                unit=units.PacketsPerSecond,
            ),
            "Checks",
            rows(
                "Findings of the quick check",
                "What the last quick check found wrong or could not read; `docs/troubleshooting.md` has "
                "each cause.",
                [f"max by (cause, rail) (railyard_quick_finding{{{NODE}}})"],
                [Column("Cause", "cause"), Column("Rail", "rail", width_px=80)],
                width=8,
            ),
            rows(
                "Alerts",
                "Alerts of this node that fire.",
                [firing_since("severity, alertname, rail", NODE)],
                [
                    Column("Severity", "severity", width_px=90),
                    Column("Alert", "alertname"),
                    Column("Rail", "rail", width_px=80),
                    Column("Since", "A", unit=units.DateTimeFromNow),
                ],
                sort="Severity",
                width=8,
            ),
            rows(
                "GPU errors (XID)",
                "XIDs in the kernel log. `since reset`: since the driver was loaded or the GPU was reset; "
                "these count.",
                [
                    f"max by (pci, xid) (railyard_gpu_xid_since_reset{{{NODE}}})",
                    f"max by (pci, xid) (railyard_gpu_xid_total{{{NODE}}})",
                ],
                [
                    Column("GPU", "pci"),
                    Column("XID", "xid", width_px=60),
                    Column("Since reset", "A", width_px=90),
                    Column("Since boot", "B", width_px=90),
                ],
                width=8,
            ),
            "Machine",
            single(
                "GPUs",
                "GPUs on the PCI bus, and as many as are declared.",
                Query(f"railyard_gpus{{{NODE}}}", "there"),
                Query(f"railyard_expected_gpus{{{NODE}}}", "declared"),
                width=6,
            ),
            single(
                "CPUs with a wrong governor",
                "CPUs whose frequency governor is not the declared one.",
                Query(f"railyard_cpus_with_wrong_governor{{{NODE}}}"),
                warn_from=1,
                width=6,
            ),
            single(
                "Up for",
                "Time since the node booted, by its own clock.",
                Query(_age("node_boot_time_seconds")),
                unit=units.Seconds,
                width=6,
                history=False,
            ),
            single(
                "Uncorrected memory errors",
                "Errors of the CPU's memory since boot that ECC could not correct (EDAC).",
                Query(f"sum(node_edac_uncorrectable_errors_total{{{NODE}}})"),
                bad_from=1,
                width=6,
            ),
            lines(
                "Load and pressure",
                "Load: processes that run or wait. Pressure: share of the time in which some process "
                "waited for CPU, memory "
                "or storage (PSI).",
                Query(f"node_load1{{{NODE}}}", "load"),
                *(
                    Query(
                        f"rate(node_pressure_{what}_waiting_seconds_total{{{NODE}}}[$__rate_interval])",
                        f"{what} pressure",
                    )
                    for what in ("cpu", "memory", "io")
                ),
                width=8,
            ),
            lines(
                "Memory",
                "Memory that is available to new programs, and all of it.",
                Query(f"node_memory_MemAvailable_bytes{{{NODE}}}", "available"),
                Query(f"node_memory_MemTotal_bytes{{{NODE}}}", "all"),
                unit=units.BytesIEC,
                width=8,
            ),
            lines(
                "Temperature",
                "The warmest sensor of each chip that the kernel's drivers report (hwmon). Fans and "
                "supplies: the BMC.",
                Query(f"max by (chip) (node_hwmon_temp_celsius{{{NODE}}})", "{{chip}}"),
                unit=units.Celsius,
                width=8,
            ),
        ],
        one_node=True,
    )
