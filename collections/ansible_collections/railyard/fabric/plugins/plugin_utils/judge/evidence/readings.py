# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Combine the two rows of a test into the observed values of a verdict. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records.pair_rows import PairRow
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import formulas, row_counters
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.row_numbers import read_metrics

_ETHERNET_HEADER_BYTES = 14
#: Begin of a metric's name that is the server's.
OF_PEER = "peer_"


def find_observed(client: PairRow, server: PairRow) -> dict[str, float]:
    """Return the observed values of a verdict on both rows."""
    return merge_metrics(read_metrics(client), read_metrics(server))


def merge_metrics(client: Mapping[str, Any], server: Mapping[str, Any]) -> dict[str, Any]:
    """Return the client's metrics, the lower of both ends' bandwidths, and the CPU usage of both.

    Args:
        client: the client's metrics, or a column of each for many tests.
        server: the server's.
    """
    shown = dict(client)
    if "bandwidth_gbps" in server and "bandwidth_gbps" in shown:
        shown["bandwidth_gbps"] = formulas.take_smaller(shown["bandwidth_gbps"], server["bandwidth_gbps"])
    for key in ("cpu_percent", "node_cpu_percent"):
        if key in server:
            shown[f"{OF_PEER}{key}"] = server[key]
    return shown


def find_missed_packets(client: PairRow, server: PairRow) -> str | None:
    """Return how the rail's counters show that all packets arrived although the tool missed some, or None.

    A delayed tool does not read its socket in time. One of these packets is larger than the idle traffic of a
    rail, so the byte counter shows whether one is missing.
    """
    metrics = read_metrics(client)
    size, sent = metrics.get("path_mtu_bytes", metrics.get("packet_bytes")), metrics.get("sent")
    end = server if client["check"] == "path_mtu_one_way" else client
    deltas = row_counters.find_counter_deltas(end["counters"])
    most = (client.get("claim") or {}).get("at_most")
    if deltas is None or size is None or sent is None or most is None:
        return None
    wanted_bytes = sent * (size + _ETHERNET_HEADER_BYTES)
    if deltas["rx_packets"] < max(sent, most) or deltas["rx_bytes"] < wanted_bytes:
        return None
    return f"{sent} packets are {wanted_bytes} bytes, rx_bytes of {end['host']} grew by {deltas['rx_bytes']}"
