# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the facts of a rail's RDMA: port, GID, RDMA MTU, P_Keys. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..catalogue import nic_drivers
from ..facts import gid
from ..facts.rdma_port import UNSPECIFIED_LAYER
from ..numeric import is_number, is_whole
from ..rails import bind, rdma_mtu
from ..rails.bind import Bound
from . import link
from .ruling import PASS, Ruling

#: Transport -> the checks of each rail; the GIDs of InfiniBand and EFA are no addresses.
CHECKS = {
    "roce": ("rdma_port", "rdma_gid", "rdma_mtu"),
    "infiniband": ("rdma_port", "rdma_mtu", "rdma_pkeys"),
    "efa": ("rdma_port", "rdma_mtu"),
}
#: Transport -> the link layer that its ports have; a VPI port can be either.
LINK_LAYERS = {"roce": "Ethernet", "infiniband": "InfiniBand", "efa": UNSPECIFIED_LAYER}
#: LIDs that no subnet manager hands out to itself: none at all, and everybody's.
_NO_LID = (0, 0xFFFF, 0xFFFFFFFF)
#: What a port that is active reports beside it: drivers/infiniband/core/sysfs.c has the words, and EFA is
#: `unspecified`.
_UNDERSTOOD: Mapping[str, tuple[str, ...]] = {
    "physical_state": ("LinkUp",),
    "node_type": ("CA", "unspecified"),
}
_MOST_WORDS = 60
#: Rates have fixed steps; a difference of more than this share from the declared one is another step. A
#: faster one is a finding too: the bandwidth thresholds come from the declared rate.
_RATE_SHARE = 0.99


_PKEYS_ALIKE = "the P_Keys of most InfiniBand ports of the rails, in the same order of the table"


class Pkeys:
    """How many ports have which P_Keys, in the order of their table: of all rails, and of each."""

    def __init__(self) -> None:
        """Know of no port."""
        self.all: Counter[tuple[str, ...]] = Counter()
        self.of_rail: dict[str, Counter[tuple[str, ...]]] = {}

    def add(self, bounds: Iterable[Bound]) -> None:
        """Count the ports of a node's rails; one that reports no keys is not counted."""
        for bound in bounds:
            if keys := _keys_of(bound):
                self.all[keys] += 1
                self.of_rail.setdefault(str(bound.rail["name"]), Counter())[keys] += 1


class Node(NamedTuple):
    """What the rules of RDMA ask of a node beside the rail.

    Attributes:
        name: its name.
        transport: what the plan declares, a key of CHECKS.
        node_class: what the plan declares the node to be.
        ports: all RDMA ports of its facts.
        fastest: board id -> the highest rate in Gbit/s that an InfiniBand port of it runs at, and whose.
        pkeys: the P_Keys of the rails' InfiniBand ports that are known, of this node or of all.
    """

    name: str
    transport: str
    node_class: str | None
    ports: Sequence[Mapping[str, Any]]
    fastest: Mapping[str, tuple[float, str]]
    pkeys: Pkeys


def rule(check: str, node: Node, bound: Bound) -> Ruling:
    """Say what a node's facts answer of a rail's RDMA.

    Args:
        check: one of CHECKS.
        node: the node.
        bound: the plan's rail, bound to the facts.
    """
    rail = bound.rail
    if bound.hca is None:
        ruling = Ruling(basis=f"the inventory declares {node.transport} for this rail")
        why = why_none(rail, bound, node.ports)
        return ruling.failed("hca_missing", f"{node.name} {rail['name']}: {why}")
    where = _where(node.name, rail, bound)
    if wrong := _other_kind(where, node.transport, bound.hca):
        return Ruling(basis=f"the inventory declares {node.transport}").failed("link_layer_wrong", wrong)
    if check == "rdma_port":
        return _port(where, node, bound)
    if check == "rdma_gid":
        return _gid(where, rail, bound, bound.hca)
    if check == "rdma_pkeys":
        return _pkeys(where, str(rail["name"]), bound, node)
    return _mtu(where, rail, bound.hca, node.transport)


def _other_kind(where: str, transport: str, port: Mapping[str, Any]) -> str | None:
    """Return why a port is not of the declared transport, where one of the two is EFA.

    What EFA's port reports of its link layer is no type that could be set.
    """
    driver = port.get("driver")
    if not isinstance(driver, str) or (transport == "efa") == bool(nic_drivers.connection_of(driver)):
        return None
    kind = "is no EFA device" if transport == "efa" else "is an EFA device"
    return f"{where} {kind} (driver {driver}), and the inventory declares {transport}"


