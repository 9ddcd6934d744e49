"""`railyard fabric` on captured text: what it prints, writes, and ends with."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.module_utils.records import subnet_json
from railyard.base.errors import UserError
from railyard.fabric import command, folders
from railyard.fabric.wanted import SlurmForm
from support.programs import REPO, railyard
from support.small_fabric import HOST, LEAF, SPINE, TAKEN_AT_S, cut, make_net, write_capture

DAY_S = 86400.0


def the_folder(tmp_path):
    return sorted((tmp_path / "reports" / "mine" / "fabric").iterdir())[-1]


NOTHING = command.Expected()


def test_a_healthy_fabric_is_read_from_text(read, tmp_path, capsys):
    assert read(write_capture(tmp_path / "capture", make_net())) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "No fault found. 8 of 8 adapters, 2 leaves, 2 spines read."
    assert any(
        line.startswith("No previous reading: links that were lost before this one") for line in printed
    )
    folder = the_folder(tmp_path)
    assert printed[-1] == f"Report: {folder / 'index.html'}"
    assert sorted(path.name for path in folder.iterdir()) == [
        "capture", "fabric.svg", "findings.json", "index.html", "reading.json",
    ]  # fmt: skip
    reading = subnet_json.load(json.loads((folder / "reading.json").read_text()))
    assert len(reading.devices) == 12
    # What was stored is a capture itself, and says the same.
    assert command.judge_captures([command._load(folder / "capture")], NOTHING, ())[
        0
    ].subnet.reading.devices == (reading.devices)


def test_a_link_that_was_there_before_is_lost(read, tmp_path, capsys):
    read(write_capture(tmp_path / "before", make_net()))
    net = make_net()
    cut(net, (LEAF + 1, 3))
    capsys.readouterr()
    assert read(write_capture(tmp_path / "after", net, TAKEN_AT_S + DAY_S)) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("1 link lost: gpu03 rail1. 7 of 8 adapters, 2 leaves, 2 spines read.\n")
    assert "since 2026-09-" in printed
    assert "No previous reading" not in printed


def test_an_earlier_capture_is_not_compared_with_a_later_one(read, tmp_path, capsys):
    net = make_net()
    cut(net, (LEAF + 1, 3))
    read(write_capture(tmp_path / "later", make_net(), TAKEN_AT_S + DAY_S))
    capsys.readouterr()
    assert read(write_capture(tmp_path / "earlier", net)) == 1
    assert "No previous reading" in capsys.readouterr().out


def test_a_damaged_earlier_reading_is_reported_and_passed_over(read, tmp_path, capsys):
    capture = write_capture(tmp_path / "capture", make_net())
    read(capture)
    (the_folder(tmp_path) / "reading.json").write_text("{")
    capsys.readouterr()
    assert read(capture) == 0
    assert "reading.json is not compared" in capsys.readouterr().out


def test_json_is_what_the_folder_has(read, tmp_path, capsys):
    net = make_net()
    cut(net, (LEAF, 1))
    assert read(write_capture(tmp_path / "capture", net), as_json=True) == 1
    document = json.loads(capsys.readouterr().out)
    folder = the_folder(tmp_path)
    assert document.pop("folder") == str(folder)
    assert document == json.loads((folder / "findings.json").read_text())
    (subnet,) = document["subnets"]
    (finding,) = [one for one in subnet["findings"] if one["severity"] == "fail"]
    assert (finding["node"], finding["rail"]) == ("gpu01", "rail0")
    assert document["status"] == 1
    assert subnet["coverage"]["found_ports"] == 7


def test_next_steps_name_the_inventory(read, tmp_path, inventory):
    net = make_net()
    capture = write_capture(tmp_path / "capture", net)
    for path in (*capture.glob("sminfo*"), capture / "saquery-s.txt"):
        path.unlink()
    read(capture)
    page = (the_folder(tmp_path) / "index.html").read_text()
    assert "INVENTORY" not in page
    assert f"railyard fabric -i {inventory}" in page


def test_one_subnet_that_was_captured_twice_is_judged_once(read, tmp_path, capsys):
    captures = [write_capture(tmp_path / name, make_net()) for name in ("one", "two")]
    assert read(*captures, as_json=True) == 0
    assert len(json.loads(capsys.readouterr().out)["subnets"]) == 1


def test_rails_that_are_subnets_of_their_own(read, tmp_path, capsys):
    captures = [write_capture(tmp_path / f"rail{rail}", make_net(rails=(rail,))) for rail in (0, 1)]
    target = tmp_path / "slurm"
    target.mkdir()
    assert read(*captures, slurm_topology=target) == 0
    assert capsys.readouterr().out.startswith("No fault found. 8 of 8 adapters, 2 leaves, 4 spines read.")
    folder = the_folder(tmp_path)
    assert {"capture-2", "reading-2.json", "fabric-2.svg"} <= {path.name for path in folder.iterdir()}
    assert "SwitchName=su1 Nodes=gpu[01-04]" in (target / "topology.conf").read_text()
    assert folders.find_previous(
        subnet_json.load(json.loads((folder / "reading-2.json").read_text())),
        folders.load_earlier(tmp_path / "reports" / "mine", TAKEN_AT_S + DAY_S).readings,
    ).devices.keys() >= {f"0x{LEAF + 1:016x}"}  # fmt: skip


@pytest.mark.parametrize("form", list(SlurmForm))
def test_slurms_file_is_written_and_written_again(read, tmp_path, form):
    capture, target = write_capture(tmp_path / "capture", make_net()), tmp_path / "slurm"
    target.mkdir()
    for _time in range(2):
        assert read(capture, slurm_topology=target, slurm_form=form) == 0
    (path,) = target.iterdir()
    assert path.name == ("topology.yaml" if form is SlurmForm.YAML else "topology.conf")
    text = path.read_text()
    if form is SlurmForm.YAML:
        assert [one["topology"] for one in yaml.safe_load(text)] == ["tree", "block"]
    else:
        assert ("BlockName=" in text) is (form is SlurmForm.BLOCK)


@pytest.mark.parametrize(
    ("existing", "form", "why"),
    [
        ("topology.yaml", SlurmForm.TREE, "Slurm ignores topology.conf beside topology.yaml"),
        ("topology.conf", SlurmForm.YAML, "Slurm ignores topology.conf beside topology.yaml"),
        ("topology.conf", SlurmForm.BLOCK, "was not written by railyard"),
    ],
)
def test_another_file_of_slurm_is_left_alone(read, tmp_path, existing, form, why):
    target = tmp_path / "slurm"
    target.mkdir()
    (target / existing).write_text("SwitchName=mine Nodes=gpu[01-04]\n")
    with pytest.raises(UserError, match=why) as error:
        read(write_capture(tmp_path / "capture", make_net()), slurm_topology=target, slurm_form=form)
    assert error.value.exit_status == 2
    assert not (tmp_path / "reports").exists()
    assert (target / existing).read_text() == "SwitchName=mine Nodes=gpu[01-04]\n"


def test_a_reading_is_kept_without_a_topology_that_is_refused(read, tmp_path, capsys):
    target = tmp_path / "slurm"
    target.mkdir()
    with pytest.raises(UserError, match="Slurm does not have gpu04"):
        read(
            write_capture(tmp_path / "capture", make_net()),
            slurm_topology=target,
            slurm_nodes="gpu[01-03],login1",
        )
    assert not list(target.iterdir())
    assert (the_folder(tmp_path) / "index.html").is_file()
    assert "No fault found." in capsys.readouterr().out


def test_hosts_are_written_by_rail_group(read, tmp_path):
    file = tmp_path / "hosts"
    read(write_capture(tmp_path / "capture", make_net()), rank_order=file)
    lines = file.read_text().splitlines()
    assert [line for line in lines if line[0] != "#"] == ["gpu01", "gpu02", "gpu03", "gpu04"]
    assert "# NCCL_CROSS_NIC=0" in lines


def test_the_drawing_alone_is_on_standard_output(read, tmp_path, capsys):
    read(write_capture(tmp_path / "capture", make_net()), svg="-")
    printed = capsys.readouterr().out
    assert printed.startswith("<svg ")
    assert printed == (the_folder(tmp_path) / "fabric.svg").read_text()


def test_a_fabric_without_infiniband_is_wrong_input(read, tmp_path):
    with pytest.raises(UserError, match="no node of hgx-h100-roce has InfiniBand") as error:
        read(
            write_capture(tmp_path / "capture", make_net()),
            inventory=[str(REPO / "inventories" / "hgx-h100-roce")],
        )
    assert error.value.exit_status == 2


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir()])
def test_a_folder_that_is_no_capture_is_wrong_input(read, tmp_path, make):
    make(tmp_path / "nothing")
    with pytest.raises(UserError, match="nothing") as error:
        read(tmp_path / "nothing")
    assert error.value.exit_status == 2


def test_a_capture_of_something_else_cannot_be_read(read, tmp_path):
    folder = tmp_path / "capture"
    folder.mkdir()
    (folder / "ibnetdiscover.txt").write_text("bash: ibnetdiscover: command not found\n")
    with pytest.raises(UserError, match="nothing of the fabric could be read") as error:
        read(folder)
    assert error.value.exit_status == 3


def test_text_of_a_device_stays_text(read, tmp_path, capsys):
    """A NodeDescription may hold anything: escape codes, HTML, paths."""
    net = make_net()
    evil = '\x1b[31m<script>alert(1)</script>../../x"'
    net.boxes[HOST] = net.boxes[HOST]._replace(name=evil)
    net.boxes[SPINE + 1] = net.boxes[SPINE + 1]._replace(name=evil)
    read(write_capture(tmp_path / "capture", net), svg=str(tmp_path / "drawn.svg"))
    folder = the_folder(tmp_path)
    for text in (
        capsys.readouterr().out,
        (folder / "index.html").read_text(),
        (folder / "fabric.svg").read_text(),
    ):
        assert "\x1b" not in text
        assert "alert(1)" in text
    assert "<script" not in (folder / "index.html").read_text()
    assert "<script" not in (folder / "fabric.svg").read_text()
    assert {path.parent for path in tmp_path.rglob("*.svg")} == {tmp_path, folder}


def test_each_drawn_fault_leads_to_its_finding(read, tmp_path):
    net = make_net()
    read(write_capture(tmp_path / "before", make_net()))
    cut(net, (LEAF + 1, 3))
    cut(net, (LEAF, 5))
    read(write_capture(tmp_path / "after", net, TAKEN_AT_S + DAY_S))
    folder = the_folder(tmp_path)
    page = (folder / "index.html").read_text()
    anchors = set(re.findall(r'<li id="(finding-[0-9]+)"', page))
    led = set(re.findall(r'href="#(finding-[0-9]+)"', page))
    assert len(led) == 2
    assert led <= anchors
    alone = re.findall(r'href="index.html#(finding-[0-9]+)"', (folder / "fabric.svg").read_text())
    assert set(alone) == led


def test_readings_are_no_runs(read, tmp_path):
    """They are beside run folders, which other verbs list."""
    read(write_capture(tmp_path / "capture", make_net()))
    reports = tmp_path / "reports"
    done = railyard("report", "mine", "--reports-dir", reports)
    assert (done.returncode, "is no run folder" in done.stderr) == (2, True)
    assert railyard("runs", "metrics", "--reports-dir", reports).returncode == 0
    done = railyard("runs", "prune", "mine", "--reports-dir", reports)
    assert done.returncode == 0, done.stderr
    assert the_folder(tmp_path).is_dir()


def test_the_verb_takes_captures(tmp_path, inventory):
    capture = write_capture(tmp_path / "capture", make_net())
    done = railyard("fabric", "-i", inventory, "--from", capture, "--reports-dir", tmp_path / "reports")
    assert (done.returncode, done.stderr) == (0, "")
    done = railyard("fabric", "-i", inventory, "--from", capture, "--host", "gpu01")
    assert (done.returncode, "--from reads no node" in done.stderr) == (2, True)
