# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parsers of fio and nccl-tests."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from support.captures import failed, parse_failed, parse_valid, read


def fio(text: str) -> dict[str, Any]:
    return registry.parse("fio", text)


def nccl(text: str) -> dict[str, Any]:
    return registry.parse("nccl-tests", text)


NCCL = read("nccl-tests", "all_reduce_checked.txt")
FIO = read("fio", "randrw_3x.json").partition("\n")[2]


def test_fio_gives_a_row_per_job_and_direction_with_traffic():
    outputs = parse_valid("fio", FIO)
    assert outputs == [
        {
            "name": "mix",
            "rw": "read",
            "pattern": "randrw",
            "block_bytes": 4096,
            "bandwidth_bytes_per_s": 1000000.0,
            "iops": 250.5,
            "latency_mean_us": 100.0,
            "latency_p99_us": 200.0,
            "io_bytes": 40960,
            "duration_s": 0.041,
            "errors": 0,
        },
        {
            "name": "mix",
            "rw": "write",
            "pattern": "randrw",
            "block_bytes": 16384,
            "bandwidth_bytes_per_s": 4000000.0,
            "iops": 244.1,
            "latency_mean_us": 200.0,
            "latency_p99_us": 400.0,
            "io_bytes": 163840,
            "duration_s": 0.041,
            "errors": 0,
        },
    ]


def test_fio_2_has_kibibytes_and_microseconds():
    (output,) = fio(read("fio", "write_2x.json"))["outputs"]
    assert output["bandwidth_bytes_per_s"] == 1024000
    assert (output["latency_mean_us"], output["latency_p99_us"]) == (500.0, 900.0)
    assert output["block_bytes"] is None
    # Its io_bytes are KiB.
    assert output["io_bytes"] is None


def test_fio_text_before_the_json_is_no_error():
    assert fio(read("fio", "randrw_3x.json"))["valid"] is True


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (FIO.replace('"error" : 0', '"error" : 5', 1), "job_error"),
        ("fio: pid=9, err=28/file:x, error=No space left on device\n" + FIO, "io_error"),
        ("fio: job file not found\n", "tool_error"),
        (FIO.rstrip()[:-1], "truncated"),
        (FIO + "Terminated\n", "interrupted"),
        ('{"fio version": "fio-3.33", "jobs": []}', "no_data"),
    ],
)
def test_fio_failures(text, kind):
    assert failed("fio", text) == kind


def test_nccl_rows_from_the_right():
    found = nccl(NCCL)
    assert (found["valid"], found["warnings"]) == (True, [])
    (output,) = found["outputs"]
    assert {key: value for key, value in output.items() if key != "rows"} == {
        "collective": None,
        "gpus": 2,
        "nodes": 2,
        "average_busbw_GBps": 4.28,
        "out_of_bounds": 0,
    }
    assert output["rows"][1] == {
        "bytes": 2097152,
        "count": 524288,
        "dtype": "float",
        "redop": "sum",
        "out_of_place": {"time_us": 480.0, "algbw_GBps": 4.37, "busbw_GBps": 4.37, "wrong": 0},
        "in_place": {"time_us": 479.0, "algbw_GBps": 4.38, "busbw_GBps": 4.38, "wrong": 0},
    }


def test_nccl_blank_redop_and_old_error_column():
    blank = NCCL.replace("     sum      -1", "                ")
    assert nccl(blank)["outputs"][0]["rows"][0]["redop"] is None
    assert nccl(blank)["outputs"][0]["rows"][0]["count"] == 262144
    old = NCCL.replace("#wrong", " error").replace("      0\n", "  1e-07\n")
    assert nccl(old)["outputs"][0]["rows"][0]["in_place"]["wrong"] is None
    assert nccl(old)["outputs"][0]["out_of_bounds"] == 0


def test_nccl_not_checked_is_no_zero():
    found = nccl(NCCL.replace("      0    ", "    N/A    ").replace("      0\n", "    N/A\n"))
    assert found["outputs"][0]["out_of_bounds"] is None
    assert "not checked" in found["warnings"][0]


@pytest.mark.parametrize(("name", "checked"), [("h100_alltoall.txt", 0), ("h100_not_checked.txt", None)])
def test_nccl_tests_of_one_real_gpu_measure_no_bus(name, checked):
    """An alltoall is checked, though not in place; with one GPU there is no bus, however large algbw is."""
    found = parse_failed("nccl-tests", read("nccl-tests", name), "not_measured")
    assert found["warnings"] == ([] if checked == 0 else ["the values were not checked (-c 0)"])
    (output,) = found["outputs"]
    assert (output["gpus"], output["average_busbw_GBps"], output["out_of_bounds"]) == (1, 0.0, checked)


def test_nccl_tests_that_found_too_few_real_gpus_failed():
    found = nccl(read("nccl-tests", "h100_two_of_one.txt"))
    assert found["error"] == {"class": "tool_error", "message": "Test failure common.cu:1454"}


def test_nccl_wrong_values_in_scientific_notation():
    found = nccl(NCCL.replace("4.18      0\n", "4.18 1.57286e+06\n"))
    assert found["outputs"][0]["rows"][0]["in_place"]["wrong"] == 1572860
    assert found["error"]["class"] == "wrong_values"
    assert failed("nccl-tests", NCCL.replace("0 OK", "7 FAILED")) == "wrong_values"


def test_nccl_failure_of_a_rank():
    text = (
        NCCL[: NCCL.index("     2097152")]
        + "gpuserver1: Test NCCL failure common.cu:958 'unhandled system error'\n"
    )
    assert failed("nccl-tests", text) == "tool_error"


def test_nccl_below_its_own_limit_is_no_complete_result():
    found = parse_failed("nccl-tests", NCCL.replace(": 4.28", ": 4.28 FAILED"), "below_limit")
    assert found["outputs"][0]["average_busbw_GBps"] == 4.28
    assert nccl(NCCL.replace(": 4.28", ": 4.28 OK"))["valid"] is True


def test_nccl_average_that_is_cut_is_none():
    upto = NCCL.index(": 4.28") + len(": 4.2")
    for text in (NCCL[:upto], NCCL[: upto + 1]):
        assert failed("nccl-tests", text) == "truncated"
    assert nccl(NCCL[: upto + 2])["valid"] is True
    assert nccl(NCCL[: upto + 1] + " ")["valid"] is True


def test_nccl_of_one_gpu_measures_no_bus():
    alone = "".join(line for line in NCCL.splitlines(keepends=True) if "Rank  1" not in line)
    assert failed("nccl-tests", alone) == "not_measured"
    assert failed("nccl-tests", NCCL.replace(": 4.28", ": 0")) == "not_measured"
