# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one-way probe: what has come is counted, however late it is looked at."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.measure import (
    path_mtu,
    udp_probe,
)
from support.nodes.held_up import HeldClock
from support.nodes.tool_session import POLICY, FakeSession


class Receiver(FakeSession):
    """A play whose other end keeps so many datagrams until it reads them, as a receive buffer does."""

    def __init__(self, holds: int) -> None:
        super().__init__()
        self.policy = {**POLICY, "path_mtu_probes": 40}
        self.holds = holds
        self.waiting = 0

    def ask(self, question: Any) -> dict[str, Any]:
        came, self.waiting = min(self.waiting, self.holds), 0
        return {"received": came}


@pytest.mark.parametrize(("holds", "received"), [(12, 40), (0, None)])
def test_many_probes_do_not_overflow_the_receiver(
    monkeypatch: pytest.MonkeyPatch, holds: int, received: int | None
) -> None:
    play = Receiver(holds)

    def send(_play: Any, _sock: Any, _size: int, count: int, _token: bytes) -> int:
        play.waiting += count
        return count

    monkeypatch.setattr(udp_probe, "_socket", lambda _play: contextlib.nullcontext())
    monkeypatch.setattr(udp_probe, "send", send)
    if received is None:
        with pytest.raises(MeasurementError, match="no datagram"):
            udp_probe.UdpProbe().client(play)
        return
    reading = udp_probe.UdpProbe().client(play)
    assert reading.metrics == {"path_mtu_bytes": 9000, "sent": 40, "received": received}


TOKEN = b"t" * 16


class Catcher(FakeSession):
    """The receiving end on loopback; `catch` sends it datagrams of 1000 bytes and has it answer."""

    def catch(self, *tokens: bytes, wanted: int, after_s: float = 0.0) -> int:
        tool = udp_probe.UdpProbe()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
            here.bind(("127.0.0.1", 0))

            def send() -> None:
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there:
                    for token in tokens:
                        there.sendto(token.ljust(972, b"\0"), here.getsockname())

            sender = threading.Timer(after_s, send)
            sender.start()
            if not after_s:
                sender.join()
            tool._server = here
            answer = tool.answer(self, {"token": TOKEN.hex(), "bytes": 1000, "sent": wanted})
            sender.join()
        return int(answer["received"])


def test_a_receiver_that_was_held_up_still_counts_what_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(udp_probe, "time", HeldClock())
    assert Catcher().catch(*[b"another's"] * 3, *[TOKEN] * 5, wanted=5) == 5
    # What has not come is not waited for any more, and others' datagrams are not read for ever.
    assert Catcher().catch(*[TOKEN] * 4, wanted=5) == 4
    monkeypatch.setattr(udp_probe, "_MOST_FOREIGN", 2)
    assert Catcher().catch(*[b"another's"] * 3, *[TOKEN] * 5, wanted=5) == 0


def test_a_datagram_that_comes_late_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_mtu, "LOST_AFTER_S", 60.0)
    assert Catcher().catch(TOKEN, wanted=1, after_s=0.8) == 1
