# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for the runner where a tool is tested: what the tool asks to be run is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import Place
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import (
    Finished,
    ToolSession,
)
from ansible_collections.railyard.fabric.plugins.module_utils.measure.rdma_port import RdmaPort

POLICY: dict[str, Any] = {
    "iperf3_duration_s": 4,
    "iperf3_streams": 4,
    "iperf3_omit_s": 1,
    "sockperf_duration_s": 2,
    "sockperf_message_bytes": 64,
    "ping_count": 10,
    "ping_interval_s": 0.02,
    "path_mtu_probes": 5,
}
OWN = Place("gpu001", "rail0", "ens6", "10.0.1.1")
RDMA_POLICY: dict[str, Any] = {
    "rdma_duration_s": 4,
    "rdma_margin_s": 1,
    "rdma_latency_s": 2,
    "rdma_message_bytes": 65536,
    "rdma_qps": 1,
    "sockperf_message_bytes": 64,
    "numa_pinning": True,
}
PORT = RdmaPort("rxe0", 1, 1, "RoCE v2", None)


def refusal(call: Callable[..., object], *given: Any, match: str | None = None) -> MeasurementError:
    """Return the error that a call ends with."""
    with pytest.raises(MeasurementError, match=match) as caught:
        call(*given)
    return caught.value


class FakeSession(ToolSession):
    """Runs nothing, and says that the tool printed `text`."""

    def __init__(self, text: str = "", family: int = 4, status: int = 0) -> None:
        self.own = OWN if family == 4 else OWN._replace(address="fd00::1")
        self.peer_address = "10.0.1.2" if family == 4 else "fd00::2"
        self.port = 18617
        self.mtu_bytes = 9000
        self.policy = POLICY
        self.text = text
        self.status = status
        self.ran: list[list[str]] = []

    def run(self, argv: list[str], limit_s: float, connection: bool = False) -> Finished:
        self.ran.append(argv)
        return Finished(self.status, self.text, 0.0, 0.1 if connection else 0.0, 6.0)

    def note(self, text: str) -> None:
        pass


class PerftestSession(ToolSession):
    """Has run perftest already, which printed these texts, one after the other."""

    def __init__(self, *texts: str, port: RdmaPort = PORT, version: str = "6.06", status: int = 0) -> None:
        self.own = OWN
        self.peer_address = "10.0.1.2"
        self.port = 18640
        self.policy = dict(RDMA_POLICY)
        self.version = version
        self.peer_failed = False
        self.here: RdmaPort | None = port
        self.texts = list(texts)
        self.status = status
        self.ran: list[list[str]] = []
        self.asked: list[Mapping[str, Any]] = []

    def rdma_port(self) -> RdmaPort:
        if self.here is None:
            raise MeasurementError("hca_missing", "gone", "gpu001", "look")
        return self.here

    def run(self, argv: list[str], limit_s: float, connection: bool = False) -> Finished:
        self.ran.append(argv)
        return Finished(self.status, self.texts.pop(0), 0.0, 0.5, 5.5)

    def serve(self, argv: list[str], limit_s: float) -> None:
        self.ran.append(argv)

    def served(self, patience_s: float) -> Finished:
        return Finished(self.status, self.texts.pop(0), 0.0, 0.0, 6.0)

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append(question)
        return {"port": 18641}
