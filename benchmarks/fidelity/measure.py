"""Does Railyard print what the tools print by hand? Ten pairs, alternating, on the same two lab nodes.

Needs the lab of virtual machines up and provisioned (`make demo`). A round is: ib_write_bw and iperf3 by hand
over SSH on the first rail, in either direction, and one `railyard validate` of that rail, read from its run
folder; by hand is first in every other round. That is a pair for each direction. A round is appended to
results.jsonl as it is measured, so the command can be stopped and started again; it goes on until there are
ten pairs. Numbers by hand are read with expressions of this file's own.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
RESULTS = Path(__file__).with_name("results.jsonl")
PAIRS = 10
ADDRESSES = {"gpuserver1": "10.0.1.1", "gpuserver2": "10.0.1.2"}
POLICY = {
    "bidirectional": False,
    "beacon": False,
    "ping_count": 10,
    "rdma_tests": ["ib_write_bw"],
    # Of short windows the start takes its part on emulated nodes, where all that begins costs a tenth of a
    # second and more: see the README.
    "rdma_duration_s": 14,
    "rdma_margin_s": 1,
    "iperf3_duration_s": 8,
    "iperf3_omit_s": 1,
    "iperf3_streams": 4,
}


def ssh_argv(node: str, *command: str) -> list[str]:
    """Return the argv that runs a command on a lab node."""
    hosts = yaml.safe_load((ROOT / "inventories" / "lab" / "hosts.yml").read_text(encoding="utf-8"))
    address = hosts["gpu_nodes"]["hosts"][node]["ansible_host"]
    state = ROOT / ".lab" / "lab" / "ssh"
    options = ["-F", "none", "-i", str(state / "id_ed25519"), "-o", f"UserKnownHostsFile={state}/known_hosts"]
    return ["ssh", *options, "-o", "StrictHostKeyChecking=yes", f"railyard@{address}", shlex.join(command)]


def on(node: str, *command: str) -> str:
    """Run a command on a node and return what it prints."""
    done = subprocess.run(ssh_argv(node, *command), text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{node}: {shlex.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def between(nodes: tuple[str, str], server: list[str], client: list[str], port: int) -> str:
    """Run a server and, once its socket is there, a client; return what the client prints."""
    with subprocess.Popen(
        ssh_argv(nodes[1], *server), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        for _ in range(60):
            if f":{port} " in on(nodes[1], "ss", "-Hltn"):
                break
            time.sleep(0.2)
        try:
            return on(nodes[0], *client)
        finally:
            process.wait(timeout=60)


def gid_index(node: str, address: str) -> str:
    """Return the index of the IPv4 address's GID, looked up as a person would."""
    wanted = "0000:0000:0000:0000:0000:ffff:" + ":".join(
        "{:02x}{:02x}".format(*pair)
        for pair in zip(*[iter(int(part) for part in address.split("."))] * 2, strict=True)
    )
    text = on(node, "grep", "-H", ".", *[f"/sys/class/infiniband/rxe0/ports/1/gids/{n}" for n in range(8)])
    return next(line.split(":")[0].rsplit("/", 1)[1] for line in text.splitlines() if wanted in line)


def by_hand(client_node: str, server_node: str) -> dict[str, float]:
    """Return both tools' bandwidth in Gbit/s (10^9) from client to server, measured without Railyard."""
    nodes, target = (client_node, server_node), ADDRESSES[server_node]
    flags = ["-D", str(POLICY["rdma_duration_s"]), "-f", str(POLICY["rdma_margin_s"]), "-s", "65536", "-F"]
    argvs = {
        node: ["ib_write_bw", "-d", "rxe0", "-x", gid_index(node, address), "-p", "18515", *flags]
        for node, address in ADDRESSES.items()
    }
    # On an emulated processor perftest now and then misses its clock and prints 0 or inf; then it is run
    # again, as Railyard does.
    for _ in range(4):
        text = between(nodes, argvs[server_node], [*argvs[client_node], target], 18515)
        found = re.search(r"^ *65536 +\d+ +[\d.]+ +([\d.]+)", text, re.MULTILINE)
        if found is not None and float(found.group(1)) > 0:
            break
    else:
        raise RuntimeError(text)
    times = ["-t", str(POLICY["iperf3_duration_s"]), "-O", str(POLICY["iperf3_omit_s"])]
    streams = ["-P", str(POLICY["iperf3_streams"]), "-l", "131072", "-J"]
    client = ["iperf3", "-c", target, "-B", ADDRESSES[client_node], *times, *streams]
    text = between(nodes, ["iperf3", "-s", "-1", "-B", target], client, 5201)
    return {
        "ib_write_bw": float(found.group(1)) * 2**20 * 8 / 1e9,
        "iperf3": json.loads(text)["end"]["sum_received"]["bits_per_second"] / 1e9,
    }


