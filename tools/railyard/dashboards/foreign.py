# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics of other programs that the dashboards read, with the exporter that has them. Pure data.

A Prometheus that keeps only what is needed keeps these, `railyard_*`, and what the rules read.
"""

from __future__ import annotations

from collections.abc import Mapping

PROMETHEUS = "Prometheus itself"
# Read in the test fixtures of these releases (collector/fixtures/e2e-output.txt) and in Debian's packages.
NODE_EXPORTER = "node_exporter 1.5 to 1.9"
# etc/default-counters.csv and the README, at d5e5f51.
DCGM_EXPORTER = "dcgm-exporter 4"

FOREIGN: Mapping[str, str] = {
    "up": PROMETHEUS,
    "ALERTS": PROMETHEUS,
    "ALERTS_FOR_STATE": PROMETHEUS,
    "node_boot_time_seconds": NODE_EXPORTER,
    "node_edac_uncorrectable_errors_total": NODE_EXPORTER,
    "node_hwmon_temp_celsius": NODE_EXPORTER,
    "node_load1": NODE_EXPORTER,
    "node_memory_MemAvailable_bytes": NODE_EXPORTER,
    "node_memory_MemTotal_bytes": NODE_EXPORTER,
    "node_network_carrier_changes_total": NODE_EXPORTER,
    "node_pressure_cpu_waiting_seconds_total": NODE_EXPORTER,
    "node_pressure_io_waiting_seconds_total": NODE_EXPORTER,
    "node_pressure_memory_waiting_seconds_total": NODE_EXPORTER,
    "node_textfile_mtime_seconds": NODE_EXPORTER,
    "node_time_seconds": NODE_EXPORTER,
    "DCGM_EXP_CLOCK_EVENTS_COUNT": DCGM_EXPORTER,
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": DCGM_EXPORTER,
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": DCGM_EXPORTER,
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": DCGM_EXPORTER,
    "DCGM_FI_DEV_GPU_TEMP": DCGM_EXPORTER,
    "DCGM_FI_DEV_GPU_UTIL": DCGM_EXPORTER,
    "DCGM_FI_DEV_MEMORY_TEMP": DCGM_EXPORTER,
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": DCGM_EXPORTER,
    "DCGM_FI_DEV_POWER_USAGE": DCGM_EXPORTER,
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": DCGM_EXPORTER,
    "DCGM_FI_DEV_ROW_REMAP_PENDING": DCGM_EXPORTER,
    "DCGM_FI_DEV_SM_CLOCK": DCGM_EXPORTER,
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": DCGM_EXPORTER,
}
