# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parsers of nvidia-smi topo and query, dcgmi and mlnx_qos; the texts are by hand."""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from support import captures
from support.captures import failed, one, parse_valid

TOPO = captures.read("nvidia-smi-topo", "two_gpus.txt")
QOS = captures.read("mlnx_qos", "dscp.txt")
CSV = captures.read("nvidia-smi-query", "two_gpus.csv")


@pytest.mark.parametrize("text", [TOPO, TOPO.expandtabs(8)], ids=["tabs", "blanks"])
def test_topology(text):
    assert one("nvidia-smi-topo", text) == {
        "gpus": ["GPU0", "GPU1"],
        "nics": {"NIC0": "mlx5_0"},
        "links": {
            "GPU0": {"GPU1": "NV18", "NIC0": "PIX"},
            "GPU1": {"GPU0": "NV18", "NIC0": "SYS"},
            "NIC0": {"GPU0": "PIX", "GPU1": "SYS"},
        },
        "cpu_affinity": {"GPU0": "0-31,64-95", "GPU1": "32-63"},
        "numa": {"GPU0": 0, "GPU1": 1},
        "damaged_rows": [],
    }


def test_two_interfaces_are_two_outputs():
    lossy = QOS.replace("enabled     0   0   0   1", "enabled     0   0   0   0").replace(
        "dscp\n", "pcp\n", 1
    )
    first, second = one("mlnx_qos", QOS), one("mlnx_qos", lossy)
    assert first["pfc"] != second["pfc"]
    assert registry.parse("mlnx_qos", QOS + lossy)["outputs"] == [first, second]
    # Whatever the first one has lost at either end, nothing of the second is given to it.
    lines = QOS.splitlines(keepends=True)
    for at in range(1, len(lines) - 1):
        for torn in (lines[:at], lines[at:]):
            found = registry.parse("mlnx_qos", "".join(torn) + lossy)
            left, right = found["outputs"]
            assert right == second
            assert not found["valid"] or left == first, torn
            assert all(left[key] in (None, first[key]) for key in ("trust", "pfc", "buffers_bytes"))
            assert (left["dscp_to_priority"] or {}).items() <= first["dscp_to_priority"].items()


def test_csv_of_two_runs_is_two_outputs():
    output = one("nvidia-smi-query", CSV)
    header, rows = CSV.split("\n", 1)
    # -l prints the header once.
    for text in (CSV + CSV, CSV + rows):
        assert parse_valid("nvidia-smi-query", text) == [output, output]
    assert failed("nvidia-smi-query", CSV + header + "\n") == "truncated"
    # Serial numbers that are not known tell no GPUs apart.
    unknown = re.sub("^([01]),", "[N/A],", CSV.replace("index", "serial"), flags=re.M)
    assert len(one("nvidia-smi-query", unknown)["gpus"]) == 2


def test_second_form_in_a_file_is_reported():
    table = (
        "| NVIDIA-SMI 570.86.15              Driver Version: 570.86.15      CUDA Version: 12.8     |\n"
        "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |                    0 |\n"
        "| Processes:                                                                              |\n"
    )
    found = registry.parse("nvidia-smi-query", table + CSV)
    assert (found["valid"], found["outputs"]) == (True, [one("nvidia-smi-query", table)])
    assert "CSV" in found["warnings"][0]


def test_damaged_and_missing_rows_are_named():
    damaged = registry.parse("nvidia-smi-topo", TOPO.replace("NV18\t X \tSYS", "NV18 X SYSSYS"))
    assert (damaged["valid"], damaged["outputs"][0]["damaged_rows"]) == (False, ["GPU1"])
    assert failed("nvidia-smi-topo", TOPO.split("NIC0\tPIX", maxsplit=1)[0]) == "truncated"


def test_message_behind_the_affinity_is_no_numa_node():
    found = registry.parse("nvidia-smi-topo", TOPO.replace("32-63\t1", "32-63WARNING: 12 of 13\n\t1"))
    assert (found["valid"], found["outputs"][0]["damaged_rows"]) == (False, ["GPU1"])


def test_matrix_of_peer_access_is_another_one():
    with pytest.raises(registry.NotThisTool):
        registry.parse("nvidia-smi-topo", " \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n")


def test_qos():
    output = one("mlnx_qos", QOS)
    assert (output["trust"], output["pfc"]) == ("dscp", [0, 0, 0, 1, 0, 0, 0, 0])
    assert output["buffers_bytes"] == [130944, 130944, 0, 0, 0, 0, 0, 0]
    # Eight DSCP values a priority: 26 belongs to 3.
    assert (len(output["dscp_to_priority"]), output["dscp_to_priority"]["26"]) == (64, 3)


