"""Stand-ins for sinfo, salloc, scancel and scontrol, to the output formats that Slurm documents.

sinfo: fields %N|%T|%C|%G|%E of sinfo(1), "NODE STATE CODES"; a node of two partitions has two lines.
salloc: salloc(1) and the words that Debian's Slurm 22.05.8 printed: `Granted job allocation N`, and `error:
Unable to allocate resources: Connection timed out` where --immediate is over (src/salloc/salloc.c).
scontrol: `show node` as of Slurm 22.05, see fake_scontrol.py.
One state file beside them: what nodes there are, and how the programs were called.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PROGRAMS = ("sinfo", "salloc", "scancel", "scontrol", "srun", "squeue")
_SCRIPT = """\
#!{python}
import json, sys
from pathlib import Path
STATE = Path({state!r})
name, words = Path(sys.argv[0]).name, sys.argv[1:]
state = json.loads(STATE.read_text())
state["calls"].append([name, *words])
status = 0
nodes = state["nodes"]
given = dict(word.lstrip("-").split("=", 1) for word in words if "=" in word)
if state["broken"].get(name):
    print(state["broken"][name], file=sys.stderr)
    status = 1
elif name == "sinfo":
    for node, one in nodes.items():
        for _partition in range(one.get("partitions", 1)):
            cpus = one.get("cpus", "0/8/0/8")
            last = one.get("gres", "(null)"), one.get("reason") or "none"
            print("|".join((node, one["state"], cpus, *last)))
elif name == "salloc":
    wanted = given["nodelist"].split(",")
    if any(nodes[node]["state"] != "idle" or node in state["taken"] for node in wanted):
        print("salloc: Pending job allocation 40", file=sys.stderr)
        print("salloc: error: Unable to allocate resources: Connection timed out", file=sys.stderr)
        for node in state["taken"]:
            nodes[node].update(state="allocated", cpus="8/0/0/8")
        status = 1
    else:
        state["job"] += 1
        print("salloc: Granted job allocation %d" % state["job"], file=sys.stderr)
elif name == "scontrol" and words[:2] == ["show", "node"]:
    one = nodes[words[2]]
    shown = {{"idle": "IDLE", "drained": "IDLE+DRAIN", "draining": "MIXED+DRAIN"}}
    cpus = one.get("cpus", "0/8/0/8").split("/")[0]
    print("NodeName=%s Arch=x86_64\\n   CPUAlloc=%s CPUTot=8" % (words[2], cpus))
    print("   State=%s ThreadsPerCore=1" % shown.get(one["state"], "ALLOCATED"))
    if one.get("reason"):
        print("   Reason=%s [root@2026-11-21T10:15:03]" % one["reason"])
elif name == "scontrol":
    given = dict(word.split("=", 1) for word in words[1:])
    one = nodes[given["NodeName"]]
    if given["State"] == "DRAIN":
        one.update(state="draining" if one["state"] == "allocated" else "drained", reason=given["Reason"])
    else:
        one.update(state="idle", reason=None)
STATE.write_text(json.dumps(state))
sys.exit(status)
"""


class FakeSlurm:
    """A cluster of stand-ins; `bin` goes first on PATH."""

    def __init__(self, folder: Path, nodes: dict[str, dict[str, Any]]) -> None:
        self.bin = folder / "slurm"
        self.bin.mkdir()
        self._state = self.bin / "state.json"
        start = {"nodes": nodes, "calls": [], "job": 40, "taken": [], "broken": {}}
        self._state.write_text(json.dumps(start), encoding="utf-8")
        for name in PROGRAMS:
            program = self.bin / name
            program.write_text(
                _SCRIPT.format(python=sys.executable, state=str(self._state)), encoding="utf-8"
            )
            program.chmod(0o755)

    def calls(self, name: str) -> list[list[str]]:
        """Return the arguments of each call of a program."""
        return [call[1:] for call in self._read()["calls"] if call[0] == name]

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Return what there is of each node now."""
        found: dict[str, dict[str, Any]] = self._read()["nodes"]
        return found

    def change(self, **keys: Any) -> None:
        """Change `nodes`, `taken` (nodes that a job takes before salloc) or `broken` (program -> words)."""
        self._state.write_text(json.dumps({**self._read(), **keys}), encoding="utf-8")

    def _read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._state.read_text(encoding="utf-8"))
        return found
