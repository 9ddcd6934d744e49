"""What goes wrong in the middle of a real RDMA test: a row with its cause, in time, and never a pass.

They run on the demo's lab as well, one after the other, and each leaves it as it found it.
"""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import pytest
from e2e.support import Cluster
from rdma.conftest import Demo
from rdma.support import NODES, WhileMeasuring, find_verdict, rdma_verdicts, small_inventory

# Long enough to be interrupted in the middle.
# What is killed once would be well when it is measured again.
LONG = {"rdma_duration_s": 10, "lease_s": 90, "confirm": 0}
# Seconds in which a run of one rail has ended, whatever happened in it: its tests, deadlines, fetching.
PATIENCE_S = 270

# The real tool, whose words are lost after its table has begun.
TORN = """#!/bin/sh
case "$*" in *--version*) exec /usr/bin/ib_write_bw "$@";; esac
/usr/bin/ib_write_bw "$@" > /tmp/torn.$$
sed '/^ *65536 /d' /tmp/torn.$$
rm -f /tmp/torn.$$
"""
# The real tool, which says that it is a newer one.
NEWER = """#!/bin/sh
case "$*" in *--version*) echo "Version: 24.07"; exit 0;; esac
exec /usr/bin/ib_write_lat "$@"
"""


@pytest.fixture
def long(demo: Demo, tmp_path: Path) -> Cluster:
    """One rail, and tests long enough to be interrupted."""
    return small_inventory(tmp_path, **LONG)


def test_every_other_verb_is_measured_and_proven(demo: Demo, tmp_path: Path) -> None:
    verbs = ["ib_read_bw", "ib_send_bw", "ib_read_lat", "ib_send_lat"]
    status, run, output = small_inventory(tmp_path, rdma_tests=verbs, bidirectional=False).validate()
    assert status == 0, output
    measured = {(one["tool"], one["node"]) for one in rdma_verdicts(run) if one["direction"] == "uni"}
    assert measured == {(verb, node) for verb in verbs for node in NODES}
    for one in rdma_verdicts(run):
        assert (one["outcome"], one["proof"]) == ("recorded", "proven"), one


def test_both_ways_at_once_are_measured_and_proven(demo: Demo, tmp_path: Path) -> None:
    # Soft-RoCE of Linux 6.1 fails such a test now and then by itself (Failed status 9), which is reported.
    cluster = small_inventory(tmp_path, rdma_tests=["ib_write_bw"], bidirectional=True)
    for _attempt in range(3):
        status, run, output = cluster.validate()
        both = [one for one in run.verdicts if one["check"] == "rdma_bandwidth_bi"]
        assert len(both) == 1
        if status == 0:
            break
        assert both[0]["outcome"] == "unmeasured", both[0]
        assert "status 9" in both[0]["cause"], both[0]
    assert status == 0, output
    assert (both[0]["outcome"], both[0]["proof"]) == ("recorded", "proven")


def test_a_server_that_is_killed_in_mid_test(demo: Demo, long: Cluster) -> None:
    def kill() -> None:
        long.ssh("gpuserver2", "sudo pkill -KILL -x ib_write_bw")

    with WhileMeasuring(long, "gpuserver2", ("ib_write_bw",), kill) as fault:
        status, run, output = long.validate()
    assert fault.done
    assert status != 0, output
    broken = find_verdict(run, "rdma_bandwidth", "gpuserver1")
    assert broken["outcome"] in ("fail", "unmeasured"), broken
    assert broken["cause"], broken
    # What came afterwards is measured: the run goes on.
    assert find_verdict(run, "rdma_latency", "gpuserver1")["outcome"] == "recorded"
    assert find_verdict(run, "rdma_bandwidth", "gpuserver2")["outcome"] == "recorded"


def test_a_device_that_goes_in_mid_test_is_named_then_and_by_the_next_run(
    demo: Demo, small: Cluster, long: Cluster
) -> None:
    def delete() -> None:
        long.ssh("gpuserver1", "sudo rdma link delete rxe0", check=False)

    try:
        with WhileMeasuring(long, "gpuserver1", ("ib_write_bw",), delete) as fault:
            status, run, output = long.validate()
        next_status, next_run, next_output = small.validate()
    finally:
        # The role makes it again; by the whole inventory, for which rail1 is wanted as well.
        done = demo.cluster.playbook("playbooks/drivers.yml")
    assert done.returncode == 0, done.stdout
    assert "rxe0" in small.ssh("gpuserver1", "rdma link")
    assert fault.done
    assert status != 0, output
    for one in rdma_verdicts(run):
        assert one["outcome"] in ("fail", "unmeasured"), one
    assert "rxe0" in find_verdict(run, "rdma_latency", "gpuserver2")["cause"]

    assert next_status == 1, next_output
    gone = find_verdict(next_run, "rdma_port", "gpuserver1")
    assert gone["outcome"] == "fail"
    # The inventory names no RDMA device: which one is missing only the rail's netdev says.
    assert "no RDMA device belongs to ens6" in gone["cause"]
    assert {one["outcome"] for one in rdma_verdicts(next_run)} == {"unmeasured"}
    tcp = [one for one in next_run.verdicts if one["check"] == "tcp_bandwidth"]
    assert {one["outcome"] for one in tcp} == {"recorded"}


