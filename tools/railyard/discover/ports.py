"""The ports of a bare node, one object each, made from its facts, its RDMA devices and what its cards say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import natural
from ansible_collections.railyard.fabric.plugins.module_utils.records import facts as facts_record
from ansible_collections.railyard.fabric.plugins.module_utils.records import reader
from ansible_collections.railyard.fabric.plugins.module_utils.records.bare_node import BareNode
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import values
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import RATE_MAX_GBPS
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line

#: More than the largest servers have; a node that reports more is not read further.
PORTS_MAX = 1024
_UP_STATES = ("ACTIVE", "ARMED", "INIT")
_LONGEST_TEXT = 80


@dataclass(frozen=True)
class Port:
    """A port of a node: a netdev, an RDMA port, or both.

    Attributes:
        node: the node's name in the inventory.
        netdev: its netdev; None where it has none, or one whose name no inventory can hold.
        hca: RDMA device and port, `mlx5_0:1`.
        number: of the port on its PCI function, from 0.
        mac: the permanent MAC address where it is known.
        layer: `ethernet`, `infiniband` or `efa`.
        rdma: 2 for RDMA by hardware, 1 by software, 0 for none.
        model: vendor and device, or the driver where no PCI id is known.
        card: model of the card, `MT4129` or what its VPD says.
        wire: the same for two functions on one wire, None where that is not known.
        active_gbps: what the link runs at; None where it is down or no line rate is known.
        max_gbps: the most that the card can do, where its driver tells.
        leaf: the switch at its other end, by LLDP.
        prefix: InfiniBand's subnet prefix.
    """

    node: str
    netdev: str | None
    hca: str | None
    pci: str | None
    number: int
    mac: str | None
    kind: str
    layer: str
    rdma: int
    driver: str | None
    driver_class: str
    model: str
    card: str | None
    serial: str | None
    firmware: str | None
    wire: str | None
    is_virtual_function: bool
    is_up: bool
    is_admin_down: bool
    active_gbps: float | None
    max_gbps: float | None
    is_beside_gpu: bool
    leaf: str | None
    leaf_port: str | None
    addresses: tuple[str, ...]
    mtu_bytes: int | None
    mtu_max_bytes: int | None
    master: str | None
    prefix: str | None
    sm_lid: int | None
    state: str | None

    @property
    def slot(self) -> str:
        """Where the port sits: the same for equal ports of equal nodes."""
        if self.pci is not None:
            return f"{self.pci}/{self.number}"
        return self.netdev or self.hca or self.mac or "?"

    @property
    def label(self) -> str:
        """What a sentence calls it: `ens6 (0000:42:00.0)`."""
        name = self.netdev or self.hca
        if name is None:
            return self.pci or self.mac or "a port"
        return f"{name} ({self.pci})" if self.pci else name

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """Order of PCI addresses; ports without one come last, by name."""
        address = (
            (0, *(int(part, 16) for part in self.pci.replace(".", ":").split(":"))) if self.pci else (1,)
        )
        return (address, self.number, natural(self.netdev or self.hca or ""), self.mac or "")


def short(text: object) -> str | None:
    """Return what a node says as one harmless short line, None where it says nothing."""
    found = " ".join(clean_line(text).split())[:_LONGEST_TEXT] if isinstance(text, str) else ""
    return found or None


def literal(text: object) -> str | None:
    """Return what a node says as a line that an inventory can hold: Ansible evaluates no part of it."""
    found = short(text)
    return None if found is None or any(values.literal(found)) else found


def ports_of(name: str, bare: BareNode) -> list[Port]:
    """Return the ports of a node in the order of their PCI addresses.

    Args:
        name: the node's name in the inventory.
        bare: what the node says.
    """
    return sorted(_ports(name, bare), key=lambda port: port.sort_key)


def beside_gpus(bare: BareNode) -> tuple[int, frozenset[str]]:
    """Return how many GPUs a node has, and the PCI addresses of cards that share a PCIe switch with one."""
    try:
        gpus = facts_record.read_gpus(bare["facts"])
    except reader.RefusedError:
        return 0, frozenset()
    return len(gpus["pci"]), frozenset(one["nic"] for one in gpus["near"] if one["by"] == "switch")


def _ports(name: str, bare: BareNode) -> Iterator[Port]:
    hcas = {one["hca"]: one for one in bare["facts"]["hcas"]}
    rows = {one["netdev"]: one for one in bare["facts"]["netdevs"]}
    heard = {one["netdev"]: one for one in bare["beacons"] or []}
    _gpus, beside = beside_gpus(bare)
    for said in bare["ports"][:PORTS_MAX]:
        row, hca = rows.get(said["netdev"] or ""), hcas.get(said["hca"] or "")
        if row is None and hca is None:
            continue
        listened = heard.get(said["netdev"] or "")
        of_netdev: dict[str, Any] = {**(row or {})}
        of_card: dict[str, Any] = {**said}
        if listened is not None:
            # What lldpd knows, else what was heard while beacons were.
            of_card["neighbours"] = said["neighbours"] or listened.get("neighbours") or []
            if listened["raised"]:
                # The facts are of before the port was raised.
                has_link = listened["error"] is None
                of_netdev |= {"admin_up": True, "carrier": has_link, "speed_mbps": listened.get("speed_mbps")}
        yield _port(name, of_netdev, hca or {}, of_card, beside)


def _port(
    name: str,
    of_netdev: Mapping[str, Any],
    of_hca: Mapping[str, Any],
    of_card: Mapping[str, Any],
    beside: frozenset[str],
) -> Port:
    layer = _layer(of_netdev, of_hca)
    state = of_hca.get("state")
    if layer == "ethernet" and of_netdev:
        is_up = of_netdev.get("carrier") is True
    else:
        is_up = state in _UP_STATES and of_hca.get("physical_state") in ("LinkUp", None)
    driver_class = str(of_netdev.get("driver_class") or of_hca.get("driver_class") or "hardware")
    pci = of_netdev.get("pci") or of_hca.get("pci")
    number = of_card.get("dev_port")
    netdev = of_netdev.get("netdev")
    rdma_driver_class = of_hca.get("driver_class")
    leaf, leaf_port = _leaf(of_card.get("neighbours") or [])
    return Port(
        node=name,
        netdev=netdev if values.netdev(netdev) is None else None,
        hca=of_hca.get("hca") if values.hca(of_hca.get("hca")) is None else None,
        pci=pci,
        number=number if number is not None else max(0, int(of_hca.get("port") or 1) - 1),
        mac=_sound_mac(of_netdev.get("permanent_mac")) or _sound_mac(of_netdev.get("mac")),
        kind=str(of_netdev.get("kind") or "rdma"),
        layer=layer,
        rdma={"hardware": 2, "software": 1}.get(str(rdma_driver_class), 0),
        driver=short(of_netdev.get("driver") or of_hca.get("driver")),
        driver_class=driver_class,
        model=short(of_card.get("pci_id"))
        or short(of_hca.get("hca_type"))
        or short(of_netdev.get("driver"))
        or "?",
        card=short(of_card.get("model")) or short(of_hca.get("hca_type")) or short(of_card.get("pci_id")),
        serial=short(of_card.get("serial")),
        firmware=short(of_card.get("firmware")),
        wire=short(of_card.get("physical_port")),
        is_virtual_function=bool(of_card.get("is_virtual_function")),
        is_up=is_up,
        is_admin_down=layer == "ethernet" and of_netdev.get("admin_up") is False,
        active_gbps=_active_gbps(of_netdev, of_hca, layer) if is_up and driver_class == "hardware" else None,
        max_gbps=_gbps(of_netdev.get("speed_max_mbps")),
        is_beside_gpu=pci in beside,
        leaf=leaf,
        leaf_port=leaf_port,
        addresses=tuple(of_netdev.get("addresses") or ()),
        mtu_bytes=of_netdev.get("mtu_bytes"),
        mtu_max_bytes=of_netdev.get("mtu_max_bytes"),
        master=short(of_netdev.get("master")),
        prefix=_prefix(of_hca) if layer == "infiniband" else None,
        sm_lid=of_hca.get("sm_lid"),
        state=short(state),
    )


def _layer(row: Mapping[str, Any], hca: Mapping[str, Any]) -> str:
    if hca.get("driver") == "efa":
        return "efa"
    if hca.get("link_layer") == "InfiniBand" or row.get("kind") == "ipoib":
        return "infiniband"
    return "ethernet"


def _active_gbps(row: Mapping[str, Any], hca: Mapping[str, Any], layer: str) -> float | None:
    of_link = _gbps(row.get("speed_mbps"))
    # A port that is down has a rate as well, of no link.
    of_rdma = hca.get("rate_gbps") if hca.get("state") in _UP_STATES else None
    of_rdma = of_rdma if of_rdma and of_rdma <= RATE_MAX_GBPS else None
    return (of_link or of_rdma) if layer == "ethernet" else (of_rdma or of_link)


def _gbps(mbps: int | None) -> float | None:
    """Return a line rate in Gbit/s; None where there is none, or one that no link has."""
    return None if mbps is None or mbps > 1000 * RATE_MAX_GBPS else mbps / 1000


def _prefix(hca: Mapping[str, Any]) -> str | None:
    gids = hca.get("gids") or []
    return ":".join(gids[0]["gid"].split(":")[:4]) if gids else None


def _leaf(neighbours: list[Any]) -> tuple[str | None, str | None]:
    """Return switch and port at the other end; None where none, or several, announce themselves."""
    found = {(literal(one["switch"]) or literal(one["chassis"]), literal(one["port"])) for one in neighbours}
    return next(iter(found)) if len(found) == 1 else (None, None)


def _sound_mac(mac: str | None) -> str | None:
    return mac if mac is not None and values.mac(mac) is None else None
