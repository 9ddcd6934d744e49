# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nccl-tests of all ages and options: further columns, one half alone, milliseconds, JSON, damaged tables."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from support import captures

_read, _whole, one, failed = captures.for_tool("nccl-tests")
BANNER = (
    "# nThread 1 nGpus 2 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 "
    "validation: 1 graph: 0\n#\n# Using devices\n"
    "#  Rank  0 Group  0 Pid   4100 on      node1 device  0 [0000:17:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid   4100 on      node1 device  1 [0000:3d:00] NVIDIA H100 80GB HBM3\n#\n"
)
CAPTION = "#                                  out-of-place                       in-place\n"
COLUMNS = "#       size         count      type   redop    root     "
HALF = "time   algbw   busbw  #wrong"
ROW = "          64            16     float     sum      -1 "
ONE, TWO = "   11.40    0.01    0.02       0", "   11.20    0.03    0.04       0"
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0.03 \n#\n"
IN = {"time_us": 11.2, "algbw_GBps": 0.03, "busbw_GBps": 0.04, "wrong": 0}
PLAIN = BANNER + CAPTION + COLUMNS + f"{HALF}   {HALF}\n" + ROW + ONE + TWO + "\n" + END


def nccl(text: str) -> dict[str, Any]:
    return registry.parse("nccl-tests", text)


def row(text: str) -> dict[str, Any]:
    """Return the one row of a text that must be valid."""
    (only,) = one(text)["rows"]
    return dict(only)


EACH = "    i_min    i_max    i_p99    i_cv%     "
CELLS = "    10.00    13.00    12.90     4.10"
COPY = HALF.replace("#wrong", "copybw  #wrong")


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        (f"{HALF}   {HALF}           timestamp", f"{ONE}{TWO}  2026-01-05 10:00:01"),
        (f"{HALF}{EACH}{HALF}{EACH}", f"{ONE}{CELLS}{TWO}{CELLS}"),
        (f"{COPY}   {COPY}", (ONE + TWO).replace("       0", "  22.00       0")),
    ],
    ids=["a time stamp", "each iteration", "work beside the collective"],
)
def test_further_columns_move_no_number(header, cells):
    assert row(f"{BANNER}{CAPTION}{COLUMNS}{header}\n{ROW}{cells}\n{END}") == row(PLAIN)


def test_one_half_alone():
    end = END.replace("0.03", "0.04")
    only = row(BANNER + "#            in-place\n" + COLUMNS + HALF + "\n" + ROW + TWO + "\n" + end)
    assert (only["out_of_place"], only["in_place"]) == (None, IN)
    blank = row(PLAIN.replace(ONE, " " * 32).replace(": 0.03", ": 0.04"))
    assert (blank["out_of_place"], blank["in_place"]) == (None, IN)


def test_floats_of_eight_bits():
    for name in ("f8e4m3", "fp8_e5m2"):
        assert row(PLAIN.replace("float", name).replace("   16 ", "   64 "))["dtype"] == name


def test_no_number_sign_before_anything():
    text = "\n".join(line.replace("#", "", 1) for line in PLAIN.split("\n")).replace("wrong", "#wrong")
    bare = text.replace("##", "#")
    assert row(bare) == row(PLAIN)
    assert nccl(bare)["outputs"][0]["gpus"] == 2


def test_milliseconds_of_2017():
    half = "     time  algbw  busbw      res"
    text = (
        "nThread 1 nGpus 2 minBytes 8 maxBytes 16 step: 8(bytes) warmup iters: 5 iters: 20 validation: 1\n"
        "#   Rank  0 on      node1 device  0 [0x06] Tesla V100-SXM2-16GB\n"
        "#   Rank  1 on      node2 device  0 [0x06] Tesla V100-SXM2-16GB\n"
        f"#      bytes             N    type      op{half}{half}\n"
        "          64            16   float     sum"
        "    0.022   0.01   0.02    0e+00    0.021   0.03   0.04    0e+00\n"
        " Out of bounds values : 0 OK\n Avg bus bandwidth    : 0.03\n\n"
    )
    read = row(text)
    assert (read["out_of_place"]["time_us"], read["in_place"]["time_us"]) == (22.0, 21.0)
    assert read["in_place"]["wrong"] is None
    output = nccl(text)["outputs"][0]
    assert (output["gpus"], output["nodes"], output["out_of_bounds"]) == (2, 2, 0)


