# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tools of a group begin at one moment, and a node that cannot begin delays no other beyond the bound."""

from __future__ import annotations

import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rendezvous import (
    Channel,
    ChannelClosed,
    SendTimeout,
)
from ansible_collections.railyard.fabric.plugins.module_utils.runner import barrier
from ansible_collections.railyard.fabric.plugins.module_utils.runner import pair as runner_pair
from ansible_collections.railyard.fabric.plugins.module_utils.runner import step as runner_step
from ansible_collections.railyard.fabric.plugins.module_utils.runner.barrier import (
    HeldProcess,
    Moment,
    StartBarrier,
)
from ansible_collections.railyard.fabric.plugins.module_utils.schedule.rounds import Meeting

# Guards against hanging alone: the tests hold where any process sleeps for ten seconds at any moment.
LONG_S, SOON_S = 600.0, 60.0


class Log:
    """What happened, in order, from any thread."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def party(self, rail: str) -> tuple[Callable[[Moment, float], None], Callable[[], None]]:
        """Return what a rail tells and releases."""
        return (
            lambda _moment, _within_s: self.words.append(f"tell {rail}"),
            lambda: self.words.append(f"release {rail}"),
        )


def begin(
    gate: StartBarrier, rail: str, log: Log, patience_s: float = LONG_S
) -> tuple[threading.Thread, list[Moment]]:
    """Let a rail be ready in a thread of its own."""
    moments: list[Moment] = []
    thread = threading.Thread(
        target=lambda: moments.append(gate.start(rail, patience_s, *log.party(rail))), daemon=True
    )
    thread.start()
    return thread, moments


def started(argv: list[str]) -> tuple[HeldProcess, subprocess.Popen[bytes]]:
    hold = HeldProcess()
    process = subprocess.Popen(hold.argv(argv), stdin=hold.stdin.fileno(), stdout=subprocess.PIPE)
    hold.started()
    return hold, process


def test_no_one_begins_before_the_last_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barrier, "NOTIFY_S", SOON_S)
    gate, log = StartBarrier(3), Log()
    runs = [begin(gate, rail, log) for rail in ("rail0", "rail1")]
    time.sleep(0.3)
    assert log.words == []
    runs.append(begin(gate, "rail2", log))
    for thread, _moments in runs:
        thread.join(SOON_S)
    # Every server gets the word before any tool fills the rails.
    assert sorted(log.words[:3]) == ["tell rail0", "tell rail1", "tell rail2"]
    assert sorted(log.words[3:]) == ["release rail0", "release rail1", "release rail2"]
    assert len({moments[0] for _thread, moments in runs}) == 1


def test_a_node_that_leaves_is_not_waited_for_and_counts_once() -> None:
    gate, log = StartBarrier(3), Log()
    gate.leave("rail0")
    gate.leave("rail0")
    thread, _moments = begin(gate, "rail1", log)
    time.sleep(0.3)
    assert log.words == []
    gate.leave("rail2")
    thread.join(SOON_S)
    assert log.words == ["tell rail1", "release rail1"]


def test_patience_ends_and_a_late_rail_begins_alone_at_once() -> None:
    gate, log = StartBarrier(2), Log()
    before = time.monotonic()
    first = gate.start("rail0", 0.5, *log.party("rail0"))
    assert 0.5 <= time.monotonic() - before < SOON_S
    before = time.monotonic()
    assert gate.start("rail1", LONG_S, *log.party("rail1")) == first
    assert time.monotonic() - before < SOON_S
    assert log.words == ["tell rail0", "release rail0", "tell rail1", "release rail1"]


def test_to_leave_after_the_start_is_to_be_over() -> None:
    gate, log = StartBarrier(2), Log()
    thread, _moments = begin(gate, "rail1", log)
    gate.start("rail0", SOON_S, *log.party("rail0"))
    thread.join(SOON_S)
    gate.leave("rail1")
    before = time.monotonic()
    assert gate.await_overlap("rail0", [1.0, 2.0], 1.0, LONG_S) is None
    assert time.monotonic() - before < SOON_S


def test_a_held_tool_runs_nothing_before_the_word(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    # With the socket as its input `cat` would wait for the end of the run.
    hold, process = started(["sh", "-c", f"touch {mark}; cat; echo done"])
    assert hold.await_ready(SOON_S, lambda: process.poll() is not None)
    time.sleep(0.2)
    assert not mark.exists()
    hold.release()
    output, _error = process.communicate(timeout=SOON_S)
    assert output == b"done\n"
    assert process.returncode == 0
    assert mark.exists()
    hold.close()


def test_a_held_tool_keeps_its_arguments_and_its_status() -> None:
    hold, process = started(["sh", "-c", 'printf "%s|" "$@"; exit 7', "name", "a b", "$(id)", ""])
    assert hold.await_ready(SOON_S, lambda: process.poll() is not None)
    hold.release()
    output, _error = process.communicate(timeout=SOON_S)
    assert (output, process.returncode) == (b"a b|$(id)||", 7)
    hold.close()


def test_without_a_runner_a_held_tool_ends_and_has_run_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    hold, process = started(["touch", str(mark)])
    assert hold.await_ready(SOON_S, lambda: process.poll() is not None)
    hold.close()
    assert process.wait(SOON_S) != 0
    assert not mark.exists()


def test_what_never_comes_to_wait_is_not_waited_for() -> None:
    hold = HeldProcess()
    process = subprocess.Popen(["false"], stdin=hold.stdin.fileno())
    hold.started()
    process.wait(SOON_S)
    before = time.monotonic()
    assert not hold.await_ready(LONG_S, lambda: process.poll() is not None)
    assert time.monotonic() - before < SOON_S
    hold.release()  # to who is gone: no error
    hold.close()
    # One that has come is seen also by who was held up until the time was over.
    hold, process = started(["true"])
    assert select.select([hold._socket], [], [], SOON_S)[0]
    assert hold.await_ready(0.0, lambda: False)
    hold.close()
    process.wait(SOON_S)
    never = HeldProcess()
    assert not never.await_ready(0.3, lambda: False)
    never.close()


class Line:
    """The client's channel: what it sends, and answers of a server."""

    def __init__(self, broken: bool = False) -> None:
        self.sent: list[dict[str, Any]] = []
        self.broken = broken

    def send(self, message: dict[str, Any], _within_s: float = 0.0) -> None:
        if self.broken:
            raise ChannelClosed("gone")
        self.sent.append(message)

    def expect(self, kind: str, _timeout_s: float) -> dict[str, Any]:
        answers: dict[str, dict[str, Any]] = {
            "ready": {"port": 18601, "error": None},
            "result": {"claim": None},
        }
        return answers[kind]


