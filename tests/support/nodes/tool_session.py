# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for the runner where a tool is tested: what the tool asks to be run is kept."""

from __future__ import annotations

from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import Place
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import Finished, ToolSession

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


class FakeSession(ToolSession):
    """Runs nothing, and says that the tool printed `text`."""

    def __init__(self, text: str = "", family: int = 4) -> None:
        self.own = OWN if family == 4 else OWN._replace(address="fd00::1")
        self.peer_address = "10.0.1.2" if family == 4 else "fd00::2"
        self.port = 18617
        self.mtu_bytes = 9000
        self.policy = POLICY
        self.text = text
        self.ran: list[list[str]] = []

    def run(self, argv: list[str], limit_s: float, connection: bool = False) -> Finished:
        self.ran.append(argv)
        return Finished(0, self.text, 0.0, 0.1 if connection else None, 6.0)
