# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parsers of show_gids, ethtool and nvidia-smi nvlink."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from support.captures import failed, parse_failed, parse_valid, read, shows


def outputs(tool: str, name: str) -> list[dict[str, Any]]:
    return parse_valid(tool, read(tool, name))


def test_show_gids_with_blank_cells():
    (output,) = outputs("show_gids", "mixed.txt")
    rows = [(one["index"], one["ipv4"], one["type"], one["netdev"]) for one in output["gids"]]
    assert rows == [
        (0, None, "RoCE v1", "ens6"),
        (2, "10.0.1.1", "RoCE v1", "ens6"),
        (3, "10.0.1.1", "RoCE v2", "ens6"),
        (0, None, "IB", None),
    ]
    assert output["gids"][1]["device"] == "mlx4_0"
    assert output["gids"][1]["gid"] == "0000:0000:0000:0000:0000:ffff:0a00:0101"


def test_show_gids_count_must_agree():
    text = read("show_gids", "mixed.txt")
    for wrong in (text.replace("n_gids_found=4", "n_gids_found=5"), text.replace("n_gids_found=4\n", "")):
        assert failed("show_gids", wrong) == "truncated"


def test_ethtool_of_both_calls_is_one_netdev():
    assert outputs("ethtool", "both.txt") == [
        {
            "driver": "mlx4_en",
            "version": "4.0-0",
            "firmware": "2.42.5000",
            "bus": "0000:06:00.0",
            "speed_mbps": 40000,
            "link_detected": True,
        }
    ]


def test_ethtool_of_two_netdevs():
    both = registry.parse("ethtool", read("ethtool", "both.txt") + read("ethtool", "veth_down.txt"))
    assert [one["driver"] for one in both["outputs"]] == ["mlx4_en", "veth"]


def test_ethtool_without_link_has_what_the_text_has():
    (output,) = outputs("ethtool", "veth_down.txt")
    shows(output, driver="veth", link_detected=False, bus=None, firmware=None)
    unknown = registry.parse("ethtool", read("ethtool", "both.txt").replace("40000Mb/s", "Unknown!"))
    assert unknown["outputs"][0]["speed_mbps"] is None


def test_ethtool_failures():
    assert failed("ethtool", read("ethtool", "no_device.txt")) == "no_device"


def test_nvlink_speeds_and_inactive_links():
    first, second = outputs("nvidia-smi-nvlink", "two.txt")
    assert (first["gpu"], first["name"]) == (0, "Tesla V100-SXM2-16GB")
    assert first["links"][0] == {"link": 0, "speed_gbytes_per_s": 25.781, "active": True}
    assert second["links"][1] == {"link": 1, "speed_gbytes_per_s": None, "active": False}


def test_nvlink_cut_or_failed():
    text = read("nvidia-smi-nvlink", "two.txt")
    assert registry.parse("nvidia-smi-nvlink", text.rstrip()[:-3])["valid"] is False
    text = "NVIDIA-SMI has failed because it couldn't communicate\n"
    assert failed("nvidia-smi-nvlink", text) == "tool_error"


def test_ethtool_of_a_user_who_is_not_root():
    text = (
        "Settings for ens1np0:\n\tSpeed: 100000Mb/s\n"
        "Cannot get wake-on-lan settings: Operation not permitted\n\tLink detected: yes\n"
    )
    found = registry.parse("ethtool", text)
    assert (found["valid"], found["outputs"][0]["speed_mbps"]) == (True, 100000)
    assert "wake-on-lan" in found["warnings"][0]
    assert failed("ethtool", text.replace("\tLink detected: yes\n", "")) == "permission"


@pytest.mark.parametrize(
    "behind", ["GPU 1: ", "GPU 1: Tesla V100-SXM2-16GB (UUID: GPU-1)", "GPU 1: Tesla V100 "]
)
def test_verdict_of_nvlink_on_the_gpus_own_line(behind):
    said = "NVML: Unable to retrieve NVLink information as all links are inActive"
    found = parse_failed("nvidia-smi-nvlink", f"{behind}{said}\n", "tool_error")
    assert said in found["error"]["message"]
    assert all("NVML" not in output["name"] for output in found["outputs"])