def is_at_rate(seen_gbps: float, declared_gbps: float) -> bool:
    """Tell whether an InfiniBand port runs at its declared rate: names of rates are rounded."""
    return declared_gbps * _RATE_SHARE <= seen_gbps <= declared_gbps / _RATE_SHARE


def _keys_of(bound: Bound) -> tuple[str, ...]:
    keys = (bound.hca or {}).get("pkeys")
    return tuple(map(str, keys)) if isinstance(keys, list) else ()


def choice(bound: Bound) -> gid.Choice | None:
    """Return the GID that a bound rail has to use on RoCE, or None."""
    table = (bound.hca or {}).get("gids")
    if not isinstance(table, list):
        return None
    entries = [entry for entry in table if isinstance(entry, Mapping) and _is_entry(entry)]
    address = str(bound.rail.get("address") or bound.rail.get("address6") or "").split("/", maxsplit=1)[0]
    netdev = (bound.netdev or {}).get("netdev")
    return gid.choose(entries, address, netdev if isinstance(netdev, str) else None)


def _where(node: str, rail: Mapping[str, Any], bound: Bound) -> str:
    return f"{node} {rail['name']} ({(bound.hca or {}).get('hca')})"


def _is_entry(entry: Mapping[str, Any]) -> bool:
    return is_whole(entry.get("index")) and isinstance(entry.get("gid"), str)


def why_none(rail: Mapping[str, Any], bound: Bound, ports: Sequence[Mapping[str, Any]]) -> str:
    """Return why a rail is bound to no RDMA port, as the end of a sentence.

    Args:
        rail: the plan's rail.
        bound: the same, bound to the facts.
        ports: all RDMA ports of the node's facts.
    """
    if rail.get("hca") is not None:
        return next(one.detail for one in bound.findings if one.cause == "hca_missing")
    if bound.netdev is None:
        at_pci = [str(port.get("hca")) for port in bind.ports_at(rail, ports)]
        if len(at_pci) > 1:
            listed = ", ".join(at_pci)
            return f"{rail['pci']} has more than one port, {listed}; name the rail's by netdev or hca"
        if rail.get("pci") is not None:
            return f"there is no RDMA port at PCI address {rail['pci']}"
        return "its netdev is not there, and the inventory names no PCI address"
    name = bound.netdev.get("netdev")
    own = [str(port.get("hca")) for port in ports if port.get("netdev") in (name, _parent(bound))]
    if len(own) > 1:
        return f"{name} has more than one port, {', '.join(own)}; name one with hca in the inventory"
    return f"no RDMA device belongs to {name}"


def _parent(bound: Bound) -> str:
    """Return the port that a VLAN netdev lies on."""
    return str((bound.netdev or {}).get("netdev")).removesuffix(f".{bound.rail.get('vlan')}")


