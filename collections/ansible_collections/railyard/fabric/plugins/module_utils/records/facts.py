# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node says of itself: the records of facts.jsonl. What each key means is in `docs/schema`.

All that `facts.node.collect` writes is required: a key that is gone is no "does not apply". Sizes are bytes,
bandwidths Gbit/s, PCI Express speeds GT/s and widths lanes, times seconds.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal, Optional, TypedDict, Union

from . import reader
from .reader import AtLeast, Matches, NotTwice

Count = Annotated[int, AtLeast(0)]
#: As sysfs writes it, so that a device has one address: beyond four digits a domain has no zeros in front.
PciAddress = Annotated[str, Matches(r"([0-9a-f]{4}|[1-9a-f][0-9a-f]{4,7}):[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")]
Mac = Annotated[str, Matches(r"([0-9a-f]{2}:)+[0-9a-f]{2}")]
#: RDMA device and port: `mlx5_0:1`.
Port = Annotated[str, Matches(r"[^:]+:[0-9]+")]
RdmaMtu = Literal[256, 512, 1024, 2048, 4096]
DriverClass = Literal["hardware", "virtual", "software"]


class PciLink(TypedDict):
    """How a PCI device's own link is trained, and the most that it and its slot can do."""

    speed_gts: Optional[float]
    width: Optional[float]
    max_speed_gts: Optional[float]
    max_width: Optional[float]


class PathLink(PciLink):
    """A link of the path from a PCI device up to the root complex."""

    port: Optional[PciAddress]
    virtual: bool


class NetdevCounters(TypedDict):
    """The kernel's counters of a netdev."""

    rx_bytes: Optional[Count]
    tx_bytes: Optional[Count]
    rx_packets: Optional[Count]
    tx_packets: Optional[Count]
    rx_errors: Optional[Count]
    tx_errors: Optional[Count]
    rx_dropped: Optional[Count]
    tx_dropped: Optional[Count]


class ModuleAlarm(TypedDict):
    """An alarm or a warning of a module, its reading and the module's own limit."""

    what: Literal["rx power", "tx power", "bias current", "temperature", "voltage"]
    side: Literal["high", "low"]
    level: Literal["alarm", "warning"]
    lane: Optional[Annotated[int, AtLeast(1)]]
    value: Optional[float]
    limit: Optional[float]
    unit: Literal["dBm", "mA", "C", "V", "mV"]


class OpticalModule(TypedDict):
    """What a module or cable says of itself."""

    identifier: Optional[str]
    vendor: Optional[str]
    part_number: Optional[str]
    medium: Optional[Literal["copper", "optical"]]
    temperature_c: Optional[float]
    rx_power_dbm: Optional[list[float]]
    tx_power_dbm: Optional[list[float]]
    reports_alarms: bool
    alarms: list[ModuleAlarm]


class OpticalLink(OpticalModule):
    """What mlxlink says of a port: its module, and the bit errors of its link."""

    state: Optional[str]
    speed: Optional[str]
    fec: Optional[str]
    raw_ber: Optional[Annotated[float, AtLeast(0)]]
    effective_ber: Optional[Annotated[float, AtLeast(0)]]
    effective_errors: Optional[Count]
    counted_min: Optional[Annotated[float, AtLeast(0)]]


class Fec(TypedDict):
    """Which FEC a link has, and what it corrected since the driver began."""

    active: list[str]
    corrected_blocks: Optional[Count]
    uncorrectable_blocks: Optional[Count]
    corrected_bits: Optional[Count]


class Optics(TypedDict):
    """What was read of a port's module, and why what was not."""

    module: Optional[OpticalModule]
    fec: Optional[Fec]
    link: Optional[OpticalLink]
    unread: dict[str, str]


class _PortOfSome(TypedDict, total=False):
    optics: Optional[Optics]  # where it was requested; earlier versions have none


class Netdev(_PortOfSome):
    """A netdev of a node."""

    netdev: str
    kind: Literal["physical", "veth", "virtual", "bond", "bridge", "vlan", "ipoib"]
    master: Optional[str]
    carrier: Optional[bool]
    operstate: Optional[str]
    admin_up: Optional[bool]
    speed_mbps: Optional[Annotated[int, AtLeast(1)]]
    speed_max_mbps: Optional[Annotated[int, AtLeast(1)]]
    mtu_bytes: Optional[Count]
    mtu_max_bytes: Optional[Annotated[int, AtLeast(1)]]
    ipoib_mode: Optional[str]
    mac: Optional[Mac]
    permanent_mac: Optional[Mac]
    addresses: list[Annotated[str, Matches("[0-9.]+/[0-9]+")]]
    addresses6: list[Annotated[str, Matches("[0-9a-f:.]+/[0-9]+")]]
    driver: Optional[str]
    driver_class: DriverClass
    pci: Optional[PciAddress]
    pci_link: Optional[PciLink]
    pci_path: Optional[list[PathLink]]
    numa_node: Optional[Count]
    hca: Optional[Port]
    counters: NetdevCounters
    qos_counters: dict[str, Count]


class Gid(TypedDict):
    """An entry in use of an RDMA port's table of GIDs."""

    index: Count
    gid: Annotated[str, Matches("([0-9a-f]{4}:){7}[0-9a-f]{4}")]
    type: Optional[str]
    netdev: Optional[str]
    address: Optional[str]


