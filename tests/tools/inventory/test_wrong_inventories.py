"""Wrong inventories on disk, one fault each: `railyard plan` names place, host, rail and fix, and ends 2."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import reader
from railyard.plan import view
from support.inventories.sound import SOUND
from support.inventories.told import said_of, write
from support.inventories.wrong_inventories import FAULTS, SEVERAL, Fault

RAILYARD = Path(sys.executable).with_name("railyard")


def spoilt(folder: Path, fault: Fault) -> Path:
    files = dict(SOUND[fault.base])
    assert files[fault.file].count(fault.old), "the fault changes nothing"
    files[fault.file] = files[fault.file].replace(fault.old, fault.new, 1)
    return write(folder, files)


@pytest.mark.parametrize("base", SOUND)
def test_what_the_faults_begin_with_is_sound(base, tmp_path, capsys):
    assert view.run([str(write(tmp_path / base, SOUND[base]))], True) == 0, capsys.readouterr().err


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


def no_more_than_4_gib() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


def railyard(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command that has to answer within seconds, and in little memory."""
    return subprocess.run(
        [RAILYARD, *words],
        capture_output=True, text=True, check=False, timeout=600, preexec_fn=no_more_than_4_gib,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("fifo", "hosts.yml"),
        ("fifo", "host_vars/gpu1.yml"),
        ("endless", "hosts.yml"),
        ("endless", "group_vars/all/fabric.yml"),
        ("too_large", "host_vars/gpu2/more.yml"),
    ],
)
def test_what_has_no_end_is_named_and_not_read(kind, name, tmp_path):
    path = write(tmp_path / "site", SOUND["pair"]) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "endless":
        path.symlink_to("/dev/zero")
    else:
        path.touch()
        os.truncate(path, 1 << 40)
    for source in (tmp_path / "site", tmp_path / "site/hosts.yml"):
        done = railyard("plan", "-i", source)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{path}: " in done.stderr
        assert ("it has 1099511627776 bytes" if kind == "too_large" else "it is no file") in done.stderr
        assert ". Fix: " in done.stderr


def test_extra_variables_without_end_are_named_and_not_read(tmp_path):
    folder = write(tmp_path / "site", SOUND["pair"])
    done = railyard("validate", "-i", folder, "--", "-e", "@/dev/zero")
    assert done.returncode == 2
    assert "/dev/zero: it is no file" in done.stderr


@pytest.mark.minutes
def test_more_hosts_or_rails_than_there_can_be_are_refused_at_once(tmp_path):
    folder = write(tmp_path / "site", SOUND["pair"])
    hosts = (folder / "hosts.yml").read_text()
    (folder / "hosts.yml").write_text("gpu_nodes:\n  hosts:\n    gpu[1:99999]-[1:99999]:\n")
    assert "gpu[1:99999]-[1:99999] is one of 9999800001 hosts" in railyard("plan", "-i", folder).stderr
    (folder / "hosts.ini").write_text("[gpu_nodes]\ngpu[1:99999][a:z]\n")
    (folder / "hosts.yml").unlink()
    assert "gpu[1:99999][a:z] is one of 2599974 hosts" in railyard("plan", "-i", folder).stderr
    (folder / "hosts.ini").unlink()
    (folder / "hosts.yml").write_text(hosts)
    rail = "    - {{name: rail{0}, netdev: ens{0}, subnet: 10.0.0.0/24}}\n"
    for count, said in (
        (300, "fabric.rails: it has 300 entries"),
        (100000, " and more than 2097152 are not"),
    ):
        rails = "".join(rail.format(number) for number in range(count))
        text = f"fabric:\n  transport: tcp\n  mtu: 9000\n  rails:\n{rails}"
        (folder / "group_vars/all/fabric.yml").write_text(text)
        done = railyard("plan", "-i", folder)
        assert done.returncode == 2
        assert said in done.stderr


@pytest.mark.minutes
def test_names_in_what_is_said_cannot_write_to_the_terminal(tmp_path):
    folder = tmp_path / "site\x1b[2Jx"
    write(folder, {**SOUND["pair"], "hosts.yml": 'gpu_nodes: {hosts: {"gpu\\e[2J1": }}\n'})
    for words in (
        ("plan", "-i", folder), ("plan", "-i", f"{folder}/none"), ("validate", "-i", f"{folder}/none"),
        ("report", f"{folder}/none"), ("plan", "--none\x1b[2J"),
    ):  # fmt: skip
        done = railyard(*words)
        assert done.returncode == 2, words
        assert "\x1b[2J" not in done.stdout + done.stderr, words
    write(folder, SOUND["pair"])
    done = railyard("plan", "-i", folder)
    assert done.returncode == 0
    assert "\x1b[2J" not in done.stdout


def test_a_folder_that_leads_elsewhere_is_not_listed_file_by_file(tmp_path):
    """A link to the root of the file system has thousands of files that Ansible could not read to an end."""
    (tmp_path / "hosts.yml").write_text("gpu_nodes: {hosts: {a: {}}}\n")
    (tmp_path / "group_vars" / "all").mkdir(parents=True)
    for number in range(30):
        os.mkfifo(tmp_path / "group_vars" / "all" / f"{number}.yml")
    _reader, found = reader.open_sources([str(tmp_path)], None)
    assert len(found) == 20
