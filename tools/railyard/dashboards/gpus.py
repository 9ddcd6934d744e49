# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dashboard of GPUs: as many as declared, errors, clocks, temperature."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.models import units

from railyard.dashboards.parts import Column, Query, board, lines, node_link, rows, single
from railyard.dashboards.promql import NODE, count, top

TOO_FEW = (
    f"railyard_gpus{{{NODE}}} < on (cluster, node) railyard_expected_gpus or "
    f"count by (cluster, node) (DCGM_FI_DEV_GPU_TEMP{{{NODE}}}) < on (cluster, node) railyard_expected_gpus"
)
LOST_LINKS = (
    f"railyard_gpu_nvlinks_expected{{{NODE}}} - on (cluster, node, pci) railyard_gpu_nvlinks_active > 0"
)
POWER = (
    f"sum by (node) (DCGM_FI_DEV_POWER_USAGE{{{NODE}}}) and topk(20, sum by (node) "
    f"(avg_over_time(DCGM_FI_DEV_POWER_USAGE{{{NODE}}}[$__range] @ end())))"
)
UP, DECLARED = "railyard_gpu_nvlinks_active", "railyard_gpu_nvlinks_expected"
GPU = "{{node}} GPU {{gpu}}"
#: Reasons for which the hardware itself lowers the clocks; the others are the driver's or the load's.
HARDWARE = ".*(hw_thermal|hw_power_brake|hw_slowdown).*"
EVENTS = f'DCGM_EXP_CLOCK_EVENTS_COUNT{{clock_event=~"{HARDWARE}",{NODE}}}'


def _ten(field: str) -> str:
    """Return the ten GPUs with the greatest values."""
    return top(10, f"{field}{{{NODE}}}")