def _port(where: str, node: Node, bound: Bound) -> Ruling:
    rail, transport = bound.rail, node.transport
    port = bound.hca or {}
    keys = ("hca", "state", "physical_state", "link_layer", "node_type", "rate_gbps", "width")
    observed = {key: port.get(key) for key in keys}
    wanted: dict[str, Any] = {"state": "ACTIVE", "link_layer": LINK_LAYERS[transport]}
    basis = f"the inventory declares {transport}"
    rate: Any = rail.get("rate_gbps")
    managed = transport == "infiniband"
    if managed:
        observed["sm_lid"] = port.get("sm_lid")
        if is_number(rate):
            wanted["rate_gbps"] = rate
            basis += f" at {rate:g} Gbit/s"
    if transport == "efa":
        basis += "; older drivers report 100 Gbit/s of every EFA device, so its rate is not compared"
    ruling = Ruling.passed(observed, wanted, basis)
    if port.get("node_type") == "RNIC":
        return ruling.failed("iwarp", where)
    if port.get("dpu_mode") == "dpu":
        return ruling.failed("dpu_mode", where)
    layer, state = port.get("link_layer"), port.get("state")
    if isinstance(layer, str) and layer != LINK_LAYERS[transport]:
        return ruling.failed("link_layer_wrong", f"{where} is {layer}, the inventory declares {transport}")
    # A port without a link has no SM LID either: what it lacks is its cable.
    if managed and (state == "INIT" or (state != "DOWN" and port.get("sm_lid") in _NO_LID)):
        return ruling.failed("sm_missing", f"{where} is {state}, SM LID {port.get('sm_lid')}")
    if state in link.NOT_ACTIVE:
        return ruling.failed("link_down", f"{where} is {state}, {port.get('physical_state')}")
    for finding in bound.findings:
        if finding.cause in ("hca_missing", "netdev_differs", "netdev_shared"):
            return ruling.failed(finding.cause, f"{where}: {finding.detail}")
    for key, value in (("link_layer", layer), ("state", state), ("node_type", port.get("node_type"))):
        if not isinstance(value, str):
            return ruling.unknown("rdma_unknown", f"{where}: {key} is {value!r}")
    if state != "ACTIVE":
        return ruling.unknown("rdma_unknown", f"{where}: state is {str(state)[:_MOST_WORDS]!r}")
    for key, known in _UNDERSTOOD.items():
        if port.get(key) not in known:
            said = str(port.get(key))[:_MOST_WORDS]
            return ruling.unknown("rdma_unknown", f"{where}: {key} is {said!r}")
    if port.get("driver_class") not in ("hardware", "software"):
        # Of an unknown device no authority says what it reaches: its tests would lose their floor.
        return ruling.unknown("rdma_unknown", f"{where}: driver_class is {port.get('driver_class')!r}")
    if node.node_class == "hardware" and port["driver_class"] == "software":
        return ruling.failed("not_hardware", f"{where}: it is software RDMA ({port.get('driver')})")
    for key in ("sm_lid", "lid") if managed else ():
        if not is_whole(port.get(key)):
            return ruling.unknown("rdma_unknown", f"{where}: {key} is {port.get(key)!r}")
    if managed and port.get("lid") in _NO_LID:
        return ruling.failed("sm_missing", f"{where} is {state}, and no subnet manager gave it a LID")
    # On Ethernet the link check holds the netdev's speed against the declared rate.
    if "rate_gbps" in wanted:
        seen = port.get("rate_gbps")
        if not is_number(seen):
            return ruling.unknown("rdma_unknown", f"{where}: rate_gbps is {seen!r}")
        if not is_at_rate(seen, rate):
            return ruling.failed("link_speed", f"{where} runs at {seen:g} Gbit/s, declared is {rate:g}")
    if bound.netdev is None and (bad := _path(ruling, where, bound)):
        return bad
    if managed and "rate_gbps" not in wanted:
        return _undeclared_rate(ruling, where, port, node.fastest)
    return ruling


def _path(ruling: Ruling, where: str, bound: Bound) -> Ruling | None:
    """Return what is wrong with the PCI Express path of a port without netdev; `link` looks at the others."""
    slow = link.trained_low(bound)
    return ruling.failed(slow.cause, f"{where}: {slow.detail}") if slow else None


def _undeclared_rate(
    ruling: Ruling, where: str, port: Mapping[str, Any], fastest: Mapping[str, tuple[float, str]]
) -> Ruling:
    """Compare an InfiniBand port's rate with its peers', since its maximum is unknown.

    The kernel only shows the trained rate and width of a link (`rate` in
    Documentation/ABI/stable/sysfs-class-infiniband), like ibv_query_port (active_speed and active_width). A
    faster port of the same board shows what this one can do; where none is faster, all may be slow.
    """
    seen = port.get("rate_gbps")
    if not is_number(seen) or seen <= 0:
        return ruling.unknown("rdma_unknown", f"{where}: rate_gbps is {seen!r}")
    runs = f"{seen:g} Gbit/s ({port.get('width') or 'of unknown width'})"
    board = port.get("board_id")
    most, whose = fastest.get(str(board), (0.0, ""))
    if seen < _RATE_SHARE * most:
        ruling.floor["rate_gbps"] = most
        return ruling.failed(
            "link_slow", f"{where} runs at {runs}; {whose}, also of board {board}, runs at {most:g}"
        )
    return ruling.recorded(
        f"{where} is up; its rate, {runs}, is recorded, not judged: the inventory declares no rate_gbps, the "
        "node does not tell what the port can do, and no port of its board runs faster; declare rate_gbps of "
        "this rail"
    )


