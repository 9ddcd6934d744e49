# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of the variables that define the Prometheus targets of a node and the monitoring host.

They are read raw from the inventory: targets are written without a connection to any node.
"""

from __future__ import annotations

#: Variables of a node. States of the monitoring host's roles are among them to detect one that is set for all
#: hosts while there is no monitoring host.
OF_NODES = (
    "monitoring_state", "bmc_exporter_state", "monitoring_dcgm_port",
    "node_metrics_state", "node_metrics_listen",
    "node_metrics_port", "node_metrics_interval_s", "node_metrics_tls", "node_metrics_tls_certificate",
    "node_metrics_tls_key", "node_metrics_basic_auth",
)  # fmt: skip
#: Variables of a host of group monitoring.
OF_MONITORS = (
    "monitoring_state", "monitoring_mode", "monitoring_listen", "monitoring_port",
    "monitoring_alertmanager_listen", "monitoring_alertmanager_port", "monitoring_scrape_interval_s",
    "monitoring_retention", "monitoring_receivers", "monitoring_thresholds", "monitoring_rule_overrides",
    "monitoring_tls", "monitoring_tls_cert_file", "monitoring_tls_key_file", "monitoring_basic_auth",
    "monitoring_node_ca_file", "monitoring_node_basic_auth", "monitoring_runs_file",
    "bmc_exporter_state", "bmc_exporter_port", "bmc_exporter_user", "bmc_exporter_password",
)  # fmt: skip
