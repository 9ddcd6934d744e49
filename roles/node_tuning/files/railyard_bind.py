#!/usr/bin/env python3
# Managed by Railyard (role node_tuning): change the inventory, not this file.
"""Runs a rank of a job on the CPUs and the memory that are near its GPU, and names the RDMA device that is.

    srun ... railyard-bind python train.py        mpirun ... railyard-bind ./a.out
    torchrun --no-python ... railyard-bind python train.py
    railyard-bind --print                         says what it would do, and runs nothing

Which GPU: of those that this process may open, in the order of their PCI addresses, after
CUDA_VISIBLE_DEVICES, the one with the rank's number on this node. CPUs: those of the GPU's NUMA node that the
launcher left to the rank. Memory: from that node as long as it has some. Device: UCX_NET_DEVICES and
RAILYARD_HCA name the one with the shortest way on PCI Express; of several alike, each GPU gets another. NCCL
finds its devices itself, better than one variable could. What cannot be found is reported on stderr, and
the command runs nevertheless.
"""

import ctypes
import os
import platform
import re
import sys

# The innermost launcher first: torchrun below srun counts its workers itself.
RANKS = (
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "PALS_LOCAL_RANKID",
    "SLURM_LOCALID",
)
NVIDIA = "0x10de"
# asm/unistd.h; MPOL_PREFERRED of linux/mempolicy.h takes memory elsewhere rather than end the job.
SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
MPOL_PREFERRED = 1


class UnboundError(Exception):
    """Why a rank is not bound."""


def text(path):
    """Return what a file holds, nothing where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def numbers(cpulist):
    """Return the numbers of a list such as 0-3,8."""
    ends = [part.split("-") for part in cpulist.split(",") if part]
    return {number for one in ends for number in range(int(one[0]), int(one[-1]) + 1)}


def local_rank(environment):
    """Return the rank's number on this node; alone, a process is the first."""
    found = next((environment[name] for name in RANKS if environment.get(name, "").isdigit()), "0")
    return int(found)


def gpus(root):
    """Return the GPUs: PCI address, UUID, minor number, as the driver tells them, in the order of the bus."""
    found = []
    bus = os.path.join(root, "sys/bus/pci/devices")
    for address in sorted(os.listdir(bus)) if os.path.isdir(bus) else ():
        folder = os.path.join(bus, address)
        if text(folder + "/vendor") == NVIDIA and text(folder + "/class").startswith(("0x0300", "0x0302")):
            told = text(os.path.join(root, "proc/driver/nvidia/gpus", address, "information"))
            values = dict(re.findall(r"(?m)^([^:\n]+):[ \t]*(.*)$", told))
            found.append(
                (address, values.get("GPU UUID", "").strip(), values.get("Device Minor", "").strip())
            )
    return found


def may_open(root, minor):
    """Whether this process may use a GPU: a cgroup refuses the others' device files."""
    path = os.path.join(root, "dev/nvidia" + minor)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    except FileNotFoundError:
        return True  # no driver tells; the order of the bus is all there is
    except OSError:
        return False
    return True


def own_gpu(root, environment):
    """Return the PCI address of the rank's GPU, and its place among those that the rank may use."""
    usable = [gpu for gpu in gpus(root) if may_open(root, gpu[2])]
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        chosen = []
        for word in (part.strip() for part in visible.split(",") if part.strip()):
            if word.isdigit() and int(word) < len(usable):
                chosen.append(usable[int(word)])
            else:
                chosen += [gpu for gpu in usable if word.startswith("GPU-") and gpu[1].startswith(word)]
        if not chosen:
            raise UnboundError(
                f"CUDA_VISIBLE_DEVICES={visible} names no GPU of this node (MIG is not supported)"
            )
        usable = chosen
    if not usable:
        raise UnboundError("there is no GPU that this process may use")
    rank = local_rank(environment)
    if len(usable) > 1 and rank >= len(usable):
        raise UnboundError(f"rank {rank} of this node has no GPU of its own, there are {len(usable)}")
    return usable[rank if len(usable) > 1 else 0][0]


def way(root, folder):
    """Return the devices from the root of the bus to a device, as the kernel's tree has them."""
    return os.path.realpath(os.path.join(root, folder)).split("/")


