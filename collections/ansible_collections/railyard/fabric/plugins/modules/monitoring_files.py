#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: monitoring_files
short_description: Build the files of a monitoring host from the inventory
version_added: "0.3.0"
description:
  - Makes the configuration of Prometheus and Alertmanager, rules, targets and console pages, all below
    C(/etc/prometheus/railyard), as contents for M(railyard.fabric.managed_files).
  - Targets are the hosts of group C(gpu_nodes) with C(node_metrics_state=present), whatever the limit.
  - Runs on the controller and opens no connection. Its result is never logged, since secrets are in it.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  mode:
    description:
      - V(server) makes the files of a Prometheus and an Alertmanager that role monitoring runs.
      - V(export) makes what C(railyard monitoring export) writes, for a Prometheus of the site.
    type: str
    choices: [server, export]
    default: server
  scrape_interval_s:
    description: Seconds between two scrapes, 15 to 60.
    type: int
    default: 15
  alertmanager:
    description: Address and port of Alertmanager.
    type: str
    default: 127.0.0.1:9093
  receivers:
    description: Receivers of alerts, as C(monitoring_receivers).
    type: list
    elements: dict
    default: []
  thresholds:
    description: The site's limits of alerts, as C(monitoring_thresholds).
    type: dict
    default: {}
  rule_overrides:
    description: What the site changes of alerts, as C(monitoring_rule_overrides).
    type: dict
    default: {}
  prometheus_version:
    description: >-
      The installed version of package prometheus. One before 2.42 gets rules without C(keep_firing_for).
    type: str
    default: ""
  tls_files:
    description: Certificate and key of Prometheus' page, paths on the controller.
    type: list
    elements: str
    default: []
  basic_auth:
    description: User to bcrypt hash, of Prometheus' page.
    type: dict
    default: {}
  node_ca_file:
    description: Certificates that signed those of the nodes' exporters, a path on the controller.
    type: str
    default: ""
  node_basic_auth:
    description: C(user) and C(password) of the nodes' exporters.
    type: dict
    default: {}
  bmc_exporter:
    description: >-
      Address and port of the exporter that queries the BMCs, each of which becomes a target. Empty for none.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Make the files
  railyard.fabric.monitoring_files:
    receivers: "{{ monitoring_receivers }}"
  register: __monitoring_made

- name: Write them
  railyard.fabric.managed_files:
    files: "{{ __monitoring_made.files }}"
"""

RETURN = r"""
files:
  description: >-
    All files, with C(path), C(content), C(mode) and C(group); secrets are readable by group prometheus alone.
  returned: success
  type: list
  elements: dict
  sample: []
"""
