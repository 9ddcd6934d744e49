# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A capture's folder: Railyard's, an operator's, and folders that are none."""

from __future__ import annotations

import json
import os

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet import capture
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet_capture import Capture, Command
from ansible_collections.railyard.fabric.plugins.module_utils.subnet import run
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import captures
from support import subnets

NET = subnets.make_net(1)
PORTS = subnets.print_ports(NET)


def made():
    commands = (
        Command(("ibnetdiscover", "-p"), "ibnetdiscover.txt", PORTS, "a\x1b[31m word\n", 0, 3.0, 0.5),
        Command(("smpquery", "pkeys", "5", "1"), "smpquery-pkeys-5-1.txt", "", "", None, 4.0, 60.0, True),
        Command(
            ("ibtracert", "-n", "5", "12"), "ibtracert-5-12.txt", "From {0x1}[1]\n", "no\n", 255, 5.0, 0.1
        ),
    )
    return Capture("gpu00", "mlx5_0", 1, 2.0, commands)


def test_what_is_written_is_loaded(tmp_path):
    captures.write(made(), str(tmp_path / "new"))
    assert captures.load(str(tmp_path / "new")) == made()
    names = ["capture.json", "ibnetdiscover.err", "ibnetdiscover.txt"]
    names += ["ibtracert-5-12.err", "ibtracert-5-12.txt", "smpquery-pkeys-5-1.txt"]
    assert sorted(os.listdir(tmp_path / "new")) == names


def test_what_the_module_returns_is_loaded():
    result = json.loads(json.dumps(run.as_document(made())))
    assert captures.from_result(result, "gpu00") == made()
    for broken in ({**result, "schema": 2}, {**result, "more": 1}, None, {**result, "commands": [{}]}):
        with pytest.raises(captures.CaptureError, match="gpu00: subnet_info"):
            captures.from_result(broken, "gpu00")


def test_a_folder_of_an_operator_is_read_by_its_file_names(tmp_path):
    (tmp_path / "ibnetdiscover.txt").write_text(subnets.print_topology(NET))
    (tmp_path / "iblinkinfo.txt").write_text(subnets.print_linkinfo(NET, by_line=False))
    (tmp_path / "iblinkinfo.err").write_text("something\n")
    (tmp_path / "notes.txt").write_text("not ours")
    os.utime(tmp_path / "iblinkinfo.txt", (50, 50))
    found = captures.load(str(tmp_path))
    assert [one.file for one in found.commands] == ["iblinkinfo.txt", "ibnetdiscover.txt"]
    assert (found.started_at_s, found.host, found.commands[0].rc) == (50.0, None, None)
    reading = capture.parse(found)
    assert [one.source.file for one in reading.problems] == ["iblinkinfo.err"]
    assert len(reading.devices) == len(NET.boxes)
    # Written again it stays a capture whose exit statuses are not known, and did not time out.
    captures.write(found, str(tmp_path / "copy"))
    assert captures.load(str(tmp_path / "copy")) == found


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({}, r"no file has the links of a subnet\. Write what `ibnetdiscover -p` prints"),
        ({"ibnetdiscover.txt": "  \n", "iblinkinfo.txt": ""}, "no file has the links"),
        ({"sminfo.txt": "x"}, "no file has the links"),
        ({"capture.json": "{"}, r"capture\.json: is not valid JSON .* Remove the file"),
        ({"capture.json": "[" * 100000}, r"capture\.json: is not valid JSON"),
        ({"capture.json": '{"schema": 2}'}, r"capture\.json: .* Remove the file"),
        ({"capture.json": "[]"}, r"capture\.json: is \[\], not an object"),
    ],
)
def test_folders_that_are_no_captures(tmp_path, names, message):
    for name, text in names.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(captures.CaptureError, match=message):
        captures.load(str(tmp_path))


def test_paths_in_the_index_lead_nowhere(tmp_path, monkeypatch):
    captures.write(made(), str(tmp_path / "one"))
    (tmp_path / "secret.txt").write_text(PORTS)
    index = json.loads((tmp_path / "one" / "capture.json").read_text())
    index["commands"][0]["file"] = "../secret.txt"
    (tmp_path / "one" / "capture.json").write_text(json.dumps(index))
    opened = []
    monkeypatch.setattr(
        captures, "_read", lambda path, read=captures._read: opened.append(path) or read(path)
    )
    with pytest.raises(captures.CaptureError, match="file"):
        captures.load(str(tmp_path / "one"))
    assert not [path for path in opened if "secret" in path]
    with pytest.raises(ValueError, match="not a file of a capture"):
        captures.write(
            made()._replace(commands=(made().commands[0]._replace(file="../x.txt"),)), str(tmp_path)
        )


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(captures.CaptureError, match=r"cannot be read .* Name a folder"):
        captures.load(str(tmp_path / "none"))
    (tmp_path / "ibnetdiscover.txt").mkdir()
    with pytest.raises(captures.CaptureError, match=r"ibnetdiscover\.txt: cannot be read"):
        captures.load(str(tmp_path))
    (tmp_path / "ibnetdiscover.txt").rmdir()
    (tmp_path / "ibnetdiscover.txt").write_bytes(b"\xff" + PORTS.encode())
    assert captures.load(str(tmp_path)).commands[0].stdout.startswith("\ufffd")
    monkeypatch.setattr(captures, "MOST_BYTES", 100)
    with pytest.raises(captures.CaptureError, match=r"larger than .* Remove it"):
        captures.load(str(tmp_path))
