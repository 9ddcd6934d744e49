# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Output as users paste it: a tool's other form, an older spelling, a capture without its first lines."""

from __future__ import annotations

import re

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from support.captures import failed, one, parse_valid, read

# nvbandwidth's text

TEXT = read("nvbandwidth", "text_3_gpus.txt")


def test_nvbandwidth_text_of_one_gpu():
    output = one("nvbandwidth", read("nvbandwidth", "text_1_gpu.txt"))
    assert (output["version"], output["driver_version"]) == ("v0.8", "570.00.00")
    assert output["gpus"] == [{"index": 0, "name": "NVIDIA H100 80GB HBM3", "pci": "0000:0f:00.0"}]
    assert output["tests"] == [
        {
            "test": "host_to_device_memcpy_ce",
            "status": "Passed",
            "description": "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)",
            "unit": "GB/s",
            "matrix": [[55.0]],
        }
    ]


def test_nvbandwidth_text_has_a_matrix_for_each_direction_and_waived_tests():
    tests = one("nvbandwidth", TEXT)["tests"]
    both = "device_to_device_bidirectional_memcpy_read_ce"
    assert [(test["test"], test["status"], test["unit"]) for test in tests] == [
        ("device_to_host_memcpy_ce", "Passed", "GB/s"),
        (f"{both}_read1", "Passed", "GB/s"),
        (f"{both}_total", "Passed", "GB/s"),
        (None, "Waived", None),
        ("host_device_latency_sm", "Passed", "ns"),
    ]
    assert tests[0]["matrix"] == [[55.1, 55.6, 27.3]]
    assert tests[2]["matrix"] == [[None, 550.2, 552.4], [550.2, None, 549.8], [552.4, 549.8, None]]
    assert tests[3]["matrix"] is None


def test_nvbandwidth_text_of_older_versions():
    # Up to 0.2 what was not copied is 0.00, and a test that was waived is named.
    old = re.sub("N/A", "0.00", TEXT).replace("Waived: ", "Waiving device_to_device_memcpy_write_ce.")
    tests = one("nvbandwidth", old)["tests"]
    assert tests[1]["matrix"][0] == [None, 275.1, 276.2]
    assert (tests[3]["test"], tests[3]["status"]) == ("device_to_device_memcpy_write_ce", "Waived")


def test_nvbandwidth_text_of_several_nodes_names_processes():
    devices = "".join(f"Process {n} (gpu{n}): device 0: NVIDIA GB200 (00000008:01:00)\n" for n in range(3))
    text = re.sub(r"(?:Device [0-9].*\n)+", devices, TEXT)
    assert [(gpu["index"], gpu["pci"]) for gpu in one("nvbandwidth", text)["gpus"]] == [
        (n, "0008:01:00.0") for n in range(3)
    ]


def test_nvbandwidth_text_without_its_first_lines_and_twice():
    part = TEXT[TEXT.index("memcpy CE CPU") :]
    (output,) = parse_valid("nvbandwidth", part)
    assert (output["version"], output["gpus"], output["tests"][0]["test"]) == (
        None,
        [],
        "device_to_host_memcpy_ce",
    )
    assert len(parse_valid("nvbandwidth", TEXT + "\n" + TEXT)) == 2


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("SUM device_to_host_memcpy_ce 138.00\n", "", "truncated"),
        ("SUM device_to_host_memcpy_ce 138.00", "SUM device_to_host_memcpy_ce 137.00", "inconsistent"),
        # A row that is missing, a cell that lost its digits, a row that was torn.
        (" 1    275.10       N/A    274.90\n", "", "inconsistent"),
        ("55.60", "5.60", "inconsistent"),
        ("55.10     55.60     27.30", "55.10     55.60", "garbled"),
        ("55.60", "nan", "garbled"),
        ("55.60", "-55.60", "garbled"),
        (" 0     55.10     55.60     27.30\n\n", "Killed\n", "interrupted"),
        (" 0     55.10     55.60     27.30\n", "", "truncated"),
        (
            "memory latency",
            "[CUDA_ERROR_OUT_OF_MEMORY] out of memory in expression cuMemAlloc in f() : a.cpp:1\nx",
            "tool_error",
        ),
        (
            "memory latency",
            " Invalid value when checking the pattern at 0x70a6\n Current offset : 11136\n"
            "ASSERT in expression h_errorFlag == 0 in void f() : memcpy.cpp:165\nx",
            "wrong_values",
        ),
        (TEXT[TEXT.index("memory latency") :], "", "truncated"),
        (TEXT[TEXT.index("Running") :], "", "truncated"),
    ],
)
def test_nvbandwidth_text_that_is_no_complete_run(old, new, kind):
    text = TEXT.replace(old, new, 1)
    assert (text != TEXT, failed("nvbandwidth", text)) == (True, kind)