def test_time_of_the_cpu_is_reported():
    found = nccl(PLAIN.replace("  time ", " cputime "))
    assert found["valid"] is True
    assert "CPU" in found["warnings"][0]


@pytest.mark.parametrize(
    ("was", "instead"),
    [
        ("Rank  1", "Rank 71"),
        # Torn by another program's message, before the number and behind it.
        ("Rank  1", "Ran12:13 NCCL INFO x\nk  1"),
        ("node1 device  1", "no12:13 NCCL INFO x\nde1 device  1"),
        ("#\n#       ", "#  Rank  1 Group  0 Pid   4100 on      node2 device  1 [0000:3d:00] GPU\n#       "),
    ],
)
def test_list_of_ranks_that_is_damaged_counts_no_gpus(was, instead):
    assert was in PLAIN
    output = nccl(PLAIN.replace(was, instead))["outputs"][0]
    assert (output["gpus"], output["nodes"]) == (None, None)


def test_rows_that_are_missing():
    again = ROW.replace("64 ", "32 ").replace("16 ", " 8 ") + ONE + "    9.20    0.05    0.06       0\n"
    text = PLAIN.replace(ROW, again + ROW).replace(": 0.03", ": 0.035")
    assert nccl(text)["valid"] is True
    assert failed(text.replace(": 0.035", ": 0.05")) == "inconsistent"
    assert failed(PLAIN.replace(": 0.03", ": 0.04")) == "inconsistent"


@pytest.mark.parametrize(
    "damaged", [ONE[:-4] + TWO, ONE + "node1:12:13 [0] NCCL INFO x", " " + TWO, ONE + TWO + "node1"]
)
def test_damaged_row(damaged):
    assert failed(PLAIN.replace(ONE + TWO, damaged + "\n" + ROW + ONE + TWO)) == "garbled"


@pytest.mark.parametrize(
    ("size", "count", "dtype", "valid"),
    [
        ("64", "16", "float", True),
        ("64", "32", "bfloat16", True),
        # Of two ranks that gather, and of a count below one element each.
        ("64", "8", "int32", True),
        ("0", "0", "float", True),
        ("4", "16", "float", False),
        ("64", "6", "float", False),
        ("66", "16", "float", False),
        ("64", "0", "float", False),
    ],
)
def test_bytes_are_count_times_type(size, count, dtype, valid):
    text = PLAIN.replace("64            16     float", f"{size}  {count}  {dtype}")
    assert nccl(text)["valid"] is valid
    assert valid or failed(text) == "inconsistent"


def test_share_of_the_ranks_is_the_same_in_each_row():
    again = ROW.replace("64 ", "32 ") + ONE + TWO + "\n"
    assert failed(PLAIN.replace(ROW, again + ROW)) == "inconsistent"
    assert nccl(PLAIN.replace(ROW, again.replace(" 16 ", " 8 ") + ROW))["valid"] is True


def test_each_run_has_its_own_collective():
    command = "$ ./build/{}_perf -b 64 -e 64 -g 2\n"
    first, second = command.format("all_reduce"), command.format("all_gather")
    for text, names in (
        (first + PLAIN + second + PLAIN, ["all_reduce", "all_gather"]),
        (PLAIN + second + PLAIN, [None, "all_gather"]),
        (first + PLAIN + PLAIN, ["all_reduce", None]),
        (
            PLAIN + "# Collective test concluded: all_reduce_perf\n" + second + PLAIN,
            ["all_reduce", "all_gather"],
        ),
    ):
        assert [output["collective"] for output in nccl(text)["outputs"]] == names


