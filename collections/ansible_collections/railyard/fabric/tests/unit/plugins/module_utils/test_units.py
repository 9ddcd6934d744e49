# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for a tool: told by the kernel, bounded, and interrupted by the word to stop."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import units
from ansible_collections.railyard.fabric.plugins.module_utils.rendezvous import Stopped


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
    assert launched.wait(30.0, threading.Event()) == 7
    assert time.monotonic() - began < 5


def test_what_has_ended_already_is_not_waited_for(started: Any) -> None:
    launched = started("exit 3")
    time.sleep(0.3)
    assert launched.wait(30.0, threading.Event()) == 3
    assert launched.wait(30.0, threading.Event()) == 3


def test_what_does_not_end_is_given_up(started: Any) -> None:
    launched = started("sleep 60")
    began = time.monotonic()
    assert launched.wait(0.5, threading.Event()) is None
    assert 0.5 <= time.monotonic() - began < 5


def test_the_word_to_stop_ends_the_wait(started: Any) -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    began = time.monotonic()
    with pytest.raises(Stopped):
        started("sleep 60").wait(60.0, stop)
    assert time.monotonic() - began < 10


def test_a_wait_does_not_look_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    with subprocess.Popen(["/bin/sh", "-c", "sleep 1"]) as process:
        launched = units.Launched(process, "railyard-x")
        poll = launched.poll
        monkeypatch.setattr(launched, "poll", lambda: looks.append(1) or poll())
        launched.wait(30.0, threading.Event())
    assert len(looks) < 12