def test_torn_output_and_versions_that_differ(demo: Demo, small: Cluster) -> None:
    small.put("gpuserver1", "/usr/local/bin/ib_write_bw", TORN)
    small.put("gpuserver2", "/usr/local/bin/ib_write_lat", NEWER)
    try:
        status, run, output = small.validate()
    finally:
        for node in NODES:
            small.ssh(node, "sudo rm -f /usr/local/bin/ib_write_bw /usr/local/bin/ib_write_lat")
    assert status != 0, output
    for node in NODES:
        torn = find_verdict(run, "rdma_bandwidth", node)
        assert torn["outcome"] in ("fail", "unmeasured"), torn
        differs = find_verdict(run, "rdma_latency", node)
        assert differs["outcome"] == "unmeasured", differs
        assert "24.07" in differs["cause"], differs


def test_a_peer_that_hangs_in_mid_test(demo: Demo, long: Cluster) -> None:
    def hang() -> None:
        done = long.railyard("lab", "fault", "node_hung", "gpuserver2")
        assert done.returncode == 0, done.stdout

    began = time.monotonic()
    try:
        with WhileMeasuring(long, "gpuserver1", ("ib_write_bw",), hang) as fault:
            status, run, output = long.validate()
    finally:
        healed = long.railyard("lab", "heal", "--all")
    assert healed.returncode == 0, healed.stdout
    assert fault.done
    assert status == 3, output
    assert time.monotonic() - began < PATIENCE_S
    for one in rdma_verdicts(run):
        assert one["outcome"] == "unmeasured", one
    assert "gpuserver2" in find_verdict(run, "rdma_bandwidth", "gpuserver1")["cause"]
    # No one talks to its runner any more: that ends with its lease, and leaves the node to the next run.
    while long.processes("gpuserver2") and time.monotonic() < began + PATIENCE_S + LONG["lease_s"]:
        time.sleep(2)
    assert long.processes("gpuserver2") == []


def test_a_peer_that_reboots_in_mid_test(demo: Demo, long: Cluster) -> None:
    def reboot() -> None:
        # At once and without a word to anybody, as a crash does; the answer to ssh is lost with the rest.
        long.ssh("gpuserver2", "sudo systemd-run --on-active=1 systemctl reboot -ff", check=False)

    began = time.monotonic()
    with WhileMeasuring(long, "gpuserver1", ("ib_write_bw",), reboot) as fault:
        status, run, output = long.validate()
    assert fault.done
    assert status in (1, 3), output
    assert time.monotonic() - began < PATIENCE_S
    assert find_verdict(run, "rdma_bandwidth", "gpuserver1")["outcome"] in ("fail", "unmeasured")
    for one in rdma_verdicts(run):
        assert one["outcome"] != "pass", one
        assert one["proof"] != "proven" or one["outcome"] == "recorded", one
    wait_for(long, "gpuserver2")


def test_devices_that_are_no_longer_wanted_go_and_come_again(demo: Demo) -> None:
    cluster = demo.cluster
    done = cluster.playbook("playbooks/drivers.yml", "-e", "rdma_stack_provider=inbox")
    assert done.returncode == 0, done.stdout
    for node in NODES:
        assert "rxe" not in cluster.ssh(node, "rdma link")
        assert "soft-roce" not in cluster.ssh(node, "ls /etc/udev/rules.d")
    # A kernel that lacks them is named before anything changes.
    hide = "find /lib/modules -name 'rdma_rxe.ko*' -exec mv {} {}.hidden ';'; depmod"
    back = "for f in $(find /lib/modules -name '*.hidden'); do mv $f ${f%.hidden}; done; depmod"
    cluster.ssh("gpuserver2", f"sudo sh -c {shlex.quote(f'rmmod rdma_rxe; {hide}')}")
    try:
        done = cluster.playbook("playbooks/drivers.yml")
    finally:
        cluster.ssh("gpuserver2", f"sudo sh -c {shlex.quote(back)}")
    assert done.returncode != 0, done.stdout
    assert "rdma_rxe" in done.stdout
    assert "linux-image" in done.stdout or "linux-modules-extra" in done.stdout

    done = cluster.playbook("playbooks/drivers.yml")
    assert done.returncode == 0, done.stdout
    for node in NODES:
        assert cluster.ssh(node, "rdma link").count("ACTIVE") == 2


def test_a_batch_that_comes_back_otherwise_is_the_last(demo: Demo) -> None:
    cluster = demo.cluster
    boot = "cat /proc/sys/kernel/random/boot_id"
    before = {node: cluster.ssh(node, boot) for node in NODES}
    # Without its rule the device does not come back.
    rule = "/etc/udev/rules.d/60-railyard-soft-roce.rules"
    cluster.ssh("gpuserver1", f"sudo mv {rule} /root/")
    done = cluster.playbook(
        "playbooks/reboot.yml", "-e", "railyard_allow_reboot=true", "-e", "railyard_reboot_rails_timeout_s=30"
    )
    assert done.returncode != 0, done.stdout
    assert "rxe0" in done.stdout
    assert cluster.ssh("gpuserver1", boot) != before["gpuserver1"]
    assert cluster.ssh("gpuserver2", boot) == before["gpuserver2"]
    cluster.ssh("gpuserver1", f"sudo rm /root/{Path(rule).name}")
    done = cluster.playbook("playbooks/drivers.yml")
    assert done.returncode == 0, done.stdout
    assert cluster.ssh("gpuserver1", "rdma link").count("ACTIVE") == 2


def wait_for(cluster: Cluster, node: str, patience_s: float = 240) -> None:
    """Wait until a node that has reset answers and has all its RDMA devices again."""
    deadline = time.monotonic() + patience_s
    while cluster.ssh(node, "rdma link", check=False).count("ACTIVE") < 2:
        assert time.monotonic() < deadline, f"{node} is not back after {patience_s} s"
        time.sleep(3)
