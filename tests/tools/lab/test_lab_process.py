"""Programs that the lab starts for a while: none of them outlives what it was started for."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from railyard.lab.process import LabError, state_of, tied
from support.programs import wait_until

# What has ended may still wait to be counted.
GONE = ("", "Z", "X")


def test_an_error_in_the_block_ends_the_program():
    with pytest.raises(KeyboardInterrupt), tied(["sleep", "60"]) as process:
        raise KeyboardInterrupt
    assert process.returncode == -signal.SIGKILL


def test_a_program_is_waited_for_and_its_complaint_is_there():
    with tied(["sh", "-c", "echo too bad >&2; exit 3"]) as process:
        said = process.communicate()[1]
    assert (process.returncode, said) == (3, b"too bad\n")


def test_a_missing_program_is_named():
    with pytest.raises(LabError, match="no-such-program is missing"), tied(["no-such-program"]):
        pass


def test_a_killed_lab_takes_its_programs_along():
    code = """
from railyard.lab.process import tied
with tied(["sleep", "60"]) as process:
    print(process.pid, flush=True)
"""
    lab = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = int(lab.stdout.readline())
    assert state_of(child) not in GONE
    lab.send_signal(signal.SIGKILL)
    lab.wait(60)
    assert wait_until(lambda: state_of(child) in GONE)
