"""Time `railyard discover` by the number of nodes, of which some are silent.

    python benchmarks/discover/measure.py 64:0 250:25 1000:100

The nodes are stand-ins (tests/support/nodes/bare_cluster.py): Ansible, its SSH plugin and Railyard are real,
`ssh` runs the command here, and a silent address fails after ConnectTimeout as OpenSSH does. So all nodes'
Python runs on this machine too: the seconds are an upper bound for the controller.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools"), str(ROOT / "collections")]

from support.nodes.bare_cluster import TIMED_OUT, BareCluster

CONNECT_TIMEOUT_S = 10


def measure(nodes: int, silent: int) -> None:
    """Discover so many addresses, of which the last `silent` do not answer, and print what it took."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = BareCluster(Path(folder))
        keys = [f"gpu{number:04d}" for number in range(1, nodes + 1)]
        addresses = [f"198.51.{at // 250}.{at % 250 + 1}" for at in range(nodes)]
        cluster.add_nodes(keys[: nodes - silent])
        for address in addresses[nodes - silent :]:
            cluster.fail_ssh(address, TIMED_OUT)
        ssh = cluster.folder / "bin" / "ssh"
        wait = f'&& {{ sleep {CONNECT_TIMEOUT_S}; cat "{cluster.folder}/ssh/$host"'
        ssh.write_text(ssh.read_text().replace(f'&& {{ cat "{cluster.folder}/ssh/$host"', wait))
        hosts = cluster.folder / "hosts.txt"
        hosts.write_text("".join(f"{key} {address}\n" for key, address in zip(keys, addresses, strict=True)))
        began = time.monotonic()
        target = cluster.folder / "inventory"
        started = cluster.begin("-o", target, "--hosts-from", hosts, "--listen-s", "1")
        output, _ = started.communicate()
        took_s = time.monotonic() - began
        requests = Counter(Counter(cluster.requests()).values())
        peak_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        print(
            f"{nodes} addresses, {silent} silent: {took_s:.0f} s, exit status {started.returncode},"
            f" requests a node {dict(requests)}, largest process {peak_mib} MiB",
            flush=True,
        )
        print(output[-1200:])


if __name__ == "__main__":
    for argument in sys.argv[1:] or ["64:0"]:
        measure(*map(int, argument.split(":")))
