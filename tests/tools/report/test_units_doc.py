"""docs/units.md calculates right: recomputed here from the factor in perftest's own source, 0x100000."""

from __future__ import annotations

import re

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.perftest.run import GBPS_PER_UNIT
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import significance
from ansible_collections.railyard.fabric.plugins.plugin_utils.compare import runs
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.hops import (
    HOP_LEAST_US,
    HOP_MOST_US,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import outputs
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.comparison import three
from railyard.base.paths import repo_root

TEXT = (repo_root() / "docs/units.md").read_text(encoding="utf-8")
ONE_LINE = " ".join(TEXT.split())
# print_report_bw: `format_factor = (report_fmt == MBS) ? 0x100000 : 125000000`
PERFTEST_MBS, PERFTEST_GBS = 0x100000, 125000000


def from_document(pattern: str) -> float:
    found = re.search(pattern, ONE_LINE)
    assert found, pattern
    return float(found[1])


def test_perftests_megabyte_is_2_to_the_20():
    factor = from_document(r"the same number, 2\^20 bytes/s \| \S ([\d.]+)")
    assert factor == PERFTEST_MBS / PERFTEST_GBS
    # And the parser that reads it uses what the document says.
    assert GBPS_PER_UNIT["MiB/s"] == pytest.approx(factor, rel=1e-12)


def test_the_worked_example_is_right_and_the_wrong_one_is_the_notes():
    printed = from_document(r"prints `([\d.]+)` MB/sec")
    gbps = printed * PERFTEST_MBS * 8 / 1e9
    assert from_document(r"\S 2\^20 bytes/s \S 8 = ([\d.]+) \S 10\^9") == round(gbps, 1) == 38.2
    assert from_document(r"= ([\d.]+) % of 40") == round(100 * gbps / 40, 1) == 95.5
    assert (
        from_document(r"\S 10\^6 bytes/s \S 8 = ([\d.]+) \S 10\^9") == round(printed * 8e6 / 1e9, 1) == 36.4
    )
    tcp = from_document(r"iperf3's ([\d.]+) Gbit/s")
    assert from_document(r"that is ([\d.]+) % more") == round(100 * (gbps / tcp - 1), 1)
    assert from_document(r"\*([\d.]+) times faster\*") == round(gbps / tcp, 2)
    assert from_document(r"do not carry the ([\d.]+) Gbit/s") == round(2 * gbps, 1)


def test_what_a_connectx3_can_carry_at_most():
    # RoCE v1, 2048 bytes a packet: Ethernet 14 + FCS 4 + preamble 8 + gap 12, GRH 40, BTH 12, ICRC 4.
    share = 2048 / (2048 + 14 + 4 + 8 + 12 + 40 + 12 + 4)
    assert from_document(r"leave ([\d.]+) of 40 Gbit/s") == pytest.approx(40 * share, abs=0.005)


def test_pcie_3_x8_carries_what_the_document_says():
    # 8 GT/s a lane, 128 of 130 bits are data.
    assert from_document(r"PCIe 3.0 x8 slot \(([\d.]+) Gbit/s raw\)") == round(8 * 8 * 128 / 130, 1)


def test_sockperfs_bits_are_binary_too():
    assert from_document(r"so 2\^20 bit/s \| \S ([\d.]+)") == 2**20 / 1e9


def test_the_document_is_found():
    assert "docs/units.md" in (repo_root() / "README.md").read_text(encoding="utf-8")


def test_the_margins_of_a_comparison_are_the_codes():
    for name, margin in significance.MARGINS.items():
        told = f"| {name} | {margin.ranked:.0%} | {margin.apart:.0%} | ".replace("%", " %")
        assert told + (f"{margin.least:g} µs |" if margin.least else "|") in TEXT


def test_the_table_of_the_notes_says_what_their_outputs_say(tmp_path):
    kept, inventory = repo_root() / "docs/examples/back_to_back", repo_root() / "inventories/v100-pair"
    run = runs.read_run(outputs.make(kept, load.load([str(inventory)]), tmp_path).path)
    seen = {place.check: number.value for place, number in run.numbers.items()}
    write, tcp, latency, tcp_latency = (
        seen[f"{way}_{what}"] for what in ("bandwidth", "latency") for way in ("rdma", "tcp")
    )
    (table,) = registry.parse("sockperf", next(kept.glob("**/sockperf.txt")).read_text())["outputs"]
    behind_switch = [
        f"{three(us + HOP_LEAST_US)} to {three(us + HOP_MOST_US)} µs" for us in (latency, table["average_us"])
    ]
    rows = dict(
        row.strip("| ").split(" | ")[::2][:2] for row in TEXT.partition("| the notes |")[2].splitlines()[2:11]
    )
    assert rows["RDMA bandwidth"] == f"{three(write)} Gbit/s, {three(100 * write / 40)} % of 40"
    assert rows["TCP bandwidth"] == f"{three(tcp)} Gbit/s, {three(100 * tcp / 40)} %"
    assert rows["RDMA against TCP, bandwidth"] == f"{(write / tcp - 1) * 100:.1f} % more"
    times = f"{three(tcp_latency / latency)} times lower ({three(tcp_latency)} by {latency:g})"
    assert rows["RDMA against TCP, latency"] == times
    assert [rows[f"{way} latency behind a switch"] for way in ("RDMA", "TCP")] == behind_switch
