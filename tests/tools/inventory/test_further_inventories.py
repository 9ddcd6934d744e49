"""More inventories as they are met: wrong ones are named by place and fix, unusual right ones are planned."""

from __future__ import annotations

import json
import re

import pytest
from railyard.plan import view

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import trust, yaml_errors  # isort: skip


from support.inventories.on_disk import read_problems, spoil, write
from support.inventories.right import RIGHT
from support.inventories.sound import SOUND
from support.inventories.wrong_files import PLACES
from support.inventories.wrong_forms import FORMS
from support.inventories.wrong_inventories import FAULTS, SEVERAL
from support.inventories.wrong_links import LINKS
from support.inventories.wrong_rails import RAILS
from support.inventories.wrong_secrets import SECRETS
from support.inventories.wrong_values import VALUES

WRONG = {**FAULTS, **VALUES, **PLACES, **FORMS, **LINKS, **RAILS, **SECRETS}


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_is_named_with_its_place_and_its_fix(name, tmp_path, capsys, monkeypatch):
    wrong = WRONG[name]
    monkeypatch.chdir(tmp_path)
    spoil(tmp_path / "site", wrong)
    lines = read_problems("site", capsys, warned=True)
    # One line, or one for each rail that it concerns: never a second message of another kind.
    assert len(lines) == 1 or name in SEVERAL, lines
    where, _colon, fix = lines[0].rpartition(" Fix: ")
    assert wrong.message in where
    assert wrong.fix in fix
    assert "hunter2" not in "".join(lines)
    if wrong.place is not None:
        file, _bar, text = wrong.place.partition("|")
        place = re.match(r"site/(?P<file>[^:,]+)(:(?P<line>[0-9]+))?[,:]", where)
        assert place is not None, where
        assert file in ("", place["file"])
        if text:
            content = (tmp_path / "site" / place["file"]).read_bytes().decode(errors="replace")
            assert text in content.splitlines()[int(place["line"]) - 1]
    head = where.split(": ")[0]
    for kind, expected in (("host", wrong.host), ("rail", wrong.rail)):
        named = re.search(rf" {kind} (.+?)(, rail|$)", head)
        assert expected in (..., named[1] if named else None), where


def site_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "site", SOUND["pair"])
    return tmp_path / "site"


def test_a_password_in_an_executable_file_is_found(tmp_path, capsys, monkeypatch):
    # On some mounted filesystems every file is executable.
    site = site_of(tmp_path, monkeypatch)
    (site / "hosts.yml").write_text("gpu_nodes: {hosts: {gpu1: {ansible_password: hunter2}, gpu2: }}\n")
    (site / "hosts.yml").chmod(0o755)
    (line,) = read_problems("site", capsys)
    assert line.startswith("site/hosts.yml:1, host gpu1: ansible_password: a password in plain text")


def test_a_program_that_fails_is_reported_with_its_own_message(tmp_path, capsys, monkeypatch):
    site = site_of(tmp_path, monkeypatch)
    (site / "hosts.yml").unlink()
    (site / "nodes.sh").write_text("#!/bin/sh\nexit 3\n")
    (site / "nodes.sh").chmod(0o755)
    monkeypatch.setenv(trust.VARIABLE, ",".join(trust.ALL))
    (line,) = read_problems("site", capsys)
    assert line.startswith("site/nodes.sh: Ansible cannot read it as an inventory: Inventory script returned")


def test_no_inventory_at_all_is_reported(capsys):
    (line,) = read_problems("", capsys)
    assert line.startswith("-i: no such inventory. Fix: name a file or folder")


def test_what_an_ini_file_of_any_name_lacks_is_reported_at_its_line(tmp_path, capsys, monkeypatch):
    site = site_of(tmp_path, monkeypatch)
    (site / "hosts.yml").unlink()
    (site / "production").write_text("[gpu_nodes]\ngpu1\nlogin\n")
    (line,) = read_problems("site", capsys)
    assert line.startswith("site/production:3, host login: node_index: the host's name ends in no number")


def test_a_file_that_cannot_be_opened_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert yaml_errors.syntax_error("gone.yml") == (1, "it cannot be opened: No such file or directory")


def test_a_network_that_holds_others_is_held_against_all_of_them(tmp_path, capsys, monkeypatch):
    site = site_of(tmp_path, monkeypatch)
    fabric = SOUND["pair"]["group_vars/all/fabric.yml"] + "  networks:\n"
    fabric += "    - {name: wide, purpose: storage, subnet: 172.16.0.0/12}\n"
    for part in (1, 2, 3):
        fabric += f"    - {{name: n{part}, purpose: storage, subnet: 172.16.{part}.0/24}}\n"
    (site / "group_vars/all/fabric.yml").write_text(fabric)
    lines = read_problems("site", capsys)
    assert ["overlaps 172.16.0.0/12 of network wide" in line for line in lines] == [True] * 3


def test_two_inventories_that_differ_over_a_group_are_refused(tmp_path, capsys, monkeypatch):
    site_of(tmp_path, monkeypatch)
    other = SOUND["pair"]["group_vars/all/fabric.yml"].replace("9000", "1500")
    write(tmp_path / "other", {"hosts.yml": "gpu_nodes: {hosts: {gpu2: }}\n", "group_vars/all.yml": other})
    assert view.run(["site", "other"], True) == 2
    said = capsys.readouterr().err
    assert "other/group_vars/all.yml:1: fabric: site/group_vars/all/fabric.yml:1 sets another value" in said


def test_one_inventory_given_twice_is_one(tmp_path, capsys, monkeypatch):
    site = site_of(tmp_path, monkeypatch)
    (site / "hosts.yml").write_text("gpu_nodes: {hosts: {gpu1: {node_index: 4}, gpu2: }}\n")
    assert view.run(["site", str(site)], True) == 0, capsys.readouterr().err


@pytest.mark.parametrize("name", RIGHT)
def test_an_unusual_inventory_is_planned(name, tmp_path, capsys, monkeypatch):
    right = RIGHT[name]
    if any("plugin:" in str(text) for text in right.files.values()):
        monkeypatch.setenv(trust.VARIABLE, ",".join(trust.ALL))
    write(tmp_path / "site", right.files)
    status = view.run([str(tmp_path / "site" / right.source)], True)
    said = capsys.readouterr()
    assert status == 0, said.err
    nodes = json.loads(said.out)["nodes"]
    for (node, rail), expected in right.planned.items():
        found = next(one for one in nodes[node]["rails"] if one["name"] == rail)
        assert {key: found[key] for key in expected} == expected
