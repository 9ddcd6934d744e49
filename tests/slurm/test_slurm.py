"""`railyard validate --launcher slurm` on a real Slurm: Debian's packages in two containers of a lab.

Slurm's programs are called as users of the cluster do on its first node: through that node's namespaces, so
that they are processes of this machine, like the `railyard` that calls them.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.conftest import POLICY
from e2e.support import NODES, Cluster, assert_proven, edited, needs_root, write_lab

SUBNET = "198.18.6."
# So little that a busy machine carries it: the launcher is tried, and not the rails.
RATE_GBPS = 0.1
# May become root by sudo without a password; may not.
ALICE, BOB = 2001, 2002
PROGRAMS = ("srun", "squeue", "scontrol", "salloc", "scancel", "sinfo")
PACKAGES = "slurmctld slurmd slurm-client munge"
CONF = f"""\
ClusterName=lab
SlurmctldHost={NODES[0]}
AuthType=auth/munge
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
# Two processors for each that there is: the tests put two jobs on a node. The second node stands first.
NodeName={NODES[1]} NodeAddr={SUBNET}2 CPUs=2 State=UNKNOWN
NodeName={NODES[0]} NodeAddr={SUBNET}1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:4 State=UP
"""
SET_UP = f"""\
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q -y --no-install-recommends install {PACKAGES}
echo KEY | base64 -d > /etc/munge/munge.key
chown munge:munge /etc/munge/munge.key
chmod 400 /etc/munge/munge.key
printf '{SUBNET}1 {NODES[0]}\\n{SUBNET}2 {NODES[1]}\\n' >> /etc/hosts
cat > /etc/slurm/slurm.conf <<'END'
{CONF}END
# The kernel's cgroups may be of both versions, which Slurm's own guess refuses.
echo CgroupPlugin=cgroup/v1 > /etc/slurm/cgroup.conf
useradd -m -u {ALICE} alice
useradd -m -u {BOB} bob
echo 'alice ALL=(root) NOPASSWD: ALL' > /etc/sudoers.d/alice
mkdir -p /var/lib/slurm/slurmctld /var/lib/slurm/slurmd
chown slurm: /var/lib/slurm/slurmctld
systemctl restart munge
systemctl disable --now slurmctld
[ "$(hostname)" != {NODES[0]} ] || systemctl enable --now slurmctld
systemctl restart slurmd
"""
#: The proofs of a container lab, by the tool that must have given them.
CHECKS = {"tcp_bandwidth": "iperf3", "tcp_latency": "sockperf"}


class Slurm(Cluster):
    """The lab's nodes as a Slurm cluster."""

    user = ALICE
    job = ""

    @property
    def programs(self) -> Path:
        return self.topology.parent / "bin"

    def environment(self) -> dict[str, str]:
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        own = {"PATH": path, "LAB_UID": str(self.user)}
        return {**super().environment(), **own, **({"SLURM_JOB_ID": self.job} if self.job else {})}

    def call(self, *argv: str, check: bool = True) -> str:
        done = subprocess.run(
            argv, env={**self.environment(), "SLURM_JOB_ID": ""}, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def install(self) -> None:
        key = subprocess.run(
            ["base64", "-w0"], input=secrets.token_bytes(64), capture_output=True, check=True
        )
        for node in NODES:
            self.put(node, "/root/slurm.sh", SET_UP.replace("KEY", key.stdout.decode()))
            self.ssh(node, "sudo", "bash", "/root/slurm.sh", timeout=600)
        inspect = ["podman", "inspect", "--format", "{{.State.Pid}}", f"railyard-{self.lab_name}-{NODES[0]}"]
        pid = subprocess.run(inspect, capture_output=True, text=True, check=True).stdout.strip()
        self.programs.mkdir()
        for name in PROGRAMS:
            program = self.programs / name
            words = f"-t {pid} -m -n -u -i -r -w -S $LAB_UID -G $LAB_UID /usr/bin/{name}"
            program.write_text(f'#!/bin/sh\nexec nsenter {words} "$@"\n', encoding="utf-8")
            program.chmod(0o755)
        deadline = time.monotonic() + 60
        while "IDLE" not in self.call("scontrol", "show", "node", NODES[1]) and time.monotonic() < deadline:
            time.sleep(1)

    def allocate(self) -> str:
        """Return the id of a new job of this user on both nodes, with nothing in it."""
        said = self.call("salloc", "--no-shell", "--nodes=2", "--mem=0", "--job-name=test")
        return said.partition("Granted job allocation ")[2].split()[0]

    def processes(self, node: str) -> list[str]:
        """What of a run is alive on the node, the runner by the name that it has there."""
        runners = [
            line for line in self.ssh(node, "ps", "-eo", "args").splitlines() if "/bin/runner-" in line
        ]
        return super().processes(node) + runners

    def measure(self) -> subprocess.CompletedProcess[str]:
        return self.railyard("validate", "--launcher", "slurm", "-i", str(self.inventory), timeout=900)

    def assert_nothing_left(self) -> None:
        """Assert that soon no process, no order (with the run's secret) and no lease is left on a node."""
        deadline = time.monotonic() + 40
        while (left := [line for node in NODES for line in self.left(node)]) and time.monotonic() < deadline:
            time.sleep(1)
        assert left == []

    def left(self, node: str) -> list[str]:
        """What of a run is alive or lies on the node."""
        found = "sudo find /run/railyard -name work_order.json -o -name lease.json"
        return [*self.processes(node), *self.ssh(node, *found.split()).splitlines()]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    needs_root()
    made = Slurm(tmp_path_factory.mktemp("slurm"), "slurm")
    write_lab(made, SUBNET, "container")
    with edited(made.topology) as topology:
        for rail in topology["rails"]:
            rail["rate_gbps"] = RATE_GBPS
    with edited(made.fabric_file) as variables:
        for rail in variables["fabric"]["rails"]:
            rail["rate_gbps"] = RATE_GBPS
        variables["fabric_policy"] = POLICY
    with made.up():
        done = made.railyard("provision", "-i", str(made.inventory), "--", "--tags", "network,tools")
        assert done.returncode == 0, done.stdout
        made.install()
        yield made


@pytest.fixture
def job(slurm: Slurm) -> Iterator[str]:
    slurm.user = ALICE
    slurm.job = slurm.allocate()
    yield slurm.job
    slurm.user = ALICE
    slurm.call("scancel", "--user=alice", check=False)
    slurm.user = BOB
    slurm.call("scancel", "--user=bob", check=False)
    slurm.user, slurm.job = ALICE, ""


def test_outside_of_an_allocation_nothing_begins(slurm: Slurm) -> None:
    done = slurm.measure()
    assert done.returncode == 2, done.stdout
    assert "not inside a Slurm allocation" in done.stdout
    assert "salloc --exclusive" in done.stdout


def test_its_own_allocation_is_measured_and_proven(slurm: Slurm, job: str) -> None:
    done = slurm.measure()
    assert done.returncode == 0, done.stdout
    run = slurm.newest()
    assert_proven(run.lines("results.jsonl"), CHECKS, ("rail0", "rail1"))
    assert run.not_good() == []
    slurm.assert_nothing_left()
    for node in NODES:
        assert slurm.ssh(node, "sudo", "ls", "/var/lib/railyard/runs") == "", "cleared once it is fetched"
    assert not (run.path / ".secret").exists()


def test_the_job_of_another_makes_its_node_busy(slurm: Slurm, job: str) -> None:
    slurm.user = BOB
    argv = ["srun", "--overlap", "--nodelist", NODES[1], "--nodes=1", "--mem=0", "sleep", "600"]
    environment = {key: value for key, value in slurm.environment().items() if key != "SLURM_JOB_ID"}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as other:
        deadline = time.monotonic() + 60
        while "slurmstepd: [" not in slurm.ssh(NODES[1], "ps", "-eo", "args") and time.monotonic() < deadline:
            time.sleep(1)
        slurm.user = ALICE
        done = slurm.measure()
        other.terminate()
    assert done.returncode == 3, done.stdout
    causes = {verdict["cause_class"] for verdict in slurm.newest().not_good()}
    # What else is missing is missing for that: a sum's part, counters that no test has read.
    assert "busy" in causes
    assert "fail" not in {verdict["outcome"] for verdict in slurm.newest().verdicts}
    assert f"a Slurm job runs on {NODES[1]}" in json.dumps(slurm.newest().verdicts)


def test_a_user_who_is_not_root_reads_what_it_takes(slurm: Slurm, job: str) -> None:
    slurm.call("scancel", job)
    slurm.user = BOB
    slurm.job = slurm.allocate()
    done = slurm.measure()
    assert done.returncode == 3, done.stdout
    assert "the runner needs root, and `sudo -n` does not give it" in done.stdout
    assert {verdict["outcome"] for verdict in slurm.newest().verdicts} == {"unmeasured"}


@pytest.mark.parametrize("end", ["scancel", "killed"])
def test_a_run_that_is_cut_off_is_incomplete_and_leaves_nothing(slurm: Slurm, job: str, end: str) -> None:
    process = slurm.start("validate", "--launcher", "slurm", "-i", str(slurm.inventory))
    deadline = time.monotonic() + 300
    while not (measures := any("iperf3" in line for line in slurm.processes(NODES[0]))):
        if process.poll() is not None or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    # A run that never began is incomplete, and leaves nothing, too.
    assert measures, "it ended, or took minutes, before it measured"
    if end == "scancel":
        slurm.call("scancel", job)
        out, _ = process.communicate(timeout=300)
        assert process.returncode == 3, out
        assert "unmeasured" in {verdict["outcome"] for verdict in slurm.newest().verdicts}
    else:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        run = slurm.newest()
        # The nodes end by what srun tells them, or by the lease.
        slurm.assert_nothing_left()
        # Its playbook may hang in writing output that nothing reads.
        subprocess.run(["pkill", "-f", run.path.name], check=False)
        done = slurm.railyard("judge", str(run.path))
        assert done.returncode == 3, done.stdout
    slurm.assert_nothing_left()


@pytest.fixture
def operator(slurm: Slurm) -> Iterator[Slurm]:
    """Root of the cluster, who may change nodes; no job of anybody's is left."""
    slurm.user, slurm.job = 0, ""
    yield slurm
    slurm.user = 0
    slurm.lab("heal", "--all")
    slurm.call("scancel", "--user=bob", check=False)
    slurm.call("scontrol", "update", f"NodeName={NODES[1]}", "State=RESUME", check=False)
    slurm.user = ALICE


def idle(slurm: Slurm) -> list[str]:
    done = slurm.railyard("idle", "-i", str(slurm.inventory), "--json")
    assert done.returncode == 0, done.stdout
    found: list[str] = json.loads(done.stdout[done.stdout.index("{") :])["idle"]
    return found


def validate_idle(slurm: Slurm) -> subprocess.CompletedProcess[str]:
    words = ("--limit-time", "20m", "--drain", "--most-drained", "1")
    return slurm.railyard("validate", "--idle", *words, "-i", str(slurm.inventory), timeout=1200)


def state(slurm: Slurm, node: str) -> str:
    return slurm.call("scontrol", "show", "node", node)


def wait_until_idle(slurm: Slurm) -> None:
    """Wait until Slurm has cleaned up behind earlier jobs: until then their nodes are completing."""
    deadline = time.monotonic() + 180
    while not all("State=IDLE " in state(slurm, node) for node in NODES):
        assert time.monotonic() < deadline, [state(slurm, node) for node in NODES]
        time.sleep(2)


def test_a_node_with_a_job_is_left_to_its_job(operator: Slurm) -> None:
    wait_until_idle(operator)
    assert sorted(idle(operator)) == sorted(NODES)
    operator.user = BOB
    argv = ["srun", "--nodelist", NODES[1], "--nodes=1", "--mem=0", "sleep", "600"]
    with subprocess.Popen(argv, env=operator.environment(), stdout=subprocess.PIPE) as other:
        operator.user = 0
        deadline = time.monotonic() + 60
        while "ALLOCATED" not in state(operator, NODES[1]) and "MIXED" not in state(operator, NODES[1]):
            assert time.monotonic() < deadline
            time.sleep(1)
        assert idle(operator) == [NODES[0]]
        done = validate_idle(operator)
        assert done.returncode == 3, done.stdout
        assert "Nothing was measured: 1 idle node" in done.stdout
        assert other.poll() is None, "its job goes on"
        other.terminate()


def test_a_faulty_node_is_drained_after_two_runs_and_resumed_after_a_good_one(operator: Slurm) -> None:
    wait_until_idle(operator)
    done = validate_idle(operator)
    assert done.returncode == 0, done.stdout
    assert "DRAIN" not in state(operator, NODES[1])
    operator.lab("fault", "wrong_mtu", f"{NODES[1]}/rail0")
    done = validate_idle(operator)
    assert done.returncode == 1, done.stdout
    assert "DRAIN" not in state(operator, NODES[1]), "one run is not enough"
    done = validate_idle(operator)
    assert done.returncode == 1, done.stdout
    shown = state(operator, NODES[1])
    assert "IDLE+DRAIN" in shown
    assert "Reason=Railyard: validation: rail0" in shown
    assert "DRAIN" not in state(operator, NODES[0])
    operator.lab("heal", "--all")
    # Slurm starts nothing on a drained node: it is measured by SSH, beside a node that Slurm holds.
    done = validate_idle(operator)
    assert f"Resumed: {NODES[1]}" in done.stdout
    assert "DRAIN" not in state(operator, NODES[1])
    assert operator.call("squeue", "--noheader") == "", "no allocation is left"
    # A slurmd that answers late has a mark behind its state.
    states = operator.call("sinfo", "--noheader", "--Node", "--format=%T").split()
    assert [one.rstrip("*") for one in states] == ["idle", "idle"]
