"""Wrong inventories on disk, one fault each: `railyard plan` names place, host, rail and fix, and ends 2."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import reader
from railyard.plan import view
from support import programs
from support.inventories.on_disk import read_problems, spoil, write
from support.inventories.sound import FABRIC, SOUND
from support.inventories.wrong_inventories import FAULTS


@pytest.mark.parametrize("base", SOUND)
def test_what_the_faults_begin_with_is_sound(base, tmp_path, capsys):
    assert view.run([str(write(tmp_path / base, SOUND[base]))], True) == 0, capsys.readouterr().err


def test_two_faults_are_reported_at_once(tmp_path, capsys):
    folder = spoil(tmp_path / "site", FAULTS["bmc_twice"])
    path = folder / FABRIC
    path.write_text(path.read_text().replace("hca: mlx5_1:1", "bond: bond0").replace("mtu: 9000", "mtu: 90"))
    lines = read_problems(folder, capsys)
    assert len(lines) == 3
    for part in ("one RDMA connection is one flow", "90 is not an MTU", "already that of gpu1"):
        assert sum(part in line for line in lines) == 1


@pytest.mark.parametrize("name", ["units_without_gateway", "no_yaml"])
def test_the_command_itself_ends_with_2(name, tmp_path):
    folder = spoil(tmp_path / "site", FAULTS[name])
    done = programs.railyard("plan", "-i", folder, "--json", NO_COLOR="1")
    assert (done.returncode, done.stdout) == (2, "")
    assert FAULTS[name].message in done.stderr
    assert "Traceback" not in done.stderr


def railyard(*words: str | Path) -> programs.Done:
    """Run a command that has to answer in little memory."""
    return programs.railyard(*words, address_space_bytes=4 << 30)


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
        assert ("it has 1099511627776 bytes" if kind == "too_large" else "it is a pipe") in done.stderr
        assert ". Fix: " in done.stderr


def test_extra_variables_without_end_are_named_and_not_read(tmp_path):
    folder = write(tmp_path / "site", SOUND["pair"])
    done = railyard("validate", "-i", folder, "--", "-e", "@/dev/zero")
    assert done.returncode == 2
    assert "/dev/zero: it is a pipe" in done.stderr


@pytest.mark.minutes
def test_more_hosts_or_rails_than_there_can_be_are_refused_at_once(tmp_path):
    folder = write(tmp_path / "site", SOUND["pair"])
    hosts = (folder / "hosts.yml").read_text()
    (folder / "hosts.yml").write_text("gpu_nodes:\n  hosts:\n    gpu[1:99999]-[1:99999]:\n")
    assert "gpu[1:99999]-[1:99999] has 9999800001 hosts" in railyard("plan", "-i", folder).stderr
    (folder / "hosts.ini").write_text("[gpu_nodes]\ngpu[1:99999][a:z]\n")
    (folder / "hosts.yml").unlink()
    assert "gpu[1:99999][a:z] has 2599974 hosts" in railyard("plan", "-i", folder).stderr
    (folder / "hosts.ini").unlink()
    (folder / "hosts.yml").write_text(hosts)
    rail = "    - {{name: rail{0}, netdev: ens{0}, subnet: 10.0.0.0/24}}\n"
    for count, said in (
        (300, "fabric.rails: it has 300 entries"),
        (100000, "at most 2097152 are read"),
    ):
        rails = "".join(rail.format(number) for number in range(count))
        text = f"fabric:\n  transport: tcp\n  mtu: 9000\n  rails:\n{rails}"
        (folder / "group_vars/all/fabric.yml").write_text(text)
        done = railyard("plan", "-i", folder)
        assert done.returncode == 2
        assert said in done.stderr


@pytest.mark.minutes
def test_names_in_messages_cannot_write_to_the_terminal(tmp_path):
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
