# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import netplan_change

RECORD = {"netdevs": ["ens6"], "rails": [], "snapshot": {}}


@pytest.fixture
def looks(monkeypatch):
    """Script what each look at the node finds; the last one stays."""
    monkeypatch.setattr(netplan_change.time, "sleep", lambda _s: None)

    def script(*answers):
        left = list(answers)
        monkeypatch.setattr(
            netplan_change, "prove", lambda _record, _applied: left.pop(0) if len(left) > 1 else left[0]
        )

    return script


def prove(seconds_left, **more):
    record = {**RECORD, "expires_monotonic_s": time.monotonic() + seconds_left}
    started = time.monotonic()
    result = netplan_change.await_proof(record, dict, **more)
    return result, time.monotonic() - started


def test_waits_until_networkd_is_done(looks):
    looks((["mtu"], []), (["mtu"], []), ([], []))
    assert prove(20)[0] == ([], [])


def test_gives_up_before_the_deadline_and_says_what_was_wrong(looks):
    looks((["mtu"], []))
    result, took_s = prove(1.4)
    assert result == (["mtu"], [])
    assert took_s < 1


def test_gives_up_when_patience_is_over(looks):
    looks((["mtu"], []))
    assert prove(100, patience_s=0.1)[1] < 1


def test_link_that_comes_up_late_is_waited_for(looks):
    looks(([], ["no carrier"]), ([], ["no carrier"]), ([], []))
    assert prove(20)[0] == ([], [])


def test_cable_that_is_away_does_not_undo_the_change(looks):
    looks(([], ["no carrier"]))
    result, took_s = prove(1.8)
    assert result == ([], ["no carrier"])
    assert 0.3 < took_s < 0.9


def test_nothing_is_proven_before_netplan_is_done():
    assert netplan_change.prove(RECORD, None) == (["netplan apply has not finished"], [])
