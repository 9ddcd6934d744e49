# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever the text, a parser returns the common object or raises NotThisTool, and nothing else."""

from __future__ import annotations

import functools
import json
import time
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.common import to_float, to_int
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import captures

FIXTURES = Path(__file__).parent / "fixtures"
SAMPLES = {
    tool: sorted(path.read_text() for path in (FIXTURES / tool).iterdir())
    for tool in registry.TOOLS
    if (FIXTURES / tool).is_dir()
}
WRITTEN = [tool for tool in registry.TOOLS if tool in SAMPLES]
# Derandomised: the same examples each time, so that a red run can be repeated.
QUICK = settings(max_examples=60, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
NUMBERS = ["nan", "-nan", "inf", "1e999", "9" * 5000, "-1", "0", "٣", "", "null", "{", "[", "\x00", "\ud800"]


def check(tool: str, text: str) -> None:
    try:
        found = registry.parse(tool, text)
    except registry.NotThisTool:
        return
    assert sorted(found) == ["error", "outputs", "schema", "tool", "valid", "warnings"]
    assert (found["schema"], found["tool"]) == (1, tool)
    assert found["valid"] is False or (found["error"] is None and found["outputs"])
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("tool", WRITTEN)
@QUICK
@given(text=st.text(max_size=300))
def test_any_text(tool, text):
    check(tool, text)


@pytest.mark.parametrize("tool", WRITTEN)
@QUICK
@given(data=st.data())
def test_spoilt_captures(tool, data):
    text = data.draw(st.sampled_from(SAMPLES[tool]))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 60)))
    middle = data.draw(st.sampled_from(NUMBERS) | st.text(max_size=20))
    tail = data.draw(st.sampled_from(["", text[: len(text) // 2], "Killed\n", "\n}"]))
    check(tool, text[:start] + middle + text[end:] + tail)


def rows(value):
    """Return the numbers that are together in an output, wherever they are in it."""
    if isinstance(value, dict):
        own = {
            key: item for key, item in value.items() if isinstance(item, (int, float)) and key not in UNSURE
        }
        yield own
    if isinstance(value, dict):
        # NCCL's channels are counts of lines.
        value = [inner for key, inner in value.items() if key != "channels"]
    for inner in value if isinstance(value, list) else ():
        yield from rows(inner)


@functools.cache
def right_rows(tool, text):
    return [row.items() for row in rows(registry.parse(tool, text)["outputs"])]


# Of its lines iperf3 has two with a duration, which differ in the last digit.
UNSURE = ("duration_s", "rdma_cm", "bidirectional")
SAID = "Conflicting CPU frequency values detected: 1200.000000 != 3100.000000. CPU Frequency is not max.\n"


@pytest.mark.parametrize("tool", WRITTEN)
@settings(QUICK, max_examples=150)
@given(data=st.data())
def test_damage_makes_no_row_that_was_not_there(tool, data):
    """Cut at either end, torn by a message, with another copy behind or between: no numbers of two rows."""
    text = data.draw(st.sampled_from(SAMPLES[tool]))
    place = data.draw(st.integers(0, len(text)))
    lines = text.splitlines(keepends=True)
    mixed = "".join(
        line for pair in zip(lines, [""] * (place % len(lines)) + lines, strict=False) for line in pair
    )
    # The sum of --report-both cannot be distinguished from one direction once its title is gone.
    front = text[place:] if "Remote results" not in text else ""
    for damaged in (text[:place], front, text[:place] + SAID + text[place:], text[:place] + text, mixed):
        found = captures.parsed(tool, damaged)
        if found is None or not found["valid"]:
            continue
        right = right_rows(tool, text)
        # A column of nvidia-smi whose name's beginning is cut has no name that anybody asks for.
        names = {name for whole in right for name, _value in whole}
        for row in rows(found["outputs"]):
            known = {name: value for name, value in row.items() if name in names}.items()
            assert any(known <= whole for whole in right), (damaged[max(0, place - 80) :][:200], row)


@pytest.mark.parametrize("tool", WRITTEN)
@QUICK
@given(data=st.data())
def test_other_tools_captures(tool, data):
    other = data.draw(st.sampled_from(WRITTEN))
    check(tool, data.draw(st.sampled_from(SAMPLES[other])))


@pytest.mark.parametrize("tool", WRITTEN)
def test_long_text_takes_no_long_time(tool):
    """Nested quantifiers in a pattern would take minutes here."""
    for piece in ("a" * 100000, "1/" * 50000, " = " * 35000, "\n" * 100000, "{" * 25000, "---> " * 20000):
        check(tool, SAMPLES[tool][0] + piece)


HEADER = "RDMA_Write BW Test\n #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n"
HOST = "x{0}x:1:2 [0] NCCL INFO Using network IB\n"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("rdma-link", "\n" * 400_000),
        ("nvidia-smi-topo", "\tGPU0\tGPU1\n" + (" " * 8000 + "x\n") * 300),
        ("perftest", "RDMA_Write BW Test\n" + (" " * 398 + ":\n") * 2000),
        ("perftest", HEADER + "1 2 3 4 5\n" * 30_000),
        ("perftest", "RDMA_Write BW Test\n" * 75_000),
        ("dcgmi", "{}" * 2_000_000),
        ("nccl-log", "".join(HOST.format(number) for number in range(30_000))),
        (
            "iperf3",
            "Accepted connection from a, port 1\n[  5] local a port 1 connected to b port 2\n" * 10_000
            + "Server listening on 5201\n" * 10_000,
        ),
    ],
    ids=["lines", "blanks", "blanks of a header", "rows", "titles", "objects", "hosts", "servers"],
)
def test_time_grows_with_the_text_alone(tool, text):
    """Quadratic, each of these takes half a minute of the processor and more; linear, a second."""
    began = time.process_time()
    check(tool, text)
    assert time.process_time() - began < 6


def test_most_lines():
    for text in ("\n" * (16 * 2**20), "\r" * 500_001):
        with pytest.raises(registry.NotThisTool) as caught:
            registry.parse("perftest", text)
        assert caught.value.position == "line 500000"


@given(st.text(max_size=30) | st.floats() | st.integers() | st.booleans() | st.none())
@settings(derandomize=True, database=None)
def test_numbers_never_raise(value):
    for read in (to_float, to_int):
        number = read(value)
        assert number is None or abs(number) < float("inf")
