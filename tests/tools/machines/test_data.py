# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuse wrong data of the gallery by file and key, and show on a node what right data says."""

from __future__ import annotations

import dataclasses
import errno
import shutil

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts import ethtool
from support.machines import fields, machine, pair, stages, traffic

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


def test_what_is_repeated_is_written_for_each_row(tmp_path):
    file = tmp_path / "one.yml"
    text = 'a: {x: 1, repeat: {with: {n: [1, b], m: [2, 3]}, "k{n}": {v: "{m}", w: ["{n}.{other}"]}}, y: 2}\n'
    file.write_text(text)
    told = {"k1": {"v": 2, "w": ["1.{other}"]}, "kb": {"v": 3, "w": ["b.{other}"]}}
    assert list(fields.load(file)["a"].items()) == list({"x": 1, **told, "y": 2}.items())
    file.write_text(text.replace("[2, 3]", "[2]"))
    with pytest.raises(fields.DataError, match=r"one.yml: a: repeat.with: the lists must be of one length"):
        fields.load(file)


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
        assert ethtool.speed_max_mbps("enp225s0f0np0") == 100000
        assert ethtool.stats("lo") == {}
        assert ethtool.speed_max_mbps("eth9") is None


def variant(tmp_path, text):
    """Return the pair of a machine that has one more sick variant."""
    more = f"variants:\n  more:\n    what: x\n    source: x\n{text}"
    of = machine.read(changed(tmp_path, "variants:\n", more))
    (tmp_path / "nodes").mkdir()
    return pair.Pair(of, tmp_path / "nodes", of.variants["more"])


def test_a_statistic_of_ethtool_grows_while_a_test_runs(tmp_path):
    sick = variant(tmp_path, "    counters: {ethtool/rx_prio3_buf_discard: 7}\n    expect: {words: x}\n")
    found = [one for one in stages.judge(sick) if "rx_prio3_buf_discard" in one.text]
    assert {(one.outcome, one.cause, one.node) for one in found} == {("fail", "lossless_drops", "node2")}


@pytest.mark.parametrize("path", ["counters/symbol_eror", "ethtool/rx_prio9_pause"])
def test_a_counter_that_is_not_there_is_refused(tmp_path, path):
    sick = variant(tmp_path, f"    counters: {{{path}: 7}}\n    expect: {{words: x}}\n")
    with pytest.raises(fields.DataError, match=f"counters.{path}: .* has no such"):
        stages.judge(sick)


def test_results_that_are_not_there_are_refused_by_the_names_of_those_that_are(tmp_path):
    sick = variant(tmp_path, "    results: [{check: rdma_bandwith, gbps: 1}]\n    expect: {words: x}\n")
    with pytest.raises(fields.DataError, match=r"rdma_bandwith .*checks with results are .*rdma_bandwidth"):
        stages.judge(sick)


def test_the_nodes_number_is_in_macs_and_lids(tmp_path):
    text = '    node: {netdevs: {eno1: {mac: "b8:ce:f6:00:00:0{node}"}}}\n    on_nodes: [1, 2]\n'
    sick = variant(tmp_path, f"{text}    expect: {{words: x}}\n")
    macs = [one.tree.mac("eno1") for one in sick.nodes.values()]
    assert macs == ["b8:ce:f6:00:00:01", "b8:ce:f6:00:00:02"]


def test_packets_of_rdma_have_the_ports_mtu():
    spans = {"port_xmit_data": [0, 1024], "port_rcv_data": [0, 0]}
    row = {"counters": {**spans, "port_xmit_packets": [0, 1], "port_rcv_packets": [0, 1]}}
    assert traffic.Moved.from_row({**row, "active_mtu_bytes": 1024}).sent_packets == 4
    assert traffic.Moved.from_row({**row, "active_mtu_bytes": 4096}).sent_packets == 1
    assert traffic.Moved.from_row({**row, "active_mtu_bytes": None}).sent_packets == 1


def test_answers_of_nvidia_smi_come_before_what_is_described(tmp_path):
    of = pair.read("dgx-spark")
    node = of.with_changes(
        dataclasses.replace(
            next(iter(of.variants.values())),
            over={"tools": {"nvidia-smi": [{"arguments": "topo*", "stdout": "N/A", "exit": 6}]}},
        )
    )
    addresses = {}
    one = pair.Tree(tmp_path, 1, node, pair.drivers(), addresses)
    on = pair.NodeOn(one, "node1", {})
    assert on.answer(["nvidia-smi", "topo", "-m"]) == pair.Answer(6, "N/A", "")
    assert on.answer(["nvidia-smi", "--query-gpu=index", "--format=csv"]).out == "index\n0\n"


def test_empty_gid_entries_answer_einval(node):
    port = str(node.tree.root / "sys/class/infiniband/rocep225s0f0/ports/1")
    with node.kernel.running():
        with open(f"{port}/gids/4") as handle:
            assert handle.read().strip("0:\n") == ""
        with pytest.raises(OSError, match="Invalid argument") as refused, open(f"{port}/gid_attrs/types/4"):
            pass
    assert refused.value.errno == errno.EINVAL
