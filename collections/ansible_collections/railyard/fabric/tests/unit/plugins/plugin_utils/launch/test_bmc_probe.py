# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BMCs on the loopback: each address of 127.0.0.0/8 is a machine of its own."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from types import SimpleNamespace

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import bmc_probe


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bmc_probe, "ASK_AGAIN_AFTER_S", 0.2)


def full(server: socket.socket) -> list[socket.socket]:
    """Fill the queue of a listener, which takes no further connection then: as silent as a busy BMC."""
    queued = []
    for _turn in range(8):
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(server.getsockname())
        queued.append(sock)
    time.sleep(0.1)
    return queued


def test_a_connection_is_an_answer_and_the_best_port_counts() -> None:
    with socket.create_server(("127.0.0.2", 0)) as server:
        port = server.getsockname()[1]
        nodes = {"gpu1": "127.0.0.2", "gpu2": "127.0.0.3"}
        replies = bmc_probe.ask(nodes, [1, port], 2)
    assert (replies["gpu1"].state, replies["gpu1"].port) == ("answered", port)
    assert (replies["gpu2"].state, replies["gpu2"].message) == ("refused", os.strerror(errno.ECONNREFUSED))
    assert all((reply.round_trip_us or 0) > 0 for reply in replies.values())


def test_a_bmc_that_was_busy_is_queried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.2", 0), backlog=0) as server:
        queued = full(server)

        def frees(_seconds: float) -> None:
            for sock in queued:
                sock.close()
            for _turn in queued:
                server.settimeout(0.2)
                try:
                    server.accept()[0].close()
                except TimeoutError:
                    return

        # In the pause before it is queried again, however long a busy machine makes it.
        monkeypatch.setattr(bmc_probe, "time", SimpleNamespace(sleep=frees, monotonic=time.monotonic))
        reply = bmc_probe.ask({"gpu1": "127.0.0.2"}, [server.getsockname()[1]], 0.5)["gpu1"]
    assert (reply.state, reply.sent) == ("answered", 2)


def test_one_that_stays_silent_was_queried_twice() -> None:
    with socket.create_server(("127.0.0.2", 0), backlog=0) as server:
        queued = full(server)
        reply = bmc_probe.ask({"gpu1": "127.0.0.2"}, [server.getsockname()[1]], 0.3)["gpu1"]
        for sock in queued:
            sock.close()
    assert (reply.state, reply.sent) == ("silent", 2)


def test_what_cannot_leave_the_controller_is_no_silence_of_the_bmc() -> None:
    # The kernel gives no socket a connection there; so it does without a route.
    reply = bmc_probe.ask({"gpu1": "255.255.255.255"}, [443], 0.5)["gpu1"]
    assert (reply.state, reply.sent) == ("no_way", 0)
    assert reply.message


@pytest.mark.parametrize("want", [errno.EMFILE, errno.ENOBUFS])
def test_the_controllers_own_want_is_no_silence_of_the_bmc(
    want: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object) -> socket.socket:
        raise OSError(want, os.strerror(want))

    monkeypatch.setattr(bmc_probe.socket, "socket", refuse)
    reply = bmc_probe.ask({"gpu1": "127.0.0.2"}, [443], 0.3)["gpu1"]
    assert (reply.state, reply.message) == ("no_way", os.strerror(want))


def test_never_more_than_some_are_queried_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_now, most, lock = 0, 0, threading.Lock()
    connect = bmc_probe._connect

    def connecting(*question: object) -> bmc_probe.Reply:
        nonlocal asked_now, most
        with lock:
            asked_now += 1
            most = max(most, asked_now)
        time.sleep(0.05)
        reply = connect(*question)
        with lock:
            asked_now -= 1
        return reply

    monkeypatch.setattr(bmc_probe, "_connect", connecting)
    nodes = {f"gpu{number}": f"127.1.{number // 250}.{number % 250 + 1}" for number in range(300)}
    replies = bmc_probe.ask(nodes, [1], 0.3)
    assert {reply.state for reply in replies.values()} == {"refused"}
    # A busy machine may get to fewer at a time, and never to more.
    assert 1 < most <= bmc_probe.AT_ONCE


def test_nothing_is_queried_without_a_bmc() -> None:
    assert bmc_probe.ask({}, [443], 3) == {}
