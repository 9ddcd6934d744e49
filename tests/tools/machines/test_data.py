# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuse wrong data of the gallery by file and key, and show on a node what right data says."""

from __future__ import annotations

import errno
import shutil

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts import ethtool, link_errors
from support.machines import fields, machine, pair

BASE = "connectx5-100g"


def changed(tmp_path, old, new):
    """Return the folder of a machine whose data has another text in one place."""
    folder = tmp_path / BASE
    shutil.copytree(pair.GALLERY / BASE, folder)
    file = folder / "machine.yml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    return folder


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("stack: inbox", "stak: inbox", "connectx5-100g/machine.yml: `stack` is missing"),
        ("stack: inbox", "stack: doca", "machine.yml.stack: must be one of inbox, vendor, not 'doca'"),
        ("  cpus: 8", "  cpus: 8\n  cpu: 8", "machine.yml.node: unknown key 'cpu'; known are kernel"),
        ("  cpus: 8", "  cpus: many", "machine.yml.node.cpus: must be int, not 'many'"),
        ("  cpus: 8", "  cpus: 8\n  cpus: 9", "key 'cpus' stands twice"),
        ("link: 8.0 GT/s x16", "link: Gen3 x16", "must be like `16.0 GT/s x16`, or none, not 'Gen3 x16'"),
        ('below: "0000:e0:03.1"', 'below: "0000:e0:09.1"', "below: 0000:e0:09.1 is no function of `pci`"),
        ("netdev: enp225s0f0np0", "netdev: eth9", "rdma.rocep225s0f0.ports.1.netdev: there is no eth9"),
        ("{errno: EPERM}", "{errno: EWRONG}", "errno: 'EWRONG' is no name of errno.h"),
        ("{carrier: false}", "{carier: false}", "unknown key 'carier'"),
        ("cause: no_gid}", "cause: no_gid, chek: x}", "variants.no_ipv4_gid.expect: unknown key 'chek'"),
        ("stage: quick, cause: no_gid", "stage: quik, cause: no_gid", "stage: must be one of preflight"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_by_file_and_key(tmp_path, old, new, says):
    folder = changed(tmp_path, old, new)
    with pytest.raises(fields.DataError) as refused:
        machine.read(folder)
    assert says in str(refused.value)


def test_texts_that_yaml_takes_for_numbers_stay_texts(tmp_path):
    file = tmp_path / "one.yml"
    file.write_text("a: 0x0\nb: 00:1b:21\nc: 12\nd: 1:30\ne: 2026-01-01\nf: 4.5\n1: x\n")
    told = {"a": "0x0", "b": "00:1b:21", "c": 12, "d": "1:30", "e": "2026-01-01", "f": 4.5, "1": "x"}
    assert fields.load(file) == told


def test_a_null_takes_a_key_out_and_a_list_replaces():
    base = {"a": {"b": 1, "c": 2}, "d": [1, 2]}
    assert fields.merged(base, {"a": {"b": None}, "d": [3]}) == {"a": {"c": 2}, "d": [3]}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    made = pair.Pair(pair.read(BASE), tmp_path_factory.mktemp("node"))
    return made.nodes["node1"]


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("words", b"words\n"),
        (7, b"7\n"),
        ({"empty": True}, b""),
        ({"hex": "00ff"}, b"\x00\xff"),
        ({"zeros_bytes": 10_000_000}, bytes(10_000_000)),
        ({"missing": True}, errno.ENOENT),
        ({"errno": "EPERM"}, errno.EPERM),
        ({"link": "proc/sys/kernel/osrelease"}, b"6.8.0-45-generic\n"),
    ],
)
def test_a_file_is_what_the_data_says(node, content, wanted):
    node.tree.put("sys/a/file", content)
    path = str(node.tree.root / "sys/a/file")
    with node.kernel.running():
        try:
            with open(path, "rb") as handle:
                seen = handle.read()
        except OSError as error:
            seen = error.errno
    assert seen == wanted


def test_ioctls_answer_for_the_machine(node):
    with node.kernel.running():
        assert ethtool.stats("enp225s0f0np0")["link_down_events_phy"] == 2
        assert link_errors.ethtool_statistics("enp225s0f0np0")["link_down_events_phy"] == 2
        assert ethtool.speed_max_mbps("enp225s0f0np0") == 100000
        assert ethtool.stats("lo") == {}
        assert ethtool.speed_max_mbps("eth9") is None


def test_empty_gid_entries_answer_einval(node):
    port = str(node.tree.root / "sys/class/infiniband/rocep225s0f0/ports/1")
    with node.kernel.running():
        with open(f"{port}/gids/4") as handle:
            assert handle.read().strip("0:\n") == ""
        with pytest.raises(OSError, match="Invalid argument") as refused, open(f"{port}/gid_attrs/types/4"):
            pass
    assert refused.value.errno == errno.EINVAL
