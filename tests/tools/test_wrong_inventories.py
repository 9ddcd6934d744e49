"""Wrong inventories on disk, one fault each: `railyard plan` names place, host, rail and fix, and ends 2."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from railyard import plan_view

sys.path.insert(0, str(Path(__file__).parent))

from sound_inventories import SOUND
from wrong_inventories import FAULTS, SEVERAL, Fault

RAILYARD = Path(sys.executable).with_name("railyard")


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def spoilt(folder: Path, fault: Fault) -> Path:
    files = dict(SOUND[fault.base])
    assert files[fault.file].count(fault.old), "the fault changes nothing"
    files[fault.file] = files[fault.file].replace(fault.old, fault.new, 1)
    return write(folder, files)


def said_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines of `railyard plan`, which must end with 2 and print no plan."""
    assert plan_view.run([str(folder)], True) == 2
    said = capsys.readouterr()
    assert said.out == ""
    head, *lines = said.err.splitlines()
    assert head.endswith("in the inventory; no node was touched:")
    return [re.sub(r"^ +[0-9]+\. ", "", line) for line in lines]


@pytest.mark.parametrize("base", SOUND)
def test_what_the_faults_begin_with_is_sound(base, tmp_path, capsys):
    assert plan_view.run([str(write(tmp_path / base, SOUND[base]))], True) == 0, capsys.readouterr().err


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_with_its_place_and_its_fix(name, tmp_path, capsys, monkeypatch):
    fault = FAULTS[name]
    spoilt(tmp_path / "site", fault)
    monkeypatch.chdir(tmp_path)
    lines = said_of(Path("site"), capsys)
    first = lines[0]
    assert fault.message in first
    where, _colon, fix = first.rpartition(" Fix: ")
    assert fault.fix in fix
    if fault.line is None:
        assert where.startswith("site/hosts.yml: gpu_nodes: ")  # no line says what is missing from all
    else:
        place = re.match(r"site/(?P<file>[^:]+):(?P<line>[0-9]+)[,:]", where)
        assert place is not None, where
        text = (tmp_path / "site" / place["file"]).read_text().splitlines()
        assert fault.line in text[int(place["line"]) - 1]
    for kind, expected in (("host", fault.host), ("rail", fault.rail)):
        found = re.search(rf"^[^ ]+,(?: host [^ ]+,)? ?{kind} (?P<name>[^ ]+?)[,:] ", where)
        assert (found and found["name"]) == expected, where
    # One fault, one line, or one for each rail that it concerns: never a second message of another kind.
    assert len(lines) == 1 or name in SEVERAL, lines
    assert "hunter2" not in "".join(lines)


def test_there_are_enough_and_no_two_say_the_same(tmp_path, capsys):
    said = {}
    for name, fault in FAULTS.items():
        line = said_of(spoilt(tmp_path / name, fault), capsys)[0]
        said.setdefault(re.sub(r"^[^ ]+ ", "", line), []).append(name)
    assert len(FAULTS) >= 25
    alike = [names for names in said.values() if len(names) > 1]
    assert alike == []


def test_two_faults_are_told_at_once(tmp_path, capsys):
    fault = FAULTS["bmc_twice"]
    folder = spoilt(tmp_path / "site", fault)
    path = folder / FAULTS["rail_on_a_bond"].file
    path.write_text(path.read_text().replace("hca: mlx5_1:1", "bond: bond0").replace("mtu: 9000", "mtu: 90"))
    lines = said_of(folder, capsys)
    assert len(lines) == 3
    for part in ("one RDMA connection is one flow", "90 is no MTU", "already that of gpu1"):
        assert sum(part in line for line in lines) == 1


@pytest.mark.parametrize("name", ["units_without_gateway", "no_yaml"])
def test_the_command_itself_ends_with_2(name, tmp_path):
    folder = spoilt(tmp_path / "site", FAULTS[name])
    done = subprocess.run(
        [RAILYARD, "plan", "-i", folder, "--json"],
        capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert FAULTS[name].message in done.stderr
    assert "Traceback" not in done.stderr
