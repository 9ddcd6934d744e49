# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The healthy pair of the notes, two ConnectX-3 back to back: its own numbers deserve no failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.runs import fake_run, run_builder

LAYOUT = Path(__file__).parents[9] / "inventories" / "v100-pair"
# ConnectX-3: one PCIe function for both ports, RoCE v1 alone.
HCAS = {"rail0": "mlx4_0:1", "rail1": "mlx4_0:2"}
#: Gbit/s by (RDMA, both ports at once): iperf3 of one stream, and 4554.47 MiB/s of ib_write_bw. At once
#: the ports share a PCIe 3.0 x8 slot, some 57 Gbit/s.
GBPS = {(False, False): 27.4, (True, False): 38.21, (False, True): 20.0, (True, True): 28.0}
LATENCIES = {
    "tcp_latency": {
        "latency_average_us": 21.928,
        "latency_p50_us": 21.622,
        "latency_min_us": 19.615,
        "latency_p99_us": 28.0,
        "latency_p999_us": 30.0,
        "latency_max_us": 31.618,
    },
    "rdma_latency": {
        "latency_average_us": 0.93,
        "latency_p50_us": 0.85,
        "latency_min_us": 0.81,
        "latency_p99_us": 5.05,
        "latency_p999_us": 7.0,
        "latency_max_us": 12.0,
        "observations": 100_000,  # the most that are planned
    },
}


class NotesPair(fake_run.FakeRun):
    """The layout's own plan, the card's facts, and the notes' numbers with counters that confirm them."""

    def __init__(self, streams: int) -> None:
        super().__init__(40.0, "hardware", "roce", iperf3_streams=streams)

    def _node(self, index: int) -> dict[str, Any]:
        self.hcas = HCAS
        plan = json.loads((LAYOUT / "expected" / "plan.json").read_text(encoding="utf-8"))
        return {**plan["nodes"][fake_run.NODES[index - 1]], "bmc_address": None}

    def _facts(self, index: int) -> dict[str, Any]:
        facts = super()._facts(index)
        for device in facts["netdevs"][:2]:
            device |= {"speed_mbps": 40000, "pci": "0000:81:00.0", "driver": "mlx4_en"}
        for number, port in enumerate(facts["hcas"], start=1):
            port |= {"driver": "mlx4_core", "port": number, "rate_gbps": 40.0, "pci": "0000:81:00.0"}
            port["gids"] = [{**gid, "type": "RoCE v1"} for gid in port["gids"]]
        return facts

    def _row(self, line: dict[str, Any], end: str) -> dict[str, Any]:
        row, check = super()._row(line, end), str(line["check"])
        rdma = check.startswith("rdma")
        if rdma:
            row["gid_type"] = "RoCE v1"
        gbps = GBPS[rdma, line["group"] is not None] if "bandwidth" in check else None
        run_builder.scale(row, gbps, LATENCIES.get(check))
        return row


@pytest.mark.parametrize("streams", [1, 4])
def test_the_notes_pair_deserves_no_failure(streams: int) -> None:
    run = NotesPair(streams)
    told = run.judge()
    bad = [one for one in told if one["outcome"] not in ("pass", "recorded")]
    assert [(one["check"], one["cause"]) for one in bad] == []
    found = {one["check"]: one["outcome"] for one in told}
    assert (found["tcp_bandwidth"], found["rdma_bandwidth"]) == ("recorded", "pass")
    assert run.status() == 0
