# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find what uses the modules of the RDMA stack, so that its unit cannot replace them.

`openibd restart` unloads one module after the other and stops where one is in use: then half of the stack is
gone, and the node's rails with it. So all is checked before: /sys/module/NAME/holders are the modules that
depend on NAME, and a refcnt above their number is a process, a mount or another user in the kernel.

Sources: Mellanox/doca-driver-build, module_unload_deps.sh (the same arithmetic) and entrypoint.sh (what it
unloads before openibd: nvidia_peermem and, only if configured, the storage modules); its pull request 481
(2026-09-04: openibd found nvidia_peermem on ib_uverbs and could not finish); spidernet-io/spiderpool, page on
the OFED driver (openibd: "mlx_compat is in use by: nvme_core nvme_fabrics", 'Please stop "opensm"').
"""

from __future__ import annotations

import os
import typing as t

from ..facts.sysfs import Reader

# The modules that the vendor's unit replaces; all others that matter depend on one of these.
_ROOTS = ("mlx_compat", "ib_core", "mlx5_core", "mlx4_core")
#: The modules that the vendor's unit unloads itself.
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
#: The modules by which an HCA accesses GPU memory: unloaded with the stack, and loaded again after it.
PEER_MEMORY = ("nvidia_peermem", "nv_peer_mem")
#: Modules that the vendor's unit does not know and that the kernel loads again by alias.
_AUXILIARY = ("mlx5_vdpa", "mlx5_fwctl", "mlx5_dpll")
#: File systems and disks over RDMA. Those in use would lose data.
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
    """A loaded module of the stack, or one that depends on it.

    Attributes:
        name: Its name in /sys/module.
        users: How many users it has besides dependent modules; None where that cannot be read.
        on_top: The modules that depend on it.
    """

    name: str
    users: int | None
    on_top: tuple[str, ...]


class Plan(t.NamedTuple):
    """What prevents a restart of the stack.

    Attributes:
        refusals: What the user has to end before the node is drained: storage in use, and unknown modules.
        busy: What jobs and daemons may still use; checked again once the node is drained.
        unload: The modules to unload before the restart, dependent ones first.
        reload: Those of them that have to be loaded again.
    """

    refusals: list[str]
    busy: list[str]
    unload: list[str]
    reload: list[str]


def read(reader: Reader) -> list[Holder]:
    """Return the loaded modules of the stack and all that depend on it, dependent ones first."""
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
    """Return each module after all that depend on it."""
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
    """Plan a restart: what prevents it, and what has to be unloaded first."""
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
                f"{one.name} depends on the RDMA stack and is unknown. Fix: unload it with what uses it "
                f"(`lsmod | grep {one.name}`), or reboot the node (playbooks/reboot.yml)"
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
        return "has no readable usage count"
    return f"is used, {one.users} time{'s' if one.users != 1 else ''} besides the modules that depend on it"
