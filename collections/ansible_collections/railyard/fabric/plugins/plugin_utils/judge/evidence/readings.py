# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the two rows of a test show, and what the counters say against a loss. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records.pair_rows import PairRow
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import formulas, row_counters
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.row_numbers import numbers_of

_ETHERNET_HEADER_BYTES = 14


def observed(client: PairRow, server: PairRow) -> dict[str, float]:
    """Return what a verdict shows of both rows."""
    return beside(numbers_of(client), numbers_of(server))


def beside(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the client's metrics, the lower of both ends' bandwidths, and the processors' use at both.

    Args:
        mine: the client's metrics, or of many tests a column of each.
        theirs: the server's.
    """
    shown = dict(mine)
    if "bandwidth_gbps" in theirs and "bandwidth_gbps" in shown:
        shown["bandwidth_gbps"] = formulas.smaller(shown["bandwidth_gbps"], theirs["bandwidth_gbps"])
    for key in ("cpu_percent", "node_cpu_percent"):
        if key in theirs:
            shown[f"peer_{key}"] = theirs[key]
    return shown


def came_after_all(client: PairRow, server: PairRow) -> str | None:
    """Return what the rail's counters say against a loss: all packets came, and the tool missed some.

    A tool that was held up does not read what lies in its socket. One packet of these is more than all else
    that an idle rail carries beside them, so that the bytes show whether one is missing.
    """
    metrics = numbers_of(client)
    size, sent = metrics.get("path_mtu_bytes", metrics.get("packet_bytes")), metrics.get("sent")
    end = server if client["check"] == "path_mtu_one_way" else client
    deltas = row_counters.counter_deltas(end["counters"])
    most = (client.get("claim") or {}).get("at_most")
    if deltas is None or size is None or sent is None or most is None:
        return None
    wanted_bytes = sent * (size + _ETHERNET_HEADER_BYTES)
    if deltas["rx_packets"] < max(sent, most) or deltas["rx_bytes"] < wanted_bytes:
        return None
    return f"{sent} packets are {wanted_bytes} bytes, rx_bytes of {end['host']} grew by {deltas['rx_bytes']}"
