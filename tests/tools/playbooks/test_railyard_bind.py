"""The rank wrapper, on a made-up node: two NUMA nodes, below each a switch with two GPUs and two HCAs."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "roles/node_tuning/files/railyard_bind.py"
SPEC = importlib.util.spec_from_file_location("railyard_bind", PROGRAM)
assert SPEC is not None
assert SPEC.loader is not None
railyard_bind = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(railyard_bind)

# GPU 0 and 1 are on NUMA node 1, which a firmware may number so: their addresses come first all the same.
GPUS = ("0000:1b:00.0", "0000:1c:00.0", "0000:9b:00.0", "0000:9c:00.0")


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{value}\n")


@pytest.fixture
def node(tmp_path, monkeypatch):
    bus = tmp_path / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    for index, address in enumerate(GPUS):
        numa, switch = (1, "0000:1a:00.0") if index < 2 else (0, "0000:9a:00.0")
        above = tmp_path / "sys/devices/pci0" / switch
        for name, vendor, kind in ((address, "0x10de", "0x030200"), (f"nic{index}", "0x15b3", "0x020700")):
            write(above / name / "vendor", vendor)
            write(above / name / "class", kind)
            write(above / name / "numa_node", numa)
            write(above / name / "local_cpulist", "8-15" if numa else "0-7")
            (bus / name).symlink_to(above / name)
        uuid = f"GPU Instance: 0\nModel: \t\t H100\nGPU UUID: \t GPU-{index}aaa-bbb\nDevice Minor: \t {index}"
        write(tmp_path / "proc/driver/nvidia/gpus" / address / "information", uuid)
        write(tmp_path / "dev" / f"nvidia{index}", "")
        hca = tmp_path / f"sys/class/infiniband/mlx5_{index}"
        write(hca / "ports/1/state", "4: ACTIVE")
        (hca / "device").symlink_to(above / f"nic{index}")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(4, 12)))
    monkeypatch.setattr(railyard_bind, "prefer_memory_of", lambda number: True)
    bound = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cpus: bound.append(cpus))
    return tmp_path, bound


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({}, 0),
        ({"SLURM_LOCALID": "3"}, 3),
        ({"SLURM_LOCALID": "0", "LOCAL_RANK": "2"}, 2),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "1", "SLURM_LOCALID": "0"}, 1),
    ],
)
def test_the_innermost_launcher_says_which_rank_it_is(environment, rank):
    assert railyard_bind.local_rank(environment) == rank


@pytest.mark.parametrize(
    ("environment", "gpu"),
    [
        ({"LOCAL_RANK": "2"}, 2),
        ({"LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": "3,0"}, 0),
        ({"LOCAL_RANK": "3", "CUDA_VISIBLE_DEVICES": "1"}, 1),
        ({"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": "GPU-3aaa"}, 3),
    ],
)
def test_a_rank_has_the_gpu_of_its_number_among_those_that_it_may_see(node, environment, gpu):
    assert railyard_bind.own_gpu(str(node[0]), environment) == GPUS[gpu]


def test_gpus_that_a_cgroup_refuses_are_not_counted(node, monkeypatch):
    real = os.open

    def refusing(path, flags):
        if str(path).endswith(("nvidia0", "nvidia1")):
            raise PermissionError(1, "Operation not permitted")
        return real(path, flags)

    monkeypatch.setattr(os, "open", refusing)
    assert railyard_bind.own_gpu(str(node[0]), {"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": "0,1"}) == GPUS[2]


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({"LOCAL_RANK": "4"}, "rank 4 of this node has no GPU of its own, there are 4"),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1"}, "MIG-1 names no GPU"),
    ],
)
def test_a_rank_without_a_gpu_reads_why(node, environment, why):
    with pytest.raises(railyard_bind.UnboundError, match=why):
        railyard_bind.own_gpu(str(node[0]), environment)


def test_a_rank_is_bound_to_what_the_launcher_left_it_of_the_node_of_its_gpu(node):
    told, variables = railyard_bind.bind(str(node[0]), {"LOCAL_RANK": "0"})
    assert node[1] == [{8, 9, 10, 11}]
    assert "4 CPUs of NUMA node 1" in told
    assert variables == {"RAILYARD_HCA": "mlx5_0:1", "UCX_NET_DEVICES": "mlx5_0:1"}


def test_each_gpu_gets_another_of_the_devices_below_its_switch(node):
    root = str(node[0])
    assert [railyard_bind.own_hca(root, gpu, {}) for gpu in GPUS] == [f"mlx5_{n}:1" for n in range(4)]


def test_a_device_that_is_down_or_no_rail_is_not_taken(node):
    root = str(node[0])
    write(node[0] / "sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN")
    assert railyard_bind.own_hca(root, GPUS[0], {}) == "mlx5_1:1"
    write(node[0] / "sys/class/infiniband/mlx5_2/ports/1/state", "1: DOWN")
    assert railyard_bind.own_hca(root, GPUS[2], {}) == "mlx5_3:1"
    write(node[0] / "sys/class/infiniband/mlx5_2/ports/1/state", "4: ACTIVE")
    write(node[0] / "etc/nccl.conf", "# ours\nNCCL_IB_HCA==mlx5_2:1,mlx5_3:1")
    assert railyard_bind.own_hca(root, GPUS[3], {}) == "mlx5_3:1"
    assert railyard_bind.own_hca(root, GPUS[3], {"NCCL_IB_HCA": "=mlx5_2"}) == "mlx5_2:1"


def test_what_the_user_says_of_ucx_stays(node):
    variables = railyard_bind.bind(str(node[0]), {"UCX_NET_DEVICES": "mlx5_3:1"})[1]
    assert variables["UCX_NET_DEVICES"] == "mlx5_3:1"


def test_cpus_of_another_node_alone_are_left_as_they_are(node, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    assert "left none of NUMA node 1" in railyard_bind.bind(str(node[0]), {})[0]
    write(node[0] / "sys/bus/pci/devices" / GPUS[0] / "numa_node", "-1")
    assert "does not say" in railyard_bind.bind(str(node[0]), {})[0]
    assert node[1] == []


def test_the_command_runs_bound_or_not_with_its_own_arguments_and_status():
    words = [sys.executable, "-c", "import sys; print(sys.argv[1:]); sys.exit(3)", "a b", "--print"]
    done = subprocess.run(
        [sys.executable, PROGRAM, "--", *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (3, "['a b', '--print']\n")
    done = subprocess.run([sys.executable, PROGRAM, "/no/such"], capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert "/no/such: No such file" in done.stderr


def test_memory_is_preferred_of_a_node_by_the_kernel_itself():
    if not Path("/proc/self/numa_maps").exists():
        pytest.skip("this kernel is built without NUMA, and has no memory policies")
    # In a process of its own, which the policy ends with.
    code = f"import sys; sys.path.insert(0, {str(PROGRAM.parent)!r}); import railyard_bind as b; "
    code += "print(b.prefer_memory_of(0), open('/proc/self/numa_maps').read(200))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "True" in done.stdout, done.stdout + done.stderr
    assert "prefer" in done.stdout
