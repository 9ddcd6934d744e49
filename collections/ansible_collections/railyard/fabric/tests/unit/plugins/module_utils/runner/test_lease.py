# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lease: who holds it, until when, and by which clock."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.runner import lease as lease_module
from ansible_collections.railyard.fabric.plugins.module_utils.runner.lease import Lease

RUN, OTHER = "20261121T101500Z-3f2a", "20261121T111500Z-4444"


def test_an_expired_lease_is_taken_over_and_its_run_is_reported(tmp_path: Path) -> None:
    lease = Lease(str(tmp_path))
    lease.take(RUN, "first", 0.05, "gpu001")
    assert lease.lost_by(RUN) is None
    time.sleep(0.1)
    assert "showed no sign of life" in str(lease.lost_by(RUN))
    assert lease.holder() is None
    lease.take(OTHER, "second", 60, "gpu001")
    assert OTHER in str(lease.lost_by(RUN))
    assert lease.lost_by(OTHER) is None
    Path(lease.path).write_text('{"torn')
    assert lease.lost_by(OTHER) == "the lease is gone"
    lease.take(RUN, "third", 60, "gpu001")


@pytest.mark.parametrize("step_s", [-86400.0, 86400.0])
def test_a_clock_that_is_set_in_a_run_neither_ends_nor_keeps_its_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    """A node that has just booted sets its clock once it has found a time server."""
    lease = Lease(str(tmp_path))
    lease.take(RUN, "first", 90, "gpu001")
    clock = SimpleNamespace(wall_s=time.time(), s=1000.0)
    fake = SimpleNamespace(
        time=lambda: clock.wall_s, monotonic=lambda: clock.s, strftime=time.strftime, gmtime=time.gmtime
    )
    monkeypatch.setattr(lease_module, "time", fake)
    assert lease.lost_by(RUN) is None
    clock.wall_s += step_s
    clock.s += 2.0
    assert lease.lost_by(RUN) is None
    # A sign of life by the new clock.
    os.utime(lease.alive_path(RUN), (clock.wall_s, clock.wall_s))
    clock.s += 80.0
    assert lease.lost_by(RUN) is None
    clock.s += 91.0
    assert "showed no sign of life" in str(lease.lost_by(RUN))


def test_a_lease_holds_from_its_last_touch(tmp_path: Path) -> None:
    lease = Lease(str(tmp_path))
    lease.take(RUN, "first", 1000, "gpu001")
    for path in tmp_path.iterdir():
        os.utime(path, (time.time() - 1001, time.time() - 1001))
    assert lease.holder() is None
    os.utime(lease.path)
    assert 900 < lease.left_s() <= 1000


def test_taking_ones_own_lease_again_keeps_since(tmp_path: Path) -> None:
    lease = Lease(str(tmp_path))
    first = lease.take(RUN, "first", 10, "gpu001")
    assert lease.take(RUN, "first", 50, "gpu001")["since_s"] == first["since_s"]
    held = lease.read()
    assert held["until_s"] > first["until_s"] + 30