class Hca(_PortOfSome):
    """An RDMA port of a node."""

    hca: Port
    device: str
    port: Annotated[int, AtLeast(1)]
    link_layer: Optional[str]
    state: Optional[str]
    physical_state: Optional[str]
    rate_gbps: Optional[Annotated[float, AtLeast(0)]]
    width: Optional[Annotated[str, Matches("[0-9]+X")]]
    active_mtu_bytes: Optional[RdmaMtu]
    max_mtu_bytes: Optional[RdmaMtu]
    lid: Optional[Count]
    sm_lid: Optional[Count]
    port_guid: Optional[Annotated[str, Matches("([0-9a-f]{4}:){3}[0-9a-f]{4}")]]
    pkeys: Annotated[list[Annotated[str, Matches("0x[0-9a-f]{4}")]], NotTwice()]
    pkey_indices: dict[str, Count]
    netdev: Optional[str]
    node_type: Optional[str]
    driver: Optional[str]
    driver_class: Literal["hardware", "software"]
    pci: Optional[PciAddress]
    pci_path: Optional[list[PathLink]]
    numa_node: Optional[Count]
    firmware: Optional[str]
    node_guid: Optional[str]
    board_id: Optional[str]
    hca_type: Optional[str]
    dpu_mode: Optional[Literal["dpu", "nic"]]
    gids: list[Gid]
    counters: dict[str, int]
    hw_counters: dict[str, int]


class System(TypedDict):
    """A node's distribution."""

    id: Optional[str]
    version: Optional[str]


class Cpu(TypedDict):
    """How many processors have which frequency governor."""

    governors: dict[str, Annotated[int, AtLeast(1)]]
    governor_available: bool


class _NodeFactsOfSome(TypedDict, total=False):
    run: str  # these two are the controller's
    hostname: Optional[str]
    gpus: Any  # `Gpus`, checked by itself: GPUs that are garbled leave a node's rails as they are


class NodeFacts(_NodeFactsOfSome):
    """What a node says of itself: a line of facts.jsonl."""

    schema: Literal[1]
    node: str
    boot_id: Optional[str]
    collected: Annotated[str, Matches(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")]
    kernel: Optional[str]
    python: str
    os: System
    netdevs: list[Netdev]
    hcas: list[Hca]
    cpu: Cpu
    memlock_bytes: Optional[Annotated[int, AtLeast(-1)]]
    tools: dict[str, Optional[str]]
    warnings: list[str]


class NvLinks(TypedDict):
    """A GPU's NVLinks."""

    gpu: Count
    active: Count
    inactive: list[int]
    speeds_gbytes_per_s: list[float]
    errors: Optional[dict[str, Count]]


class NearGpus(TypedDict):
    """The GPUs that are nearest to a card."""

    nic: PciAddress
    by: Optional[Literal["switch", "root", "numa_node", "far"]]
    gpus: list[str]


class Xid(TypedDict):
    """A sort of XID or SXID in the kernel's log."""

    kind: Literal["XID", "SXID"]
    pci: str
    xid: Count
    fatal: bool
    count: Annotated[int, AtLeast(1)]
    at_s: float
    said: str


class KernelLog(TypedDict):
    """What the kernel's log says of GPUs and NVSwitches, see `facts.kernel_log.Log`."""

    first: Optional[Count]
    next: Count
    since_s: float
    seen: list[Xid]


#: Why a part of the facts of GPUs is missing; `facts.gpus` has the values of `class`.
NoAnswer = TypedDict("NoAnswer", {"class": Literal["absent", "silent", "failed", "garbled"], "message": str})
#: nvidia-smi's values by its field names, and `pci`. Error texts are kept as printed.
GpuRow = dict[str, Union[str, float, None]]


class Gpus(TypedDict):
    """What is known of a node's GPUs, see `facts.gpus.read`."""

    pci: Annotated[list[PciAddress], NotTwice()]
    pci_paths: dict[str, Optional[list[PathLink]]]
    driver: Optional[str]
    rows: list[GpuRow]
    nvlink: list[NvLinks]
    topology: Optional[dict[str, dict[str, Optional[str]]]]
    near: list[NearGpus]
    xids: Optional[KernelLog]
    errors: dict[str, NoAnswer]


def read(row: object) -> NodeFacts:
    """Return a node's facts, without a look at its GPUs.

    Raises:
        RefusedError: they are not what the collector writes, or name a netdev or an RDMA port twice.
    """
    facts = reader.read(NodeFacts, row)
    for what, names in (
        ("netdev", [one["netdev"] for one in facts["netdevs"]]),
        ("hca", [one["hca"] for one in facts["hcas"]]),
    ):
        if twice := next((name for name, count in Counter(names).items() if count > 1), None):
            raise reader.RefusedError(f"names {what} {twice} twice", f"{what}s")
    return facts


def read_gpus(facts: NodeFacts) -> Gpus:
    """Return what a node says of its GPUs.

    Raises:
        RefusedError: it says nothing, not what the collector writes, or something of a GPU twice.
    """
    if "gpus" not in facts:
        raise reader.RefusedError("is missing", "gpus")
    gpus = reader.read(Gpus, facts["gpus"], "gpus")
    for at, row in enumerate(gpus["rows"]):
        reader.read(PciAddress, row.get("pci"), f"gpus.rows[{at}].pci")
    log = gpus["xids"]
    if log is not None and log["first"] is not None and log["first"] > log["next"]:
        raise reader.RefusedError(f"is {log['next']}, its first line {log['first']}", "gpus.xids.next")
    return gpus
