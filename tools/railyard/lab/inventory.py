"""What `inventories/lab` takes from what the lab is made of: one generated group_vars file.

Transport, HCA names and node class follow the topology; a lab of another name than the built-in one leaves
the same file in its own folder (`.lab/NAME/generated.yml`).
"""

from __future__ import annotations

import math
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy

from railyard.base.paths import repo_root
from railyard.lab import naming, topology
from railyard.lab.topology import Rail, Topology

_WAIT_KEYS = ("rendezvous_timeout_s", "first_rendezvous_timeout_s", "lease_s")
_PLURALS = {"container": "containers", "vm": "VMs"}
# Emulated nodes answer late, and their figures are no reference: short tests, long deadlines.
_VM_POLICY = """
# The image brings apt's lists; to fetch them takes an emulated node most of a minute. Lists that name
# what a mirror no longer has are fetched anew all the same.
apt_packages_cache_valid_s: 604800

# Emulated nodes are slow to answer, and longer tests would tell no more about them. Both ways at once the
# Soft-RoCE of this kernel (6.1) refuses a request of its own peer now and then, and the test fails.
fabric_policy:
  bidirectional: false
  iperf3_duration_s: 2
  iperf3_omit_s: 0
  sockperf_duration_s: 1
  rdma_duration_s: 3
  rdma_margin_s: 1
  rdma_latency_s: 0.5
"""


_FABRIC = """\
---
# What the lab's fabric should be, as `railyard lab up` generates it from the topology: {kinds}.
fabric:
  transport: {transport}
  node_class: {node_class}
  mtu: {mtu}
  cabling: {cabling}
  rails:
{rails}
  frontend: {{netdev: {frontend}}}
"""
_ROLLBACK = """
# {why}
rail_network_rollback_after_s: {wait_s}
"""
_WAITS = """\
  rendezvous_timeout_s: {rendezvous_s}
  first_rendezvous_timeout_s: {first_rendezvous_s}
  lease_s: {lease_s}
"""
_CONTAINER_POLICY = """
# The defaults, longer by as much as the nodes are slower than usual.
fabric_policy:
"""
_TIME_FACTOR = """
# By how much time limits are longer than usual: how slow the nodes were when the lab came up. Playbooks and
# group_vars/all/limits.yml multiply their limits by it; the limits in this file are longer already.
railyard_time_factor: {factor:g}
"""
_SOON = "Lab nodes answer soon: one that a change cut off need not wait as long as real ones do."
_LATE = "An emulated node on a busy machine takes minutes over what a real one does in seconds."


def generated_file(lab: str) -> Path:
    """Return the file that `up` writes; for the built-in lab it is where Ansible finds it."""
    if lab == topology.load(topology.default_file()).name:
        return repo_root() / "inventories" / "lab" / "group_vars" / "gpu_nodes" / "generated.yml"
    return naming.lab_dir(lab) / "generated.yml"


def content(wanted: Topology, time_factor: float = 1.0) -> str | None:
    """Return the group_vars file of a lab; None where its topology does not give each rail a subnet.

    Args:
        wanted: the lab's topology.
        time_factor: by how much time limits are longer than usual, as `speed.measure` found.
    """

    def limit_s(usual_s: float) -> int:
        return math.ceil(round(usual_s * time_factor, 6))

    if any(rail.subnet is None for rail in wanted.rails):
        return None
    # A cluster has one transport: what its poorest node can do.
    rdma, late = wanted.kinds == ["vm"], "vm" in wanted.kinds
    text = _FABRIC.format(
        kinds=" and ".join(_PLURALS[kind] for kind in wanted.kinds),
        transport="roce" if rdma else "tcp",
        node_class="virtual" if rdma else "container",
        mtu=wanted.mtu_bytes,
        cabling="back_to_back" if len(wanted.nodes) <= 2 else "switched",
        rails="\n".join(map(_rail, wanted.rails)),
        frontend=wanted.management.netdev,
    )
    if rdma:
        text += "\nrdma_stack_provider: soft_roce\nrdma_stack_soft_roce_devices:\n"
        for position, rail in enumerate(wanted.rails):
            text += f"  - {{device: rxe{position}, netdev: {rail.netdev}}}\n"
    text += _ROLLBACK.format(why=_LATE if late else _SOON, wait_s=limit_s(180 if late else 20))
    text += _TIME_FACTOR.format(factor=time_factor)
    meeting_s, first_s, lease_s = (20, 90, 180) if late else [policy.DEFAULT[key] for key in _WAIT_KEYS]
    waits = _WAITS.format(
        rendezvous_s=limit_s(meeting_s), first_rendezvous_s=limit_s(first_s), lease_s=limit_s(lease_s)
    )
    if late:
        return text + _VM_POLICY + waits
    return text + _CONTAINER_POLICY + waits if time_factor > 1 else text


def _rail(rail: Rail) -> str:
    rate = "" if rail.rate_gbps is None else f", rate_gbps: {rail.rate_gbps:g}"
    return f"    - {{name: {rail.name}, netdev: {rail.netdev}, subnet: {rail.subnet}{rate}}}"


def write(wanted: Topology, time_factor: float = 1.0) -> list[Path]:
    """Write the generated file of a lab; return the created paths, to set their owner."""
    text = content(wanted, time_factor)
    if text is None:
        return []
    file = generated_file(wanted.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return [file.parent, file]


def remove(lab: str) -> None:
    """Remove a lab's generated file, and its folder when nothing else is in it."""
    file = generated_file(lab)
    file.unlink(missing_ok=True)
    if file.parent.is_dir() and not any(file.parent.iterdir()):
        file.parent.rmdir()