def step(channel: Line, client: Callable[[Any], Any], group: str | None) -> Any:
    """Return as much of a step as the client's end touches."""
    watch = SimpleNamespace(
        finish=lambda: None, finish_cpu_count=lambda: None, restart_cpu_count=lambda: None
    )
    return SimpleNamespace(
        channel=channel,
        tool_session=SimpleNamespace(moment=None, together=None, port=0),
        run_context=SimpleNamespace(waits=SimpleNamespace(ready_s=SOON_S, answer_s=SOON_S)),
        test={"rail": "rail0", "group": group},
        tool=SimpleNamespace(client=client, rdma=False, claim=lambda client, _server: client),
        limit_s=5.0,
        watch=lambda: watch,
        sample=lambda _watch: None,
        row=lambda *_all: {},
        finish_row=lambda row, failure: {**row, "error": failure},
        swap_rows=lambda row: row,
    )


def failing(_play: Any) -> Any:
    raise MeasurementError("tool_failed", "it was not started", "gpu001", "look")


def test_a_tool_that_cannot_be_started_frees_the_others_and_its_server() -> None:
    gate, log, channel = StartBarrier(2), Log(), Line()
    thread, _moments = begin(gate, "rail1", log)
    row = runner_step.client_end(step(channel, failing, "g1"), gate)
    thread.join(SOON_S)
    assert [message["t"] for message in channel.sent] == ["go", "done"]
    assert channel.sent[1]["error"]["class"] == "tool_failed"
    assert row["error"].error_class == "tool_failed"
    assert log.words == ["tell rail1", "release rail1"]


def test_the_server_hears_how_long_ago_the_group_began() -> None:
    channel = Line()
    words: list[str] = []

    def client(play: Any) -> runner_step.Reading:
        play.together(lambda: words.append("released"))
        return runner_step.Reading({})

    runner_step.client_end(step(channel, client, "g1"), StartBarrier(1))
    assert words == ["released"]
    go = channel.sent[0]
    assert go["t"] == "go"
    assert 0.0 <= go["at_s"] < SOON_S


