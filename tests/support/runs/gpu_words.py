# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nccl-tests 2.17 and nvbandwidth 0.8 print, by the formats of their sources; no GPU printed it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

MODEL = "NVIDIA H100 80GB HBM3"
_WAYS = {"all_reduce": 2, "all_gather": 1, "alltoall": 1}


def address(gpu: int) -> str:
    return f"0000:{0x1B + 0x10 * gpu:02x}:00.0"


def nccl_tests(
    collective: str, gpus: int, most: int, algbw: float = 200.0, wrong: int = 0, ranks: int | None = None
) -> str:
    """Return a table from 8 bytes to `most`; small sizes take 20 us, large ones what `algbw` (GB/s) says."""
    ranks = gpus if ranks is None else ranks
    lines = [
        "# nccl-tests version 2.17.6 nccl-headers=22705 nccl-library=22705",
        f"# Collective test starting: {collective}_perf",
        f"# nThread 1 nGpus {ranks} minBytes 8 maxBytes {most} step: 2(factor) warmup iters: 1 iters: 20 "
        "agg iters: 1 validation: 1 graph: 0 unalign: 0",
        "#",
        "# Using devices",
        *(
            f"#  Rank {rank:2d} Group  0 Pid   4711 on       gpu1 device {rank:2d} "
            f"[{address(rank)[:-2]}] {MODEL}"
            for rank in range(ranks)
        ),
        "#",
        "#                                                              out-of-place                       "
        "in-place          ",
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   "
        "algbw   busbw  #wrong ",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  "
        "(GB/s)  (GB/s)         ",
    ]
    share = _WAYS[collective] * (ranks - 1) / ranks
    redop, rates, size = ("sum" if collective == "all_reduce" else "none"), [], 8
    while size <= most:
        # alltoall and all_gather share elements among ranks, by 16 bytes.
        part = size if collective == "all_reduce" else size // ranks // 16 * 16 * ranks
        took = 20.0 + part / algbw / 1e3
        rate = part / took / 1e3
        half = f"{took:7.2f}"[:7] + f"  {rate:6.2f}  {rate * share:6.2f}"
        bad = wrong if size * 2 > most else 0
        # What alltoall does in place is not checked.
        again = "   N/A" if collective == "alltoall" else f"{0:6d}"
        lines.append(
            f"{part:12d}  {part // 4:12d}     float  {redop:>6s}      -1  {half}  {bad:6d}  {half}  {again}"
        )
        rates.append(round(rate * share, 2))
        size *= 2
    lines += [
        f"# Out of bounds values : {int(wrong > 0)} {'FAILED' if wrong else 'OK'}",
        f"# Avg bus bandwidth    : {sum(rates) / len(rates):g} ",
        "#",
        f"# Collective test concluded: {collective}_perf",
        "",
    ]
    return "\n".join(lines)


def nvbandwidth(tests: dict[str, list[list[Any]]], gpus: int, **more: Any) -> str:
    """Return nvbandwidth's JSON of matrices of GB/s, None where nothing was copied."""
    words = {
        "host_to_device_memcpy_ce": "CPU(row) -> GPU(column)",
        "device_to_host_memcpy_ce": "CPU(row) <- GPU(column)",
        "device_to_device_memcpy_read_ce": "GPU(row) -> GPU(column)",
    }
    cases = [
        {
            "bandwidth_description": f"memcpy CE {words[name]} bandwidth (GB/s)",
            "bandwidth_matrix": [
                ["N/A" if cell is None else f"{cell:.6g}" for cell in cells] for cells in matrix
            ],
            "name": name,
            "status": "Passed",
            "sum": sum(cell or 0 for cells in matrix for cell in cells),
        }
        for name, matrix in tests.items()
    ]
    body = {
        "CUDA Runtime Version": 12080,
        "Driver Version": "570.124.06",
        "GPU Device list": [f"{gpu}: {MODEL} (0000{address(gpu)[:-2]}): (gpu1)" for gpu in range(gpus)],
        "git_version": "v0.8",
        "testcases": cases,
        "version": "v0.8",
        **more,
    }
    return json.dumps({"nvbandwidth": body}, indent="\t", sort_keys=True) + "\n\n"


def peers(rates: Sequence[float], gpus: int) -> list[list[float | None]]:
    """Return a matrix of pairs whose bandwidth is the lesser of what both GPUs reach."""
    return [
        [None if one == other else min(rates[one], rates[other]) for other in range(gpus)]
        for one in range(gpus)
    ]


def listed(gpus: int, joined: str = "NV18", missing: int = 0) -> dict[str, Any]:
    """Return what `facts.gpus.read` finds; of so many GPUs nvidia-smi says nothing."""
    every = [f"GPU{gpu}" for gpu in range(gpus)]
    return {
        "pci": [address(gpu) for gpu in range(gpus)],
        "driver": "570.124.06" if gpus else None,
        "rows": [
            {
                "pci": address(gpu), "index": gpu, "name": MODEL,
                "pcie.link.gen.max": 5, "pcie.link.width.max": 16,
            }
            for gpu in range(gpus - missing)
        ],
        "topology": {one: {other: joined for other in every if other != one} for one in every},
        "errors": {},
    }  # fmt: skip
