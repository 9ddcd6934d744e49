"""What a lost terminal does to a run and to the lab."""

from __future__ import annotations

import os
import signal

import pytest
from railyard.base.signals import Interrupts, on_stop


@pytest.fixture(params=[signal.SIG_DFL, signal.SIG_IGN], ids=["in a terminal", "under nohup"])
def before(request: pytest.FixtureRequest):
    """What SIGHUP did before, put back afterwards."""
    old = signal.signal(signal.SIGHUP, request.param)
    yield request.param
    signal.signal(signal.SIGHUP, old)


def test_a_lost_terminal_stops_a_run_but_not_under_nohup(before):
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGHUP)
        assert interrupts.count == (0 if before == signal.SIG_IGN else 1)
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.count == (1 if before == signal.SIG_IGN else 2)
    assert signal.getsignal(signal.SIGHUP) == before


def test_the_lab_goes_on_under_nohup_and_its_tools_too(before):
    with on_stop(lambda _number, _frame: None):
        assert (signal.getsignal(signal.SIGHUP) == signal.SIG_IGN) == (before == signal.SIG_IGN)