@pytest.mark.parametrize("group", ["g1", None])
def test_a_server_that_is_gone_is_the_clients_own_trouble(group: str | None) -> None:
    def client(play: Any) -> runner_step.Reading:
        play.together(lambda: None)
        return runner_step.Reading({})

    with pytest.raises(ChannelClosed):
        runner_step.client_end(step(Line(broken=True), client, group), StartBarrier(1))


def deaf_channel() -> tuple[Channel, socket.socket]:
    """Return a conversation whose partner reads nothing, and whose buffers are full; and its end."""
    with socket.socket() as listener:
        # The receiver's buffer is taken over by what is accepted.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        ours = socket.socket()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        ours.connect(listener.getsockname())
        theirs, _address = listener.accept()
    ours.settimeout(0.2)
    try:
        while True:
            ours.send(b"\0" * 65536)
    except OSError:
        pass
    return Channel(ours, threading.Event()), theirs


class DeafLine(Line):
    """The client's channel to a server that answered once and reads nothing since."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self.channel = channel
        self.given_s: list[float] = []

    def send(self, message: dict[str, Any], within_s: float = 0.0) -> None:
        self.given_s.append(within_s)
        self.channel.send(message, within_s)


def test_a_server_that_takes_no_word_fails_alone_and_the_others_begin_in_time() -> None:
    """Its line once was sent under the gate's lock, with ten seconds for it."""
    gate, log = StartBarrier(3), Log()
    channel, theirs = deaf_channel()
    released: list[str] = []

    def client(play: Any) -> runner_step.Reading:
        play.together(lambda: released.append("the deaf one's tool"))
        raise AssertionError("its tool began")

    others, line = [begin(gate, rail, log) for rail in ("rail1", "rail2")], DeafLine(channel)
    with pytest.raises(SendTimeout, match="read nothing"):
        runner_step.client_end(step(line, client, "g1"), gate)
    for thread, _moments in others:
        thread.join(SOON_S)
    assert sorted(log.words[:2]) == ["tell rail1", "tell rail2"]
    assert sorted(log.words[2:]) == ["release rail1", "release rail2"]
    assert released == []
    assert line.given_s == [barrier.NOTIFY_S]
    channel.close()
    theirs.close()


def test_a_node_that_gets_the_word_locks_no_other_out() -> None:
    gate, log = StartBarrier(2), Log()
    told = threading.Event()
    slow = threading.Thread(
        target=lambda: gate.start("rail0", SOON_S, lambda *_all: bool(told.wait(LONG_S)), lambda: None),
        daemon=True,
    )
    slow.start()
    other, _moments = begin(gate, "rail1", log)
    other.join(SOON_S)
    assert log.words == ["tell rail1", "release rail1"]
    before = time.monotonic()
    gate.leave("rail0")
    gate.moment()
    assert time.monotonic() - before < SOON_S
    told.set()
    slow.join(SOON_S)
    assert not slow.is_alive()


def test_the_word_never_waits_for_who_does_not_take_it() -> None:
    hold = HeldProcess()
    hold._socket.setblocking(False)
    try:
        while True:
            hold._socket.send(b"\0" * 65536)
    except BlockingIOError:
        pass
    hold._socket.setblocking(True)
    done = threading.Thread(target=hold.release, daemon=True)
    done.start()
    done.join(SOON_S)
    assert not done.is_alive()
    hold.close()


@pytest.mark.parametrize(
    ("error", "error_class"), [(SendTimeout("gone"), "peer_deaf"), (ChannelClosed("gone"), "peer_failed")]
)
def test_a_deaf_partner_is_a_failure_of_its_own(
    monkeypatch: pytest.MonkeyPatch, error: ChannelClosed, error_class: str
) -> None:
    refused: list[MeasurementError] = []
    desk = SimpleNamespace(node="gpu001", places={}, refuse=lambda _test, failure: refused.append(failure))
    pair = runner_pair.PairRun(desk, None, Meeting(0, 0, "gpu001", "gpu002"), [])  # type: ignore[arg-type]
    session = SimpleNamespace(dropped=0)
    session.drop = lambda: setattr(session, "dropped", session.dropped + 1)
    pair._sessions["rail0"] = session  # type: ignore[assignment]

    def one(*_all: Any) -> Any:
        raise error

    monkeypatch.setattr(pair, "_run_test", one)
    assert pair._run_guarded({"id": "m00001", "rail": "rail0"}, StartBarrier(1), ()) is None
    assert (refused[0].error_class, refused[0].status, refused[0].host) == (error_class, "failed", "gpu002")
    # What the partner has of the line is of no use: the next test meets it anew.
    assert session.dropped == 1
