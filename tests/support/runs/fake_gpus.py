# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The healthy run of fake_run, whose nodes have measured what their GPUs reach by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.measure import nccl_tests, nvbandwidth

from support.runs import gpu_words
from support.runs.fake_run import NODES, FakeRun
from support.runs.node_row import node_row

GPUS, MOST = 4, 1 << 30
HOST, PEER, BUS = 55.0, 276.0, 400.0
_WAYS = {"nccl_all_reduce": 2, "nccl_all_gather": 1, "nccl_alltoall": 1}
#: Of each check, what one GPU (host) or each pair with it (peer) does, or the node (nccl): a share.
Slow = Mapping[str, Mapping[str, float]]


def with_gpus(
    nodes: tuple[str, ...] = NODES,
    slow: Slow | None = None,
    gpus: int = GPUS,
    node_class: str = "hardware",
    only_way: bool = False,
    **rules: Any,
) -> FakeRun:
    """Return a healthy run whose nodes have like GPUs.

    Args:
        nodes: their names.
        slow: node -> check -> which share of what is usual its GPU 1 has, or the node of a collective.
        gpus: how many each has.
        node_class: of all nodes.
        only_way: a slow GPU or pair is slow in one direction alone.
        rules: of the policy.
    """
    run = FakeRun(
        nodes=nodes, node_class=node_class, beacon=len(nodes) == len(NODES),
        nccl_tests_folder="/opt/nccl-tests", nvbandwidth_folder="/opt/nvbandwidth", **rules,
    )  # fmt: skip
    for line in run.asked:
        if line["tool"] in ("nccl-tests", "nvbandwidth"):
            share = (slow or {}).get(line["node"], {}).get(line["check"], 1.0)
            run.results.append(_row(line, share, gpus, only_way))
    return run


def gpus_of(run: FakeRun) -> list[dict[str, Any]]:
    return [one for one in run.judge() if one["tool"] in ("nccl-tests", "nvbandwidth")]


def _row(line: Mapping[str, Any], share: float, gpus: int, only_way: bool) -> dict[str, Any]:
    check = str(line["check"])
    program = "/opt/nvbandwidth/nvbandwidth"
    if check in nccl_tests.COLLECTIVES:
        program = f"/opt/nccl-tests/{nccl_tests.COLLECTIVES[check]}_perf"
    of_gpu = {"pcie_generation": 5, "pcie_lanes": 16, "name": gpu_words.MODEL}
    told: dict[str, Any] = {
        "version": "1",
        "gpus": [{"index": gpu, "pci": gpu_words.address(gpu), **of_gpu} for gpu in range(gpus)],
        "joined": [[None if one == other else "NV18" for other in range(gpus)] for one in range(gpus)],
    }
    if check in nccl_tests.COLLECTIVES:
        told["nccl_version"] = "22705"
        sizes = [1 << power for power in range(20, 31)]
        factor = _WAYS[check] * (gpus - 1) / gpus
        told["sizes"] = [
            {"size_bytes": size, "time_us": size * factor / (BUS * share) / 1e3,
             "algbw_GBps": BUS * share / factor, "busbw_GBps": BUS * share}
            for size in sizes
        ]  # fmt: skip
        last = told["sizes"][-1]
        metrics = {key: last[key] for key in ("busbw_GBps", "algbw_GBps", "size_bytes")}
    else:
        usual = HOST if check == "gpu_host_bandwidth" else PEER
        rates = [usual * (share if gpu == 1 else 1.0) for gpu in range(gpus)]
        healthy = [usual] * gpus
        if check == "gpu_host_bandwidth":
            matrices: list[Any] = [[rates], [healthy if only_way else rates]]
        else:
            peers = gpu_words.peers(rates, gpus)
            if only_way:
                peers = [
                    [cell if cell is None or one < other else usual for other, cell in enumerate(cells)]
                    for one, cells in enumerate(peers)
                ]
            matrices = [peers]
        told["matrices"] = dict(zip(nvbandwidth.COPIES[check], matrices, strict=True))
        metrics = nvbandwidth.least(check, told["matrices"])
    return {
        **node_row(line, (0.1, 9.0), [program]),
        "metrics": {**metrics, "gpus": gpus},
        "nccl_tests" if line["tool"] == "nccl-tests" else "nvbandwidth": told,
    }
