# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NUMA nodes out of made-up trees: who has CPUs and memory, and what the kernel counts of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts import numa
from ansible_collections.railyard.fabric.plugins.module_utils.facts.numa import NumaNode
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from support.nodes.files import write

TICK_MS = 1000 // os.sysconf("SC_CLK_TCK")


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """Two nodes of two CPUs, a GPU's memory without CPUs, and one whose memory is all taken out."""
    node, cpu = tmp_path / "sys/devices/system/node", tmp_path / "sys/devices/system/cpu"
    for number, cpus, free in ((0, "0-1", 2048), (1, "2-3", 1024), (8, "", 4096), (10, "4", 0)):
        write(node, f"node{number}/cpulist", f"{cpus}\n")
        total = f"Node {number} MemTotal:       9999 kB\n"
        write(node, f"node{number}/meminfo", f"{total}Node {number} MemFree: {free:>10} kB\n")
        write(node, f"node{number}/numastat", f"numa_hit 5\nnuma_miss 6\nnuma_foreign {number + 7}\n")
    write(node, "possible", "0-15\n")
    for number in range(4):
        for index, level, size, shared in (
            (0, 1, "32K", number),
            (2, 2, "1024K", number),
            (3, 3, "32M", "0-1" if number < 2 else number),
        ):
            folder = cpu / f"cpu{number}/cache/index{index}"
            write(folder, "level", f"{level}\n")
            write(folder, "size", f"{size}\n")
            write(folder, "shared_cpu_list", f"{shared}\n")
    write(cpu, "cpu2/cpufreq/scaling_cur_freq", "2100000\n")
    # user nice system idle iowait irq softirq steal
    lines = [f"cpu{number} {number} 10 100 9999 50 60 70 80 0 0\n" for number in range(4)]
    write(tmp_path, "proc/stat", "cpu  1 1 1 1 1 1 1 1 0 0\n" + "".join(lines) + "intr 12 0 1\ncpu9 1 1 1\n")
    return Reader(str(tmp_path / "sys"), str(tmp_path / "proc"))


def test_a_node_has_cpus_and_memory(reader: Reader) -> None:
    # CPUs 0 and 1 share a cache, 2 and 3 have one each.
    assert numa.nodes(reader) == [
        NumaNode(0, [0, 1], 2048 << 10, 32 << 20),
        NumaNode(1, [2, 3], 1024 << 10, 64 << 20),
    ]


def test_work_is_what_the_cpus_did_themselves(reader: Reader) -> None:
    assert numa.busy_ms(reader, [2, 3]) == (2 + 3 + 2 * 110) * TICK_MS
    assert numa.busy_ms(reader, [3, 9]) is None  # behind the CPUs' lines there is none


def test_what_came_from_another_node_and_the_clocks(reader: Reader) -> None:
    assert (numa.foreign(reader, 1), numa.foreign(reader, 2)) == (8, None)
    assert (numa.clocks_mhz(reader, [2, 3]), numa.clocks_mhz(reader, [0])) == ([2100.0], [])


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-2,8", [0, 1, 2, 8]), ("5", [5]), ("", []), (None, []), ("1,x", []), ("3-1", [])],
)
def test_a_list_of_cpus(text: str | None, cpus: list[int]) -> None:
    assert numa.cpu_list(text) == cpus
