# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node's part in a collective: a program of its own, run by an interpreter that has torch.

It is a zip with its parameters, `job.json`, and this package, given as standard input: there is no file on
the node, and neither parameters nor secret are on a command line. Results are lines that begin with `MARK`,
each a JSON object; all other lines are torch's or NCCL's.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import json
import os
import signal
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import store, sweep, training
from .group import Group

MARK = "railyard: "
ORDERS = "job.json"
# How long the others have after one process of a node has failed, and the store's users after it has ended.
_GRACE_S = 5.0
# How much later than the first node another may have begun to wait for one that is absent: to start torch
# takes that long on a busy node. Were the store gone before, the first node would be named in its place.
_LATER_S = 45.0
# A process's exit status when another node did not come.
_ABSENT = 2
_LOOK_S = 0.05
# `_IOLBF` of stdio.h, by glibc and musl.
_LINE_BUFFERED = 1


class JobError(Exception):
    """The job cannot be done; `kind` is one of no_torch, no_nccl, absent, store, failed."""

    def __init__(self, kind: str, message: str, nodes: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.kind = kind
        self.nodes = list(nodes)


def main() -> int:
    """Do what the orders say; 0 when every process of this node has ended well."""
    with zipfile.ZipFile(sys.argv[0]) as program:
        orders = json.loads(program.read(ORDERS))
    return run(orders)


def run(orders: Mapping[str, Any]) -> int:
    """Do a job.

    Args:
        orders: `task` (one of `operations.NAMES`, or ddp), `backend` (gloo, nccl), `node`, `nodes` (all, in
            the order of their ranks), `processes` (of this node), `meet` (addresses, port of the first node's
            store), `secret`, `netdevs` (gloo: the rails' own), `environment`, `sizes` (bytes), `duration_s`,
            `wait_s` (for the others), `limit_s` (for one operation).
    """
    os.environ.update(orders["environment"])
    if orders["backend"] == "gloo":
        os.environ["GLOO_SOCKET_IFNAME"] = ",".join(orders["netdevs"])
    children = []
    sys.stdout.flush()
    for local in range(int(orders["processes"])):
        child = os.fork()
        if child == 0:
            os._exit(_child(orders, local))
        children.append(child)
    server = None
    try:
        if orders["node"] == orders["nodes"][0]:
            addresses, port = orders["meet"]
            server = store.Server(addresses, int(port), str(orders["secret"]))
        with contextlib.suppress(store.StoreError):  # its children say so
            _client(orders).set(f"node/{orders['node']}", str(len(children)).encode())
        status = _ended(children)
        with contextlib.suppress(store.StoreError):  # the others have been notified by now
            _leave(_client(orders), orders["nodes"], orders["node"], status, server is not None)
    except OSError as error:
        for child in children:
            os.kill(child, signal.SIGKILL)
        _tell({"t": "error", "kind": "store", "message": f"cannot listen at {orders['meet']}: {error}"})
        return 1
    return 1 if status else 0


def _leave(client: store.Client, nodes: Sequence[str], node: str, status: int, holds_store: bool) -> None:
    """Say that this node is done; the one that holds the store stays until those that came are too."""
    if status == _ABSENT:
        client.set(f"left/{node}", b"1")
    if holds_store and status in (0, _ABSENT):
        came = client.get([f"node/{name}" for name in nodes], 0.0)
        names = [f"left/{name}" for name, count in zip(nodes, came) if count is not None]  # noqa: B905 - 3.9
        client.get(names, _LATER_S if status == _ABSENT else _GRACE_S)


def _ended(children: Sequence[int]) -> int:
    """Wait for the processes; one that failed leaves the others a moment; return its status, or 0."""
    left, first, until = set(children), 0, float("inf")
    while left:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            left.discard(pid)
            if status != 0 and not first:
                first = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1
                until = time.monotonic() + _GRACE_S
            continue
        if time.monotonic() > until:
            for child in left:
                os.kill(child, signal.SIGKILL)
            until = float("inf")
        time.sleep(_LOOK_S)
    return first


def _client(orders: Mapping[str, Any]) -> store.Client:
    addresses, port = orders["meet"]
    return store.Client(addresses, int(port), str(orders["secret"]), float(orders["wait_s"]))


def _child(orders: Mapping[str, Any], local: int) -> int:
    status = 1
    log_by_lines()
    try:
        _take_part(orders, local)
        status = 0
    except JobError as error:
        status = _ABSENT if error.kind == "absent" else 1
        _tell({"t": "error", "kind": error.kind, "message": str(error), "nodes": error.nodes})
    except store.StoreError as error:
        _tell({"t": "error", "kind": "absent", "message": str(error), "nodes": orders["nodes"][:1]})
    except Exception as error:
        # torch's own words, whose first line says what happened.
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        _tell({"t": "error", "kind": "failed", "message": said[:400], "nodes": []})
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return status


def log_by_lines() -> None:
    """Have C's standard output written line by line, also into a file.

    NCCL's log goes there. By default it is written in pieces of 4096 bytes, which end within a line and so
    join with the results, and what is left of it is lost when a process ends by `os._exit`.
    """
    with contextlib.suppress(ImportError, OSError, ValueError, AttributeError):
        ctypes = importlib.import_module("ctypes")
        libc = ctypes.CDLL(None)
        libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, _LINE_BUFFERED, ctypes.c_size_t(0))


