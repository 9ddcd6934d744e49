"""What goes wrong during a network change, made on a lab's nodes; each kind says what it needs and does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

# Applies to every unit that a change is applied in: systemd reads drop-ins of a name's prefix.
DROP_IN = "/etc/systemd/system/railyard-rail-network-apply-.service.d/10-recovery.conf"
STATE = "/var/lib/railyard/rail_network"
BROKEN = "/etc/netplan/70-recovery-broken.yaml"
FILL = "/root/recovery-fill"
# All that is free, what is reserved for root included, in a moment; the last bits by writing.
FILL_SCRIPT = f"""\
free_bytes=$(( $(stat -f -c %f /) * $(stat -f -c %S /) ))
fallocate -l $(( free_bytes - 8388608 )) {FILL}
dd if=/dev/zero of={FILL}2 bs=64k
dd if=/dev/zero of={FILL}3 bs=1k
true
"""
_SMALL = ((STATE, "512k"), ("/etc/netplan", "64k"))

As = Callable[..., str]  # runs a command on the node as root and returns what it printed


@dataclass(frozen=True)
class Node:
    """A node as a failure sees it: its place among the nodes, and hands on it."""

    name: str
    position: int
    address: str
    kind: str
    root: As


@dataclass(frozen=True)
class Failure:
    """One kind of failure.

    Attributes:
        says: for the table of the README.
        make: prepares a node, before its snapshot is taken.
        heal: takes away what `make` left, after the second snapshot.
        variables: extra variables of the run.
        in_management: whether the new plan puts rail0 into half of the management subnet: what goes to the
            controller leaves by the rail then.
        killed: whether the controller is killed once the change is staged.
        reset: whether the node is reset once the change is applied.
        mtu_bytes: the MTU before; None: the file before sets none.
    """

    says: str
    make: Callable[[Node, int], None]
    heal: Callable[[Node], None]
    variables: Mapping[str, Any]
    in_management: bool = False
    killed: bool = False
    reset: bool = False
    mtu_bytes: int | None = 1500


def _nothing(_node: Node, _round: int = 0) -> None:
    return


def _before_apply(node: Node, command: str) -> None:
    node.root("mkdir", "-p", DROP_IN.rsplit("/", 1)[0])
    _write(node, DROP_IN, f"[Service]\nExecStartPre=/bin/sh -c '{command}'\n")
    node.root("systemctl", "daemon-reload")


def _no_drop_in(node: Node) -> None:
    node.root("rm", "-rf", DROP_IN.rsplit("/", 1)[0])
    node.root("systemctl", "daemon-reload")


def _write(node: Node, path: str, text: str) -> None:
    node.root("python3", "-c", "import sys; open(sys.argv[1], 'w').write(sys.argv[2])", path, text)


def _edit_management(node: Node, _round: int) -> None:
    node.root("cp", "--archive", "/etc/netplan/01-management.yaml", "/root/recovery-management.yaml")
    other = f"{node.address.rsplit('.', 1)[0]}.{100 + node.position}/"
    node.root("sed", "-i", f"s#{node.address}/#{other}#", "/etc/netplan/01-management.yaml")


def _management_again(node: Node) -> None:
    node.root("cp", "--archive", "/root/recovery-management.yaml", "/etc/netplan/01-management.yaml")


def _hold(node: Node, _round: int) -> None:
    """Hold the change back for a while, so that the controller is dead on all nodes before it is applied."""
    _before_apply(node, f"sleep {8 if node.kind == 'container' else 20}")


def _break_netplan(node: Node, _round: int) -> None:
    _before_apply(node, f'echo "network: [broken" > {BROKEN}')


def _mend_netplan(node: Node) -> None:
    node.root("rm", "-f", BROKEN)
    _no_drop_in(node)


def _fill_disk(node: Node, round_number: int) -> None:
    """Every other time the disk is full before anything begins; else it fills up once all is staged."""
    if node.kind == "container":
        # Its disk is the host's: so what matters lies on small ones of its own.
        for path, size in _SMALL:
            node.root(
                "sh",
                "-c",
                f"mkdir -p {path} && cp -a {path} /root/recovery-kept && "
                f"mount -t tmpfs -o size={size},mode=755 recovery {path} && "
                f"cp -a /root/recovery-kept/. {path}/ && rm -rf /root/recovery-kept",
            )
        fill = "; ".join(f"dd if=/dev/zero of={path}/.fill bs=1k 2>/dev/null" for path, _size in _SMALL)
    else:
        _write(node, f"{FILL}.sh", FILL_SCRIPT)
        fill = f"sh {FILL}.sh 2>/dev/null"
    if round_number % 2:
        node.root("sh", "-c", f"{fill}; true")
        if node.kind == "container":
            node.root("rm", "-f", "/etc/netplan/.fill")
    else:
        _before_apply(node, f"{fill}; true")


def _empty_disk(node: Node) -> None:
    node.root("rm", "-f", FILL, f"{FILL}2", f"{FILL}3", f"{FILL}.sh")
    _no_drop_in(node)
    if node.kind == "container":
        for path, _size in _SMALL:
            node.root(
                "sh",
                "-c",
                f"rm -f {path}/.fill; cp -a {path} /root/recovery-kept && umount {path} && "
                f"cp -a /root/recovery-kept/. {path}/ && rm -rf /root/recovery-kept",
            )


def _foreign(node: Node, _round: int) -> None:
    node.root("ip", "rule", "add", "fwmark", "0x2a", "lookup", "100", "priority", "90")
    node.root("ip", "link", "set", "dev", "ens6", "mtu", "4000")


def _no_foreign(node: Node) -> None:
    node.root("ip", "rule", "del", "priority", "90")
    node.root("ip", "link", "set", "dev", "ens6", "mtu", "1500")


_ACCEPT = {"rail_network_accept_drift": True}
KINDS: dict[str, Failure] = {
    "management_lost": Failure(
        "netplan removes the management address", _edit_management, _management_again, _ACCEPT
    ),
    "unparsable": Failure(
        "a netplan file does not parse when it is applied", _break_netplan, _mend_netplan, {}
    ),
    "wrong_rail_address": Failure(
        "a rail gets half of the management subnet", _nothing, _nothing, {}, in_management=True
    ),
    "controller_killed": Failure("kill -9 of the controller", _hold, _no_drop_in, {}, killed=True),
    "full_disk": Failure(
        "full disk, before staging or after it, and a wrong address",
        _fill_disk,
        _empty_disk,
        {},
        in_management=True,
    ),
    "foreign_rule_mtu": Failure(
        "a foreign fwmark rule, an MTU that the old file does not set, and a wrong address",
        _foreign,
        _no_foreign,
        _ACCEPT,
        in_management=True,
        mtu_bytes=None,
    ),
    "hard_reset": Failure("hard reset inside the window", _hold, _no_drop_in, {}, killed=True, reset=True),
}