@pytest.mark.parametrize("text", ["Running setup.\n", "SUM x_ce 1.00\n", "Device 0: NVIDIA H100\n"])
def test_words_that_other_programs_print_too_are_not_nvbandwidths(text):
    with pytest.raises(registry.NotThisTool):
        registry.parse("nvbandwidth", text)


# dcgmi nvlink --link-status

LINKS = read("dcgmi", "nvlink_status.txt")
SWITCHES = LINKS.replace("    No NvSwitches found.", "    physicalId 8:\n        U X _ D")


@pytest.mark.parametrize(
    ("text", "states", "down"),
    [
        (LINKS, {}, []),
        (
            SWITCHES,
            {(None, 8): ["Up", "Disabled", "Not Supported", "Down"]},
            ["NVSwitch 8: link 3 is down"],
        ),
    ],
)
def test_dcgmi_links(text, states, down):
    found = {}
    for link in one("dcgmi", text)["links"]:
        found.setdefault((link["gpu"], link["switch"]), []).append(link["state"])
    assert found == {(0, None): ["Up", "Up", "Up", "Down"], **states}
    assert registry.parse("dcgmi", text)["warnings"] == ["GPU 0: link 3 is down", *down]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (LINKS[: LINKS.index("Key:")], "truncated"),
        (LINKS.replace("        U U U D\n", ""), "truncated"),
        (re.sub(r"    gpuId 0:\n.*\n", "    No GPUs found.\n", LINKS), "no_data"),
    ],
)
def test_dcgmi_links_that_are_cut(text, kind):
    assert failed("dcgmi", text) == kind


def test_dcgmi_without_its_host_engine_is_a_failure_without_the_command_line_too():
    # As DCGM 3 and 4 print it, on one line each.
    text = (
        "Error: unable to establish a connection to the specified host: localhost\n"
        "Error: Unable to connect to host engine. Host engine connection invalid/disconnected.\n"
    )
    assert failed("dcgmi", text) == "tool_error"


def test_dcgmi_failure_is_not_read_out_of_a_table_or_a_legend():
    config = "+------+\n| DCGM |\n| Compute Mode | Not Supported |\n+------+\n"
    for text in (config, "dcgm\n" + LINKS[LINKS.index("Key:") :]):
        with pytest.raises(registry.NotThisTool):
            registry.parse("dcgmi", text)
    refused = (
        "Error: Unable to retrieve NvLink link status from DCGM. Return: This operation is not supported.\n"
    )
    assert failed("dcgmi", "dcgmi nvlink -s\n" + refused) == "tool_error"


# aws-ofi-nccl's older spelling


@pytest.mark.parametrize("end", ["", " (found 4 nics)", ", fabric is efa (found 1 nics)"])
@pytest.mark.parametrize("word", ["Provider", "provider"])
def test_efa_is_the_provider_in_every_spelling(word, end):
    text = read("nccl-log", "efa_old_spelling.txt")
    other = text.replace("Selected Provider is efa", f"Selected {word} is efa{end}")
    output = one("nccl-log", other)
    assert (output["provider"], output["transport"]) == ("efa", "AWS Libfabric")


