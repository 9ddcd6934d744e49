# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds the modules of the RDMA stack, so that its unit cannot replace them.

`openibd restart` unloads one module after the other and ends where one is in use: half of the stack is
gone then, and with it the node's rails. So everything is looked at before: /sys/module/NAME/holders are the
modules that stand on NAME, and a refcnt above their number is a process, a mount or another user of the
kernel's.

Sources: Mellanox/doca-driver-build, module_unload_deps.sh (the same arithmetic) and entrypoint.sh (what it
unloads before openibd: nvidia_peermem and, only when told, the storage modules); its pull request 481
(2026-09-04: openibd found nvidia_peermem on ib_uverbs and could not finish); spidernet-io/spiderpool, page on
the OFED driver (openibd: "mlx_compat is in use by: nvme_core nvme_fabrics", 'Please stop "opensm"').
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader

# What the vendor's unit replaces; all else that matters stands on one of these.
_ROOTS = ("mlx_compat", "ib_core", "mlx5_core", "mlx4_core")
#: What the vendor's unit unloads itself.
OWN = frozenset(
    (
        *_ROOTS,
        "ib_cm",
        "ib_ipoib",
        "ib_umad",
        "ib_uverbs",
        "iw_cm",
        "mlx4_en",
        "mlx4_ib",
        "mlx5_ib",
        "mlxdevm",
        "mlxfw",
        "rdma_cm",
        "rdma_ucm",
    )
)
#: How an HCA reaches GPU memory: gone with the stack, and loaded again after it.
PEER_MEMORY = ("nvidia_peermem", "nv_peer_mem")
#: What the vendor's unit does not know and the kernel loads again by itself, by alias.
_AUXILIARY = ("mlx5_vdpa", "mlx5_fwctl", "mlx5_dpll")
#: File systems and disks over RDMA. What is in use of them would lose its data.
_STORAGE = {
    "beegfs": "BeeGFS",
    "cifs": "SMB Direct",
    "ib_iser": "iSER, an iSCSI initiator",
    "ib_isert": "iSER, an iSCSI target",
    "ib_srp": "SRP, an initiator",
    "ib_srpt": "SRP, a target",
    "ko2iblnd": "Lustre",
    "nvme": "NVMe",
    "nvme_core": "NVMe",
    "nvme_fabrics": "NVMe over Fabrics",
    "nvme_rdma": "NVMe over RDMA",
    "nvmet_rdma": "NVMe over RDMA, a target",
    "rpcrdma": "NFS over RDMA",
    "svcrdma": "NFS over RDMA, a server",
    "xprtrdma": "NFS over RDMA",
}


class Holder(t.NamedTuple):
    """A loaded module that stands on the stack, or belongs to it.

    Attributes:
        name: Its name as /sys/module has it.
        users: How many users it has beside the modules on top of it; None where that cannot be read.
        on_top: The modules on top of it.
    """

    name: str
    users: int | None
    on_top: tuple[str, ...]


class Plan(t.NamedTuple):
    """What stands in the way of a restart of the stack.

    Attributes:
        refusals: What has to be ended by a person before the node is drained: storage in use, and modules
            that are not known here.
        busy: What jobs and daemons may still use; asked again once the node is drained.
        unload: What is unloaded before the restart, each before what it stands on.
        reload: What of it has to be loaded again.
    """

    refusals: list[str]
    busy: list[str]
    unload: list[str]
    reload: list[str]


def read(reader: Reader) -> list[Holder]:
    """Return the loaded modules of the stack and all that stand on it, those on top first."""
    found: dict[str, Holder] = {}

    def visit(name: str) -> None:
        folder = reader.sys("module", name)
        if name in found or not os.path.isdir(folder):
            return
        on_top = tuple(reader.names(os.path.join(folder, "holders")))
        counter = os.path.join(folder, "refcnt")
        if os.path.exists(counter):
            count = reader.number(counter)
            users = None if count is None else max(count - len(on_top), 0)
        else:
            users = 0  # built into the kernel: nothing that a restart would unload
        found[name] = Holder(name, users, on_top)
        for other in on_top:
            visit(other)

    for root in _ROOTS:
        visit(root)
    return _in_order(found)


def _in_order(found: dict[str, Holder]) -> list[Holder]:
    """Return each module after all that stand on it."""
    order: list[Holder] = []
    placed: set[str] = set()

    def place(name: str) -> None:
        if name in placed or name not in found:
            return
        placed.add(name)
        for other in found[name].on_top:
            place(other)
        order.append(found[name])

    for name in found:
        place(name)
    return order


def plan(holders: t.Iterable[Holder]) -> Plan:
    """Return what stands in the way of a restart, and what has to go first."""
    refusals, busy, unload = [], [], []
    for one in holders:
        is_known = one.name in OWN or one.name in PEER_MEMORY or one.name in _AUXILIARY
        if one.name in _STORAGE:
            if one.users != 0:
                refusals.append(
                    f"{one.name} ({_STORAGE[one.name]}) {_used(one)}. Fix: unmount and disconnect what uses "
                    "it, or reboot the node (playbooks/reboot.yml) in place of the restart"
                )
            else:
                unload.append(one.name)
        elif not is_known:
            refusals.append(
                f"{one.name} stands on the RDMA stack and is not known here. Fix: unload it with what uses "
                f"it (`lsmod | grep {one.name}`), or reboot the node (playbooks/reboot.yml)"
            )
        elif one.users != 0:
            busy.append(
                f"{one.name} {_used(one)}. Fix: end what uses it (`fuser -v /dev/infiniband/*` names the "
                "processes; a subnet manager is one), or reboot the node (playbooks/reboot.yml)"
            )
        elif one.name not in OWN:
            unload.append(one.name)
    return Plan(refusals, busy, unload, [name for name in unload if name in PEER_MEMORY])


def _used(one: Holder) -> str:
    if one.users is None:
        return "does not say whether it is used"
    return f"is used, {one.users} time{'s' if one.users != 1 else ''} beside the modules on top of it"
