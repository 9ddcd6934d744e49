# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvbandwidth's JSON of both forms; what is no whole run of it is not valid."""

from __future__ import annotations

import pytest
from support import captures
from support.runs import gpu_words

read, parse_valid, one, failed = captures.for_tool("nvbandwidth")
HOST = read("host_4_gpus.json")
PEERS = gpu_words.nvbandwidth(
    {"device_to_device_memcpy_read_ce": gpu_words.peers([276.1, 275.0, 276.1], 3)}, 3
)


@pytest.mark.parametrize("text", [HOST, read("host_4_gpus_0_7.txt")])
def test_matrices_of_host_and_gpus_and_the_gpus_addresses(text: str) -> None:
    output = one(text)
    assert [(test["test"], test["unit"], test["matrix"]) for test in output["tests"]] == [
        ("host_to_device_memcpy_ce", "GB/s", [[55.3, 55.2, 54.9, 27.4]]),
        ("device_to_host_memcpy_ce", "GB/s", [[55.1, 55.6, 55.5, 27.3]]),
    ]
    assert output["gpus"][3] == {"index": 3, "name": "NVIDIA H100 80GB HBM3", "pci": "0000:4b:00.0"}
    assert len(output["gpus"]) == 4


def test_what_was_not_copied_is_no_number() -> None:
    [test] = one(PEERS)["tests"]
    assert test["matrix"] == [[None, 275.0, 276.1], [275.0, None, 275.0], [276.1, 275.0, None]]


def test_a_waived_test_has_no_matrix_and_is_no_fault() -> None:
    waived = gpu_words.nvbandwidth({}, 1, testcases=[{"name": "all_to_host", "status": "Waived"}])
    assert one(waived)["tests"][0] == {
        "test": "all_to_host", "status": "Waived", "description": None, "unit": None, "matrix": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (HOST[: HOST.index("testcases")], "truncated"),
        (gpu_words.nvbandwidth({}, 2), "truncated"),
        (gpu_words.nvbandwidth({}, 2, error="[CUDA_ERROR_NO_DEVICE] no CUDA-capable device"), "tool_error"),
        (
            gpu_words.nvbandwidth({}, 2, error="ASSERT in expression h_errorFlag == 0 in memcmp"),
            "wrong_values",
        ),
        (" Invalid value when checking the pattern at 0x7f\n" + HOST, "wrong_values"),
        (HOST.replace('"Passed"', '"Running"', 1), "tool_error"),
        (HOST.replace('"54.9"', '"nan"'), "garbled"),
        (HOST.replace('"54.9"', '"-54.9"'), "garbled"),
        (PEERS.replace('"275"', "[]", 1), "garbled"),
        (HOST.replace("(GB/s)", "(GiB/s)", 1), "garbled"),
        (HOST + "Killed\n", "interrupted"),
    ],
)
def test_what_is_no_complete_run(text: str, kind: str) -> None:
    assert failed(text) == kind


# Of an H100 with driver 580.159.04 and nvbandwidth 0.8, by ourselves: the numbers were read in the files.
@pytest.mark.parametrize(
    ("name", "ways"), [("h100_host.json", [54.9485, 55.1744]), ("h100_host.txt", [55.06, 55.14])]
)
def test_copies_of_a_real_gpu(name: str, ways: list[float]) -> None:
    output = one(read(name))
    assert [test["matrix"] for test in output["tests"]] == [[[way]] for way in ways]
    assert output["gpus"] == [{"index": 0, "name": "NVIDIA H100 80GB HBM3", "pci": "0000:00:06.0"}]


def test_a_real_gpu_alone_has_no_peer_and_a_hidden_one_is_an_error() -> None:
    assert [test["status"] for test in one(read("h100_alone.json"))["tests"]] == ["Waived"]
    assert failed(read("h100_hidden.json")) == "tool_error"
    # nvbandwidth ended with 0 all the same.
    assert failed(read("h100_no_such_test.json")) == "tool_error"
