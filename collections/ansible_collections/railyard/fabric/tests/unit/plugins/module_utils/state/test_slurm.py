# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Slurm says of a node, in the forms that it has, and whose the drain is."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.runner import busy
from ansible_collections.railyard.fabric.plugins.module_utils.state import slurm
from ansible_collections.railyard.fabric.plugins.module_utils.state.slurm import SlurmError

# The lay-out of Slurm 22.05's slurm_sprint_node_table.
SHOWN = """\
NodeName=gpuserver1 Arch=x86_64 CoresPerSocket=1\x20
   CPUAlloc={cpus} CPUEfctv=2 CPUTot=2 CPULoad=0.05
   AvailableFeatures=(null)
   ActiveFeatures=(null)
   Gres=(null)
   NodeAddr=gpuserver1 NodeHostName=gpuserver1 Version=22.05.8
   OS=Linux 6.1.0-56-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.176-1 (2026-11-01)\x20
   RealMemory=1 AllocMem=0 FreeMem=512 Sockets=2 Boards=1
   State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=all\x20
   BootTime=2026-11-21T10:00:00 SlurmdStartTime=2026-11-21T10:01:00
   LastBusyTime=2026-11-21T10:02:00
   CfgTRES=cpu=2,mem=1M,billing=2
   AllocTRES=
   CapWatts=n/a
   CurrentWatts=0 AveWatts=0
   ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s
{reason}
"""


def shown(state, reason=None, cpus=0):
    line = f"   Reason={reason} [root@2026-11-21T10:15:03]\n" if reason is not None else ""
    return SHOWN.format(state=state, cpus=cpus, reason=line)


@pytest.mark.parametrize(
    ("state", "cpus", "drained", "busy"),
    [
        ("IDLE", 0, False, False),
        ("IDLE*", 0, False, False),
        ("MIXED", 1, False, True),
        ("ALLOCATED", 2, False, True),
        ("IDLE+DRAIN", 0, True, False),
        ("MIXED+DRAIN", 1, True, True),
        ("ALLOCATED+DRAIN", 2, True, True),
        ("IDLE+COMPLETING+DRAIN", 0, True, True),
        ("IDLE*+COMPLETING", 0, False, True),
        ("DOWN*+DRAIN", 0, True, False),
        ("DOWN", 0, False, False),
        ("IDLE+DRAIN+INVALID_REG", 0, True, False),
        ("IDLE+DRAIN", 1, True, True),
        ("DRAINED", 0, True, False),  # as old versions print it
        ("DRAINING@", 1, True, True),
    ],
)
def test_states(state, cpus, drained, busy):
    node = slurm.parse_node(shown(state, "x", cpus))
    assert (node.state, node.is_drained, node.is_busy) == (state, drained, busy)


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        ("Railyard: reboot", True),
        ("Railyard: reboot of gpu[001-004]", True),
        ("Kill task failed", False),
        ("after Railyard: reboot", False),
        ("Railyard State=DOWN was here", False),
    ],
)
def test_a_drain_is_railyards_by_its_reason(reason, ours):
    node = slurm.parse_node(shown("IDLE+DRAIN", reason))
    assert node.reason == reason
    assert node.is_ours == ours
    assert not slurm.parse_node(shown("IDLE", reason)).is_ours


def test_without_a_reason_there_is_none():
    assert slurm.parse_node(shown("IDLE")).reason == ""


def test_what_has_no_state_is_refused():
    with pytest.raises(SlurmError, match="Node x not found"):
        slurm.parse_node("Node x not found\n")


def test_a_node_that_the_cluster_does_not_know_is_distinguished_from_a_cluster_that_does_not_answer():
    assert slurm.is_unknown(1, "Node gpuserver1 not found\n", "gpuserver1")
    assert not slurm.is_unknown(1, "", "gpuserver1")
    assert not slurm.is_unknown(0, shown("IDLE"), "gpuserver1")


def test_our_reason_is_one_line():
    assert slurm.own_reason("reboot\nnow") == "Railyard: reboot now"


@pytest.mark.parametrize(
    ("command_line", "job"),
    [
        (b"slurmstepd: [614.0]\0", {"614"}),
        (b"slurmstepd: [614.extern]", {"614"}),
        (b"slurmstepd: [614+1.batch]\0\0\0", {"614"}),
        (b"slurmstepd: [s3F.0]\0", {"?"}),
        # slurmd with cgroup/v2 keeps one of these on every node, idle or not.
        (b"/usr/sbin/slurmstepd\0infinity\0", set()),
        (b"/usr/sbin/slurmd\0-D\0", set()),
        (b"grep\0slurmstepd: [614.0]\0", set()),
        (b"", set()),
    ],
)
def test_only_the_title_of_a_step_is_a_job(tmp_path: Path, command_line: bytes, job: set[str]) -> None:
    for pid in ("1", "4711"):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "comm").write_text("slurmstepd\n" if pid == "4711" else "systemd\n")
        (tmp_path / pid / "cmdline").write_bytes(command_line if pid == "4711" else b"/sbin/init\0")
    (tmp_path / "4712").mkdir()  # a process that has just gone
    assert busy.slurm_jobs(str(tmp_path)) == job


def test_the_nodes_own_job_is_that_of_the_slurmstepd_above(tmp_path: Path) -> None:
    """Through sudo, whatever a process between them is called; another's step beside it does not count."""
    for pid, parent, name, command_line in (
        ("70", 60, "python3", b"python3\0runner.pyz\0"),
        ("60", 50, "a) R 1 (b", b"sudo\0-n\0"),
        ("50", 9, "slurmstepd", b"slurmstepd: [614.2]\0"),
        ("51", 9, "slurmstepd", b"slurmstepd: [615.0]\0"),
        ("80", 9, "sshd", b"sshd\0"),
        ("9", 0, "slurmd", b"slurmd\0"),
    ):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "stat").write_text(f"{pid} ({name}) S {parent} 1 1 0 -1\n")
        (tmp_path / pid / "cmdline").write_bytes(command_line)
    assert busy.own_slurm_job(str(tmp_path), "70") == {"614"}
    assert busy.own_slurm_job(str(tmp_path), "80") == set()
    assert busy.slurm_jobs(str(tmp_path)) - busy.own_slurm_job(str(tmp_path), "70") == {"615"}
    (tmp_path / "50" / "cmdline").write_bytes(b"slurmstepd: [s3F.0]\0")
    assert busy.own_slurm_job(str(tmp_path), "70") == set(), "another's may have that title too"