def test_messages_of_the_level_attn_belong_to_no_other():
    text = read("nccl-log", "efa_old_spelling.txt")
    notice = "node-a:11:12 [0] plugin/net.cc:312 NCCL ATTN NET/IB : No device found\n"
    output = one("nccl-log", notice + text)
    assert (output["warnings"], output["provider"]) == ([], "efa")
    # A rank's words end where another's notice breaks in.
    glued = text.replace("\n", notice, 1)
    assert one("nccl-log", glued)["provider"] == "efa"


# nccl-tests without the line of its options

RANKS = read("nccl-tests", "no_nthread_line.txt")


@pytest.mark.parametrize("gone", ["", "# Using devices\n"])
def test_nccl_tests_without_its_first_lines_counts_gpus_and_nodes(gone):
    text = RANKS.replace(gone, "", 1) if gone else RANKS
    output = one("nccl-tests", text)
    assert (output["gpus"], output["nodes"]) == (2, 2)
    assert len(parse_valid("nccl-tests", text + text)) == 2


def test_nccl_tests_with_ranks_and_no_table_has_no_result():
    assert failed("nccl-tests", RANKS[: RANKS.index("#\n")]) == "truncated"


# nvidia-smi -q without its banner

LOG = """Timestamp                                 : Fri Sep 17 11:09:53 2021
Driver Version                            : 550.54.15
CUDA Version                              : 12.4

Attached GPUs                             : 2
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    GPU UUID                              : GPU-00000000-0000-0000-0000-000000000000
    Processes                             : None
GPU 00000000:2B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    GPU UUID                              : GPU-00000000-0000-0000-0000-000000000001
    Processes                             : None
"""


@pytest.mark.parametrize("lines", [0, 1])
def test_nvidia_smi_log_without_its_banner(lines):
    text = LOG.split("\n", lines)[-1]
    banner = "\n==============NVSMI LOG==============\n\n"
    assert parse_valid("nvidia-smi-query", text) == parse_valid("nvidia-smi-query", banner + text)
    (output,) = parse_valid("nvidia-smi-query", text)
    assert output["driver_version"] == "550.54.15"
    assert [gpu["pci.bus_id"] for gpu in output["gpus"]] == ["00000000:1B:00.0", "00000000:2B:00.0"]
    assert len(parse_valid("nvidia-smi-query", text + text)) == 2


def test_nvidia_smi_log_that_begins_further_down_is_cut():
    # Neither how many GPUs there are nor the driver is in it.
    assert failed("nvidia-smi-query", LOG[LOG.index("GPU 00000000:1B") :]) == "truncated"
    with pytest.raises(registry.NotThisTool):
        registry.parse("nvidia-smi-query", LOG[: LOG.index("Attached")])


# sockperf's statistics without the line of the average


def test_sockperf_average_is_that_of_the_summary():
    text = read("sockperf", "pp_tcp.txt")
    bare = re.sub(r"(?m)^.*====> avg-.*\n", "", text)
    assert bare != text
    (expected,), (output,) = parse_valid("sockperf", text), parse_valid("sockperf", bare)
    assert output == {**expected, "stdev_us": None}


def test_sockperf_statistics_alone_do_not_say_that_the_test_ended():
    text = read("sockperf", "pp_tcp.txt")
    for line in ("sockperf: Summary: ", "Summary: "):
        bare = text[text.index("sockperf: Summary: ") :].replace("sockperf: Summary: ", line, 1)
        found = registry.parse("sockperf", bare)
        assert found["outputs"][0]["average_us"] == one("sockperf", text)["average_us"]
        assert (found["valid"], found["error"]["class"]) == (False, "truncated")
        assert "may have been interrupted" in found["error"]["message"]
