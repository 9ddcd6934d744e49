"""Measure at boot how slow the lab's nodes are; the lab's time limits are multiples of that.

An emulated node on a busy machine takes minutes for what it does in seconds on a quiet one. A limit that
suits the quiet machine ends work that would succeed, and one that suits the busy machine keeps everybody
else waiting for nodes that are really gone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from railyard.lab import machine, reference
from railyard.lab.process import LabError, run
from railyard.lab.topology import Node

# A limit is never shorter than on the reference machine, and one that is ten times as long is of no use.
_LEAST, MOST = 1.0, 10.0
_DEADLINE_S = 120.0
# Prints the seconds that the node needs for it; the loop is about 0.03 s on a processor of today.
_WORK = (
    "import time; begun = time.perf_counter(); x = 0\n"
    "for i in range(300000): x += i * i % 7\n"
    "print(time.perf_counter() - begun)"
)

Clock = Callable[[], float]
SshArgv = Callable[..., list[str]]


@dataclass(frozen=True)
class Speed:
    """How slow the nodes of a lab were when it came up.

    Attributes:
        work_s: seconds that the slowest node took for the fixed piece of Python's work.
        login_s: the same for a new SSH connection with one command by sudo.
        time_factor: by how much time limits are longer than on the reference machine; from 1 to 10.
        load_1min: the load average of the host at that time.
        cores: the host's processors.
        why: why nothing was measured, or "".
    """

    work_s: float
    login_s: float
    time_factor: float
    load_1min: float
    cores: int
    why: str = ""

    def __str__(self) -> str:
        if self.why:
            return (
                f"speed of the nodes: not measured ({self.why}); time limits are {self.time_factor:g} times"
                " the usual"
            )
        return (
            f"speed of the nodes: SSH with sudo {self.login_s:.1f} s, Python {self.work_s:.2f} s; time limits"
            f" are {self.time_factor:g} times the usual (host: load {self.load_1min:.1f}, {self.cores} cores)"
        )


def measure(nodes: Sequence[Node], ssh_argv: SshArgv, clock: Clock = time.monotonic) -> Speed:
    """Measure all nodes at the same time, as Ansible uses them; the slowest counts.

    A node that does not answer within two minutes makes the limits as long as they get.
    """
    load_1min, cores = machine.load_1min(), machine.cores()
    try:
        with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
            logins_s = list(pool.map(lambda node: _login_s(node, ssh_argv, clock), nodes))
            works_s = list(pool.map(lambda node: _work_s(node, ssh_argv), nodes))
    except LabError as error:
        why = str(error).splitlines()[0]
        return Speed(0.0, 0.0, MOST, load_1min, cores, why)
    factor = max(map(time_factor, (node.kind for node in nodes), works_s, logins_s))
    return Speed(round(max(works_s), 3), round(max(logins_s), 2), factor, load_1min, cores)


def time_factor(kind: str, work_s: float, login_s: float) -> float:
    """Return by how much limits are longer than on the reference machine, rounded up to a tenth."""
    slowness = reference.NODES[kind].slowness(work_s, login_s)
    return min(MOST, max(_LEAST, math.ceil(round(slowness * 10, 6)) / 10))


def load(data: object) -> Speed | None:
    """Return the speed that a state file holds; None where it holds none or something else."""
    if not isinstance(data, Mapping):
        return None
    numbers = {name: data.get(name) for name in ("work_s", "login_s", "time_factor", "load_1min")}
    cores, why = data.get("cores"), data.get("why", "")
    if any(isinstance(one, bool) or not isinstance(one, (int, float)) for one in numbers.values()):
        return None
    if not isinstance(cores, int) or isinstance(cores, bool) or not isinstance(why, str):
        return None
    found = Speed(**{name: float(one) for name, one in numbers.items()}, cores=cores, why=why)  # type: ignore[arg-type]
    return found if _LEAST <= found.time_factor <= MOST else None


def _login_s(node: Node, ssh_argv: SshArgv, clock: Clock) -> float:
    begun = clock()
    run(ssh_argv(node, "sudo", "-n", "true"), timeout_s=_DEADLINE_S)
    return clock() - begun


def _work_s(node: Node, ssh_argv: SshArgv) -> float:
    answer = run(ssh_argv(node, "python3", "-"), stdin=_WORK.encode(), timeout_s=_DEADLINE_S).stdout
    try:
        took_s = float(answer)
    except ValueError:
        took_s = math.nan
    if not 0 < took_s < _DEADLINE_S:
        raise LabError(f"{node.name} answered {answer.strip()[:80]!r} in place of a number of seconds")
    return took_s
