# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import atomic_files
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import revert, unmanaged
from ansible_collections.railyard.fabric.plugins.module_utils.rollback import transaction
from support.nodes.network_change import NEW, OLD, STATE


@pytest.fixture
def confirmed(change, node, monkeypatch):
    monkeypatch.setattr(revert.os.path, "exists", lambda path: True if "/sys/" in path else exists(path))
    exists = revert.os.path.lexists
    monkeypatch.setattr(unmanaged, "networkd_texts", dict)
    monkeypatch.setattr(unmanaged, "keeps_foreign_rules", lambda: False)
    folder, token, path = change()
    transaction.apply(folder, token)
    assert transaction.confirm(folder, token)
    assert (path.read_text(), node.state["links"]["ens6"]["mtu_bytes"]) == (NEW, 9000)
    return folder, token, path


def test_each_byte_comes_back_and_the_owner(change, monkeypatch):
    monkeypatch.setattr(unmanaged, "networkd_texts", dict)
    old = b"network: {version: 2}\r\n# \xe9\n"
    change.path.write_bytes(old)
    folder, token, path = change(before=None)
    transaction.apply(folder, token)
    assert transaction.confirm(folder, token)
    found = revert.plan(folder)[1]
    assert found["files"][0]["owner"] == [os.getuid(), os.getgid()]
    back(folder, found, "fedcba9876543210")
    assert path.read_bytes() == old


def back(folder, found, token):
    kept = ("sysctls", "rails", "netdevs", "snapshot", "target", "reverts", "foreign_rules", "own_rules")
    files = [{key: entry[key] for key in ("path", "text", "mode", "owner")} for entry in found["files"]]
    record = {"token": token, "files": files, "rollback_after_s": 20, **{key: found[key] for key in kept}}
    with transaction.locked(folder):
        transaction.begin(folder, record, b"")
    return transaction.apply(folder, token)


def test_what_was_replaced_comes_back_files_and_running_network(confirmed, node):
    folder, token, path = confirmed
    why, found = revert.plan(folder)
    assert (why, found["reverts"]) == ("", token)
    assert found["drift"] == ["ens6: mtu_bytes 1500 is 9000"]
    assert back(folder, found, "fedcba9876543210") == 0
    assert transaction.confirm(folder, "fedcba9876543210")
    assert (path.read_text(), path.stat().st_mode & 0o777) == (OLD, 0o640)
    # netplan alone leaves the MTU that the old file does not set
    assert node.state["links"]["ens6"]["mtu_bytes"] == STATE["links"]["ens6"]["mtu_bytes"]


def test_return_that_is_not_confirmed_is_undone_like_any_change(confirmed, node):
    folder, _token, path = confirmed
    back(folder, revert.plan(folder)[1], "fedcba9876543210")
    assert path.read_text() == OLD
    node.state["links"]["ens6"]["mtu_bytes"] = 1500
    transaction.expire(folder, "fedcba9876543210")
    assert (path.read_text(), node.state["links"]["ens6"]["mtu_bytes"]) == (NEW, 9000)


def test_second_return_has_nothing_to_do(confirmed):
    folder, _token, _path = confirmed
    back(folder, revert.plan(folder)[1], "fedcba9876543210")
    transaction.confirm(folder, "fedcba9876543210")
    why, found = revert.plan(folder)
    assert "was a return already" in why
    assert found == {}


def test_node_that_was_never_changed_says_so(tmp_path):
    assert "ever confirmed" in revert.plan(str(tmp_path))[0]


NEWER = "network: {version: 2, renderer: networkd}\n"


@pytest.fixture
def changed_twice(confirmed, change, node):
    """Confirm a second change, which finds the first one's MTU and file, and a file that is new to it."""
    folder, _token, path = confirmed
    networks = path.parent / "60-railyard-networks.yaml"
    networks.write_text("theirs\n")
    files = [(path, NEWER), (networks, NEWER)]
    record = {
        "token": "second0123456789",
        "files": [{"path": str(one), "text": text, "mode": 0o600} for one, text in files],
        "snapshot": node.snapshot([]),
    }
    change(before=None, **record)
    transaction.apply(folder, record["token"])
    assert transaction.confirm(folder, record["token"])
    return folder, path, networks


def restored(folder, to, token):
    why, found = revert.plan(folder, to)
    assert why == ""
    assert back(folder, found, token) == 0
    assert transaction.confirm(folder, token)