def allowed_hcas(root, environment):
    """Return the devices that NCCL is to use, the rails' and not storage's; None if not configured."""
    settings = dict(
        re.findall(r"(?m)^[ \t]*(NCCL_IB_HCA)[ \t]*=(.*)$", text(os.path.join(root, "etc/nccl.conf")))
    )
    value = environment.get("NCCL_IB_HCA", settings.get("NCCL_IB_HCA", "")).strip()
    return {name.partition(":")[0] for name in value[1:].split(",")} if value.startswith("=") else None


def own_hca(root, address, environment):
    """Return the RDMA port (`mlx5_0:1`) that is nearest to a GPU; None where there is none."""
    folder = os.path.join(root, "sys/class/infiniband")
    names = sorted(os.listdir(folder), key=lambda name: [int(n) for n in re.findall(r"\d+", name)])
    allowed = allowed_hcas(root, environment)
    ports = {}
    for name in names:
        if os.path.exists(f"{folder}/{name}/device") and (allowed is None or name in allowed):
            active = [
                port
                for port in sorted(os.listdir(f"{folder}/{name}/ports"))
                if "ACTIVE" in text(f"{folder}/{name}/ports/{port}/state")
            ]
            ports.update(
                {f"{name}:{port}": way(root, f"sys/class/infiniband/{name}/device") for port in active[:1]}
            )

    def nearest(gpu):
        """Ports of the longest common way; without one, of the same NUMA node."""
        here = way(root, f"sys/bus/pci/devices/{gpu}")
        node = text("/".join(here) + "/numa_node")
        near = {}
        for port, there in ports.items():
            common = sum(1 for depth in range(len(here)) if here[: depth + 1] == there[: depth + 1])
            near[port] = (common, text("/".join(there) + "/numa_node") == node)
        return tuple(port for port in ports if near[port] == max(near.values()))

    mine = nearest(address)
    if not mine:
        return None
    # The GPUs that have the same choice share it out.
    alike = [gpu[0] for gpu in gpus(root) if nearest(gpu[0]) == mine]
    return mine[alike.index(address) % len(mine)]


def prefer_memory_of(node):
    """Have memory come from a NUMA node; return whether the kernel agreed."""
    number = SET_MEMPOLICY.get(platform.machine())
    if number is None:
        return False
    bits = 1024
    mask = (ctypes.c_ulong * (bits // 64))()
    mask[node // 64] = 1 << node % 64
    return ctypes.CDLL(None).syscall(number, MPOL_PREFERRED, mask, bits + 1) == 0


def bind(root, environment):
    """Bind this process; return a description of it, and the variables for the command.

    Raises:
        UnboundError: nothing was bound, and why.
    """
    address = own_gpu(root, environment)
    told = [f"GPU {address}"]
    variables = {}
    if os.path.isdir(os.path.join(root, "sys/class/infiniband")):
        hca = own_hca(root, address, environment)
        if hca:
            variables = {"RAILYARD_HCA": hca, "UCX_NET_DEVICES": environment.get("UCX_NET_DEVICES", hca)}
            told.append(f"RDMA {hca}")
    folder = os.path.join(root, "sys/bus/pci/devices", address)
    node = text(folder + "/numa_node")
    left = numbers(text(folder + "/local_cpulist")) & os.sched_getaffinity(0)
    if not node.isdigit():
        told.append("CPUs as they were: the firmware does not say on which NUMA node the GPU is")
    elif not left:
        told.append(f"CPUs as they were: the launcher left none of NUMA node {node} to this rank")
    else:
        os.sched_setaffinity(0, left)
        memory = "" if prefer_memory_of(int(node)) else ", memory as it was"
        told.append(f"{len(left)} CPUs of NUMA node {node}{memory}")
    return ", ".join(told), variables


def main(arguments, environment, root="/"):
    """Bind this process and become the command."""
    only_print = arguments[:1] == ["--print"]
    command = arguments[1:] if arguments[:1] in (["--"], ["--print"]) else arguments
    if (not command and not only_print) or arguments[:1] in (["-h"], ["--help"]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        told, variables = bind(root, environment)
        if only_print:
            print(f"rank {local_rank(environment)}: {told}")
    except UnboundError as error:
        variables = {}
        print(f"railyard-bind: not bound: {error}", file=sys.stderr)
    if only_print:
        return 0
    try:
        os.execvpe(command[0], command, {**environment, **variables})  # noqa: S606 - the rank's own words
    except OSError as error:
        print(f"railyard-bind: {command[0]}: {error.strerror}", file=sys.stderr)
    return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], dict(os.environ)))
