# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where Prometheus finds the exporters of each node: target files made from the inventory alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import model
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.addresses import address_of

#: node_exporter's usual port, and dcgm-exporter's (a node without `monitoring_dcgm_port` has none).
NODE_PORT, DCGM_PORT = 9100, 9400
#: On the monitoring host: Prometheus', Alertmanager's, and that of the exporter of runs.
PORT, ALERTMANAGER_PORT, RUNS_PORT = 9090, 9093, 9101
#: Job of a scrape configuration -> its file of targets.
FILES = {"railyard-node": "railyard_nodes.json", "railyard-gpu": "railyard_gpus.json"}
#: Of the job that reads BMCs, where there is an exporter that asks them.
BMC_JOB, BMC_FILE = "railyard-bmc", "railyard_bmc.json"

Target = dict[str, Any]


def scrape_address(node: model.Node) -> str:
    """Return where Prometheus reaches a node: its address on the management network, else its name.

    The first that is there of `node_metrics_listen`, `management_address`, `ansible_host` (an address),
    `fabric.frontend.address`, and the name that Ansible connects to.
    """
    frontend = (node.fabric or {}).get("frontend") or {}
    connects_to = str(node.ansible_host or "")
    candidates = (
        node.metrics.get("node_metrics_listen"),
        node.management_address,
        connects_to if address_of(connects_to) is not None else None,
        str(frontend.get("address") or "").partition("/")[0],
    )
    return next((str(one) for one in candidates if one), connects_to or node.name)


def port_of(node: model.Node) -> int:
    """Return the port of a node's node_exporter."""
    return int(node.metrics.get("node_metrics_port") or NODE_PORT)


def state_of(node: model.Node) -> str:
    """Return `node_metrics_state` of a node: ignored, present or absent."""
    return str(node.metrics.get("node_metrics_state") or "ignored")


def has_tls(node: model.Node) -> bool:
    """Tell whether a node's exporter answers by HTTPS alone."""
    return (node.metrics.get("node_metrics_tls") or "none") != "none"


def nodes_to_scrape(inventory: model.Inventory, *, only_ours: bool) -> list[model.Node]:
    """Return the nodes that have an exporter, whatever the limit of the play.

    Args:
        inventory: checked.
        only_ours: without nodes on which role node_metrics sets nothing up, where a site may have its own.
    """
    states = ("present",) if only_ours else ("present", "ignored")
    return [node for node in inventory.nodes if state_of(node) in states]


def servers(inventory: model.Inventory) -> list[model.Monitor]:
    """Return the hosts on which role monitoring runs Prometheus, whatever the limit of the play."""
    return [
        one
        for one in inventory.monitors
        if one.variables.get("monitoring_state") == "present"
        and one.variables.get("monitoring_mode") != "export"
    ]


def target_files(cluster: str, nodes: Iterable[model.Node]) -> dict[str, list[Target]]:
    """Return the targets of each job, one object for each node, in the order of the inventory."""
    files: dict[str, list[Target]] = {job: [] for job in FILES}
    for node in nodes:
        address = scrape_address(node)
        labels = _labels(cluster, node)
        # The scheme of one target; a job has one for all.
        scheme = {"__scheme__": "https"} if has_tls(node) else {}
        files["railyard-node"].append(_target(address, port_of(node), {**labels, **scheme}))
        dcgm_port = node.metrics.get("monitoring_dcgm_port")
        if dcgm_port:
            files["railyard-gpu"].append(_target(address, int(dcgm_port), labels))
    return files


def bmc_targets(inventory: model.Inventory) -> list[Target]:
    """Return a target for each BMC that the inventory names: its address, for an exporter to ask it."""
    return [
        {"targets": [str(node.bmc_address)], "labels": _labels(inventory.cluster, node)}
        for node in inventory.nodes
        if node.bmc_address
    ]


def _labels(cluster: str, node: model.Node) -> dict[str, str]:
    labels = {"cluster": cluster, "node": node.name}
    if node.scalable_unit is not None:
        labels["scalable_unit"] = str(node.scalable_unit)
    return labels


def to_json(targets: Iterable[Target]) -> str:
    """Write targets as a file for Prometheus' file_sd_configs, a line for each node."""
    lines = ",\n".join(json.dumps(target) for target in targets)
    return f"[\n{lines}\n]\n" if lines else "[]\n"


def _target(address: str, port: int, labels: Mapping[str, str]) -> Target:
    host = f"[{address}]" if ":" in address else address
    return {"targets": [f"{host}:{port}"], "labels": dict(labels)}