def test_original_state_comes_back_after_two_changes(changed_twice, node):
    folder, path, networks = changed_twice
    restored(folder, "original", "fedcba9876543210")
    assert (path.read_text(), path.stat().st_mode & 0o777) == (OLD, 0o640)
    assert networks.read_text() == "theirs\n"
    assert node.state["links"]["ens6"]["mtu_bytes"] == STATE["links"]["ens6"]["mtu_bytes"]
    why, found = revert.plan(folder, "original")
    assert "restored the original state already" in why
    assert found == {}


def test_original_state_comes_back_after_the_last_change_was_restored(changed_twice, node):
    folder, path, _networks = changed_twice
    restored(folder, "last_change", "fedcba9876543210")
    assert (path.read_text(), node.state["links"]["ens6"]["mtu_bytes"]) == (NEW, 9000)
    restored(folder, "original", "0fedcba987654321")
    assert (path.read_text(), node.state["links"]["ens6"]["mtu_bytes"]) == (OLD, 1500)


def test_what_others_changed_since_is_shown_replaced_and_kept_in_a_copy(changed_twice):
    folder, path, _networks = changed_twice
    path.write_text("edited by hand\n")
    entry = revert.plan(folder, "original")[1]["files"][0]
    assert (entry["before"], entry["text"], entry["wrong"]) == ("edited by hand\n", OLD, True)
    restored(folder, "original", "fedcba9876543210")
    assert path.read_text() == OLD
    kept = Path(folder, "backup").rglob(path.name)
    assert "edited by hand\n" in [one.read_text() for one in kept]


def test_original_state_that_is_not_confirmed_is_undone(changed_twice, node):
    folder, path, networks = changed_twice
    back(folder, revert.plan(folder, "original")[1], "fedcba9876543210")
    assert path.read_text() == OLD
    transaction.expire(folder, "fedcba9876543210")
    assert (path.read_text(), networks.read_text()) == (NEWER, NEWER)
    assert node.state["links"]["ens6"]["mtu_bytes"] == 9000
    restored(folder, "original", "0fedcba987654321")
    assert path.read_text() == OLD


@pytest.fixture
def earlier_version(confirmed):
    """Leave the record of the first change as earlier versions wrote it, without the original state."""
    folder, _token, path = confirmed
    place = Path(folder, "confirmed.json")
    record = json.loads(place.read_text())
    del record["original"]
    place.write_text(json.dumps(record))
    return folder, path


def test_node_of_an_earlier_version_says_what_to_do_by_hand(earlier_version, tmp_path):
    folder, path = earlier_version
    aside = tmp_path / "etc/netplan/50-cloud-init.yaml.railyard-disabled"
    aside.write_text("theirs")
    cloud = tmp_path / "etc/cloud/cloud.cfg.d/99-railyard-network.cfg"
    cloud.parent.mkdir(parents=True)
    cloud.write_text("network: {config: disabled}")
    with pytest.raises(revert.NoOriginalError) as caught:
        revert.plan(folder, "original", str(tmp_path))
    steps = [
        f"rm {cloud} {path}",
        f"mv {aside} {tmp_path}/etc/netplan/50-cloud-init.yaml",
        "netplan try",
        f"rm {folder}/confirmed.json",
    ]
    assert f"console: {'; '.join(steps)}. " in str(caught.value)
    assert f"{folder}/backup has the files" in str(caught.value)
    assert revert.plan(folder)[0] == "", "the state before the last change is there as before"


def test_moved_file_of_another_is_not_among_those_to_remove(earlier_version, tmp_path):
    folder, path = earlier_version
    record = atomic_files.read_json(os.path.join(folder, "confirmed.json"))
    theirs = str(tmp_path / "etc/netplan/99-both.yaml")
    Path(theirs).write_text("what stays")
    record["files"] += [{"path": theirs + ".railyard-disabled"}, {"path": theirs}]
    Path(folder, "confirmed.json").write_text(json.dumps(record))
    with pytest.raises(revert.NoOriginalError) as caught:
        revert.plan(folder, "original", str(tmp_path))
    assert f"console: rm {path}; netplan try" in str(caught.value)


def test_node_of_an_earlier_version_without_files_has_nothing_to_do(earlier_version, tmp_path):
    folder, path = earlier_version
    path.unlink()
    assert revert.plan(folder, "original", str(tmp_path)) == (
        "no file of Railyard's network is left here",
        {},
    )
