"""RDMA measured for real, then faked, broken and rebooted; each time the verdict has to be the true one.

The tests build on one another in the order of this file: a lab of emulated machines is dear.
"""

from __future__ import annotations

import re
import tarfile

from e2e.support import Cluster, assert_proven
from rdma.conftest import Demo
from rdma.support import NODES, RAILS, rdma_verdicts

MEASURED = {
    "rdma_bandwidth": "ib_write_bw",
    "rdma_latency": "ib_write_lat",
    "tcp_bandwidth": "iperf3",
    "tcp_latency": "sockperf",
    "rdma_bandwidth_concurrent": "ib_write_bw",
    "tcp_bandwidth_concurrent": "iperf3",
}

# Takes perftest's arguments, moves real bytes over TCP between the same addresses, and prints a fine table.
FAKE = r"""#!/usr/bin/env python3
import subprocess, sys, time
args = sys.argv[1:]
if "--version" in args or "-V" in args:
    print("Version: 6.06")
    sys.exit(1)
port = args[args.index("-p") + 1]
if "--source_ip" in args:
    place = args.index("--source_ip")
    del args[place : place + 2]
seconds = int(args[args.index("-D") + 1]) if "-D" in args else 3
peer = args[-1] if args[-1].count(".") == 3 else None
if peer:
    subprocess.run(["iperf3", "-c", peer, "-p", port, "-t", str(seconds)], stdout=subprocess.DEVNULL)
else:
    subprocess.run(["iperf3", "-4", "-s", "-1", "-p", port], stdout=subprocess.DEVNULL)
size = int(args[args.index("-s") + 1]) if "-s" in args else 65536
window_s = max(seconds - 2, 1)
count = int(11.0e9 * window_s / size)
mib = count * size / window_s / 2**20
line = "-" * 87
print(line)
print("                    RDMA_Write BW Test")
print(" Dual-port       : OFF\t\tDevice         : rxe0")
print(" Number of qps   : 4\t\tTransport type : IB")
print(" Connection type : RC\t\tUsing SRQ      : OFF")
print(" CQ Moderation   : 1")
print(" Mtu             : 4096[B]")
print(" Link type       : Ethernet")
print(" GID index       : 1")
print(line)
print(" #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]")
print(f" {size}      {count}             0.00               {mib:.2f}  \t\t   {count / window_s / 1e6:.6f}")
print(line)
"""


def test_the_demo_ends_with_0(demo: Demo) -> None:
    assert demo.status == 0, demo.output[-6000:]


def test_a_package_that_is_not_cached_can_be_had_after_an_update(demo: Demo) -> None:
    node, unknown = NODES[1], "apt-cache policy vim"
    assert demo.cluster.ssh(node, unknown) == ""
    demo.cluster.ssh(node, "sudo apt-get -q update", timeout=600)
    assert "Candidate:" in demo.cluster.ssh(node, unknown)


def test_every_tool_is_measured_and_proven_at_both_ends(demo: Demo) -> None:
    rows = demo.cluster.newest().lines("results.jsonl")
    assert_proven(rows, MEASURED, RAILS)


def test_an_rdma_row_says_how_it_was_measured(demo: Demo) -> None:
    rows = [row for row in demo.cluster.newest().lines("results.jsonl") if row["check"] == "rdma_bandwidth"]
    assert rows
    for row in rows:
        assert row["hca"] == {"rail0": "rxe0:1", "rail1": "rxe1:1"}[row["rail"]]
        assert row["gid_type"] == "RoCE v2"
        assert isinstance(row["gid_index"], int)
        assert row["active_mtu_bytes"] == 4096
        assert row["counters"]["hw_sent_pkts"][1] > row["counters"]["hw_sent_pkts"][0]
        # Soft-RoCE's bytes cross the netdev: more than was claimed and not much more.
        out = "tx_bytes" if row["end"] == "client" else "rx_bytes"
        moved = row["counters"][out][1] - row["counters"][out][0]
        assert moved >= row["metrics"]["bandwidth_gbps"] * 1e9 / 8 * 0.9


def test_the_output_of_the_tools_is_kept(demo: Demo) -> None:
    run = demo.cluster.newest()
    for row in run.lines("results.jsonl"):
        if row["check"] != "rdma_bandwidth":
            continue
        with tarfile.open(run.path / row["raw"]["file"]) as archive:
            member = next(name for name in archive.getnames() if name.endswith(row["raw"]["name"]))
            text = archive.extractfile(member).read().decode()
        assert "RDMA_Write BW Test" in text, row["id"]
        # The number in the row is the one that the tool printed, in Gbit/s.
        said = re.findall(r"^ *65536 +\d+ +[\d.]+ +([\d.]+)", text, re.MULTILINE)
        gbps = float(said[-1]) * 2**20 * 8 / 1e9
        assert abs(gbps - row["metrics"]["bandwidth_gbps"]) <= 0.001 * gbps


def test_the_end_compares_tcp_with_rdma(demo: Demo) -> None:
    assert "TCP against RDMA" in demo.output
    assert "software RDMA" in demo.output


def test_tcp_posing_as_rdma_is_unproven(small: Cluster) -> None:
    for node in NODES:
        small.put(node, "/usr/local/bin/ib_write_bw", FAKE)
    try:
        status, run, output = small.validate()
    finally:
        for node in NODES:
            small.ssh(node, "sudo rm -f /usr/local/bin/ib_write_bw")
    assert status == 3, output
    faked = [one for one in rdma_verdicts(run) if one["tool"] == "ib_write_bw"]
    assert faked
    for verdict in faked:
        assert verdict["outcome"] == "unmeasured", verdict
        assert verdict["proof"] == "unproven", verdict
    # What was not faked is judged as before.
    assert all(one["outcome"] == "recorded" for one in rdma_verdicts(run) if one["tool"] == "ib_write_lat")


def test_after_a_reboot_everything_is_as_provisioned(demo: Demo, small: Cluster) -> None:
    cluster = demo.cluster
    before = {node: cluster.ssh(node, "cat /proc/sys/kernel/random/boot_id") for node in NODES}
    done = cluster.playbook("playbooks/reboot.yml", "-e", "railyard_allow_reboot=true")
    assert done.returncode == 0, done.stdout
    after = {node: cluster.ssh(node, "cat /proc/sys/kernel/random/boot_id") for node in NODES}
    assert all(before[node] != after[node] for node in NODES)
    done = cluster.railyard("verify", "-i", str(cluster.inventory), timeout=420)
    assert done.returncode == 0, done.stdout
    status, run, output = small.validate()
    assert status == 0, output
    assert run.not_good() == []
