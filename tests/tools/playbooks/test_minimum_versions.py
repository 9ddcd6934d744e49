"""Minimum versions as people meet them: in `railyard verify`, and before a playbook touches a node."""

from __future__ import annotations

import datetime

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import minimum_versions
from end_state import minimums
from end_state.reading import NotReadError
from support import programs
from support.inventories.on_disk import write_groups

TODAY = minimum_versions.READ + datetime.timedelta(days=30)
# As nvcc 12.8 and dcgmi 4.3.0 print it in public reports; a blank line comes first with dcgmi.
NVCC = """nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2025 NVIDIA Corporation
Built on Fri_Feb_21_20:23:50_PST_2025
Cuda compilation tools, release 12.8, V12.8.93
Build cuda_12.8.r12.8/compiler.35583870_0
"""
NOTHING = {"driver": None, "nvcc": None, "dcgmi": None, "dcgm_exporter": None, "firmware": []}
OLD = {
    "driver": "535.261.03\n",
    "nvcc": NVCC,
    "dcgmi": "\ndcgmi  version: 4.3.0\n",
    "dcgm_exporter": "DCGM Exporter version 3.3.5-3.4.0\n",
    "firmware": ["28.39.1002", "28.41.1000"],
}


def test_a_nodes_own_version_text_is_compared():
    found = {(one.component, one.state) for one in minimums.compared(OLD)}
    below = {(name, minimum_versions.BELOW) for name in minimum_versions.COMPONENTS}
    assert found == below | {("connectx_firmware", minimum_versions.NOT_KNOWN)}
    assert "DCGM Exporter 3.4.0 is below" in "".join(one.text for one in minimums.compared(OLD))


def test_the_report_has_age_nodes_and_what_is_not_known():
    new = {**NOTHING, "driver": "580.159.03\n", "dcgmi": "dcgmi: no such thing"}
    states = {
        "gpu1": {"versions": OLD},
        "gpu2": {"versions": OLD},
        "gpu3": {"versions": new},
        "gpu4": NotReadError("x"),
    }
    told = minimums.lines(states, TODAY)
    assert told[0] == f"Minimum versions (table of {minimum_versions.READ}, 30 days old):"
    assert sum(line.startswith("  below the minimum on gpu[1-2]: ") for line in told) == 5
    assert [line for line in told if line.startswith("  not known on gpu3: DCGM: ")]
    assert [line for line in told if line.startswith("  not known on gpu[1-2]: ") and "branch 41" in line]
    assert [line for line in told if line.startswith("  not below: NVIDIA driver 580.159.03")]
    assert told[-1] == "  1 of 4 nodes could not be read"


def test_nodes_without_any_of_it_are_one_line():
    (line,) = minimums.lines({"gpu1": {"versions": NOTHING}}, TODAY)
    assert "no NVIDIA driver" in line


def test_a_pin_below_the_minimum_is_a_warning_before_any_node_is_touched(tmp_path):
    pins = {"nvidia-driver": "535.261.03-1~deb12u1", "cuda-drivers": "550.54.15-1"}
    firmware = {"ConnectX-7": "28.39.1002"}
    wanted = {"nvidia_driver_cuda": "13.1", "rdma_stack_firmware_wanted": firmware}
    where = write_groups(tmp_path, nvidia_driver_pins=pins, **wanted)
    done = programs.playbook("playbooks/preflight.yml", where)
    told = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 0, told
    assert (
        "WARNING]: gpu[1-2] asks for a version that is below the minimum: NVIDIA driver 535.261.03 is below"
        in told
    )
    assert "ConnectX or BlueField firmware 28.39.1002 is below 28.39.8002" in told
    assert f"table of {minimum_versions.READ}, " in told
    assert "gpu[1-2] asks for a version that is not known: NVIDIA driver 550.54.15" in told
    assert "CUDA" not in told


def test_pins_at_the_minimum_say_nothing(tmp_path):
    where = write_groups(tmp_path, nvidia_driver_pins={"nvidia-driver": "535.309.01-1"})
    done = programs.playbook("playbooks/preflight.yml", where)
    assert done.returncode == 0
    assert "minimum" not in done.stdout + done.stderr
