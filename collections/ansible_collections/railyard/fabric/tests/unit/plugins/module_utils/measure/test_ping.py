# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ping: its command lines, losses that are none, and a path's MTU."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.measure import (
    ping,
)
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import Finished
from ansible_collections.railyard.fabric.plugins.module_utils.measure.proof import Claim
from support.nodes.tool_session import FakeSession, refusal


@pytest.mark.parametrize(("family", "flag", "payload"), [(4, "-4", "8972"), (6, "-6", "8952")])
def test_ping_requests_the_full_mtu_in_one_piece(family: int, flag: str, payload: str) -> None:
    play = FakeSession(family=family)
    argv = ping.patient_argv(play, 5, 9000, unbroken=True)
    # iputils waits for the last reply as long as its interval; -W counts only while none has come.
    asked = f"ping {flag} -n -I ens6 -M do -s {payload} -l 5 -i 2 -c 5 -W 2 {play.peer_address}"
    assert argv == asked.split()
    assert "-M" not in ping.patient_argv(play, 5, 1428, unbroken=False)
    assert ping.paced_argv(play, 10)[5:9] == ["-i", "0.02", "-c", "10"]


def ping_text(sent: int, received: int) -> str:
    """Return what iputils prints, by hand to its format."""
    reply = "64 bytes from 10.0.1.2: icmp_seq=1 ttl=64 time=0.080 ms\n"
    rtt = "rtt min/avg/max/mdev = 0.080/0.080/0.081/0.000 ms\n"
    loss_percent = 100 * (1 - received / sent)
    loss = f"{sent} packets transmitted, {received} received, {loss_percent:g}% packet loss, time 82ms\n"
    head = "PING 10.0.1.2 (10.0.1.2) from 10.0.1.1 ens6: 56(84) bytes of data.\n"
    return head + reply * received + "\n--- 10.0.1.2 ping statistics ---\n" + loss + (rtt if received else "")


class HeldUp(FakeSession):
    """A play whose peer is held up: paced pings miss so many replies, patient ones what is really lost."""

    def __init__(self, missed: int, lost_of_batch: int = 0) -> None:
        super().__init__()
        self.missed, self.lost_of_batch = missed, lost_of_batch

    def run(self, argv: list[str], limit_s: float, connection: bool = False) -> Finished:
        count = int(argv[argv.index("-c") + 1])
        self.text = ping_text(count, count - (self.lost_of_batch if "-l" in argv else self.missed))
        return super().run(argv, limit_s, connection)


def test_replies_that_ping_did_not_wait_for_are_not_lost() -> None:
    healthy = HeldUp(missed=0)
    reading = ping.PingRtt().client(healthy)
    assert (len(healthy.ran), reading.metrics["loss_percent"]) == (1, 0.0)
    assert reading.claim == Claim("packets", 10, 10)
    held = HeldUp(missed=7)
    reading = ping.PingRtt().client(held)
    assert {name: reading.metrics[name] for name in ("loss_percent", "sent", "received", "packet_bytes")} == {
        "loss_percent": 0.0,
        "sent": 300,
        "received": 300,
        "packet_bytes": 1428,
    }
    assert reading.claim == Claim("packets", 303, 310)
    # No more at once than a receive buffer of 208 KiB holds, at the 2,304 bytes that a driver may take each.
    assert max(int(argv[argv.index("-l") + 1]) for argv in held.ran[1:]) * 2304 < 208 * 1024
    lossy = ping.PingRtt().client(HeldUp(missed=1, lost_of_batch=1))
    assert lossy.metrics["loss_percent"] > 0
    assert lossy.metrics["received"] < lossy.metrics["sent"] == 300
    with pytest.raises(MeasurementError, match="no reply"):
        ping.PingRtt().client(HeldUp(missed=10))


def test_ping_reports_how_many_of_the_full_size_came_back() -> None:
    text = (
        "PING 10.0.1.2 (10.0.1.2) from 10.0.1.1 ens6: 8972(9000) bytes of data.\n"
        "8980 bytes from 10.0.1.2: icmp_seq=1 ttl=64 time=0.080 ms\n"
        "8980 bytes from 10.0.1.2: icmp_seq=4 ttl=64 time=0.081 ms\n\n"
        "--- 10.0.1.2 ping statistics ---\n"
        "5 packets transmitted, 2 received, 60% packet loss, time 82ms\n"
        "rtt min/avg/max/mdev = 0.080/0.080/0.081/0.000 ms\n"
    )
    play = FakeSession(text=text)
    reading = ping.PathMtu().client(play)
    assert reading.metrics == {"path_mtu_bytes": 9000, "sent": 5, "received": 2}
    assert len(play.ran) == 1


@pytest.mark.parametrize(
    ("text", "error_class"),
    [
        ("ping: socket: Operation not permitted\n", "tool_garbage"),
        ("ping: SO_BINDTODEVICE ens6: Operation not permitted\n", "tool_garbage"),
        (
            "PING 10.0.1.2 (10.0.1.2) from 10.0.1.1 ens6: 56(84) bytes of data.\n\n"
            "--- 10.0.1.2 ping statistics ---\n"
            "10 packets transmitted, 0 received, 100% packet loss, time 9200ms\n\n",
            "tool_failed",
        ),
    ],
)
def test_a_ping_that_could_not_probe_is_no_finding_about_the_path(text: str, error_class: str) -> None:
    # tool_failed of a probe is a failing verdict, any other class an unmeasured one.
    assert refusal(ping.PingRtt().client, FakeSession(text)).error_class == error_class
