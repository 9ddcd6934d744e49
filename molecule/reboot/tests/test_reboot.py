"""The node with a pending action was drained, rebooted and resumed; Slurm was not called for the other."""

import json

import pytest

testinfra_hosts = ["ansible://gpu_nodes"]


@pytest.fixture
def waited(host):
    return host.backend.get_pytest_id().endswith("gpuserver2")


def test_slurm_was_asked_to_drain_and_resume_and_nothing_else(host, waited):
    slurm = json.loads(host.file("/usr/local/bin/scontrol.json").content_string)
    updates = [call[2:] for call in slurm.get("calls", []) if call[0] == "update"]
    assert updates == ([["State=DRAIN", "Reason=Railyard: reboot"], ["State=RESUME"]] if waited else [])
    assert not slurm.get("drained", False)


def test_the_job_was_waited_for(host, waited):
    slurm = json.loads(host.file("/usr/local/bin/scontrol.json").content_string)
    assert slurm["jobs"] == (0 if waited else 3)


def test_nothing_waits_any_more(host):
    assert not host.file("/var/lib/railyard/waits/kernel.json").exists
