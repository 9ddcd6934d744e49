"""Count what a no-change provision costs a node: SSH exec requests, as its own sshd logs them, and tasks.

Needs the built-in lab up and provisioned (`make demo`). Each playbook runs once with nothing to change;
commands are counted, not connections; a skipped task costs the controller nearly as much as one that runs, so
both count. Arguments go to ansible-playbook. Prints a table in Markdown.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOKS = ("preflight", "drivers", "network", "qos", "tuning", "nccl", "tools", "provision")


def ssh(address: str, *command: str) -> str:
    """Run a command on a lab node over a connection of its own."""
    state = ROOT / ".lab" / "lab" / "ssh"
    argv = [
        "ssh",
        "-F",
        "none",
        "-i",
        str(state / "id_ed25519"),
        "-o",
        f"UserKnownHostsFile={state}/known_hosts",
    ]
    argv += ["-o", "StrictHostKeyChecking=yes", "-o", "ControlPath=none", f"railyard@{address}", *command]
    return subprocess.run(argv, check=True, text=True, capture_output=True).stdout


def requests(address: str) -> int:
    """Return the exec requests that the node has served so far, this one not counted."""
    journal = ssh(address, "sudo", "journalctl", "--unit", "ssh", "--no-pager", "--output", "cat")
    return sum("Starting session: command" in line for line in journal.splitlines()) - 1


def recap(output: str, kinds: tuple[str, ...], host: str = "") -> int:
    """Add up what Ansible's recap counts of some kinds, for one host or for all."""
    lines = [line for line in output.splitlines() if "changed=" in line and line.startswith(host)]
    return sum(int(line.split(f"{kind}=")[1].split()[0]) for line in lines for kind in kinds)


def main() -> None:
    """Run each playbook and print its requests per node."""
    hosts = yaml.safe_load((ROOT / "inventories" / "lab" / "hosts.yml").read_text(encoding="utf-8"))
    nodes = {name: settings["ansible_host"] for name, settings in hosts["gpu_nodes"]["hosts"].items()}
    ansible = Path(sys.executable).parent / "ansible-playbook"
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
    titles = [*nodes, *(f"tasks {name}" for name in nodes), "changed"]
    print(f"| playbook | {' | '.join(titles)} |\n|---|{'---:|' * len(titles)}")
    for playbook in PLAYBOOKS:
        before = {name: requests(address) for name, address in nodes.items()}
        argv = [str(ansible), "-i", "inventories/lab", f"playbooks/{playbook}.yml", *sys.argv[1:]]
        done = subprocess.run(argv, cwd=ROOT, env=environment, text=True, capture_output=True, check=True)
        # One of the requests since then was the count before.
        counts = [str(requests(address) - before[name] - 1) for name, address in nodes.items()]
        counts += [str(recap(done.stdout, ("ok", "skipped"), f"{name} ")) for name in nodes]
        counts.append(str(recap(done.stdout, ("changed",))))
        print(f"| {playbook} | {' | '.join(counts)} |")


if __name__ == "__main__":
    main()
