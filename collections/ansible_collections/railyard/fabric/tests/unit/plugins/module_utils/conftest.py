# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rollback import boot, restore, transaction
from support.nodes.network_change import NEW, OLD, Node


@pytest.fixture
def node(monkeypatch, tmp_path):
    made = Node()
    monkeypatch.setattr(restore, "run", made.run)
    monkeypatch.setattr(restore, "snapshot", made.snapshot)
    monkeypatch.setattr(restore, "generated_files", dict)
    monkeypatch.setattr(boot, "SYSTEM_DIR", str(tmp_path / "system"))
    monkeypatch.setattr(transaction.time, "sleep", lambda _s: None)
    return made


@pytest.fixture
def change(tmp_path, node):
    folder, path = tmp_path / "state", tmp_path / "etc/netplan/60-railyard-rails.yaml"
    path.parent.mkdir(parents=True)
    record = {
        "token": "0123456789abcdef",
        "files": [{"path": str(path), "text": NEW, "mode": 0o600}],
        "sysctls": {},
        "rails": [],
        "netdevs": ["ens6"],
        "snapshot": node.snapshot([]),
        "rollback_after_s": 20,
    }

    def begin(before=OLD, **more):
        if before is not None:
            path.write_text(before)
            path.chmod(0o640)
        with transaction.locked(str(folder)):
            transaction.begin(str(folder), {**copy.deepcopy(record), **more}, b"")
        return str(folder), record["token"], path

    begin.path = path
    return begin


@pytest.fixture
def applied(change):
    def apply(**more):
        folder, token, path = change(**more)
        transaction.apply(folder, token)
        return folder, token, path

    return apply
