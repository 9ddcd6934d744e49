# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How two nodes meet where one of them is held up in between."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import runner_meeting
from ansible_collections.railyard.fabric.plugins.module_utils.obstacle import Obstacle
from ansible_collections.railyard.fabric.plugins.module_utils.rail_socket import Place
from ansible_collections.railyard.fabric.plugins.module_utils.rendezvous import Broken
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import Meeting

PLACE = Place("gpu001", "rail0", "lo", "10.0.1.1")
ORDER = {"run": "20261121T101500Z-3f2a", "secret": "s" * 64}


class Line:
    """A conversation whose partner says hello, or has hung up."""

    def __init__(self, gone: bool) -> None:
        self.gone = gone
        self.closed = False

    def send(self, _message: object) -> None:
        pass

    def expect(self, kind: str, _timeout_s: float) -> dict[str, Any]:
        if self.gone:
            raise Broken("10.0.1.2 closed the connection")
        return {"t": kind, "node": "gpu002"}

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("node", ["gpu001", "gpu002"])
@pytest.mark.parametrize(("gone", "patience_s"), [(1, 5.0), (3, 5.0), (99, 0.5)])
def test_who_hung_up_before_its_hello_is_met_once_more(
    monkeypatch: pytest.MonkeyPatch, node: str, gone: int, patience_s: float
) -> None:
    """Its patience ended while this end was held up; it calls again, and nobody waited for that call."""
    policy = {"rendezvous_timeout_s": patience_s, "first_rendezvous_timeout_s": 0, "base_port": 1}
    bench: Any = SimpleNamespace(
        node=node, order=ORDER, policy=policy, begun=0.0, stop=threading.Event(), boot_id="b", versions={}
    )
    lines: list[Line] = []

    def answer(_call: object, wait: runner_meeting.Patience) -> Line:
        if wait.over():
            raise Obstacle("rendezvous_timeout", "nobody called", "gpu002", "look")
        lines.append(Line(gone=len(lines) < gone))
        return lines[-1]

    monkeypatch.setattr(runner_meeting, "_PAUSE_S", 0.1)
    monkeypatch.setattr(runner_meeting, "_call", answer)
    monkeypatch.setattr(runner_meeting, "_await", answer)
    session = runner_meeting.Session(PLACE, "gpu002", "10.0.1.2")
    house: Any = None
    meeting = Meeting(0, 0, "gpu001", "gpu002")

    def meet() -> None:
        runner_meeting.meet(bench, house, meeting, session, runner_meeting.Patience(bench))

    if gone == 99:
        with pytest.raises(Obstacle, match=r"nobody called|closed the connection"):
            meet()
        assert session.channel is None
        assert len(lines) < 20
    else:
        meet()
        said: Any = session.channel
        assert said is lines[gone]
        assert session.hello["node"] == "gpu002"
    assert [one.closed for one in lines if one.gone] == [True] * len(lines[:gone])
