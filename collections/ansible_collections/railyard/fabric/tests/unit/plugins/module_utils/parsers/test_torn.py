# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A capture that tore with another glued to it: what belongs to the second is not given to the first."""

from __future__ import annotations

import re

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from support.captures import failed, one, read

SAID = "Conflicting CPU frequency values detected: 1200.000000 != 3100.000000. CPU Frequency is not max.\n"


@pytest.mark.parametrize(
    ("tool", "name", "upto"),
    [
        ("ibstat", "dual_port.txt", "\tFirmware v"),
        ("ibstatus", "two.txt", "\trate:"),
        ("ibv_devinfo", "verbose.txt", "\tnode_guid:"),
        ("rdma-link", "text.txt", " physical_"),
        # The first word of the one comes after a letter of the other.
        ("ibstat", "dual_port.txt", "\tCA t"),
        ("nvidia-smi-nvlink", "two.txt", "GPU 1: Tes"),
        ("nvidia-smi-nvlink", "two.txt", "(UUID: GPU-0"),
    ],
)
def test_glued_in_the_middle_of_a_line(tool, name, upto):
    text = read(tool, name)
    found = registry.parse(tool, text[: text.rindex(upto) + len(upto)] + text)
    assert found["valid"] is False
    assert found["error"]["class"] in ("garbled", "truncated")


def test_title_behind_a_line_that_was_cut():
    text = read("perftest", "write_bw_gbps_client.txt").lstrip("-\n")
    torn = text[: text.index("ransport type")].replace("rxe0", "rxe1").replace(": 1\t", ": 4\t")
    assert failed("perftest", torn + text) == "truncated"


def test_two_clients_at_once():
    text = read("perftest", "write_bw_gbps_client.txt")
    other = text.replace("rxe0", "rxe1").replace("99.00 ", "98.00 ").replace("100.00 ", "99.90 ")
    lines, others = text.splitlines(keepends=True), other.splitlines(keepends=True)
    rows = next(at for at, line in enumerate(lines) if "#bytes" in line)
    # Both headers, then the other's rows; line by line; the other between two rows.
    for mixed in (
        lines[:rows] + others + lines[rows:],
        [line for pair in zip(lines, others, strict=True) for line in pair],
        lines[: rows + 2] + others + lines[rows + 2 :],
    ):
        assert failed("perftest", "".join(mixed)) == "garbled"


def test_gids_whose_beginning_is_cut():
    text = read("show_gids", "mixed.txt")
    assert failed("show_gids", text[text.index("lx4_0") :]) == "garbled"


@pytest.mark.parametrize("upto", ["", "Su", "Speed: 40000Mb/s\n\tD", "Speed: 40000Mb/s\n"])
def test_speed_of_another_netdev(upto):
    second = "\tSpeed: 10000Mb/s\n\tLink detected: yes\n"
    assert failed("ethtool", f"Settings for ens1:\n\t{upto}Settings for ens2:\n{second}") == "truncated"


def test_ranks_of_a_table_that_never_came():
    text = read("nccl-tests", "all_reduce_checked.txt")
    found = registry.parse("nccl-tests", text[: text.index("count")] + text)
    assert (found["valid"], found["error"]["class"], len(found["outputs"])) == (False, "truncated", 2)


def test_header_of_one_test_with_the_table_of_another():
    first, second = read("perftest", "send_bw_server.txt"), read("perftest", "write_bw_mib_client.txt")
    found = registry.parse("perftest", first[: first.index(" Link type")] + "\n" + second)
    assert found["valid"] is False
    torn, parse_valid = found["outputs"]
    assert torn["rows"] == []
    assert parse_valid == registry.parse("perftest", second)["outputs"][0]


def test_gpus_of_two_nodes():
    table = (
        "| NVIDIA-SMI 570.86.15              Driver Version: 570.86.15      CUDA Version: 12.8     |\n"
        "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |                    0 |\n"
    )
    end = "| Processes:                                                                              |\n"
    found = registry.parse("nvidia-smi-query", table + end + table + end)
    assert (found["valid"], [len(one["gpus"]) for one in found["outputs"]]) == (True, [1, 1])
    assert registry.parse("nvidia-smi-query", table + table + end)["valid"] is False


def test_version_of_sockperf_that_tore():
    text = read("sockperf", "pp_tcp.txt")
    found = registry.parse("sockperf", "sockperf: == version #3" + text)
    assert found["outputs"][-1]["version"] == "3.7"


