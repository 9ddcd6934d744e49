# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Captures as people paste them: whatever is around or before the lines, the numbers are the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry

FIXTURES = Path(__file__).parent / "fixtures"
# One capture of each tool; what else a tool writes is read plain in its own tests.
CAPTURES = {
    "perftest": "write_bw_gbps_client.txt",
    "iperf3": "text_bidir_client.txt",
    "sockperf": "pp_rtt.txt",
    "ping": "loss.txt",
    "ibstat": "dual_port.txt",
    "ibstatus": "two.txt",
    "ibv_devinfo": "verbose.txt",
    "rdma-link": "text.txt",
    "show_gids": "mixed.txt",
    "nccl-tests": "all_reduce_checked.txt",
    "nccl-log": "roce.txt",
}


def each(prefix: str) -> Callable[[str], str]:
    return lambda text: "".join(prefix + line + "\n" for line in text.split("\n"))


FORMS: dict[str, Callable[[str], str]] = {
    "shell prompt": lambda text: f"[root@gpu01 ~]# the-tool\n{text}\n[root@gpu01 ~]# \n",
    "markdown fence": lambda text: f"this is what I see:\n```\n{text}\n```\n",
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "byte order mark": lambda text: "\ufeff" + text,
    "beginning and end that never reached the disk": lambda text: "\0" * 64 + text + "\0" * 64,
    "terminal colours": lambda text: "\x1b[32m" + text.replace("\n", "\x1b[0m\n\x1b[1m"),
    "blank lines between": lambda text: text.replace("\n", "\n\n"),
    "no trailing blanks": lambda text: "\n".join(line.rstrip() for line in text.split("\n")),
    "no indentation": lambda text: "\n".join(line.lstrip() for line in text.split("\n")),
    "indented": each("    "),
    "quoted": each("> "),
    "quoted twice": each("> > "),
    "quoted again and again": each("> >>>> "),
    "kubectl logs --timestamps": each("2026-11-21T15:03:34.123456789Z "),
    "journal": each("Nov 21 15:03:34 gpu01 run[1234]: "),
    "mpirun --tag-output": each("[1,0]<stdout>:"),
}
# Four lines or more: fewer that begin alike are a tool's own messages.
LABELS = {
    "srun -l": each("0: "),
    "pdsh": each("gpu01: "),
    "compose": each("gpu01  | "),
    "title": each("run7:  "),
    "pod": each("[pod/iperf3-client-abc12/iperf3] "),
    "job": each("[job/x/y/z] "),
    "comment of a shell": each("# "),
    "comment of C": each(" * "),
    "comment of a line": each("// "),
    "clock": each("[15:03:34] "),
    "clock with milliseconds": each("15:03:34.123 "),
    "clock with a comma": each("15:03:34,123: "),
    "clock with microseconds": each("[15:03:34.123456] "),
}


def capture(tool: str) -> str:
    return (FIXTURES / tool / CAPTURES[tool]).read_text()


@pytest.mark.parametrize("form", [*FORMS, *LABELS])
@pytest.mark.parametrize("tool", CAPTURES)
def test_numbers_are_the_same(tool, form):
    text = capture(tool)
    if form in LABELS and len(text.split("\n")) < 4:
        pytest.skip("a label is told from a tool's own message by four lines")
    plain, pasted = (registry.parse(tool, one) for one in (text, (FORMS | LABELS)[form](text)))
    assert plain["outputs"]
    assert (pasted["valid"], pasted["outputs"]) == (plain["valid"], plain["outputs"])
    assert (pasted["error"] or {}).get("class") == (plain["error"] or {}).get("class")


@pytest.mark.parametrize(
    "path", [path for tool in CAPTURES for path in (FIXTURES / tool).iterdir()], ids=lambda path: path.name
)
def test_every_fixture_is_read_plain(path):
    found = registry.parse(path.parent.name, path.read_text())
    assert found["outputs"] or found["error"]


@pytest.mark.parametrize("tool", [tool for tool in CAPTURES if tool != "nccl-log"])
def test_two_runs_in_one_file_are_two_outputs(tool):
    """A log of NCCL is one run's, however many lines say the same."""
    text = capture(tool)
    found = registry.parse(tool, text.rstrip("\n") + "\n\n" + text)
    assert found["outputs"] == registry.parse(tool, text)["outputs"] * 2


def test_two_ranks_are_sorted_apart():
    text = (FIXTURES / "perftest" / "write_bw_mib_client.txt").read_text().strip("\n")
    lines = "".join(f"{rank}: {line}\n" for line in text.split("\n") for rank in (0, 1))
    found = registry.parse("perftest", lines)
    assert found["valid"] is True
    assert found["outputs"] == registry.parse("perftest", text)["outputs"] * 2


@pytest.mark.parametrize("tool", CAPTURES)
@pytest.mark.parametrize("piece", ["\x00\x7f\x01ELF", "a b {", "[Valid Duration] ", "> ", "0.0.0.0 "])
def test_a_huge_line_ends_soon(tool, piece):
    """A quadratic pattern would take hours over these 4 MB; the processor's own time counts."""
    began = time.process_time()
    with pytest.raises(registry.NotThisTool):
        registry.parse(tool, piece * (4_000_000 // len(piece)))
    assert time.process_time() - began < 10
