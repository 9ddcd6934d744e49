# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nccl-tests and nvbandwidth on a node: programs that print what these print are run by the real runner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.measure import gpu_tool, nccl_tests
from ansible_collections.railyard.fabric.plugins.module_utils.runner import node_tests as runner_tests
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import gpu_links
from support.nodes import node_run
from support.nodes.files import write
from support.runs import gpu_words
from support.runs.fake_run import NODES, FakeRun

MOST = 1 << 20
COPIES = {
    "host": {
        "host_to_device_memcpy_ce": [[55.3, 55.2, 27.4]],
        "device_to_host_memcpy_ce": [[55.1, 55.6, 27.3]],
    },
    "device": {"device_to_device_memcpy_read_ce": gpu_words.peers([276.1, 275.0, 276.1], 3)},
}


class Site:
    """A folder of the site's programs, each of which prints a given text and ends with a given status."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "site"
        self.run = folder / "run"
        self.folder.mkdir()
        self.run.mkdir()
        for name in nccl_tests.COLLECTIVES.values():
            self.program(f"{name}_perf", gpu_words.nccl_tests(name, 3, MOST))
        self.copies(*(gpu_words.nvbandwidth(COPIES[kind], 3) for kind in ("host", "device")))

    def program(self, name: str, text: str, status: int = 0) -> None:
        write(self.folder, f"{name}.txt", text)
        write(self.folder, name, f'#!/bin/sh\ncat "$0.txt"\nexit {status}\n', 0o755)

    def copies(self, host: str, device: str) -> None:
        """Print one text for copies with the host, another for those between GPUs."""
        self.program("nvbandwidth", "")
        for which, text in (("host", host), ("device", device)):
            (self.folder / f"{which}.txt").write_text(text)
        script = (
            'case "$3" in host*) cat "$(dirname "$0")/host.txt";; *) cat "$(dirname "$0")/device.txt";; esac'
        )
        (self.folder / "nvbandwidth").write_text(f"#!/bin/sh\n{script}\n")

    def rows(self, **rules: Any) -> dict[str, dict[str, Any]]:
        """Run the tests of one node; its rows by check."""
        rules = {
            "nccl_tests_folder": str(self.folder), "nvbandwidth_folder": str(self.folder),
            "nccl_tests_most_bytes": MOST, **rules,
        }  # fmt: skip
        order = {**FakeRun(node_class="hardware", **rules).order, "node": NODES[0]}
        return {row["check"]: row for row in node_run.play(order, self.run)}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(runner_tests.busy, "node_is_busy", lambda _node, _policy: None)
    # The tests' own folders are where tools of nodes are refused.
    monkeypatch.setattr(policy, "_HIDDEN_FROM_TOOLS", ())
    there(monkeypatch, 3)
    return Site(tmp_path)


def there(monkeypatch: pytest.MonkeyPatch, gpus: int, **more: Any) -> None:
    monkeypatch.setattr(gpu_tool.gpus, "read", lambda *_given, **_more: gpu_words.listed(gpus, **more))


def test_what_gpus_reach_together_is_busbw_of_the_greatest_size(site: Site) -> None:
    rows = site.rows()
    row = rows["nccl_all_reduce"]
    # 20 us and 5.24 us (200 GB/s) for 2^20 bytes are 41.54 GB/s; four thirds of that among three GPUs.
    assert row["metrics"] == {"busbw_GBps": 55.39, "algbw_GBps": 41.54, "size_bytes": MOST, "gpus": 3}
    assert row["argv"] == [
        [f"{site.folder}/all_reduce_perf", "-b", "8", "-e", "1048576", "-f", "2", "-g", "3", "-c", "1"]
    ]
    told = row["nccl_tests"]
    assert (told["version"], told["nccl_version"], told["joined"][0]) == (
        "2.17.6",
        "22705",
        [None, "NV18", "NV18"],
    )
    assert told["gpus"][2] == {
        "index": 2, "name": gpu_words.MODEL, "pci": "0000:3b:00.0", "pcie_generation": 5, "pcie_lanes": 16,
    }  # fmt: skip
    # 16 bytes a GPU are the least that all-to-all shares out, of 64 bytes on.
    assert rows["nccl_alltoall"]["nccl_tests"]["sizes"][0]["size_bytes"] == 48
    policy = {"nccl_tests_most_bytes": MOST}
    for one in rows.values():
        assert (one["status"], one["proof"], gpu_links.find_contradiction(one, policy)) == (
            "measured",
            "proven",
            None,
        )


def test_the_slowest_gpu_and_pair_are_what_copies_reach(site: Site) -> None:
    rows = site.rows()
    assert rows["gpu_host_bandwidth"]["metrics"] == {
        "host_to_gpu_GBps": 27.4, "gpu_to_host_GBps": 27.3, "gpus": 3,
    }  # fmt: skip
    assert rows["gpu_peer_bandwidth"]["metrics"] == {"peer_GBps": 275.0, "gpus": 3}
    assert [rows[f"gpu_{what}_bandwidth"]["argv"][0][1:] for what in ("host", "peer")] == [
        ["-j", "-t", "host_to_device_memcpy_ce", "device_to_host_memcpy_ce"],
        ["-j", "-t", "device_to_device_memcpy_read_ce"],
    ]


def test_cuda_may_list_gpus_in_another_order_than_nvidia_smi(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = gpu_words.listed(3)
    found["rows"][0]["pcie.link.width.max"] = 8
    for row, address in zip(found["rows"], reversed(range(3)), strict=True):
        row["pci"] = gpu_words.address(address)
    monkeypatch.setattr(gpu_tool.gpus, "read", lambda *_given, **_more: found)
    told = site.rows()["gpu_host_bandwidth"]["nvbandwidth"]["gpus"]
    assert [(gpu["index"], gpu["pcie_lanes"]) for gpu in told] == [(2, 16), (1, 16), (0, 8)]


def missing(site: Site) -> None:
    (site.folder / "all_reduce_perf").unlink()


def not_to_be_run(site: Site) -> None:
    (site.folder / "all_reduce_perf").chmod(0o644)


def prints(text: str, status: int = 0) -> Callable[[Site], None]:
    return lambda site: site.program("all_reduce_perf", text, status)


GOOD = gpu_words.nccl_tests("all_reduce", 3, MOST)
WRONG = gpu_words.nccl_tests("all_reduce", 3, MOST, wrong=7)
NO_LIBRARY = "all_reduce_perf: error while loading shared libraries: libnccl.so.2: cannot open it\n"


@pytest.mark.parametrize(
    ("spoil", "status", "kind", "says"),
    [
        (missing, "unmeasured", "tool_missing", "all_reduce_perf on gpuserver1 is not an executable file"),
        (not_to_be_run, "unmeasured", "tool_missing", "is not an executable file"),
        (prints(NO_LIBRARY, 127), "failed", "tool_failed", "127: all_reduce_perf: error while loading"),
        (prints(GOOD, 139), "failed", "tool_failed", "it ended with 139"),
        (prints(GOOD[: GOOD.index("# Out of")]), "failed", "tool_failed", "lines behind the table are"),
        (prints("Hello.\n"), "failed", "tool_garbage", "not its output"),
        (prints("x" * (2 << 20) + GOOD), "failed", "tool_failed", "more than 1048576 characters"),
        (prints(GOOD + GOOD), "failed", "tool_garbage", "2 results for one run"),
        (prints(WRONG, 3), "failed", "gpu_wrong", "of bounds"),
        (prints(gpu_words.nccl_tests("all_reduce", 3, MOST, ranks=2)), "unmeasured", "gpu_unfit",
         "used 2 GPUs, nvidia-smi lists 3"),
        (prints(gpu_words.nccl_tests("alltoall", 3, MOST)), "failed", "tool_failed", "alltoall"),
        (prints(GOOD.replace("      0  ", "    N/A  ")), "unmeasured", "tool_too_old", "not count wrong"),
    ],
)  # fmt: skip
def test_what_says_nothing_of_the_gpus(
    site: Site, spoil: Callable[[Site], None], status: str, kind: str, says: str
) -> None:
    spoil(site)
    row = site.rows()["nccl_all_reduce"]
    assert (row["status"], row["error"]["class"]) == (status, kind)
    assert says in row["error"]["message"]
    assert row["error"]["fix"]


@pytest.mark.parametrize(
    ("gpus", "more", "says"),
    [
        (0, {}, "no GPU is on the PCI bus"),
        (3, {"missing": 1}, "the PCI bus has 3 GPUs, nvidia-smi lists 2"),
        (1, {}, "there is only one GPU"),
    ],
)
def test_gpus_that_are_not_as_they_should_be_are_not_measured(
    site: Site, monkeypatch: pytest.MonkeyPatch, gpus: int, more: dict[str, Any], says: str
) -> None:
    there(monkeypatch, gpus, **more)
    for check in ("nccl_all_reduce", "gpu_peer_bandwidth"):
        row = site.rows()[check]
        assert (row["status"], row["error"]["class"]) == ("unmeasured", "gpu_unfit")
        assert says in row["error"]["message"]


@pytest.mark.parametrize(
    ("device", "kind", "says"),
    [
        (gpu_words.nvbandwidth({"device_to_device_memcpy_read_ce": [[None] * 3] * 3}, 3), "gpu_unfit",
         "no GPU can access the memory of another"),
        (gpu_words.nvbandwidth({}, 3, testcases=[
            {"name": "device_to_device_memcpy_read_ce", "status": "Waived"}]), "gpu_unfit", "can access"),
        (gpu_words.nvbandwidth(COPIES["device"], 2), "gpu_unfit", "used 2 GPUs, nvidia-smi lists 3"),
        (gpu_words.nvbandwidth(COPIES["host"], 3), "tool_failed", "instead of"),
        (gpu_words.nvbandwidth({}, 3, error="ASSERT in h_errorFlag == 0"), "gpu_wrong", "h_errorFlag"),
    ],
)  # fmt: skip
def test_copies_that_say_nothing(site: Site, device: str, kind: str, says: str) -> None:
    site.copies(gpu_words.nvbandwidth(COPIES["host"], 3), device)
    row = site.rows()["gpu_peer_bandwidth"]
    assert row["error"]["class"] == kind
    assert says in row["error"]["message"]


def test_a_program_that_does_not_end_is_ended(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl_tests, "_MARGIN_S", 0.5)
    monkeypatch.setattr(nccl_tests, "_SLOWEST_BYTES_PER_S", 1e12)
    (site.folder / "all_reduce_perf").write_text("#!/bin/sh\nexec sleep 20\n")
    assert site.rows()["nccl_all_reduce"]["error"]["class"] == "deadline"