def inventory(folder: Path) -> Path:
    """Write an inventory of the lab that asks for the first rail only."""
    target = folder / "fidelity"
    subprocess.run(["cp", "-r", str(ROOT / "inventories" / "lab"), str(target)], check=True)
    for path in target.rglob("*.yml"):
        text = path.read_text(encoding="utf-8").replace("{{ inventory_dir }}/../../.lab/", f"{ROOT}/.lab/")
        variables = yaml.safe_load(text) or {}
        if "fabric" in variables:
            variables["fabric"]["rails"] = variables["fabric"]["rails"][:1]
            variables["fabric_policy"] = {**variables.get("fabric_policy", {}), **POLICY}
            text = yaml.safe_dump(variables, sort_keys=False)
        path.write_text(text, encoding="utf-8")
    return target


def by_railyard(where: Path, reports: Path) -> dict[str, dict[str, float]]:
    """Return the same two numbers, by the sending node, from the verdicts of one `railyard validate`."""
    environment = {**os.environ, "RAILYARD_REPORTS_DIR": str(reports)}
    argv = [str(BIN / "railyard"), "validate", "-i", str(where)]
    done = subprocess.run(argv, cwd=ROOT, env=environment, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    run = sorted((reports / "fidelity").iterdir())[-1]
    found: dict[str, dict[str, float]] = {node: {} for node in ADDRESSES}
    for line in (run / "verdicts.jsonl").read_text(encoding="utf-8").splitlines():
        verdict = json.loads(line)
        if verdict["check"] in ("rdma_bandwidth", "tcp_bandwidth"):
            found[verdict["node"]][verdict["tool"]] = verdict["observed"]["bandwidth_gbps"]
    return found


def kept() -> list[dict]:
    """Return the pairs measured so far; a torn last line is left out."""
    pairs = []
    for line in RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []:
        try:
            pairs.append(json.loads(line))
        except ValueError:
            print("a torn line was left out", file=sys.stderr)
    return pairs


def main() -> None:
    """Measure until there are ten pairs, then print the medians in Markdown."""
    with tempfile.TemporaryDirectory() as scratch:
        where = inventory(Path(scratch))
        first, second = ADDRESSES
        while len(kept()) < PAIRS:
            measured = by_railyard(where, Path(scratch) / "reports") if len(kept()) % 4 else None
            hand = {first: by_hand(first, second), second: by_hand(second, first)}
            measured = measured or by_railyard(where, Path(scratch) / "reports")
            with RESULTS.open("a", encoding="utf-8") as file:
                for node in ADDRESSES:
                    pair = {"from": node, "hand_gbps": hand[node], "railyard_gbps": measured[node]}
                    file.write(json.dumps(pair, sort_keys=True) + "\n")
            print(f"{len(kept())} pairs of {PAIRS}: {hand} {measured}", file=sys.stderr)
    print("| tool | median of the ratios Railyard / by hand | least | greatest |\n|---|---:|---:|---:|")
    for tool in ("ib_write_bw", "iperf3"):
        ratios = [pair["railyard_gbps"][tool] / pair["hand_gbps"][tool] for pair in kept()]
        print(f"| {tool} | {statistics.median(ratios):.3f} | {min(ratios):.3f} | {max(ratios):.3f} |")


if __name__ == "__main__":
    main()