def test_query_of_gpus():
    output = one("nvidia-smi-query", CSV)
    assert output["driver_version"] == "550.90.07"
    assert output["gpus"][0] == {
        "index": 0,
        "name": "NVIDIA H100 80GB HBM3",
        "driver_version": "550.90.07",
        "memory.total": 81559,
        "power.draw": 72.31,
        "mig.mode.current": None,
    }
    assert output["gpus"][1]["power.draw"] is None
    assert failed("nvidia-smi-query", CSV.rsplit(",", 2)[0]) == "truncated"
    assert (
        failed("nvidia-smi-query", "NVIDIA-SMI has failed because it couldn't communicate\n") == "tool_error"
    )


def test_diagnostic_and_health():
    tests = [{"name": "PCIe", "results": [{"gpu_ids": "0", "status": "Fail", "info": "GPU 0 slow"}]}]
    diag = {"DCGM GPU Diagnostic": {"test_categories": [{"category": "Integration", "tests": tests}]}}
    output = one("dcgmi", json.dumps(diag))
    assert output["tests"] == [
        {"category": "Integration", "test": "PCIe", "result": "Fail", "info": "GPU 0 slow"}
    ]
    health = {"body": {"Overall Health": {"value": "Healthy"}}, "header": ["Health Monitor Report"]}
    assert one("dcgmi", json.dumps(health))["health"] == "Healthy"
    assert failed("dcgmi", json.dumps(diag)[:-20]) == "truncated"


def test_a_cell_that_is_cut_is_no_number():
    text = "index, memory.total [MiB], utilization.gpu [%]\n0, 81559 MiB, 35 %\n"
    assert one("nvidia-smi-query", text)["gpus"][0]["utilization.gpu"] == 35
    bare = text.replace(" MiB,", ",").replace("35 %", "35")
    assert one("nvidia-smi-query", bare)["gpus"][0]["utilization.gpu"] == 35
    for cut in ("3", "35"):
        assert failed("nvidia-smi-query", text.replace("35 %", cut)) == "garbled"
    assert failed("nvidia-smi-query", text.replace("81559 MiB", "81559 Mi")) == "garbled"
    lost = registry.parse("nvidia-smi-query", text.replace("35 %", "[GPU requires reset]"))
    assert lost["outputs"][0]["gpus"][0]["utilization.gpu"] is None


# As public reports have them: a job's log of an H100 (idx 58061924347), one of a workstation's GPU
# (idx 66426780468), two lost cards in a row, and a lost card's ECC count (idx 55185559422).
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "index, temperature.gpu, utilization.gpu [%], memory.used [MiB]\n"
            "0, [GPU requires reset], [GPU requires reset], 0 MiB\n",
            {f"GPU 0: {key} is [GPU requires reset]" for key in ("temperature.gpu", "utilization.gpu")},
        ),
        ("index, temperature.gpu\n1, [Unknown Error]\n", {"GPU 1: temperature.gpu is [Unknown Error]"}),
        (
            "uuid, ecc.errors.uncorrected.volatile.total\n[GPU is lost], [GPU is lost]\n"
            "[GPU is lost], [GPU is lost]\n",
            {f"GPU in row {row}: {key} is [GPU is lost]" for row in (1, 2)
             for key in ("uuid", "ecc.errors.uncorrected.volatile.total")},
        ),
    ],
)  # fmt: skip
def test_a_word_for_trouble_is_no_value_and_a_warning_names_it(text, words):
    found = registry.parse("nvidia-smi-query", text)
    [output] = found["outputs"]
    assert {warning.partition(", which")[0] for warning in found["warnings"]} == words
    assert not any("[" in str(value) for row in output["gpus"] for value in row.values())


def test_words_for_no_value_are_no_warning():
    for word in ("[N/A]", "N/A", "[Not Supported]", "[Requested functionality has been deprecated]"):
        found = registry.parse("nvidia-smi-query", f"index, temperature.gpu\n0, {word}\n")
        assert (found["outputs"][0]["gpus"], found["warnings"]) == (
            [{"index": 0, "temperature.gpu": None}],
            [],
        )


def test_a_field_of_the_table_that_could_not_be_read_is_a_warning():
    # Issue 393 of nvidia_gpu_exporter: the fan of a GPU that asks for a reset.
    rule = "+-----------------------------------------+------------------------+----------------------+\n"
    text = (
        "| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |\n"
        "|  13  NVIDIA RTX 4000 Ada Gene...    On  |   00000000:C9:00.0 Off |                  Off |\n"
        "| 30%   33C    P8              4W /  130W |       1MiB /  20475MiB |      0%      Default |\n"
        + rule +
        "|  14  NVIDIA RTX 4000 Ada Gene...    On  |   00000000:CC:00.0 Off |                  Off |\n"
        "|ERR!   68C    P2             99W /  130W |       1MiB /  20475MiB |     93%      Default |\n"
        + rule + "| Processes:  |\n"
    )  # fmt: skip
    found = registry.parse("nvidia-smi-query", text)
    [warning] = found["warnings"]
    assert warning.startswith("GPU 00000000:CC:00.0: Field of the table is ERR!")
    assert [set(row) for row in found["outputs"][0]["gpus"]] == [{"index", "name", "pci.bus_id"}] * 2


