# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import candidate, change
from ansible_collections.railyard.fabric.plugins.module_utils.rollback import restore
from support.nodes.netplan import needs_netplan

RECORD = {"netdevs": ["ens6"], "rails": [], "snapshot": {}}


class Clock:
    def __init__(self):
        self.now_s = 1000.0

    def monotonic(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(change, "time", made)
    return made


@pytest.fixture
def prove(monkeypatch, clock):
    """Script what each look finds (the last one stays); returns the verdict and the seconds it took."""

    def run(*answers, seconds_left=20.0, **more):
        left = list(answers)
        monkeypatch.setattr(
            change, "prove", lambda _record, _applied: left.pop(0) if len(left) > 1 else left[0]
        )
        started = clock.now_s
        record = {**RECORD, "expires_monotonic_s": started + seconds_left}
        result = change.await_proof(record, dict, **more)
        return result, clock.now_s - started

    return run


GOOD, BAD, AWAY = ([], []), (["mtu"], []), ([], ["no carrier"])


def test_what_is_right_must_stay_right_for_a_second(prove):
    result, took_s = prove(GOOD)
    assert result == GOOD
    assert took_s == pytest.approx(1.0, abs=0.25)


def test_waits_until_networkd_is_done(prove):
    assert prove(BAD, BAD, GOOD)[0] == GOOD


def test_what_is_right_for_a_moment_only_is_not_proven(prove):
    assert prove(GOOD, GOOD, BAD)[0] == BAD


def test_gives_up_before_the_deadline_and_says_what_was_wrong(prove):
    result, took_s = prove(BAD, seconds_left=15)
    assert result == BAD
    assert 13 < took_s < 15


def test_gives_up_when_patience_is_over(prove):
    assert prove(BAD, seconds_left=1000)[1] == pytest.approx(30, abs=0.5)


def test_right_too_late_is_not_proven(prove):
    result, _took_s = prove(GOOD, seconds_left=1.5)
    assert "deadline" in result[0][0]


def test_link_that_comes_up_late_is_waited_for(prove):
    assert prove(*[AWAY] * 10, GOOD)[0] == GOOD


def test_cable_that_is_away_does_not_undo_the_change(prove):
    result, took_s = prove(AWAY, seconds_left=100)
    assert result == AWAY
    assert took_s == pytest.approx(8, abs=0.5)


def test_nothing_is_proven_before_netplan_is_done():
    assert change.prove(RECORD, None) == (["netplan apply has not finished"], [])


def test_waits_for_netplan(clock):
    answers = [None, None, {"status": 0}]
    record = {**RECORD, "expires_monotonic_s": clock.now_s + 5}
    assert change.await_applied(record, lambda: answers.pop(0))
    assert not change.await_applied(record, lambda: None)
    assert clock.now_s == pytest.approx(1005, abs=0.2)


ASIDE, OWN = "/etc/netplan/00-rails.yaml", "/etc/netplan/60-railyard-rails.yaml"
MANAGER = "network: {version: 2, renderer: NetworkManager}\n"
STANZA = "network: {version: 2, ethernets: {%s}}\n"


@pytest.fixture
def aside(tmp_path, monkeypatch):
    """Try the change that moves a file aside, beside others' files; returns what is wrong with it."""

    def run(others):
        sources = {path: str(tmp_path / os.path.basename(path)) for path in others}
        for path, text in others.items():
            with open(sources[path], "w") as handle:
                handle.write(text)
        monkeypatch.setattr(candidate, "netplan_files", lambda: sources)
        folder = str(tmp_path / str(len(others)))
        facts = {"ens6": {"mac": "", "driver": ""}}
        candidate.claims_by_netplan(restore.run, "netplan", sources, facts, folder)
        own = STANZA % "ens6: {renderer: networkd, addresses: [10.0.1.1/24]}"
        entries = [{"path": ASIDE, "text": None}, {"path": OWN, "text": own}]
        return change._try_candidate(entries, ["ens6"], [ASIDE], "netplan", folder)[0]

    return run


@needs_netplan
def test_file_moved_aside_may_not_take_the_renderer_of_others_along(aside):
    others = {
        ASIDE: "network: {version: 2, renderer: NetworkManager, ethernets: {ens6: {dhcp4: true}}}\n",
        "/etc/netplan/50-way-in.yaml": STANZA % "enp5s0: {dhcp4: true}",
    }
    problems = aside(others)
    assert [problem.split(",")[0].rsplit("/", 1)[1] for problem in problems] == [
        "10-globally-managed-devices.conf",
        "netplan-enp5s0.nmconnection",
    ]
    assert all("would go with the change" in problem and ASIDE in problem for problem in problems)
    # What it advises.
    assert aside({**others, "/etc/netplan/01-renderer.yaml": MANAGER}) == []
