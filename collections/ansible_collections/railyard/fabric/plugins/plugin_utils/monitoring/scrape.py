# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Prometheus scrapes: the jobs, and which series of node_exporter are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.monitoring import targets

#: node_exporter has about 540 series for each node, and Railyard's rules and dashboards read these of them.
KEPT = (
    "railyard_.*",
    "node_boot_time_seconds|node_time_seconds|node_load1",
    "node_memory_(MemAvailable|MemTotal)_bytes",
    "node_pressure_(cpu|io|memory)_waiting_seconds_total",
    "node_hwmon_temp_celsius",
    "node_edac_(un)?correctable_errors_total",
    "node_network_(carrier|carrier_changes_total|mtu_bytes|speed_bytes)",
    "node_network_(receive|transmit)_(bytes|errs|drop)_total",
    "node_infiniband_(state_id|physical_state_id|rate_bytes_per_second)",
    "node_infiniband_port_data_(received|transmitted)_bytes_total",
    "node_infiniband_(symbol_error|link_downed|port_transmit_wait)_total",
    "node_textfile_(mtime_seconds|scrape_error)",
    "node_scrape_collector_success",
    "node_filesystem_(avail|size)_bytes",
)
#: Files that may be missing are no error of Prometheus'; it looks at them again by itself.
REFRESH = "1m"
#: Seconds between two scrapes. More than 60 leave fewer than two samples in the rules' windows of 2 minutes,
#: and rate() of one sample is nothing; rules on what is now are evaluated every 15.
INTERVAL_S = (15, 60)
#: Seconds within which a node answers; never above the interval.
TIMEOUT_S = 10
#: A BMC takes seconds to answer, and each scrape opens sessions on it. Role bmc_exporter gives each of its
#: four programs 10 s.
BMC_INTERVAL_S, BMC_TIMEOUT_S = 60, 45


class NodeAccess(NamedTuple):
    """How Prometheus proves itself to the nodes' exporters, and how they prove themselves.

    Attributes:
        ca_file: certificates that signed the nodes', a path on the host of Prometheus; None: the system's.
        user: the user of basic auth; None where there is none.
        password_file: a path on the host of Prometheus.
    """

    ca_file: str | None = None
    user: str | None = None
    password_file: str | None = None


NO_ACCESS = NodeAccess()


def jobs(
    folder: str, runs: Sequence[str] | None, access: NodeAccess = NO_ACCESS, bmc_exporter: str = ""
) -> list[dict[str, Any]]:
    """Return the scrape jobs.

    Args:
        folder: where `file_sd/` is on the host of Prometheus; empty: beside its configuration.
        runs: targets that serve the metrics of runs; None: they are in `file_sd/railyard_runs.json`.
        access: how the nodes' exporters are reached.
        bmc_exporter: address and port of the BMC exporter; empty: none.
    """
    node = _job("railyard-node", folder, targets.FILES["railyard-node"])
    if access.ca_file is not None:
        node["tls_config"] = {"ca_file": access.ca_file}
    if access.user is not None:
        node["basic_auth"] = {"username": access.user, "password_file": access.password_file}
    node["metric_relabel_configs"] = [
        {"source_labels": ["__name__"], "regex": "|".join(KEPT), "action": "keep"}
    ]
    gpu = _job("railyard-gpu", folder, targets.FILES["railyard-gpu"])
    # Series of runs name cluster and node themselves.
    of_runs: dict[str, Any] = {"job_name": "railyard-runs", "honor_labels": True}
    if runs is None:
        of_runs["file_sd_configs"] = [{"files": [_path(folder, "railyard_runs.json")]}]
    else:
        of_runs["static_configs"] = [{"targets": list(runs)}]
    return [node, gpu, *([_bmc_job(folder, bmc_exporter)] if bmc_exporter else []), of_runs]


def prometheus_config(
    interval_s: int, alertmanager: str, runs: Sequence[str], access: NodeAccess, bmc_exporter: str
) -> dict[str, Any]:
    """Return prometheus.yml; names of files are relative to its folder."""
    return {
        "global": {
            "scrape_interval": f"{interval_s}s",
            "scrape_timeout": f"{min(interval_s, TIMEOUT_S)}s",
            # Alerts on what is now have groups with an interval of their own.
            "evaluation_interval": "15s",
        },
        "rule_files": ["rules/*.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": jobs("", runs, access, bmc_exporter),
    }


def _bmc_job(folder: str, exporter: str) -> dict[str, Any]:
    """Return the job by which one exporter asks each BMC: the target becomes a parameter of the request."""
    return _job(targets.BMC_JOB, folder, targets.BMC_FILE) | {
        "metrics_path": "/ipmi",
        "scrape_interval": f"{BMC_INTERVAL_S}s",
        "scrape_timeout": f"{BMC_TIMEOUT_S}s",
        "relabel_configs": [
            {"source_labels": ["__address__"], "target_label": "__param_target"},
            {"source_labels": ["__param_target"], "target_label": "instance"},
            {"target_label": "__address__", "replacement": exporter},
        ],
    }


def _job(name: str, folder: str, file: str) -> dict[str, Any]:
    return {
        "job_name": name,
        "file_sd_configs": [{"files": [_path(folder, file)], "refresh_interval": REFRESH}],
    }


def _path(folder: str, file: str) -> str:
    return f"{folder.rstrip('/')}/file_sd/{file}" if folder else f"file_sd/{file}"
