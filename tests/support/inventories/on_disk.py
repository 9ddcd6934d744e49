# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventories on disk, and what `railyard plan` reports about a wrong one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from railyard.plan import view

from support.inventories.sound import SOUND
from support.inventories.wrong_values import Wrong

FABRIC = {
    "transport": "tcp",
    "mtu": 9000,
    "rails": [{"name": "rail0", "netdev": "ens6", "subnet": "10.0.0.0/16"}],
}


def make_hosts(*names: str) -> dict[str, dict[str, Any]]:
    """Return nodes, by default two, with addresses for documentation (RFC 5737): a connection there fails."""
    numbered = enumerate(names or ("gpu1", "gpu2"), start=1)
    return {name: {"ansible_host": f"192.0.2.{number}"} for number, name in numbered}


def write_groups(
    folder: Path,
    hosts: Mapping[str, Any] | None = None,
    groups: Mapping[str, Any] | None = None,
    **of_all: Any,
) -> Path:
    """Write an inventory: by default two nodes with one rail, and no group and variable beside them."""
    of_nodes = {"gpu_nodes": {"hosts": make_hosts() if hosts is None else hosts}}
    files = {
        "hosts.yml": {**of_nodes, **(groups or {})},
        "group_vars/all/fabric.yml": {"fabric": FABRIC, **of_all},
    }
    return write(folder, {name: yaml.safe_dump(data, sort_keys=False) for name, data in files.items()})


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write an inventory's files; return its folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def spoil(folder: Path, wrong: Wrong) -> Path:
    """Write a sound inventory with one fault; return its folder."""
    write(folder, SOUND[wrong.base])
    for name, change in wrong.changes.items():
        path = folder / name
        if change is None:
            path.unlink()
        elif isinstance(change, tuple):
            old, new = change
            text = path.read_text()
            assert old in text, "the fault changes nothing"
            write(folder, {name: text.replace(old, new, 1)})
        else:
            write(folder, {name: change})
    return folder


def read_problems(source: str | Path, capsys: pytest.CaptureFixture[str], warned: bool = False) -> list[str]:
    """Return the lines of `railyard plan`, which must end with 2 and print no plan.

    With `warned`, Ansible may have printed something before.
    """
    status = view.run([str(source)], True)
    said = capsys.readouterr()
    assert (status, said.out) == (2, "")
    assert "Traceback" not in said.err
    lines = said.err.splitlines()
    head = next(place for place, line in enumerate(lines) if line.endswith("no node was touched:"))
    assert head == 0 or warned
    return [re.sub(r"^ +[0-9]+\. ", "", line) for line in lines[head + 1 :]]
