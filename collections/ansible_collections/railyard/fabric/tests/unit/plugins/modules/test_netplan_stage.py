# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import atomic_files
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import change as netplan_change
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import peers as netplan_peers
from ansible_collections.railyard.fabric.plugins.module_utils.rollback import boot, restore, transaction
from ansible_collections.railyard.fabric.plugins.modules import netplan_stage
from support.nodes.module import FakeModule
from support.nodes.network_change import STATE

RAILS = [{"name": "rail0", "netdev": "ens6", "address": "10.0.1.1/24", "mtu": 9000}]
DRIFT = {"rail": "rail0", "netdev": "ens6", "what": "mtu", "is": "1500", "planned": "9000"}


FILE = {"before": "same\n", "text": "same\n", "mode": 0o600, "wrong": False}
NEW_FILE = {"text": "new\n", "wrong": True}


class FailedError(Exception):
    pass


UNSET = {"state": "staged", "accept_drift": False, "revert": False, "revert_to": "last_change", "peers": []}
PARAMS = {
    **UNSET,
    "node": "gpuserver1",
    "rails": RAILS,
    "path": "/etc/netplan/60-railyard-rails.yaml",
    "rollback_after_s": 20,
}


class DummyModule(FakeModule):
    def __init__(self, check_mode=False, **params):
        super().__init__({**PARAMS, **params}, self.answer, check_mode)
        self.commands = []
        self.netplan = "/usr/sbin/netplan"
        self.refused = ""

    def get_bin_path(self, _name):
        return self.netplan

    def answer(self, argv):
        self.commands.append(argv)
        failed = self.refused and any(self.refused in word for word in argv)
        return (1, "", "no space in /run") if failed else (0, "", "")

    def warn(self, _text):
        pass

    def fail_json(self, msg, **_more):
        raise FailedError(msg)


