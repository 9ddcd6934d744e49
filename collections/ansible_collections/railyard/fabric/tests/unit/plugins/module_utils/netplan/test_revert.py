# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os

import pytest
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