@pytest.mark.parametrize("kept", ["LIN", "LINK_UP", "LINK_UP (5"])
def test_half_a_physical_state(kept):
    text = read("ibv_devinfo", "verbose.txt")
    assert failed("ibv_devinfo", text[: text.rindex("LINK_UP")] + kept) == "truncated"


@pytest.mark.parametrize(
    ("tool", "name", "header"),
    [
        ("perftest", "write_bw_mib_client.txt", "#bytes"),
        ("perftest", "write_lat_client.txt", "#bytes"),
        ("nccl-tests", "all_reduce_checked.txt", "(B)"),
    ],
)
def test_row_that_standard_error_tore(tool, name, header):
    """Wherever in a row the message comes, its pieces are rows of their own in no case."""
    text = read(tool, name)
    rows = registry.parse(tool, text)["outputs"][0]["rows"]
    start = text.index("\n", text.index(header)) + 1
    for place in range(start + 1, text.index("\n", start) + 1):
        found = registry.parse(tool, text[:place] + SAID + text[place:])
        if found["valid"]:
            assert found["outputs"][0]["rows"] == rows, text[start:place]
        else:
            assert found["error"]["class"] in ("garbled", "inconsistent"), text[start:place]


@pytest.mark.parametrize(
    ("tool", "name", "upto"),
    [
        ("show_gids", "mixed.txt", "\t10.0."),
        ("show_gids", "mixed.txt", "v1\te"),
        ("rdma-link", "rxe_details.txt", "physical_state L"),
        ("rdma-link", "rxe_details.txt", "netdev ens6d"),
        ("ibv_devinfo", "verbose.txt", "transport:\t\t\tInfini"),
        ("ibv_devinfo", "verbose.txt", "\tstate:\t\t"),
        ("ibstat", "dual_port.txt", "\tState: "),
        ("ibstat", "dual_port.txt", "Firmware version: 2.42"),
        ("show_gids", "mixed.txt", "m"),
        ("nvidia-smi-nvlink", "two.txt", "GPU 0: Tesla V1"),
        ("iperf3", "text_2_streams_client.txt", "[  7] local 10"),
        ("iperf3", "text_udp_client.txt", "0.969 ms"),
    ],
)
def test_message_in_the_middle_of_a_word(tool, name, upto):
    text = read(tool, name)
    place = text.index(upto) + len(upto)
    found = registry.parse(tool, text[:place] + SAID + text[place:])
    assert (found["valid"], found["error"]["class"]) in ((False, "garbled"), (False, "truncated"))


@pytest.mark.parametrize(
    ("tool", "name", "other", "upto"),
    [
        ("ibstat", "dual_port.txt", ("mlx4_0", "mlx4_1"), "\tCA "),
        ("ibstatus", "two.txt", ("mlx5_0", "mlx5_9"), "\tdefault"),
        ("ibv_devinfo", "verbose.txt", ("mlx5_0", "mlx5_1"), "\ttrans"),
    ],
)
def test_device_that_begins_in_the_line_of_another(tool, name, other, upto):
    text = read(tool, name)
    torn = text.replace(*other)
    torn = torn[: torn.index(upto) + len(upto)]
    assert failed(tool, torn + text) in ("truncated", "garbled")


def test_streams_of_two_runs_of_iperf3():
    text = read("iperf3", "text_2_streams_client.txt")
    torn = text[: text.index("KBytes") + len("KBytes")]
    assert failed("iperf3", torn + text) == "truncated"
    # Twice the same line is one stream.
    doubled = re.sub(r"(\[  7\] local .*\n)", r"\1\1", text)
    assert one("iperf3", doubled)["streams"] == 2


def test_reverse_mode_that_a_message_tore():
    text = read("iperf3", "text_reverse_client.txt")
    for before in ("Rever", "Reverse mode, "):
        output = one("iperf3", text.replace(before, before + SAID))
        assert output["directions"] == one("iperf3", text)["directions"]


def test_run_of_iperf3_that_begins_in_the_line_of_another():
    reverse, text = read("iperf3", "text_reverse_client.txt"), read("iperf3", "text_2_streams_client.txt")
    torn = reverse[: reverse.index("[  5]   0.00")] + "[  5]   0.00-1.0"
    text = text[text.index("Connecting") :]
    assert failed("iperf3", torn + text) == "truncated"
    sums = [line for line in text.splitlines() if line.endswith("receiver")]
    assert failed("iperf3", text.replace(sums[-1], f"{sums[-1]}\n{sums[-1]}")) == "garbled"
