#!/usr/bin/python3
"""Stands in for scontrol of Slurm 22.05, on a cluster of this node; keeps its state and its calls."""

import json
import socket
import sys
from pathlib import Path

STATE = Path(__file__ + ".json")
SHOWN = """\
NodeName={name} Arch=x86_64 CoresPerSocket=1
   CPUAlloc={cpus} CPUEfctv=2 CPUTot=2 CPULoad=0.05
   AvailableFeatures=(null)
   ActiveFeatures=(null)
   Gres=(null)
   NodeAddr={name} NodeHostName={name} Version=22.05.8
   OS=Linux 6.1.0-56-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.176-1 (2026-11-01)
   RealMemory=1 AllocMem=0 FreeMem=512 Sockets=2 Boards=1
   State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=all
   CfgTRES=cpu=2,mem=1M,billing=2
   AllocTRES=
{reason}
"""


def main() -> int:
    state = json.loads(STATE.read_text()) if STATE.exists() else {}
    # jobs: for how many more looks one runs.
    state = {"drained": False, "reason": None, "jobs": 0, "calls": [], **state}
    name = socket.gethostname().split(".")[0]
    state["calls"].append(sys.argv[1:])
    status = 0
    if sys.argv[1:3] == ["show", "node"] and sys.argv[3] != name:
        print(f"Node {sys.argv[3]} not found")
        status = 1
    elif sys.argv[1:3] == ["show", "node"]:
        words = "MIXED" if state["jobs"] else "IDLE"
        words += "+DRAIN" if state["drained"] else ""
        reason = f"   Reason={state['reason']} [root@2026-11-21T10:15:03]\n" if state["reason"] else ""
        print(SHOWN.format(name=name, cpus=1 if state["jobs"] else 0, state=words, reason=reason))
        state["jobs"] = max(state["jobs"] - 1, 0)
    else:
        words = dict(word.split("=", 1) for word in sys.argv[2:])
        state["drained"] = words["State"] == "DRAIN"
        state["reason"] = words.get("Reason")
    STATE.write_text(json.dumps(state))
    return status


if __name__ == "__main__":
    sys.exit(main())