def test_a_line_of_the_log_that_reports_trouble_is_a_warning():
    # A GB10 after a power cycle (idx 66641820590): a pending mode that reads "GPU requires reset".
    text = (
        "Timestamp : Thu Sep 10 10:00:00 2026\nDriver Version : 580.95.05\nAttached GPUs : 1\n"
        "GPU 0000000F:01:00.0\n    Product Name : NVIDIA GB10\n    MIG Mode\n"
        "        Current : N/A\n        Pending : GPU requires reset\n    Processes : None\n"
    )
    found = registry.parse("nvidia-smi-query", text)
    [warning] = found["warnings"]
    assert warning.startswith("GPU 0000000F:01:00.0: Pending is GPU requires reset")
    assert found["outputs"][0]["gpus"][0]["name"] == "NVIDIA GB10"


def dcgm_table(*rows: tuple[str, str]) -> str:
    """Return a table as dcgmi draws it; a row without a result is a section's title."""
    rule = "+---------------------------+------------------------------------------------+\n"
    lines = "".join(
        f"| {name:25} | {value:45}  |\n"
        if value
        else f"+-----  {name}  {'-' * (17 - len(name))}+{'-' * 48}+\n"
        for name, value in rows
    )
    head = f"| {'Diagnostic':25} | {'Result':46} |\n"
    return "Successfully ran diagnostic for group.\n" + rule + head + rule.replace("-", "=") + lines + rule


OLD_DIAG = dcgm_table(
    ("Metadata", ""),
    ("DCGM Version", "3.3.9"),
    ("Deployment", ""),
    ("Denylist", "Pass"),
    ("Persistence Mode", "Fail"),
    ("Error", "Persistence mode for GPU 0 is currently disab"),
    ("", "led."),
    ("Hardware", ""),
    ("GPU Memory", "Pass - GPUs: 1, 2"),
    ("", "Fail - GPU: 0"),
    ("Diagnostic", "Skip - All"),
)
NEW_DIAG = dcgm_table(
    ("Metadata", ""), ("DCGM Version", "4.0.0"), ("Deployment", ""), ("software", "PASS"), ("", "GPU0: PASS")
)


def test_dcgm_tables():
    assert [tuple(test.values()) for test in one("dcgmi", OLD_DIAG)["tests"]] == [
        ("Deployment", "Denylist", "Pass", None),
        ("Deployment", "Persistence Mode", "Fail", "Persistence mode for GPU 0 is currently disabled."),
        ("Hardware", "GPU Memory", "Pass", "GPUs: 1, 2"),
        ("Hardware", "GPU Memory", "Fail", "GPU: 0"),
        ("Hardware", "Diagnostic", "Skip", None),
    ]
    assert registry.parse("dcgmi", OLD_DIAG)["warnings"] == [
        "Persistence Mode: did not pass",
        "GPU Memory: did not pass",
    ]
    assert [tuple(test.values()) for test in one("dcgmi", NEW_DIAG)["tests"]] == [
        ("Deployment", "software", "PASS", None),
        ("Deployment", "software", "PASS", "GPU0"),
    ]
    assert registry.parse("dcgmi", NEW_DIAG)["warnings"] == []
    health = (
        "+---------------------------+----------------------------------------------------------+\n"
        "| Health Monitor Report                                                                |\n"
        "+===========================+==========================================================+\n"
        "| Overall Health            | Warning                                                  |\n"
    )
    for text in (health, health.replace("Health            |", "Health:            ")):
        assert one("dcgmi", text) == {"health": "Warning", "tests": []}
    assert [len(output["tests"]) for output in parse_valid("dcgmi", OLD_DIAG + NEW_DIAG)] == [5, 2]


def test_damaged_dcgm_tables():
    lines = OLD_DIAG.splitlines(keepends=True)
    for at in range(3, len(lines)):
        assert failed("dcgmi", "".join(lines[:at])) == "truncated"
        assert failed("dcgmi", "".join(lines[:at]) + NEW_DIAG[NEW_DIAG.index("+--") :]) == "truncated"
    torn = captures.parse_failed("dcgmi", OLD_DIAG.replace("| Denylist ", "| Denyl\nist "), "garbled")
    assert torn["error"]["message"].startswith("line 8, ")
    assert failed("dcgmi", OLD_DIAG.replace("Skip - All", "Sk - All")) == "garbled"
    health = json.dumps({"body": {"Overall Health": {"value": "Healthy"}}})
    found = registry.parse("dcgmi", health + "\n" + OLD_DIAG)
    assert (found["valid"], len(found["outputs"])) == (True, 1)
    assert "table" in found["warnings"][0]
