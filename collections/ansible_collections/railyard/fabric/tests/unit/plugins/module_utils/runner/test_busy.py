"""Whether a node has a job: nvidia-smi that does not answer leaves it unknown, never idle."""

from __future__ import annotations

import os

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import bounded
from ansible_collections.railyard.fabric.plugins.module_utils.runner import busy


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A node without nvidia-smi, and without Slurm's steps."""
    monkeypatch.setattr(bounded, "PATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(busy, "slurm_jobs", set)
    monkeypatch.setattr(busy, "own_slurm_job", set)
    return tmp_path


def nvidia_smi(folder, script):
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)


def test_a_node_without_gpus_and_without_a_step_is_idle(node):
    assert busy.look("gpu001") == ("idle", "")


def test_gpus_without_a_process_are_idle(node):
    nvidia_smi(node, "exit 0")
    assert busy.look("gpu001") == ("idle", "")


def test_a_gpu_process_makes_it_busy(node):
    # As nvidia-smi prints it for --query-compute-apps=pid,process_name --format=csv,noheader.
    nvidia_smi(node, "echo '4242, /usr/bin/python3'")
    state, why = busy.look("gpu001")
    assert state == "busy"
    assert "4242 /usr/bin/python3" in why


def test_nvidia_smi_that_fails_leaves_it_unknown(node):
    nvidia_smi(node, "echo 'Unable to determine the device handle for GPU0: Unknown Error'; exit 15")
    state, why = busy.look("gpu001")
    assert state == "unknown"
    assert "nvidia-smi ended with 15" in why
    # A run goes on as before: what it measures says itself what is wrong with the GPU.
    assert busy.node_is_busy("gpu001", {"allow_busy": False}) is None


def test_a_step_of_slurm_makes_it_busy_unless_that_job_holds_it_for_the_run(node, monkeypatch):
    monkeypatch.setattr(busy, "slurm_jobs", lambda: {"41"})
    assert busy.look("gpu001")[0] == "busy"
    policy = {"allow_busy": False, "slurm_job": 0}
    assert "41" in busy.node_is_busy("gpu001", policy).message
    assert busy.node_is_busy("gpu001", {**policy, "slurm_job": 41}) is None
    assert busy.node_is_busy("gpu001", {**policy, "slurm_job": 42}) is not None
    assert os.environ["PATH"] == str(node)