@pytest.fixture
def found(monkeypatch, tmp_path):
    monkeypatch.setattr(transaction, "STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(restore, "generated_files", dict)
    monkeypatch.setattr(boot, "SYSTEM_DIR", str(tmp_path / "system"))
    findings = {
        "rails": RAILS,
        "netdevs": ["ens6"],
        "files": [{**FILE, "path": str(tmp_path / "etc/60-railyard-rails.yaml")}],
        "sysctls": {},
        "changed": False,
        "drift": [],
        "warnings": [],
        "snapshot": STATE,
    }
    problems = []
    monkeypatch.setattr(netplan_change, "examine", lambda *_arguments: (problems, findings))
    findings["problems"] = problems
    findings["folder"] = tmp_path / "state"
    findings["change"] = lambda more: (findings["files"][0].update(more), findings.update(changed=True))
    return findings


@pytest.fixture
def token(found):
    """Stage a change; return its token."""
    found["change"](NEW_FILE)
    return netplan_stage.stage(DummyModule())["token"]


def test_nothing_to_do_does_nothing(found):
    module = DummyModule()
    result = netplan_stage.stage(module)
    assert (result["changed"], result["outcome"], module.commands) == (False, "unchanged", [])
    assert "token" not in result
    assert not found["folder"].exists()


CHANGES = [
    lambda found: found["change"](NEW_FILE),
    lambda found: found["change"]({"wrong": True}),
    lambda found: (found["drift"].append(DRIFT), found.update(changed=True)),
    lambda found: found["change"]({"text": None, "wrong": True}),
]


@pytest.mark.parametrize("change", CHANGES, ids=["content", "mode", "running", "removal"])
def test_check_mode_says_what_a_real_run_would_do_and_does_nothing(found, change):
    change(found)
    module = DummyModule(check_mode=True)
    result = netplan_stage.stage(module)
    assert result["changed"] is True
    assert (module.commands, found["folder"].exists()) == ([], False)
    shown = [row["after"] for row in result["diff"] if row["after_header"] == found["files"][0]["path"]]
    assert shown == ([found["files"][0]["text"] or ""] if found["files"][0]["wrong"] else [])


@pytest.mark.parametrize("change", CHANGES, ids=["content", "mode", "running", "removal"])
def test_timer_is_armed_before_anything_is_applied(found, change):
    change(found)
    module = DummyModule()
    result = netplan_stage.stage(module)
    assert (result["changed"], result["outcome"]) == (True, "pending")
    timer, apply = module.commands
    assert "--on-active=12s" in timer  # 20 s less what undoing takes
    assert timer[-2:] == ["expire", result["token"]]
    assert apply[-2:] == ["apply", result["token"]]
    assert (found["folder"] / "program.pyz").exists()
    assert transaction.outcome(str(found["folder"]), result["token"])["outcome"] == "pending"


def test_running_drift_is_in_the_diff(found):
    found["drift"].append(DRIFT)
    found["changed"] = True
    (running,) = netplan_stage.stage(DummyModule(check_mode=True))["diff"]
    assert (running["before"], running["after"]) == ("rail0 (ens6): mtu 1500\n", "rail0 (ens6): mtu 9000\n")


def test_every_problem_is_named_with_the_node_and_nothing_is_written(found):
    found["problems"].extend(["rail0: netdev ens6 does not exist", "rail1: another"])
    module = DummyModule()
    with pytest.raises(FailedError) as caught:
        netplan_stage.stage(module)
    assert "Nothing was written.\ngpuserver1, rail0: netdev ens6" in str(caught.value)
    assert "gpuserver1, rail1: another" in str(caught.value)
    assert (module.commands, found["folder"].exists()) == ([], False)


def test_missing_netplan_says_how_to_get_it(found):
    module = DummyModule()
    module.netplan = None
    with pytest.raises(FailedError, match=r"gpuserver1: netplan is not installed.*rail_network_install"):
        netplan_stage.stage(module)


def test_second_change_waits_for_the_first(found):
    found["change"](NEW_FILE)
    netplan_stage.stage(DummyModule())
    with pytest.raises(FailedError, match="neither confirmed nor undone"):
        netplan_stage.stage(DummyModule())


def test_change_that_a_reset_left_is_undone_first(found, token, monkeypatch):
    monkeypatch.setattr(transaction, "is_stale", lambda _record: True)
    module = DummyModule()
    netplan_stage.stage(module)
    assert "--wait" in module.commands[0]
    assert module.commands[0][-2:] == ["expire", token]


def proven(monkeypatch, problems, away=()):
    monkeypatch.setattr(netplan_change, "await_proof", lambda *_arguments: (list(problems), list(away)))
    monkeypatch.setattr(restore, "run", lambda _argv: (0, "", ""))


def test_applied_waits_for_netplan_and_confirms_nothing(found, token):
    (found["folder"] / "applied.json").write_text('{"status": 0}')
    assert netplan_stage.confirm(DummyModule(state="applied", token=token))["outcome"] == "applied"
    assert transaction.outcome(str(found["folder"]), token)["outcome"] == "pending"


def test_proven_change_is_confirmed(found, token, monkeypatch):
    proven(monkeypatch, [], ["rail0 (ens6): no carrier"])
    result = netplan_stage.confirm(DummyModule(state="confirmed", token=token))
    assert (result["outcome"], result["changed"]) == ("confirmed", True)
    assert result["findings"] == ["gpuserver1, rail0 (ens6): no carrier"]
    again = netplan_stage.confirm(DummyModule(state="confirmed", token=token))
    assert again["outcome"] == "confirmed"


def test_unproven_change_is_undone_at_once(found, token, monkeypatch):
    proven(monkeypatch, ["rail0 (ens6): mtu is 1500, planned 9000"])
    module = DummyModule(state="confirmed", token=token)
    result = netplan_stage.confirm(module)
    assert result["outcome"] == "rolling_back"
    assert result["proof_problems"] == ["rail0 (ens6): mtu is 1500, planned 9000"]
    assert module.commands[0][:3] == ["systemctl", "start", "--no-block"]
    assert "-expire-" in module.commands[0][3]


@pytest.mark.parametrize("refused", ["-expire-", "-apply-"])
def test_unit_that_systemd_does_not_start_leaves_the_node_as_it_was(found, refused):
    found["change"](NEW_FILE)
    module = DummyModule()
    module.refused = refused
    with pytest.raises(FailedError, match=r"gpuserver1: .*no space in /run; nothing was changed"):
        netplan_stage.stage(module)
    assert transaction.in_flight(str(found["folder"])) is None
    assert list((found["folder"].parent / "etc").iterdir()) == []
    assert [path for path in (found["folder"].parent / "system").rglob("*") if not path.is_dir()] == []


def test_full_disk_is_reported_with_what_to_do(found, monkeypatch):
    found["change"](NEW_FILE)

    def full(_path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_files, "reserve", full)
    module = DummyModule()
    with pytest.raises(FailedError, match=r"No space left on device; nothing was changed. Make room"):
        netplan_stage.stage(module)
    assert module.commands == []


def test_peer_that_gets_no_full_packet_undoes_the_change(found, token, monkeypatch):
    proven(monkeypatch, [])
    asked = []

    def ask(_run, rails, peers):
        asked.append((rails, peers))
        return ["rail0 (ens6): a answers small packets"], []

    monkeypatch.setattr(netplan_peers, "ask", ask)
    peers = [{"rail": "rail0", "peer": "a", "address": "10.0.1.9", "mtu_bytes": 9000}]
    module = DummyModule(state="confirmed", token=token, peers=peers)
    assert netplan_stage.confirm(module)["outcome"] == "rolling_back"
    assert asked == [(RAILS, peers)]


@pytest.mark.parametrize("to", ["last_change", "original"])
def test_return_with_nothing_to_return_to_says_why(found, to):
    result = netplan_stage.stage(DummyModule(revert=True, revert_to=to))
    assert (result["changed"], result["outcome"]) == (False, "unchanged")
    assert "ever confirmed" in result["reason_unchanged"]


def test_return_to_the_original_state_plans_that_state(found, monkeypatch):
    planned = []
    monkeypatch.setattr(
        netplan_stage.revert, "plan", lambda *arguments: (planned.append(arguments), ("", found))[1]
    )
    netplan_stage.stage(DummyModule(check_mode=True, revert=True, revert_to="original"))
    assert planned == [(str(found["folder"]), "original")]
