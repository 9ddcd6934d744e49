# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parsers on captures of other people's systems, which lie beside the checkout and are never committed.

The expectations are those of the corpus' own index, written down here as data: (path in an output, value).
A rate is compared to the digits that the index gives.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from support.captures import wrong_when_cut
from support.corpus.corpus_measured import (
    CASES,
    OUTPUTS_AND_ROWS,
)
from support.corpus.corpus_state import (
    GPUS,
    HCA_CASES,
    OTHER_TOOLS,
    REFUSED,
)

_HERE = Path(__file__).resolve()
CORPUS = Path(os.environ.get("RAILYARD_CORPUS", _HERE.parents[10] / "shared" / "corpus"))
pytestmark = pytest.mark.skipif(
    not (CORPUS / "INDEX.tsv").is_file(), reason=f"no corpus at {CORPUS}: set RAILYARD_CORPUS to test with it"
)

#: So many places each capture is cut in; those of the collection are cut in more.
PLACES = 40


def read(file: str) -> str:
    return (CORPUS / file).read_bytes().decode("utf-8", errors="replace")


def at(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


@pytest.mark.parametrize(
    ("file", "tool", "valid", "kind", "expected"), CASES, ids=[case[0] for case in CASES]
)
def test_capture_reads_as_the_index_says(file, tool, valid, kind, expected):
    found = registry.parse(tool, read(file))
    assert found["valid"] is valid, found["error"]
    assert (found["error"] or {}).get("class") == kind
    for path, value in expected.items():
        seen = at(found["outputs"][0], path)
        if isinstance(value, float):
            assert seen == pytest.approx(value, rel=1e-3 if value > 1 else 1e-5), path
        else:
            assert seen == value, path


@pytest.mark.parametrize(("file", "tool", "valid", "kind", "count", "ports"), HCA_CASES)
def test_hca_state_reads_as_the_index_says(file, tool, valid, kind, count, ports):
    found = registry.parse(tool, read(file))
    assert (found["valid"], (found["error"] or {}).get("class")) == (valid, kind)
    devices = {one["name"]: one for one in found["outputs"][0]["devices"]}
    assert len(devices) == count
    for name, expected in ports.items():
        (port,) = devices[name]["ports"]
        keys = ("state", "physical_state", "rate_gbps", "link_layer")
        assert (devices[name]["ca_type"], *(port[key] for key in keys)) == expected, name


@pytest.mark.parametrize(("file", "tool", "valid", "expected"), OTHER_TOOLS)
def test_other_capture_reads_as_the_index_says(file, tool, valid, expected):
    found = registry.parse(tool, read(file))
    assert found["valid"] is valid, found["error"]
    for path, value in expected.items():
        assert at(found["outputs"][0], path) == value, path
    if Path(file).name in GPUS:
        assert len(found["outputs"][0]["gpus"]) == GPUS[Path(file).name]


@pytest.mark.parametrize(("file", "tool"), REFUSED)
def test_another_report_of_the_tool_is_never_valid(file, tool):
    try:
        found = registry.parse(tool, read(file))
    except registry.NotThisTool:
        return
    assert (found["valid"], found["outputs"]) == (False, [])


def test_every_file_of_a_supported_tool_has_its_expectations():
    """A capture that is added to the corpus may not be left out here without a word."""
    seen = {case[0] for cases in (CASES, HCA_CASES, OTHER_TOOLS, REFUSED) for case in cases}
    listed = {line.split("\t")[0] for line in (CORPUS / "INDEX.tsv").read_text().splitlines()[1:] if line}
    assert listed - seen == set()


def test_ibstatus_lid_is_hexadecimal():
    (output,) = registry.parse("ibstatus", read("ibstat/08-ibstatus-a100-8ib.txt"))["outputs"]
    assert output["devices"][0]["ports"][0]["lid"] == 0x33BF


def test_nvlink_of_eight_gpus():
    found = registry.parse("nvidia-smi-nvlink", read("nvidia_smi/07-nvlink-status-a100.txt"))
    assert found["valid"] is True
    assert [one["gpu"] for one in found["outputs"]] == list(range(8))
    assert found["outputs"][0]["links"][11] == {"link": 11, "speed_gbytes_per_s": 25.0, "active": True}


@pytest.mark.parametrize(("file", "rows"), OUTPUTS_AND_ROWS.items())
def test_number_of_runs_and_rows(file, rows):
    found = registry.parse(file.split("/")[0], read(file))
    assert [len(output["rows"]) for output in found["outputs"]] == rows


@pytest.mark.parametrize(
    ("file", "tool"),
    sorted({(case[0], case[1]) for cases in (CASES, HCA_CASES, OTHER_TOOLS) for case in cases}),
)
def test_cut_in_some_places_no_number_is_another(file, tool):
    text = read(file)
    assert list(wrong_when_cut(tool, text, range(0, len(text), len(text) // PLACES + 1))) == []


def test_no_parser_takes_another_tools_capture_for_a_valid_result():
    tools = {
        "fio": "fio",
        "nccl_tests": "nccl-tests",
        "ping": "ping",
        "iperf3": "iperf3",
        "sockperf": "sockperf",
        "perftest": "perftest",
    }
    for path in sorted(CORPUS.glob("*/*")):
        for folder, tool in tools.items():
            if path.parent.name == folder:
                continue
            try:
                found = registry.parse(tool, read(str(path.relative_to(CORPUS))))
            except registry.NotThisTool:
                continue
            assert found["valid"] is False, (tool, path.name)
