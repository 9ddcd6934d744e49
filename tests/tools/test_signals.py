"""What a lost terminal does to a run, and that its children do not live on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

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


@pytest.mark.usefixtures("before")
def test_ansible_does_not_inherit_that_a_lost_terminal_is_ignored():
    with Interrupts():
        child = subprocess.run(
            [sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_DFL)"],
            capture_output=True,
            check=True,
            text=True,
        )
    assert child.stdout.strip() == "True"


def test_the_lab_goes_on_under_nohup_and_its_tools_too(before):
    with on_stop(lambda _number, _frame: None):
        assert (signal.getsignal(signal.SIGHUP) == signal.SIG_IGN) == (before == signal.SIG_IGN)
