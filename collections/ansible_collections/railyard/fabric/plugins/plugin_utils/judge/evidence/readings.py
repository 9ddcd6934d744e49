# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the two rows of a test show, and whether its probes were lost. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import row_counters
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome import causes

_ETHERNET_HEADER_BYTES = 14


def observed(client: Mapping[str, Any], server: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a verdict shows: the client's numbers, both ends' CPU, the lower of their bandwidths."""
    shown = {key: value for key, value in client["metrics"].items() if policy.is_number(value)}
    theirs = server["metrics"]
    if policy.is_number(theirs.get("bandwidth_gbps")) and "bandwidth_gbps" in shown:
        shown["bandwidth_gbps"] = min(shown["bandwidth_gbps"], theirs["bandwidth_gbps"])
    for key in ("cpu_percent", "node_cpu_percent"):
        if policy.is_number(theirs.get(key)):
            shown[f"peer_{key}"] = theirs[key]
    return shown


def lost(client: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the cause when probes were lost; no counter has to prove that something did not arrive."""
    metrics = client["metrics"]
    if metrics.get("loss_percent", 0) > 0:
        return causes.explain("lost_packets", f"{metrics['loss_percent']:g} %")
    if "path_mtu_bytes" in metrics and metrics["received"] < metrics["sent"]:
        # Where one packet of the full size passed, the size is not what held the others back.
        size = metrics["path_mtu_bytes"]
        full = size == client.get("mtu_bytes") and metrics["received"] > 0
        seen = f"{metrics['received']} of {metrics['sent']} probes of {size} bytes arrived"
        return causes.explain("lost_packets" if full else "path_mtu_small", seen)
    return None


def came_after_all(client: Mapping[str, Any], server: Mapping[str, Any]) -> str | None:
    """Return what the rail's counters say against a loss: all packets came, and the tool missed some.

    A tool that was held up does not read what lies in its socket. One packet of these is more than all else
    that an idle rail carries beside them, so that the bytes show whether one is missing.
    """
    metrics, claim = client["metrics"], client.get("claim")
    size, sent = metrics.get("path_mtu_bytes", metrics.get("packet_bytes")), metrics.get("sent")
    end = server if client["check"] == "path_mtu_one_way" else client
    deltas = row_counters.counter_deltas(end.get("counters"))
    most = claim.get("at_most") if isinstance(claim, Mapping) else None
    if deltas is None or not (policy.is_whole(size) and policy.is_whole(sent) and policy.is_number(most)):
        return None
    wanted_bytes = sent * (size + _ETHERNET_HEADER_BYTES)
    if deltas["rx_packets"] < max(sent, most) or deltas["rx_bytes"] < wanted_bytes:
        return None
    return f"{sent} packets are {wanted_bytes} bytes, rx_bytes of {end['host']} grew by {deltas['rx_bytes']}"