def _take_part(orders: Mapping[str, Any], local: int) -> None:
    torch = _torch(orders["backend"])
    client = _client(orders)
    counts = client.get([f"node/{name}" for name in orders["nodes"]], float(orders["wait_s"]))
    absent = [name for name, count in zip(orders["nodes"], counts) if count is None]  # noqa: B905 - 3.9
    if absent:
        raise JobError("absent", f"{', '.join(absent)} did not come within {orders['wait_s']:g} s", absent)
    processes = [int(count or 0) for count in counts]
    place = orders["nodes"].index(orders["node"])
    rank, world = sum(processes[:place]) + local, sum(processes)
    device = "cpu" if orders["backend"] == "gloo" else f"cuda:{local}"
    if device == "cpu":
        # What is measured is the network; threads that spin for each other's sake would take from it.
        torch.set_num_threads(1)
    else:
        torch.cuda.set_device(local)
    parts = len(orders["netdevs"]) if orders["backend"] == "gloo" else 1
    group = Group(torch, rank, world, processes[place], parts, device)
    with _joined(torch, client, orders, rank, world):
        if local == 0:
            _tell(
                {"t": "began", "torch": str(torch.__version__), "ranks": world, "processes": processes[place]}
            )
        tell = _tell if local == 0 else _silent
        if orders["task"] == "ddp":
            tell(training.train(group, float(orders["duration_s"])))
        else:
            seconds = float(orders["duration_s"])
            tell(sweep.sweep(group, orders["task"], orders["sizes"], seconds, tell))
        if local == 0:
            # All messages are sent: the first node is no longer needed.
            with contextlib.suppress(store.StoreError):
                client.set(f"left/{orders['node']}", b"1")


@contextlib.contextmanager
def _joined(
    torch: Any, client: store.Client, orders: Mapping[str, Any], rank: int, world: int
) -> Iterator[None]:
    limit = datetime.timedelta(seconds=float(orders["limit_s"]))
    # torch keeps the C++ half of a store alone. NCCL connects at the first operation, and asks it only then:
    # without this name Python's half would be gone ("INTERNAL ASSERT FAILED ... Not implemented").
    keys = _as_torch_has_it(torch, client, limit)
    torch.distributed.init_process_group(
        orders["backend"], store=keys, rank=rank, world_size=world, timeout=limit
    )
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # it is over, whatever it says of it
            torch.distributed.destroy_process_group()
        del keys


def _torch(backend: str) -> Any:
    try:
        torch = importlib.import_module("torch")
        distributed = importlib.import_module("torch.distributed")
    except Exception as error:
        raise JobError("no_torch", f"{sys.executable} cannot import torch: {error}") from error
    if not distributed.is_available() or (backend == "nccl" and not distributed.is_nccl_available()):
        raise JobError("no_nccl", f"torch {torch.__version__} of {sys.executable} has no {backend}")
    if backend == "nccl" and not torch.cuda.is_available():
        raise JobError("no_nccl", f"torch {torch.__version__} of {sys.executable} finds no GPU it can use")
    return torch


def _as_torch_has_it(torch: Any, client: store.Client, limit: datetime.timedelta) -> Any:
    """Return the store as an object of torch's, which calls it by these names."""

    # torch is imported when the program runs, so type checkers do not know its classes.
    class Keys(torch.distributed.Store):  # type: ignore[misc]
        def set(self, key: str, value: Any) -> None:
            client.set(key, value.encode() if isinstance(value, str) else bytes(value))

        def get(self, key: str) -> bytes:
            return self._all([key], limit)[0]

        def add(self, key: str, amount: int) -> int:
            return client.add(key, amount)

        def check(self, keys: Sequence[str]) -> bool:
            return None not in client.get(keys, 0.0)

        def wait(self, keys: Sequence[str], within: datetime.timedelta = limit) -> None:
            self._all(keys, within)

        def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
            both = [one.encode() if isinstance(one, str) else bytes(one) for one in (expected, desired)]
            return client.compare_set(key, both[0], both[1])

        def delete_key(self, key: str) -> bool:
            return client.delete(key)

        def num_keys(self) -> int:
            return client.count()

        def set_timeout(self, within: datetime.timedelta) -> None:
            """Every question has its own."""

        def _all(self, keys: Sequence[str], within: datetime.timedelta) -> list[bytes]:
            values = client.get(keys, within.total_seconds())
            if None in values:
                raise RuntimeError(f"the others did not say {', '.join(keys)} in time")
            return [value for value in values if value is not None]

    return Keys()


def _tell(line: Mapping[str, Any]) -> None:
    sys.stdout.write(MARK + json.dumps(line) + "\n")
    sys.stdout.flush()


def _silent(_line: Mapping[str, Any]) -> None:
    """Say nothing: another process of this node does."""


if __name__ == "__main__":
    # A program's status is for who started it.
    sys.exit(main())  # pylint: disable=ansible-bad-function
