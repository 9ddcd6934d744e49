# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue of figures: whole, read where it says, and right where its usual source is wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import bounds, slots
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import figures
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import hops

PLUGIN_UTILS = Path(figures.__file__).parents[1]
TEXTS = {str(path.relative_to(PLUGIN_UTILS)): path.read_text() for path in PLUGIN_UTILS.glob("*/**/*.py")}
# What is read by a rule, and not by its own name.
BY_RULE = {
    "infiniband": "in figures.FIGURES.values()",
    "pcie_code": 'figures.read_value(f"pcie_code_to_{gts}_gts")',
}
KEYS = {"name", "group", "what", "class", "value", "unit", "message_bytes", "source", "read_by", "note"}


@pytest.mark.parametrize("row", figures.FIGURES.values(), ids=lambda row: str(row["name"]))
def test_a_figure_has_source_class_and_message_and_is_read_where_it_says(row: dict[str, Any]) -> None:
    assert set(row) == KEYS | ({"rate_gbps"} if row["group"] == "infiniband" else set())
    assert all(isinstance(row[key], str) for key in KEYS - {"value", "message_bytes"})
    assert all(row[key] for key in KEYS - {"value", "message_bytes", "note"})
    assert row["group"] in figures.GROUPS
    assert "|" not in "".join(str(cell) for cell in row.values())
    size = row["message_bytes"]
    assert size is None or (isinstance(size, int) and size > 0)
    if row["group"] == "none":
        # There is no floor without a published reference.
        assert (row["value"], row["read_by"]) == (None, figures.NOTHING)
        return
    assert figures.read_value(row["name"]) > 0
    if row["read_by"] != figures.NOTHING:
        rule = next((how for word, how in BY_RULE.items() if word in row["name"]), None)
        by_name = re.compile(rf"figures\.read_value\([\"']{row['name']}[\"']\)")
        assert rule in TEXTS[row["read_by"]] if rule else by_name.search(TEXTS[row["read_by"]])


def test_names_are_unique_and_what_is_read_says_so() -> None:
    text = (PLUGIN_UTILS / "checks/figures.json").read_text(encoding="utf-8")
    assert text.count('"name": ') == len(figures.FIGURES)
    read = {
        (name, file)
        for file, text in TEXTS.items()
        for name in re.findall(r"figures\.read_(?:value|source)\([\"'](\w+)[\"']\)", text)
    }
    assert len(read) > 10
    assert [one for one in read if figures.FIGURES[one[0]]["read_by"] != one[1]] == []
    assert {row["group"] for row in figures.FIGURES.values()} == set(figures.GROUPS)


# From the specifications and the vendors' numbers of links, not from the catalogue.
SDR_GBPS, CODE_8B10B = 2.5, 8 / 10
RIGHT = {
    "infiniband_sdr_1x": SDR_GBPS * CODE_8B10B,
    "infiniband_ddr_1x": 2 * SDR_GBPS * CODE_8B10B,
    "infiniband_sdr_4x": 4 * SDR_GBPS * CODE_8B10B,
    "infiniband_ddr_4x": 4 * 2 * SDR_GBPS * CODE_8B10B,
    "infiniband_qdr_4x": 4 * 4 * SDR_GBPS * CODE_8B10B,
    "infiniband_fdr_4x": 4 * 14.0625 * 64 / 66,
    "infiniband_hdr_4x": 200.0,
    "infiniband_ndr_4x": 400.0,
    "infiniband_ldr_8x": 8 * 800.0,
    "pcie_code_to_5_gts": CODE_8B10B,
    "pcie_code_to_32_gts": 128 / 130,
    "pcie_code_to_64_gts": 236 / 256,
    # All to all and peer to peer apart: 7 links join the 8 GPUs, one each.
    "xgmi_mi300x_all_to_all": 7 * 64.0,
    "xgmi_mi300x_peer_to_peer": 64.0,
    # 24 ports, of which 3 leave the node: 21 inside, 3 to each of the 7 others.
    "gaudi2_all_to_all": 21 * 100 / 8,
    "gaudi2_peer_to_peer": 3 * 100 / 8,
    "gaudi3_all_to_all": 21 * 200 / 8,
    "gaudi3_peer_to_peer": 3 * 200 / 8,
    # One direction: 160, 300, 600, 900 and 1800 are both.
    "nvlink_1_all_to_all": 160 / 2,
    "nvlink_2_all_to_all": 300 / 2,
    "nvlink_3_all_to_all": 600 / 2,
    "nvlink_4_all_to_all": 900 / 2,
    "nvlink_5_all_to_all": 1800 / 2,
    "efa_v1": 4 * 100.0,
    "efa_v2": 32 * 100.0,
    "efa_v3": 16 * 200.0,
    # perftest's "MB" is 2^20 bytes.
    "connectx3_gbps": 4554.47 * 2**20 * 8 / 1e9,
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_sources_get_wrong_is_right_here(name: str) -> None:
    assert figures.read_value(name) == pytest.approx(RIGHT[name], rel=1e-3)


def test_the_bounds_are_the_catalogues() -> None:
    assert (bounds.TCP_FLOOR_SHARE, bounds.RDMA_FLOOR_SHARE, bounds.CEILING_TOLERANCE) == (0.8, 0.9, 1.02)
    assert (bounds.ONE_CORE_GBPS, bounds.MOST_GBPS, bounds.LEAST_MESSAGE_BYTES) == (15.0, 100.0, 65536)
    assert (bounds.FEW_STREAMS, bounds.MANY_STREAMS) == (4, 12)
    assert (bounds.BOTH_WAYS_SHARE, bounds.SHARED_SLOT_SHARE) == (0.8, 0.9)
    assert bounds._INFINIBAND_DATA_GBPS == {2.5: 2.0, 5.0: 4.0, 10.0: 8.0, 20.0: 16.0, 40.0: 32.0, 56.0: 54.5}
    assert slots._CODES == ((5.0, 8 / 10), (32.0, 128 / 130), (64.0, 236 / 256))
    assert slots.PACKETS_SHARE == 0.905
    assert (hops.HOP_LEAST_US, hops.HOP_MOST_US) == (0.3, 1.0)
