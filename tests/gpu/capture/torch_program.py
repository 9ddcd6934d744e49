"""Measure copies, or an all-reduce of one rank: a program of its own, run by the interpreter with torch.

Its results are lines that begin with the mark of the product's collective program; all else is torch's and
NCCL's. `cpu` as the device is a rehearsal of the program without a GPU: by gloo, with copies in host memory.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.collective.job import log_by_lines

MARK = "railyard: "
_GPU_BYTES, _CPU_BYTES = 256 << 20, 16 << 20
_LEAST_S, _MOST_TIMES = 0.5, 200
_WARM_UP = 3


def main(argv: Sequence[str]) -> int:
    """Do `bandwidth` or `allreduce` on `cuda` or `cpu`; 0 when it was done."""
    task, device = argv
    log_by_lines()
    try:
        import torch
    except Exception as error:
        return _failed(f"{sys.executable} cannot import torch: {_first_line(error)}")
    if device == "cuda" and not torch.cuda.is_available():
        return _failed(f"torch {torch.__version__} finds no GPU that it can use")
    try:
        place = f"{device}:0" if device == "cuda" else device
        _TASKS[task](torch, place)
    except Exception as error:
        return _failed(f"torch {torch.__version__}: {_first_line(error)}")
    return 0


def _failed(why: str) -> int:
    _tell({"t": "error", "message": why[:400]})
    return 1


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _tell(line: Mapping[str, Any]) -> None:
    sys.stdout.write(MARK + json.dumps(line) + "\n")
    sys.stdout.flush()


def _bandwidth(torch: Any, device: str) -> None:
    size = _CPU_BYTES if device == "cpu" else min(_GPU_BYTES, torch.cuda.mem_get_info()[0] // 8)
    _tell(_who(torch, device))
    host = torch.ones(size, dtype=torch.uint8)
    pinned = device != "cpu"
    host = host.pin_memory() if pinned else host
    one = torch.zeros(size, dtype=torch.uint8, device=device)
    other = torch.zeros_like(one)
    ways = (
        ("host_to_device", one, host, size),
        ("device_to_host", host, one, size),
        # Each byte is read and written.
        ("device_memory", other, one, 2 * size),
    )
    for what, to, source, moved in ways:
        seconds, times = _timed(torch, device, functools.partial(to.copy_, source, non_blocking=True))
        _tell({"t": "copy", "what": what, "bytes": moved * times, "seconds": seconds, "times": times,
               "pinned": pinned})  # fmt: skip
    if int(host.sum()) != size or int(other.sum()) != size:
        raise ValueError("copied bytes came back changed")
    _tell({"t": "copied"})


def _allreduce(torch: Any, device: str) -> None:
    import torch.distributed as dist

    backend = "gloo" if device == "cpu" else "nccl"
    if device != "cpu":
        torch.cuda.set_device(0)
    # A store of this process alone: one rank has no peers.
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    try:
        _tell({**_who(torch, device), "backend": backend})
        count = (_CPU_BYTES if device == "cpu" else _GPU_BYTES) // 4
        tensor = torch.arange(count, device=device, dtype=torch.float32) % 251
        wanted = tensor.clone()
        seconds, times = _timed(torch, device, lambda: dist.all_reduce(tensor))
        wrong = int((tensor != wanted).sum())
        _tell(
            {"t": "allreduce", "bytes": 4 * count * times, "seconds": seconds, "times": times, "wrong": wrong}
        )
    finally:
        dist.destroy_process_group()


def _who(torch: Any, device: str) -> dict[str, Any]:
    name = "cpu" if device == "cpu" else torch.cuda.get_device_name(0)
    cuda = torch.version.cuda
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if device != "cpu" else None
    return {"t": "began", "torch": str(torch.__version__), "device": device, "name": name, "cuda": cuda,
            "nccl": nccl}  # fmt: skip


def _timed(torch: Any, device: str, step: Callable[[], object]) -> tuple[float, int]:
    """Return how long a step took in all, and how often it was done."""

    def wait() -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    for _turn in range(_WARM_UP):
        step()
    wait()
    begun, times = time.perf_counter(), 0
    while times < _MOST_TIMES and (not times or time.perf_counter() - begun < _LEAST_S):
        step()
        wait()
        times += 1
    return time.perf_counter() - begun, times


_TASKS = {"bandwidth": _bandwidth, "allreduce": _allreduce}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