def make() -> Dashboard:
    """Build the dashboard."""
    return board(
        "railyard-gpus",
        "Railyard: GPUs",
        "GPUs of the nodes. Numbers named DCGM come from dcgm-exporter, the others from Railyard's own "
        "metrics.",
        [
            "Now",
            single(
                "GPUs",
                "GPUs on the nodes' PCI buses, GPUs declared, and GPUs that DCGM reports.",
                Query(f"sum(railyard_gpus{{{NODE}}})", "there"),
                Query(f"sum(railyard_expected_gpus{{{NODE}}})", "declared"),
                Query(f"count(DCGM_FI_DEV_GPU_TEMP{{{NODE}}})", "DCGM"),
                width=6,
            ),
            single(
                "Nodes with too few GPUs",
                "Nodes with fewer GPUs on the PCI bus, or in DCGM, than are declared.",
                Query(count(TOO_FEW)),
                bad_from=1,
                width=3,
            ),
            single(
                "dcgm-exporter silent",
                "Nodes whose dcgm-exporter does not answer.",
                Query(count(f'up{{job="railyard-gpu",{NODE}}} == 0')),
                warn_from=1,
                width=3,
            ),
            single(
                "GPUs with an XID since reset",
                "GPUs with an XID in the kernel log since the driver was loaded or the GPU was reset.",
                Query(count(f"count by (cluster, node, pci) (railyard_gpu_xid_since_reset{{{NODE}}})")),
                warn_from=1,
                width=3,
            ),
            single(
                "Uncorrected ECC errors",
                "GPUs with a double-bit ECC error since the driver was loaded (DCGM).",
                Query(count(f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{NODE}}} > 0")),
                bad_from=1,
                width=3,
            ),
            single(
                "Row remaps to do",
                "GPUs with a row remap that waits for a reset, or that failed (DCGM).",
                Query(
                    count(
                        f"DCGM_FI_DEV_ROW_REMAP_PENDING{{{NODE}}} > 0 or "
                        f"DCGM_FI_DEV_ROW_REMAP_FAILURE{{{NODE}}} > 0"
                    )
                ),
                bad_from=1,
                width=3,
            ),
            single(
                "NVLinks down",
                "Declared NVLinks that are not up, as the last quick check saw them.",
                Query(f"sum({LOST_LINKS}) or vector(0)"),
                bad_from=1,
                width=3,
            ),
            "Errors",
            rows(
                "XIDs",
                "By GPU and number. `since reset`: what counts; a reset or a new driver clears it. "
                "`docs/gpu.md` has the cure.",
                [
                    f"max by (node, pci, xid) (railyard_gpu_xid_since_reset{{{NODE}}})",
                    f"max by (node, pci, xid) (railyard_gpu_xid_total{{{NODE}}})",
                ],
                [
                    Column("Node", "node", link=node_link()),
                    Column("GPU", "pci"),
                    Column("XID", "xid", width_px=60),
                    Column("Since reset", "A", width_px=100),
                    Column("Since boot", "B", width_px=100),
                ],
                sort="Since reset",
                descending=True,
                width=12,
            ),
            rows(
                "Clocks lowered by the hardware",
                "By event: hw_thermal is heat, hw_power_brake a power supply. How often in "
                "dcgm-exporter's window.",
                [f"max by (node, gpu, clock_event) ({EVENTS} > 0)"],
                [
                    Column("Node", "node", link=node_link()),
                    Column("GPU", "gpu", width_px=60),
                    Column("Event", "clock_event"),
                    Column("Count", "A", width_px=80),
                ],
                sort="Count",
                descending=True,
                width=12,
            ),
            rows(
                "Memory errors and PCI Express replays",
                "GPUs with any of them (DCGM). Corrected errors and remapped rows are history; a pending "
                "remap needs a reset.",
                [
                    f"max by (node, gpu) ({field}{{{NODE}}} > 0)"
                    for field in (
                        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
                        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
                        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
                        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
                        "DCGM_FI_DEV_ROW_REMAP_PENDING",
                        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
                        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
                    )
                ],
                [
                    Column("Node", "node", link=node_link()),
                    Column("GPU", "gpu", width_px=60),
                    Column("ECC uncorrected", "A"),
                    Column("ECC corrected", "B"),
                    Column("Rows remapped, uncorrected", "C"),
                    Column("Rows remapped, corrected", "D"),
                    Column("Remap pending", "E"),
                    Column("Remap failed", "F"),
                    Column("PCIe replays", "G"),
                ],
                sort="Node",
                width=16,
            ),
            rows(
                "NVLinks",
                "GPUs with fewer NVLinks up than are declared.",
                [
                    f"max by (node, pci) ({UP}{{{NODE}}} < {DECLARED})",
                    f"max by (node, pci) ({DECLARED}{{{NODE}}} > {UP})",
                ],
                [
                    Column("Node", "node", link=node_link()),
                    Column("GPU", "pci"),
                    Column("Up", "A", width_px=60),
                    Column("Declared", "B", width_px=80),
                ],
                sort="Node",
                width=8,
            ),
            "Load and heat",
            lines(
                "Temperature: the ten warmest GPUs",
                "GPU's own sensor (DCGM).",
                Query(_ten("DCGM_FI_DEV_GPU_TEMP"), GPU),
                unit=units.Celsius,
            ),
            lines(
                "Memory temperature: the ten warmest GPUs",
                "Sensor of the GPU's memory (DCGM).",
                Query(_ten("DCGM_FI_DEV_MEMORY_TEMP"), GPU),
                unit=units.Celsius,
            ),
            lines(
                "Power",
                "All GPUs of the nodes shown (DCGM).",
                Query(POWER, "{{node}}"),
                unit=units.Watt,
            ),
            lines(
                "Utilization",
                "Share of time in which a kernel ran on the GPU: least, mean and greatest of all GPUs "
                "shown (DCGM).",
                *(
                    Query(f"{function}(DCGM_FI_DEV_GPU_UTIL{{{NODE}}})", name)
                    for function, name in (("min", "least"), ("avg", "mean"), ("max", "greatest"))
                ),
                unit=units.Percent,
                most=100.0,
            ),
            lines(
                "SM clock",
                "Least, mean and greatest of all GPUs shown (DCGM). One GPU far below the others slows a "
                "whole job.",
                *(
                    Query(f"1e6 * {function}(DCGM_FI_DEV_SM_CLOCK{{{NODE}}})", name)
                    for function, name in (("min", "least"), ("avg", "mean"), ("max", "greatest"))
                ),
                unit=units.Hertz,
            ),
            lines(
                "Clock events by name",
                "GPUs whose clocks are lowered, by reason (DCGM). power_cap under load and gpu_idle are "
                "normal.",
                Query(
                    f"count by (clock_event) (DCGM_EXP_CLOCK_EVENTS_COUNT{{{NODE}}} > 0)", "{{clock_event}}"
                ),
            ),
        ],
        rails=False,
    )
