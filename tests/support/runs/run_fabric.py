# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run's folder has of the InfiniBand fabric: a finding, and a path that is known one way alone."""

from __future__ import annotations

from typing import Any


def _port(name: str, number: int, guid: int) -> dict[str, Any]:
    return {"name": name, "port": number, "guid": f"0x{guid:016x}"}


def sample() -> dict[str, Any]:
    """Return the document of fabric.json."""
    grown = {"end": "into", "counter": "SymbolErrorCounter", "by": 12, "at_least": False}
    full = {"end": "out", "counter": "PortRcvErrors", "by": 0, "at_least": True}
    return {
        "schema": 1,
        "folder": "20261121T101530Z",
        "headline": "1 link with too many errors: gpuserver1 rail0. 4 of 4 adapters, 2 leaves, 1 spine read.",
        "status": 1,
        "counted_s": 300.5,
        "findings": [
            {
                "number": 2,
                "cause": "errors_above_ber",
                "severity": "fail",
                "text": "gpuserver1 rail0 to leaf1 port 1, in 300 s: SymbolErrorCounter by 12",
                "inferred": True,
                "node": "gpuserver1",
                "rail": "rail0",
                "next": "Likely a dirty cable; see `ibqueryerrors`. Clean the cable.",
            }
        ],
        "findings_left_out": 3,
        "paths": [
            {
                "node": "gpuserver1",
                "peer": "gpuserver2",
                "rail": "rail0",
                "checks": ["rdma_bandwidth", "rdma_latency"],
                "ways": [
                    {
                        "sender": "gpuserver1",
                        "receiver": "gpuserver2",
                        "links": [
                            {
                                "out": _port("gpuserver1 rail0", 1, 0xC1),
                                "into": _port("leaf1", 1, 0xA1),
                                "rate_gbps": 200.0,
                                "grown": [grown, full],
                            },
                            {
                                "out": _port("leaf1", 2, 0xA1),
                                "into": _port("gpuserver2 rail0", 1, 0xC2),
                                "rate_gbps": None,
                                "grown": None,
                            },
                        ],
                        "unknown": None,
                    },
                    {
                        "sender": "gpuserver2",
                        "receiver": "gpuserver1",
                        "links": [],
                        "unknown": "ibtracert: can't reach port",
                    },
                ],
            }
        ],
        "paths_left_out": 1,
    }
