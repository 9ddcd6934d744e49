# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for a tool (woken by the kernel, bounded, interrupted by the word to stop), and what it may do."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel import rail_socket
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import Place
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rendezvous import Cancelled
from ansible_collections.railyard.fabric.plugins.module_utils.measure import registry
from ansible_collections.railyard.fabric.plugins.module_utils.measure.rdma_port import RdmaPort
from ansible_collections.railyard.fabric.plugins.module_utils.runner import launcher as units
from ansible_collections.railyard.fabric.plugins.module_utils.runner.tool_session import RailToolSession
from support.nodes import tool_session

RUN = "20261121T101500Z-3f2a"
# Guards against hanging alone: the tests hold where any process sleeps for ten seconds at any moment.
LONG_S, SOON_S = 600.0, 60.0


@pytest.fixture(params=["pidfd", "no pidfd"])
def started(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Start a shell script as a tool is started; also on a kernel that knows no pidfd."""
    if request.param == "no pidfd":

        def refuse(_pid: int) -> int:
            raise OSError(38, "Function not implemented")

        monkeypatch.setattr(os, "pidfd_open", refuse)
    processes: list[subprocess.Popen[bytes]] = []

    def start(script: str) -> units.Launched:
        processes.append(subprocess.Popen(["/bin/sh", "-c", script]))
        return units.Launched(processes[-1], "railyard-x")

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_the_end_is_noticed_at_once(started: Any) -> None:
    launched = started("sleep 0.6; exit 7")
    began = time.monotonic()
    assert launched.wait(LONG_S, threading.Event()) == 7
    assert time.monotonic() - began < SOON_S


def test_what_has_ended_already_is_not_waited_for(started: Any) -> None:
    launched = started("exit 3")
    launched._process.wait(SOON_S)
    assert launched.wait(30.0, threading.Event()) == 3
    assert launched.wait(30.0, threading.Event()) == 3


def test_what_ended_while_this_process_was_held_up_was_not_too_slow(
    started: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = started("exit 3")
    launched._process.wait(SOON_S)
    poll, looks = launched.poll, iter([None])
    monkeypatch.setattr(launched, "poll", lambda: next(looks, poll()))
    assert launched.wait(-1.0, threading.Event()) == 3


def test_what_does_not_end_is_given_up(started: Any) -> None:
    launched = started("sleep 600")
    began = time.monotonic()
    assert launched.wait(0.5, threading.Event()) is None
    assert 0.5 <= time.monotonic() - began < SOON_S


def test_the_word_to_stop_ends_the_wait(started: Any) -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    began = time.monotonic()
    with pytest.raises(Cancelled):
        started("sleep 600").wait(LONG_S, stop)
    assert time.monotonic() - began < SOON_S


def test_a_wait_does_not_look_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    with subprocess.Popen(["/bin/sh", "-c", "sleep 1"]) as process:
        launched = units.Launched(process, "railyard-x")
        poll = launched.poll
        monkeypatch.setattr(launched, "poll", lambda: looks.append(1) or poll())
        began = time.monotonic()
        launched.wait(LONG_S, threading.Event())
    # One a second is right, at a `sleep` that is held up too.
    assert len(looks) < 10 + 2 * (time.monotonic() - began)


class Systemd:
    """What `systemctl` was called for, and whether it hangs at a verb."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, hangs: str = "") -> None:
        self.asked: list[list[str]] = []
        self.hangs = hangs
        monkeypatch.setattr(units.subprocess, "run", self.run)

    def run(self, argv: list[str], **options: Any) -> None:
        self.asked.append(argv)
        assert options["timeout"] <= 20
        if argv[1] == self.hangs:
            raise subprocess.TimeoutExpired(argv, options["timeout"])


@pytest.mark.parametrize(("script", "stops"), [("exit 0", False), ("exit 1", True), ("exec sleep 60", True)])
def test_a_unit_outlives_no_one_who_waited_for_it(
    monkeypatch: pytest.MonkeyPatch, script: str, stops: bool
) -> None:
    """`systemd-run --wait` ends by itself when the bus goes away below it; its unit runs on."""
    process = subprocess.Popen(["/bin/sh", "-c", script])
    if script.startswith("exit"):
        process.wait(SOON_S)
    else:
        waited = process.wait
        monkeypatch.setattr(process, "wait", lambda timeout=None: process.kill() or waited(SOON_S))
    systemd = Systemd(monkeypatch)
    units.SystemdLaunched(process, "railyard-x").end()
    assert systemd.asked == ([["systemctl", "stop", "railyard-x.service"]] if stops else [])


def test_a_systemd_that_hangs_holds_up_neither_the_runner_nor_the_end_of_its_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    systemd = Systemd(monkeypatch, hangs="stop")
    process = subprocess.Popen(["/bin/sh", "-c", "exec sleep 60"])
    waited = process.wait
    # As though five seconds had gone by.
    monkeypatch.setattr(process, "wait", lambda timeout=None: waited(0.2 if timeout else None))
    units.SystemdLaunched(process, "railyard-x").end()
    assert process.returncode is not None
    assert [argv[1] for argv in systemd.asked] == ["stop", "kill"]
    assert systemd.asked[1][2:] == ["--signal=KILL", "railyard-x.service"]


class Listening(units.SystemdLauncher):
    """Listens in the tool's place, and keeps the command line."""

    def start(self, unit: str, argv: Any, limit_s: float, output: str, *rest: Any, **named: Any) -> Any:
        self.argv_of_unit = self.argv(unit, argv, limit_s, *rest, **named)
        self.server = socket.create_server(("127.0.0.1", int(argv[list(argv).index("-p") + 1])))
        return SimpleNamespace(poll=lambda: None, accept_only=lambda _peer: True)


POLICY = {**tool_session.POLICY, **tool_session.RDMA_POLICY, "numa_pinning": False}


def play_of(check: str, launcher: Any, address: str, raw: Path, port: int = 18600) -> RailToolSession:
    """Return the server's end of a test, whose meeting is no matter."""
    tool = registry.TOOL_OF_CHECK[check]()
    context: Any = SimpleNamespace(
        node="gpu002", order={"run": "x"}, policy=POLICY, stop=threading.Event(), launcher=launcher,
        rails={"rail0": {"mtu": 9000}}, version_of=lambda _test: "1", waits=SimpleNamespace(listening_s=60),
        record=SimpleNamespace(raw_path=lambda _test: str(raw)),
    )  # fmt: skip
    session: Any = SimpleNamespace(
        run_context=context, place=Place("gpu002", "rail0", "lo", address), peer_address="10.0.1.1"
    )
    test = {"id": "m1", "check": check, "tool": tool.name, "node": "gpu001", "rail": "rail0"}
    meeting: Any = None
    return RailToolSession(session, meeting, test, port, tool.capabilities)


@pytest.mark.parametrize(
    ("check", "own_user"), [("tcp_bandwidth", True), ("tcp_latency", True), ("rdma_bandwidth", False)]
)
def test_a_tools_server_speaks_with_the_peer_alone_and_is_root_only_where_it_must(
    check: str, own_user: bool, tmp_path: Path
) -> None:
    """Four bare connections failed the bandwidth of a rail."""
    tool, launcher = registry.TOOL_OF_CHECK[check](), Listening("railyard-runner-x")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    play = play_of(check, launcher, "127.0.0.1", tmp_path / "raw", port)
    play.rdma_port = lambda: RdmaPort("rxe0", 1, 1, "RoCE v2", None, "g")  # type: ignore[method-assign]
    tool.open(play)
    launcher.server.close()
    argv = launcher.argv_of_unit
    own, program = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
    assert {"IPAddressDeny=any", "IPAddressAllow=10.0.1.1", "NoNewPrivileges=yes"} <= set(own)
    assert {"ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes"} <= set(own)
    assert (program[:3] == ["setpriv", "--reuid", "65533"]) is own_user
    assert program[program.index("--") + 1 if own_user else 0] == tool.name


@pytest.mark.parametrize("moment", ["before", "while it starts", "after"])
def test_a_connection_of_somebody_else_is_named_and_an_old_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Who connects while the server starts, or is there when a test has failed, may be why it failed."""
    known: set[tuple[str, int]] = set()
    monkeypatch.setattr(rail_socket, "callers", lambda _address, _port: set(known))
    listens = iter([False, True])
    monkeypatch.setattr(rail_socket, "is_listening", lambda _address, _port: next(listens))

    def accept_only(_peer: str) -> bool:
        known.update([("10.0.1.1", 40001), *([("10.0.1.77", 40000)] if moment == "while it starts" else [])])
        return False

    server = SimpleNamespace(
        poll=lambda: None, accept_only=accept_only, wait=lambda *_all: 1, end=lambda: None
    )
    raw = tmp_path / "raw"
    launcher = SimpleNamespace(start=lambda *_all: server)
    play = play_of("tcp_bandwidth", launcher, "10.0.1.2", raw)
    if moment == "before":
        known.add(("10.0.1.77", 40000))
    if moment == "while it starts":
        with pytest.raises(MeasurementError, match=r"10\.0\.1\.77 connected to the test's server") as raised:
            play.serve(["iperf3", "-s"], 5.0)
        assert (raised.value.error_class, raised.value.status) == ("unknown_connection", "unmeasured")
        play.release()  # else its thread reads the kernel's table for as long as this process lives
        return
    play.serve(["iperf3", "-s"], 5.0)
    assert "other hosts than the partner can connect" in raw.read_text()
    if moment == "after":
        known.add(("10.0.1.77", 40000))
    play.peer_failed = True
    play.served(1.0)
    assert (play.intruded is not None) == (moment == "after")


def test_ping_has_of_root_what_it_needs_and_no_more() -> None:
    for check in ("ping_rtt", "path_mtu"):
        capabilities = registry.TOOL_OF_CHECK[check]().capabilities
        argv = units.SystemdLauncher("x").argv("u", ["ping"], 5.0, capabilities)
        assert "CapabilityBoundingSet=CAP_NET_RAW" in argv
        assert argv[argv.index("--") :] == ["--", "ping"]


def test_a_tool_dies_with_its_runner_by_systemd(tmp_path: Path) -> None:
    launcher = units.SystemdLauncher(units.runner_unit(RUN))
    argv = launcher.argv("railyard-x", ["iperf3", "-s"], 13.4)
    assert argv[-3:] == ["--", "iperf3", "-s"]
    assert {"KillMode=control-group", "LimitMEMLOCK=infinity", "RuntimeMaxSec=13"} < set(argv)
    assert {f"BindsTo=railyard-runner-{RUN}.service", "--collect", "--pipe", "--wait", "--quiet"} < set(argv)


def test_launchers_are_chosen_by_name_only() -> None:
    with pytest.raises(MeasurementError, match="unknown"):
        units.launcher("auto", RUN, "gpu001")
    assert isinstance(units.launcher("direct", RUN, "gpu001"), units.DirectLauncher)


def alive_in(group: int) -> list[list[str]]:
    """The stat fields, from the state on, of each process of a group that is no zombie."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended while we looked
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(fields)
    return found


def test_the_direct_launcher_ends_the_full_group(tmp_path: Path) -> None:
    launched = units.DirectLauncher("x").start(
        "u", ["sh", "-c", "sleep 61 & sleep 62"], 5, str(tmp_path / "out")
    )
    time.sleep(0.2)
    launched.end()
    assert launched.poll() is not None
    group = launched._process.pid
    # A killed process may wait for a CPU to die on; a zombie that is not reaped yet runs no more.
    deadline = time.monotonic() + 60
    while alive_in(group) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive_in(group) == []