def _gid(where: str, rail: Mapping[str, Any], bound: Bound, port: Mapping[str, Any]) -> Ruling:
    nothing = dict.fromkeys(("gid_index", "gid_type", "gid"))
    basis = "RoCE v2 with exactly the rail's address, found by fact"
    ruling = Ruling.passed(nothing, {"gid_type": gid.ROCE_V2}, basis)
    if not isinstance(port.get("gids"), list):
        return ruling.unknown("rdma_unknown", f"{where}: gids is {port.get('gids')!r}")
    found = choice(bound)
    if found is None:
        address = rail.get("address") or rail.get("address6")
        return ruling.failed("no_gid", f"{where} has no RoCE GID for {address}")
    ruling.observed = {"gid_index": found.index, "gid_type": found.type, "gid": found.gid}
    if found.type != gid.ROCE_V2:
        return ruling.recorded(
            f"gid_v1_only: {where} has the address as {found.type} alone (index {found.index}): it is not "
            f"routable, and NCCL needs NCCL_IB_ROCE_VERSION_NUM=1 or NCCL_IB_GID_INDEX={found.index}"
        )
    return ruling


def _pkeys(where: str, rail: str, bound: Bound, node: Node) -> Ruling:
    """Compare a port's P_Keys with those of most ports: jobs use one index of the table on all of them.

    A rail with other keys on every node is a separate partition, not a wrong port; neither is declared.
    """
    mine = _keys_of(bound)
    ruling = Ruling.passed({"pkeys": ", ".join(mine) or None}, {"pkeys": ", ".join(mine)}, _PKEYS_ALIKE)
    if not mine:
        return ruling.unknown("rdma_unknown", f"{where}: pkeys is {(bound.hca or {}).get('pkeys')!r}")
    total = sum(node.pkeys.all.values())
    if total < 2:
        return ruling.recorded("recorded: there is no other InfiniBand port to compare its P_Keys with")
    usual, many = node.pkeys.all.most_common(1)[0]
    if mine == usual and 2 * many > total:
        return ruling
    of_rail = node.pkeys.of_rail[rail]
    nodes = sum(of_rail.values())
    if len(of_rail) == 1 and nodes > 1:
        return ruling.recorded(f"recorded: {rail} has them on all {nodes} nodes, and other rails have others")
    ruling.floor, ruling.ceiling = {"pkeys": ", ".join(usual)}, {"pkeys": ", ".join(usual)}
    said = f"{where} has {', '.join(mine)}; {many} of {total} ports have {', '.join(usual)}"
    return ruling.failed("pkeys_differ", said)


def _mtu(where: str, rail: Mapping[str, Any], port: Mapping[str, Any], transport: str) -> Ruling:
    if transport == "roce" and rail.get("mtu") is None:
        return Ruling.not_applicable("the inventory declares no MTU")
    least, greatest = rdma_mtu.span(rail, port, transport)
    active = port.get("active_mtu_bytes")
    ruling = Ruling(PASS, {"active_mtu_bytes": active, "max_mtu_bytes": port.get("max_mtu_bytes")})
    if least is None or greatest is None:
        if transport == "roce":
            detail = f"{where}: an MTU of {rail.get('mtu')} carries no RoCE packet; 352 is the least"
            return ruling.failed("rdma_mtu_small", detail)
        return ruling.unknown("rdma_mtu_unknown", f"{where}: the port's largest MTU is unknown")
    ruling.floor, ruling.ceiling = {"active_mtu_bytes": least}, {"active_mtu_bytes": greatest}
    ruling.proof = "proven"
    ruling.basis = (
        "the largest that the port can do"
        if transport != "roce"
        else f"the largest step that fits with RoCE headers into the inventory's MTU {rail['mtu']}"
    )
    if rdma_mtu.is_mlx4(port):
        ruling.basis += f"; on ConnectX-3 {rdma_mtu.MLX4_BYTES} is enough, perftest uses no more"
    if not is_whole(active):
        return ruling.unknown("rdma_mtu_unknown", f"{where}: active_mtu_bytes is {active!r}")
    if active < least:
        return ruling.failed("rdma_mtu_small", f"{where} uses {active}, {least} fits")
    if active > greatest:
        detail = f"{where} uses an RDMA MTU of {active}, the inventory's {rail.get('mtu')} allows {greatest}"
        return ruling.failed("mtu_differs", detail)
    return ruling
