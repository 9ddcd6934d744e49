# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""sockperf: its command lines, and what it claims."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils.measure.iperf3 import (
    Iperf3,
)
from ansible_collections.railyard.fabric.plugins.module_utils.measure.sockperf import Sockperf, sent_messages
from support.nodes.tool_session import FakeSession


def test_sockperf_is_bound_to_the_rail_on_both_sides() -> None:
    play = FakeSession()
    server = "sockperf sr --tcp -i 10.0.1.1 -p 18617"
    assert Sockperf().server_argv(play) == server.split()
    client = "sockperf pp --tcp -i 10.0.1.2 -p 18617 --client_ip 10.0.1.1 -m 64 -t 2"
    assert Sockperf().client_argv(play) == client.split()


def test_sockperf_before_3_8_is_not_queried_over_ipv6() -> None:
    asked = "-i fd00::2 -p 18617 --client_ip fd00::1"
    assert Sockperf().client_argv(FakeSession(family=6))[3:9] == asked.split()
    for version, address in (
        ("3.7", "10.0.1.1"),
        ("3.8", "fd00::1"),
        ("3.10", "fd00::1"),
        ("unknown", "fd00::1"),
    ):
        assert Sockperf().refuses(address, version, "gpu001") is None, version
    obstacle = Sockperf().refuses("fd00::1", "3.7", "gpu001")
    # Not requested, so nothing failed: the number is missing and the row says why.
    assert (obstacle.error_class, obstacle.status, obstacle.host) == ("tool_too_old", "unmeasured", "gpu001")
    assert "sockperf 3.7" in obstacle.message
    assert "sockperf 3.8 or newer" in obstacle.fix
    assert Iperf3().refuses("fd00::1", "3.7", "gpu001") is None


def test_all_messages_of_sockperf_are_counted() -> None:
    line = "sockperf: [Total Run] RunTime=2.001 sec; SentMessages=30738; ReceivedMessages=30737\n"
    assert sent_messages(line) == 30738
    assert sent_messages("") is None
