"""docs/units.md reckons right: recomputed here from the factor in perftest's own source, 0x100000."""

from __future__ import annotations

import re

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.perftest.run import GBPS_PER_UNIT
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import significance
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