def test_table_whose_banner_is_lost_is_no_part_of_the_one_before():
    found = nccl(PLAIN + PLAIN[PLAIN.index(COLUMNS) :])
    assert [len(output["rows"]) for output in found["outputs"]] == [1, 1]
    assert failed(PLAIN + PLAIN[PLAIN.index(ROW) :]) == "garbled"


def test_swapped_columns():
    fast = PLAIN.replace("64            16", "524288        131072").replace(": 0.03", ": 80")
    for slow in ("0.01    0.02", "0.03    0.04"):
        fast = fast.replace(slow, "40.0    80.0")
    assert nccl(fast)["valid"] is True
    # The last two have lost a digit.
    for damaged in ("40.0   211.40", " 1.40    40.0", "11.40     0.0"):
        assert failed(fast.replace("11.40    40.0", damaged)) == "inconsistent"


def test_last_error_of_the_library_is_a_warning():
    assert "slow link" in nccl(PLAIN + "# error: slow link\n")["warnings"]


JSON: dict[str, Any] = {
    "version": 1,
    "start_time": "2026-01-05 10:00:00",
    "args": ["./build/all_reduce_perf", "-J", "out.json"],
    "env": ["LANG=C"],
    "nccl_version": 22900,
    "config": {
        "nthreads": 1,
        "ngpus": 2,
        "minimum_bytes": 64,
        "devices": [{"rank": 0, "hostname": "node1"}, {"rank": 2, "hostname": "node2"}],
    },
    "results": [
        {
            "size": 64,
            "count": 16,
            "type": "float",
            "redop": "sum",
            "root": "    -1",
            "out_of_place": {"time": 11.4, "alg_bw": 0.01, "bus_bw": 0.02, "nwrong": 0.0},
            "in_place": {"time": 11.2, "alg_bw": 0.03, "bus_bw": 0.04, "nwrong": 0.0},
        }
    ],
    "out_of_bounds": {"count": 0, "okay": "true"},
    "average_bus_bandwidth": {"bandwidth": 0.03, "okay": "unchecked"},
    "errors": [],
    "end_time": "2026-01-05 10:00:05",
}


def test_table_beside_the_json_is_reported():
    found = nccl(json.dumps(JSON) + "\n" + PLAIN)
    assert (found["valid"], len(found["outputs"])) == (True, 1)
    assert "table" in found["warnings"][0]


def test_json():
    assert row(json.dumps(JSON)) == row(PLAIN)
    output = nccl(json.dumps(JSON))["outputs"][0]
    assert {key: value for key, value in output.items() if key != "rows"} == {
        "collective": "all_reduce",
        "gpus": 4,
        "nodes": 2,
        "average_busbw_GBps": 0.03,
        "out_of_bounds": 0,
    }


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"out_of_bounds": {"count": 3, "okay": "false"}}, "wrong_values"),
        ({"average_bus_bandwidth": {"bandwidth": 0.03, "okay": "false"}}, "below_limit"),
        ({"results": []}, "truncated"),
        ({"out_of_bounds": None}, "truncated"),
        ({"results": [{"out_of_place": {"time": "nan", "alg_bw": 1.0, "bus_bw": 1.0}}]}, "garbled"),
    ],
)
def test_json_that_is_no_good_result(changes, kind):
    assert failed(json.dumps({**JSON, **changes})) == kind


def test_json_cut_anywhere():
    text = json.dumps(JSON)
    for length in range(text.index("config") + 30, len(text), 17):
        assert failed(text[:length]) == "truncated"
    unended = {key: value for key, value in JSON.items() if key != "end_time"}
    assert failed(json.dumps(unended)) == "truncated"
