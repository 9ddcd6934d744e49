# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A capture that was cut somewhere gives the right numbers or says why it gives none, never others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from support.captures import numbers, parsed, wrong_when_cut

FIXTURES = Path(__file__).parent / "fixtures"
CAPTURES = [
    pytest.param(tool, path, id=f"{tool}-{path.name}")
    for tool in registry.TOOLS
    if (FIXTURES / tool).is_dir()
    for path in sorted((FIXTURES / tool).iterdir())
]
#: So many places are tried in the middle of a capture; at its end, where a cut is hardest to see, all are.
MIDDLE, END = 60, 250


@pytest.mark.parametrize(("tool", "path"), CAPTURES)
def test_cut_anywhere(tool: str, path: Path) -> None:
    text = path.read_text()
    middle = range(0, len(text), max(len(text) // MIDDLE, 1))
    places = sorted({*middle, *range(max(len(text) - END, 0), len(text))})
    assert list(wrong_when_cut(tool, text, places)) == []


@pytest.mark.parametrize(("tool", "path"), CAPTURES)
def test_a_decimal_comma_is_no_point(tool: str, path: Path) -> None:
    """Wherever it is, in a number it makes no other number."""
    text = path.read_text()
    right = dict(numbers(registry.parse(tool, text)["outputs"])).items()
    points = [found.start() for found in re.finditer(r"(?<=[0-9])\.(?=[0-9])", text)]
    for place in points[:: max(len(points) // MIDDLE, 1)]:
        found = parsed(tool, f"{text[:place]},{text[place + 1 :]}")
        if found and found["valid"]:
            assert dict(numbers(found["outputs"])).items() <= right, text[:place][-60:]


@pytest.mark.parametrize(("tool", "path"), CAPTURES)
def test_no_number_is_below_0(tool: str, path: Path) -> None:
    text = path.read_text()
    starts = [found.start() for found in re.finditer(r"(?<![\w.-])(?=[0-9])", text)]
    for place in starts[:: max(len(starts) // MIDDLE, 1)]:
        found = parsed(tool, f"{text[:place]}-{text[place:]}")
        for name, value in numbers(found["outputs"]) if found and found["valid"] else ():
            assert value >= 0 or name.endswith((".gpu", ".lost_packets")), (name, value)


NCCL = "h:1:1 [0] NCCL INFO "
CUT_LINES = [
    ("nvidia-smi-query", "index, ecc.errors.uncorrected.volatile.total\n0, 0\n1, 2"),
    ("rdma-link", "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev enp23s0f"),
    ("nvidia-smi-topo", "\tGPU0\tNIC0\nGPU0\t X \tPIX\nNIC0\tPIX\t X \n\nNIC Legend:\n\n  NIC0: mlx5_1"),
    ("nccl-log", f"{NCCL}Using network IB\n{NCCL}Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRD"),
    ("nccl-log", f"{NCCL}Using network So"),
]


@pytest.mark.parametrize(("tool", "text"), CUT_LINES)
def test_a_last_line_without_its_end_is_not_read(tool: str, text: str) -> None:
    found = registry.parse(tool, text)
    last = text.rpartition("\n")[2].strip()
    assert (found["valid"], found["error"]["class"]) == (False, "truncated")
    assert found["error"]["message"].startswith(
        f"line {text.count(chr(10)) + 1}, {last[:60]!r}: the last line"
    )
    before = parsed(tool, text[: text.rfind("\n") + 1])
    assert found["outputs"] == (before["outputs"] if before else [])


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("nvidia-smi-query", "index, count\n0, 1\n[root@gpu01 ~]# "),
        ("nccl-log", f"{NCCL}Using network IB\nroot@gpu01:~# "),
    ],
)
def test_a_prompt_at_the_end_cuts_nothing(tool: str, text: str) -> None:
    assert registry.parse(tool, text)["valid"] is True


@pytest.mark.parametrize(
    ("tool", "name", "start", "end", "step"),
    [
        ("ping", "ok.txt", "PING ", "", 1),
        ("sockperf", "pp_tcp.txt", "sockperf: ", "", 1),
        ("sockperf", "tp.txt", "sockperf: ", "", 1),
        ("perftest", "write_bw_gbps_client.txt", "Test", "", 1),
        ("perftest", "write_lat_client.txt", "Test", "", 1),
        ("perftest", "write_bw_old.json", "Test", "", 1),
        ("iperf3", "udp_client.json", '"start":', "", 7),
        ("iperf3", "text_2_streams_client.txt", "", "", 5),
        ("iperf3", "text_bidir_client.txt", "", "", 5),
        ("iperf3", "text_2_streams_server.txt", "", "", 5),
        ("iperf3", "text_udp_client.txt", "", "", 5),
        ("ibstat", "dual_port.txt", "CA 'rxe0'", "", 1),
        ("ibstatus", "two.txt", "'mlx5_1' port 1 status:", "", 1),
        ("ibv_devinfo", "verbose.txt", "\t\tport:\t1", "", 1),
        ("nccl-tests", "all_reduce_checked.txt", "minBytes ", "# Avg bus bandwidth", 11),
        ("show_gids", "mixed.txt", "---", "", 5),
        ("mlnx_qos", "dscp.txt", "\n", "tc: 0", 1),
        ("ethtool", "both.txt", "driver: m", "es\nSettings for", 3),
        ("ethtool", "both.txt", "Settings for ens6:\n", "", 3),
    ],
)
def test_cut_is_never_valid(tool: str, name: str, start: str, end: str, step: int) -> None:
    """Between the two words, or up to the end, no part of the text is a whole result."""
    text = (FIXTURES / tool / name).read_text().rstrip().rstrip("-")
    last = text.index(end) if end else len(text)
    for place in range(text.index(start) + len(start), last, step):
        found = parsed(tool, text[:place])
        assert found is None or found["valid"] is False, text[:place][-60:]


PING = "PING 10.0.0.1 (10.0.0.1) 56(84) bytes of data.\n"
START = '{"start": {}}'
OTHERS = ("", "hello\n", "[1]", "# a comment\n", "GPU 0: only a name\n", PING, START)


@pytest.mark.parametrize("tool", registry.TOOLS)
def test_text_of_another_tool_is_refused(tool: str) -> None:
    for text in OTHERS:
        # These two are the beginning of its own output.
        if (tool, text) not in (("ping", PING), ("iperf3", START)):
            with pytest.raises(registry.NotThisTool):
                registry.parse(tool, text)


@pytest.mark.parametrize(("tool", "path"), CAPTURES)
def test_a_tail_of_nuls_changes_nothing(tool: str, path: Path) -> None:
    text = path.read_text()
    assert parsed(tool, text + "\0" * 4096) == parsed(tool, text)


@pytest.mark.parametrize(("tool", "path"), CAPTURES)
def test_a_hole_of_nuls_is_never_valid(tool: str, path: Path) -> None:
    """A line or more that never reached the disk, between others that did."""
    first, *rest = path.read_text().splitlines(keepends=True)
    found = parsed(tool, "".join([first, "\0" * 8 + "\n", *rest]))
    assert found is None or found["valid"] is False


@pytest.mark.parametrize(("tool", "path"), CAPTURES)
def test_no_break_spaces_of_a_page_change_nothing(tool: str, path: Path) -> None:
    text = path.read_text()
    assert parsed(tool, text.replace("  ", "\xa0 ")) == parsed(tool, text)


def test_prompts_around_links_change_nothing() -> None:
    text = (FIXTURES / "nvidia-smi-nvlink" / "two.txt").read_text()
    around = f"root@gpu1:~# nvidia-smi nvlink -s\n{text}root@gpu1:~# "
    assert parsed("nvidia-smi-nvlink", around) == parsed("nvidia-smi-nvlink", text)
