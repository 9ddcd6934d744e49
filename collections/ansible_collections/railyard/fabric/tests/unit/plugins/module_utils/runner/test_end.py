# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing that a partner or the node does leaves the runner without an end, or a test without its row."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel import rail_socket
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rendezvous import ChannelClosed
from ansible_collections.railyard.fabric.plugins.module_utils.runner import main
from ansible_collections.railyard.fabric.plugins.module_utils.runner import step as runner_step


class Talker:
    """A client that says the same things, and whose every line takes a second."""

    def __init__(self, messages: Iterator[dict[str, Any]]) -> None:
        self.messages = messages
        self.now_s = 0.0
        self.waits: list[float] = []
        self.sent: list[dict[str, Any]] = []

    def receive(self, timeout_s: float) -> dict[str, Any]:
        self.waits.append(timeout_s)
        self.now_s += 1.0
        return next(self.messages)

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)


def attend(monkeypatch: pytest.MonkeyPatch, talker: Talker) -> dict[str, Any]:
    """Let a server attend to a client that has 30 s."""
    monkeypatch.setattr(runner_step, "time", SimpleNamespace(monotonic=lambda: talker.now_s))
    step: Any = SimpleNamespace(
        channel=talker,
        limit_s=20.0,
        run_context=SimpleNamespace(waits=SimpleNamespace(answer_s=10.0)),
        tool_session=None,
        tool=SimpleNamespace(answer=lambda _play, question: {"heard": question["n"]}),
    )
    return runner_step._attend(step)


def test_a_client_is_answered_until_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    talker = Talker(iter([{"t": "ask", "n": 1}, {"t": "ask", "n": 2}, {"t": "done", "claim": None}]))
    assert attend(monkeypatch, talker)["t"] == "done"
    assert talker.sent == [{"heard": 1, "t": "answer"}, {"heard": 2, "t": "answer"}]
    assert talker.waits == [30.0, 29.0, 28.0]


def test_a_client_that_asks_without_end_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    talker = Talker({"t": "ask", "n": number} for number in itertools.count())
    with pytest.raises(ChannelClosed, match="not done after 30 s"):
        attend(monkeypatch, talker)
    assert len(talker.sent) == 30


def test_a_client_that_mentions_something_else_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    talker = Talker(itertools.repeat({"t": "begin", "number": 7}))
    with pytest.raises(ChannelClosed, match="begin"):
        attend(monkeypatch, talker)
    assert len(talker.waits) == 1


class Caller:
    """A client that began 0.2 s ago by its clock; the server reads each of its words so much later."""

    def __init__(self, go_late_s: float, done_late_s: float) -> None:
        self.now_s = 50.0
        self.late_s = {"go": go_late_s, "done": done_late_s}

    def _word(self, kind: str, at_s: float) -> dict[str, Any]:
        self.now_s = 50.0 + at_s + self.late_s[kind]
        return {"t": kind, "at_s": at_s, "window_s": [1.2, 11.2]}

    def send(self, _message: object) -> None:
        pass

    def expect(self, _kind: str, _timeout_s: float) -> dict[str, Any]:
        return self._word("go", 0.2)

    def receive(self, _timeout_s: float) -> dict[str, Any]:
        return self._word("done", 12.0)


@pytest.mark.parametrize(
    ("group", "go_late_s", "done_late_s", "begins_s"),
    [
        ("g1", 0.0, 0.0, 51.2),
        # The traffic of all rails takes the processor as soon as it begins; it once seemed to begin later.
        ("g1", 0.9, 0.0, 51.2),
        ("g1", 0.0, 0.9, 51.2),
        ("g1", 0.9, 0.3, 51.5),
        # Nothing is added up of a test alone.
        (None, 0.9, 0.0, 52.1),
    ],
)
def test_a_server_that_reads_the_start_late_still_knows_when_it_was(
    monkeypatch: pytest.MonkeyPatch,
    group: str | None,
    go_late_s: float,
    done_late_s: float,
    begins_s: float,
) -> None:
    caller = Caller(go_late_s, done_late_s)
    monkeypatch.setattr(runner_step, "time", SimpleNamespace(monotonic=lambda: caller.now_s))
    monkeypatch.setattr(runner_step.rail_socket, "past_closing", lambda _address, port: port)
    watch = SimpleNamespace(
        **dict.fromkeys(("finish", "finish_cpu_count", "restart_cpu_count"), lambda: None)
    )
    own = SimpleNamespace(address="10.0.1.2")
    reading = runner_step.Reading({})
    step: Any = SimpleNamespace(
        channel=caller,
        tool_session=SimpleNamespace(own=own, port=1, moment=None, peer_failed=False, intruded=None),
        tool=SimpleNamespace(
            open=lambda _play: None,
            close=lambda _play: reading,
            learn=lambda mine, _client: mine,
            claim=lambda _client, _server: None,
        ),
        test={"group": group},
        limit_s=20.0,
        run_context=SimpleNamespace(waits=SimpleNamespace(answer_s=10.0, ready_s=10.0)),
        watch=lambda: watch,
        sample=lambda _watch: None,
        row=lambda _end, _watch, reading, _claim: {"window_s": reading.window_s},
        finish_row=lambda row, _failure: row,
        swap_rows=lambda row: row,
    )
    started: Any = SimpleNamespace(monotonic=50.0)
    gate: Any = SimpleNamespace(moment=lambda: started)
    window = runner_step._server_end(step, gate)["window_s"]
    assert [50.0 + at for at in window] == pytest.approx([begins_s, begins_s + 10.0])


class Book:
    """As much of a record as the runner's end touches."""

    def __init__(self) -> None:
        self.reason = ""

    def finish(self, reason: str) -> None:
        self.reason = reason


@pytest.mark.parametrize("part", ["Listener", "Cabling"])
def test_a_runner_that_cannot_begin_still_says_so_in_every_row(
    monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    closed: list[str] = []
    stop = threading.Event()

    def halt(reason: str) -> None:
        context.stop_reason = reason
        stop.set()

    context = SimpleNamespace(places={}, halt=halt, record=Book(), stop=stop, stop_reason="")

    def refuse(*_all: Any) -> Any:
        raise OSError(97, "Address family not supported by protocol")

    listener = SimpleNamespace(start=lambda: None, close=lambda: closed.append("Listener"))
    monkeypatch.setattr(main, "Listener", lambda *_all: listener)
    monkeypatch.setattr(main, part, refuse)
    monkeypatch.setattr(main.signal, "signal", lambda *_all: None)
    monkeypatch.setattr(main.Runner, "_guard", lambda _self: None)
    monkeypatch.setattr(main.Runner, "_write_missing_rows", lambda self: closed.append("rest"))
    one = main.Runner.__new__(main.Runner)
    one._order, one._context, one._stop = {}, context, stop  # type: ignore[assignment]
    assert one.run() == 1
    assert closed == (["rest"] if part == "Listener" else ["Listener", "rest"])
    assert "Address family not supported" in context.record.reason


def test_an_address_of_a_family_that_the_kernel_lacks_is_the_rails_own_trouble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_all: Any) -> Any:
        raise OSError(97, "Address family not supported by protocol")

    monkeypatch.setattr(rail_socket.socket, "socket", refuse)
    with pytest.raises(MeasurementError) as found:
        rail_socket.listen(rail_socket.Place("gpu001", "rail0", "lo", "fd00::1"), 18600)
    assert (found.value.error_class, found.value.host) == ("internal", "gpu001")
