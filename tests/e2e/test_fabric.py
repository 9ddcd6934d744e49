"""The main job, end to end, over SSH on real systemd nodes: bare, proven, with broken tools, interrupted.

Faults of the fabric are in test_faults.py, on a lab of its own, so that the two can run side by side.

The tests build on one another in the order of this file: a lab is dear.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time

import pytest
from e2e.support import (
    NODES,
    RATE_GBPS,
    Cluster,
    assert_proven,
    edited,
    interrupt,
    left_after,
    wait_for_rows,
)

RAILS = ("rail0", "rail1")
MEASURED = (
    *("path_mtu", "path_mtu_one_way", "ping_rtt"),
    *("tcp_bandwidth", "tcp_latency", "tcp_bandwidth_concurrent"),
)


def test_bare_nodes_become_a_proven_cluster(cluster: Cluster) -> None:
    done = cluster.railyard("site", "-i", str(cluster.inventory), timeout=420)
    assert done.returncode == 0, done.stdout
    run = cluster.newest()
    verdicts = run.verdicts
    assert run.not_good() == []
    # 2 nodes x 2 rails x 2 directions: each line measured at both ends and proven at both.
    assert_proven(run.lines("results.jsonl"), dict.fromkeys(MEASURED), RAILS)
    # The rails are shaped to a declared rate, so bandwidth has an authority: pass, between two bounds.
    bandwidth = [verdict for verdict in verdicts if verdict["check"] == "tcp_bandwidth"]
    assert len(bandwidth) == 4
    for verdict in bandwidth:
        assert verdict["outcome"] == "pass", verdict
        floor, ceiling = verdict["floor"]["bandwidth_gbps"], verdict["ceiling"]["bandwidth_gbps"]
        assert 0.5 * RATE_GBPS <= floor < verdict["observed"]["bandwidth_gbps"] <= ceiling <= 1.05 * RATE_GBPS
        assert verdict["basis"]
    for name in ("index.html", "report.md", "junit.xml", "manifest.json", "plan.json"):
        assert (run.path / name).stat().st_size > 0, name
    assert sorted(path.name for path in (run.path / "raw").iterdir()) == [f"{node}.tar.gz" for node in NODES]
    assert not (run.path / ".secret").exists()
    assert all(cluster.processes(node) == [] for node in NODES)


def test_the_nodes_are_as_planned(cluster: Cluster) -> None:
    for index, node in enumerate(NODES, start=1):
        for netdev, address in (("ens6", f"10.0.1.{index}/24"), ("ens6d1", f"10.0.0.{index}/24")):
            text = cluster.ssh(node, "ip", "-o", "addr", "show", "dev", netdev)
            assert address in text
            assert " mtu 9000 " in cluster.ssh(node, "ip", "-o", "link", "show", "dev", netdev)
    assert cluster.railyard("verify", "-i", str(cluster.inventory)).returncode == 0


# RDMA from the distribution, and a profile that names HCAs; that these nodes have none is two tasks more.
RDMA = (
    *("-e", "rdma_stack_enabled=true", "-e", "rdma_stack_provider=inbox"),
    *("-e", "benchmark_tools_rdma=true", "-e", "nccl_profile_transport=roce"),
)


@pytest.mark.parametrize(
    ("settings", "most_requests", "most_tasks"), [((), 6, 22), (RDMA, 7, 24)], ids=["tcp", "with_rdma"]
)
def test_a_second_provision_changes_nothing_in_few_requests_and_tasks(
    cluster: Cluster, settings: tuple[str, ...], most_requests: int, most_tasks: int
) -> None:
    try:
        if settings:
            first = cluster.playbook("playbooks/provision.yml", *settings)
            assert first.returncode == 0, first.stdout
        before = {node: cluster.exec_requests(node) for node in NODES}
        done = cluster.playbook("playbooks/provision.yml", *settings)
        assert done.returncode == 0, done.stdout
        for node in NODES:
            requests = cluster.exec_requests(node) - before[node] - 1  # one was the count before
            assert 0 < requests <= most_requests, (node, requests)
            [recap] = [
                line for line in done.stdout.splitlines() if line.startswith(f"{node} ") and "ok=" in line
            ]
            count = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", recap)}
            assert count["changed"] == 0, recap
            # What is skipped costs the controller nearly as much as what runs. The first node also has what
            # runs once for all of them.
            tasks = count["ok"] + count["skipped"]
            assert 0 < tasks <= most_tasks + (12 if node == NODES[0] else 0), recap
    finally:
        if settings:
            cluster.playbook("playbooks/nccl.yml")


def test_judge_and_report_rebuild_the_folder_byte_for_byte(cluster: Cluster) -> None:
    run = cluster.newest()
    made = ("verdicts.jsonl", "report.md", "index.html", "junit.xml")
    before = {name: (run.path / name).read_bytes() for name in made}
    for name in made:
        (run.path / name).unlink()
    assert cluster.railyard("judge", str(run.path)).returncode == 0
    assert cluster.railyard("report", str(run.path)).returncode == 0
    assert {name: (run.path / name).read_bytes() for name in made} == before


def test_a_missing_tool_is_named_and_nothing_of_it_passes(cluster: Cluster) -> None:
    cluster.ssh("gpuserver2", "sudo", "mv", "/usr/bin/iperf3", "/usr/bin/iperf3.away")
    try:
        status, printed, output = cluster.print_json("validate")
    finally:
        cluster.ssh("gpuserver2", "sudo", "mv", "/usr/bin/iperf3.away", "/usr/bin/iperf3")
    run = cluster.newest()
    assert status == printed["exit_status"] == 3, output
    assert printed["run"] == run.path.name
    assert (
        printed["counts"]["unmeasured"] == len([v for v in run.verdicts if v["outcome"] == "unmeasured"]) > 0
    )
    outcomes = {v["outcome"] for v in run.verdicts if v["check"].startswith(("tcp_bandwidth", "aggregate"))}
    assert outcomes == {"unmeasured"}
    assert "iperf3" in output
    assert "gpuserver2" in output
    assert {v["outcome"] for v in run.verdicts if v["check"] == "tcp_latency"} <= {"pass", "recorded"}


def test_garbage_from_a_tool_is_unmeasured(cluster: Cluster) -> None:
    cluster.ssh("gpuserver1", "sudo", "mv", "/usr/bin/iperf3", "/usr/bin/iperf3.away")
    try:
        script = "#!/bin/sh\\necho 9999 Gbit/s, never better\\n"
        cluster.ssh(
            "gpuserver1", f"printf '{script}' | sudo tee /usr/bin/iperf3; sudo chmod 755 /usr/bin/iperf3"
        )
        status, run, output = cluster.validate()
    finally:
        cluster.ssh("gpuserver1", "sudo", "mv", "/usr/bin/iperf3.away", "/usr/bin/iperf3")
    assert status in (1, 3), output
    outcomes = {v["outcome"] for v in run.verdicts if v["check"] == "tcp_bandwidth"}
    assert outcomes <= {"unmeasured", "fail"}, run.not_good()


def test_a_drive_is_measured_and_memory_is_none(cluster: Cluster) -> None:
    before = cluster.fabric_file.read_text(encoding="utf-8")
    with edited(cluster.fabric_file) as variables:
        # Both nodes' drive is the host's one, so each sees the other's load.
        small = {"storage_duration_s": 2, "storage_file_bytes": 64 << 20, "allow_busy": True}
        variables["fabric_policy"] |= {"storage_mounts": ["/data", "/dev/shm", "/gone"], **small}
    try:
        tools = cluster.playbook("playbooks/tools.yml")
        assert tools.returncode == 0, tools.stdout
        status, run, output = cluster.validate()
    finally:
        cluster.fabric_file.write_text(before, encoding="utf-8")
    assert status == 1, output
    own = {(v["node"], v["subject"], v["check"]): v for v in run.verdicts if "subject" in v}
    assert len(own) == 2 * 3 * 5
    for (_node, mount, check), verdict in own.items():
        wanted = {"/data": ("recorded", None), "/dev/shm": ("unmeasured", "storage_no_device")}
        wanted["/gone"] = ("fail", "storage_not_mounted")
        if (mount, check) == ("/data", "storage_health"):
            # The host's drive: it is virtual, or the container does not reach it, or it answers.
            assert verdict["outcome"] in ("recorded", "not_applicable", "pass"), verdict
            continue
        assert (verdict["outcome"], verdict["cause_class"]) == wanted[mount], (check, verdict)
    for row in run.lines("results.jsonl"):
        if row.get("subject") == "/data" and row["tool"] == "fio":
            way = "device_written_bytes" if "write" in row["check"] else "device_read_bytes"
            least, most = row["counters"][way]
            assert row["proof"] == "proven", row
            # What 2 s of it are, by the kernel's count.
            assert most - least >= 0.9 * 2 * row["metrics"]["bandwidth_bytes_per_s"], row
    for node in NODES:
        assert cluster.processes(node) == []
        assert cluster.ssh(node, "ls", "-A", "/data") == ""


def test_drift_is_seen_by_verify_and_mended_by_provision(cluster: Cluster) -> None:
    cluster.ssh("gpuserver1", "sudo", "ip", "link", "set", "ens6", "mtu", "1500")
    try:
        status, printed, messages = cluster.print_json("verify")
        assert status == printed["exit_status"] == 1, messages
        assert printed["not_as_planned"] > 0
        assert printed["as_planned"] > 0
    finally:
        done = cluster.railyard("provision", "-i", str(cluster.inventory))
    assert done.returncode == 0, done.stdout
    assert cluster.railyard("verify", "-i", str(cluster.inventory)).returncode == 0


def test_verify_of_nothing_is_not_a_pass(cluster: Cluster) -> None:
    done = cluster.railyard("verify", "-i", str(cluster.inventory), "--", "-k", "no_such_test")
    assert done.returncode == 3, done.stdout


def test_bad_input_touches_no_node(cluster: Cluster, tmp_path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(cluster.inventory, broken)
    fabric = broken / "group_vars" / "all" / "fabric.yml"
    fabric.write_text(
        fabric.read_text(encoding="utf-8").replace("10.0.0.0/24", "10.0.1.0/24"), encoding="utf-8"
    )
    before = cluster.exec_requests("gpuserver1")
    done = cluster.railyard("site", "-i", str(broken))
    assert done.returncode == 2, done.stdout
    assert "fabric.yml" in done.stdout
    assert "rail1" in done.stdout
    assert cluster.exec_requests("gpuserver1") == before + 1


def test_a_run_folder_that_cannot_be_written_is_bad_input(cluster: Cluster) -> None:
    reports = cluster.reports
    cluster.reports = reports.parent / "not-a-folder"
    cluster.reports.write_text("a file where the folder should be", encoding="utf-8")
    before = cluster.exec_requests("gpuserver1")
    try:
        done = cluster.railyard("validate", "-i", str(cluster.inventory))
    finally:
        cluster.reports = reports
    assert done.returncode == 2, done.stdout
    assert "not-a-folder" in done.stdout
    assert cluster.exec_requests("gpuserver1") == before + 1


def drop_old_runs(cluster: Cluster) -> None:
    for node in NODES:
        cluster.ssh(node, "sudo sh -c 'rm -rf /var/lib/railyard/runs/*'")


def test_a_second_run_at_the_same_time_is_refused(cluster: Cluster) -> None:
    first = cluster.start("validate", "-i", str(cluster.inventory))
    try:
        time.sleep(5)
        second = cluster.railyard("validate", "-i", str(cluster.inventory))
    finally:
        out, _ = first.communicate(timeout=240)
    assert second.returncode == 2, second.stdout
    assert str(first.pid) in second.stdout
    assert first.returncode == 0, out


def test_ctrl_c_leaves_nothing_running_and_keeps_what_was_measured(cluster: Cluster) -> None:
    drop_old_runs(cluster)
    process = cluster.start("validate", "-i", str(cluster.inventory))
    wait_for_rows(cluster, "gpuserver1", 3)
    status, output = interrupt(process, signal.SIGINT, 120)
    assert status == 3, output
    assert "Traceback" not in output
    assert [left_after(cluster, node, 15) for node in NODES] == [[], []]
    run = cluster.newest()
    assert len(run.lines("results.jsonl")) >= 3
    assert run.not_good()
    assert {v["outcome"] for v in run.verdicts} & {"pass", "recorded"}


def test_kill_9_of_the_controller_ends_the_nodes_work_and_loses_nothing(cluster: Cluster) -> None:
    drop_old_runs(cluster)
    process = cluster.start("validate", "-i", str(cluster.inventory))
    wait_for_rows(cluster, "gpuserver1", 3)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    run = cluster.newest()
    # The lease of the test's policy is 25 s; after it nothing of the run may be alive.
    assert [left_after(cluster, node, 60) for node in NODES] == [[], []]
    done = cluster.railyard("judge", str(run.path))
    assert done.returncode == 3, done.stdout
    rows = sum(
        len(
            cluster.ssh(node, "sudo", "sh", "-c", "'cat /var/lib/railyard/runs/*/results.jsonl'").splitlines()
        )
        for node in NODES
    )
    assert rows >= 3
    # And the next run is not held up by the dead one.
    status, _, output = cluster.validate()
    assert status == 0, output
