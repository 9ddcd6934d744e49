"""What a host and a fork of Ansible cost the controller, by ansible.cfg as it is; no node is touched.

    python benchmarks/forks/measure.py

A play over hosts that do not exist, with an action that answers at once (CPU seconds per host and task) or
waits, as the wait for a measurement does (memory per fork). A line for each in results.jsonl.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ACTION = """
import time
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        time.sleep(float(self._task.args["seconds"]))
        return {"changed": False}
"""
PLAYBOOK = """
- hosts: all
  gather_facts: false
  tasks:
    - stand_in: {seconds: SECONDS}
"""
TASKS = 3


def prepare(place: Path, hosts: int, tasks: int, seconds: int) -> list[str]:
    """Lay out inventory, playbook and action; return the command."""
    (place / "action_plugins").mkdir()
    (place / "action_plugins" / "stand_in.py").write_text(ACTION, encoding="utf-8")
    (place / "hosts").write_text(f"gpu[0001:{hosts:04d}]\n", encoding="utf-8")
    *head, task = PLAYBOOK.replace("SECONDS", str(seconds)).rstrip().splitlines()
    (place / "site.yml").write_text("\n".join([*head, *[task] * tasks]) + "\n", encoding="utf-8")
    program = Path(sys.executable).parent / "ansible-playbook"
    return [str(program), "-i", str(place / "hosts"), str(place / "site.yml")]


def processes(root: int) -> list[int]:
    """Return a process and all below it."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = [root]
    for one in found:
        found += parents.get(one, [])
    return found


def memory_mib(pids: list[int]) -> float:
    """Return the memory of processes, what they share counted once."""
    total = 0
    for pid in pids:
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total / 1024


def measure(hosts: int, forks: int, waiting: bool) -> dict[str, Any]:
    """Run one play and return its line."""
    with tempfile.TemporaryDirectory() as place:
        # While the last fork starts, the first must still wait.
        command = prepare(Path(place), hosts, 1 if waiting else TASKS, 20 + forks // 5 if waiting else 0)
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        start = time.monotonic()
        child = subprocess.Popen(
            [*command, "--forks", str(forks)], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL
        )
        most = (0, 0.0)
        while waiting and not (done := os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)):
            time.sleep(2)
            there = processes(child.pid)
            if len(there) > most[0] or done:
                most = (len(there), memory_mib(there))
        _pid, status, used = os.wait4(child.pid, 0)
        wall_s = time.monotonic() - start
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError("ansible-playbook failed")
    cpu_s = used.ru_utime + used.ru_stime
    line: dict[str, Any] = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "hosts": hosts,
        "forks": forks,
    }
    if waiting:
        line |= {"processes": most[0], "memory_mib": round(most[1]), "cpu_s": round(cpu_s, 1)}
    else:
        line |= {"wall_s": round(wall_s, 1), "cpu_s": round(cpu_s, 1)}
        line["cpu_ms_per_host_and_task"] = round(1000 * cpu_s / hosts / TASKS, 1)
    line["machine"] = {
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "ansible_core": version("ansible-core"),
        "load": round(os.getloadavg()[0], 1),
    }
    return line


def main() -> None:
    """Measure both, at several numbers."""
    for hosts, forks, waiting in (
        (50, 50, True), (200, 200, True), (500, 500, True),
        (200, 50, False), (1000, 50, False), (1000, 200, False),
    ):  # fmt: skip
        line = json.dumps(measure(hosts, forks, waiting))
        print(line, flush=True)
        with (HERE / "results.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(f"{line}\n")


if __name__ == "__main__":
    main()
