# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module: check mode changes nothing, absent brings back what was, a refused file leaves no trace."""

from __future__ import annotations

import json

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rdma import opensm_apply
from ansible_collections.railyard.fabric.plugins.module_utils.rdma.opensm_partitions import (
    HEADER,
    PartitionsError,
)
from ansible_collections.railyard.fabric.plugins.modules import opensm_partitions
from support.nodes.module import FakeModule
from support.pkeys import write_table

OPEN = {"32767": {"members": "all"}}
GUID = "0x0000000000000011"
SITE = b"# caf\xe9\r\nDefault=0x7fff : ALL=full ;\r\n"


class Node:
    """A node with an opensm that takes each file, unless it is to refuse the next."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.refuse, self.starts = folder, False, 0
        self.path, self.record = folder / "partitions.conf", folder / "record.json"
        monkeypatch.setattr(opensm_partitions, "make_opensm", lambda params: self.opensm())

    def opensm(self):
        log = self.folder / "opensm.log"
        log.touch()
        tables = {"file": 0xFFFF}

        def restart():
            self.starts += 1
            line = "Nov 27 21:26:26 612766 [82627740] 0x80 -> Entering MASTER state\n"
            if self.refuse:
                line += (
                    "Nov 27 21:26:26 612766 [8] 0x01 -> parse_part_conf: PARSE ERROR: line 2: bad PortGUID\n"
                )
                self.refuse = False
            with log.open("a") as handle:
                handle.write(line)
            text = self.path.read_bytes() if self.path.exists() else b""
            tables["file"] = 0x7FFF if b"ALL=limited" in text else 0xFFFF
            return ""

        def ask(argv):
            return write_table([0xFFFF if argv[-1] == GUID else tables["file"]])

        port = opensm_apply.LocalPort(GUID)
        return opensm_apply.Opensm((port,), (str(log),), restart, ask, sleep=lambda _seconds: None)

    def hold(self, check_mode=False, **params):
        given = {
            "state": "present",
            "partitions": OPEN,
            "ports": {"gpu1": {"rail0": GUID}, "gpu2": {"rail0": "0x21"}},
            "managers": [GUID],
            "unit": "opensm.service",
            "restart": True,
            "mtu_4096": False,
            "path": str(self.path),
            "log": "/var/log/opensm.{guid}.log",
            "record": str(self.record),
            "limit_s": 5,
            **params,
        }
        return opensm_partitions.hold(FakeModule(given, check_mode=check_mode))

    def files(self):
        return {path.name: path.read_bytes() for path in self.folder.iterdir() if path.name != "opensm.log"}


@pytest.fixture
def node(tmp_path, monkeypatch):
    return Node(tmp_path, monkeypatch)


LIMITED = {"32767": {"members": {"all": "limited", "gpu1": "full"}}}


def test_check_mode_shows_the_same_and_writes_nothing(node):
    node.path.write_bytes(SITE)
    planned = node.hold(check_mode=True)
    assert planned["changed"]
    assert node.files() == {"partitions.conf": SITE}
    assert node.starts == 0
    done = node.hold()
    assert planned["diff"] == done["diff"]
    assert done["diff"]["after"].startswith(HEADER)
    assert "ALL=full" in done["diff"]["before"]
    # It ends in JSON, which knows no half characters.
    json.dumps(done, ensure_ascii=False).encode()
    assert not node.hold()["changed"]
    assert node.starts == 1


@pytest.mark.parametrize("before", [None, SITE])
def test_absent_brings_back_what_was_there(node, before):
    if before is not None:
        node.path.write_bytes(before)
    was = node.files()
    node.hold()
    node.hold(partitions=LIMITED)
    assert node.hold(state="absent", check_mode=True)["changed"]
    assert node.record.exists()
    gone = node.hold(state="absent")
    assert (gone["changed"], gone["left"]) == (True, False)
    assert node.files() == was
    assert node.starts == 3
    assert not node.hold(state="absent")["changed"]


def test_absent_without_a_restart_starts_nothing(node):
    node.hold()
    node.hold(state="absent", restart=False)
    assert node.starts == 1
    assert node.files() == {}


def test_absent_leaves_what_somebody_has_changed_since(node):
    node.hold()
    node.path.write_text("# mine now\n")
    gone = node.hold(state="absent")
    assert (gone["changed"], gone["left"]) == (True, True)
    assert node.files() == {"partitions.conf": b"# mine now\n"}


def test_a_refused_file_leaves_the_earlier_one_with_its_record(node):
    node.path.write_bytes(SITE)
    node.hold()
    earlier = node.files()
    node.refuse = True
    with pytest.raises(PartitionsError, match="line 2: bad PortGUID"):
        node.hold(partitions=LIMITED)
    assert node.files() == earlier
    # So that it is known for Railyard's, and the site's comes back.
    node.hold(state="absent")
    assert node.files() == {"partitions.conf": SITE}


def test_a_first_file_that_is_refused_leaves_no_record(node):
    node.refuse = True
    with pytest.raises(PartitionsError):
        node.hold()
    assert node.files() == {}


def test_both_is_taken_where_opensm_conf_beside_the_file_allows_it(node):
    partitions = {**OPEN, "16": {"members": {"gpu1": "full", "gpu2": "both"}}}
    with pytest.raises(PartitionsError, match="allow_both_pkeys"):
        node.hold(partitions=partitions, check_mode=True)
    (node.folder / "opensm.conf").write_text("allow_both_pkeys TRUE\n")
    assert "=both" in node.hold(partitions=partitions, check_mode=True)["diff"]["after"]
