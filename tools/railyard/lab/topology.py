"""The topology file: which nodes, which rails, which image; read, checked, and nothing else."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from railyard.base.errors import BAD_INPUT
from railyard.lab.process import LabError

# It becomes part of link and namespace names, which have to stay apart from those of a lab whose name is
# longer: hence no dash, and at most 12 characters (`ry-` and the name must fit the kernel's 15).
LAB_NAME = re.compile(r"[a-z][a-z0-9]{0,11}")
_NODE_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NETDEV = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}")
_RAIL_NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")
_SUITE = re.compile(r"[a-z]+")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
# The base system only: what roles install must come from the roles.
BASE_PACKAGES = (
    "apt", "ca-certificates", "dbus", "ethtool", "iproute2", "iputils-ping", "kmod", "netplan.io",
    "openssh-server", "procps", "python3", "sudo", "systemd", "systemd-sysv", "udev",
)  # fmt: skip
KINDS = ("container", "vm")
# key of a VM → least and most; Debian's kernel and its initramfs do not start in less than 384 MiB.
_VM_KEYS = {"memory_mib": (384, 1048576), "cpus": (1, 255)}
# Where the lab's own way out lives; a management network must not overlap it (198.18.0.0/15 is set aside for
# benchmarks by RFC 2544, so no real network does either).
WAY_OUT = ipaddress.IPv4Network("198.19.255.0/24")
# To go on with where the file says no usable one.
_MANAGEMENT = ipaddress.IPv4Network("198.18.0.0/24")


@dataclass(frozen=True)
class Management:
    """The network that the controller and SSH use; addresses without prefix length."""

    netdev: str
    subnet: ipaddress.IPv4Network
    controller: ipaddress.IPv4Address
    gateway: ipaddress.IPv4Address


@dataclass(frozen=True)
class Rail:
    """One rail: a bridge in the lab's namespace.

    `rate_gbps` None leaves it unshaped; `subnet` is what the lab's inventory says of it, and no part of the
    lab itself, whose rails are bare.
    """

    name: str
    netdev: str
    rate_gbps: float | None = None
    subnet: ipaddress.IPv4Network | None = None


@dataclass(frozen=True)
class Node:
    """One node; `position` is its place in the file and names its links in the lab's namespace.

    `memory_mib` and `cpus` are a VM's; a container has this machine's.
    """

    name: str
    kind: str
    address: ipaddress.IPv4Address
    position: int
    memory_mib: int = 1024
    cpus: int = 1


@dataclass(frozen=True)
class Image:
    """What the nodes' root file system is made of, before any role has touched it.

    Of `packages` a topology file says nothing where it wants the base system.

    With `boot_loader` a VM boots the kernel that its own GRUB takes, so that an update of it counts; without,
    it is handed the image's kernel at every boot, which is quicker.

    `cached_packages` of a VM are not installed: apt finds them in its cache (`nodes/cached_packages.py`).
    """

    suite: str
    packages: tuple[str, ...]
    boot_loader: bool = False
    cached_packages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Topology:
    """A lab as it should be."""

    name: str
    management: Management
    nodes: tuple[Node, ...]
    rails: tuple[Rail, ...]
    image: Image
    mtu_bytes: int = 9000
    source: Path = field(default=Path(), compare=False)

    @property
    def kinds(self) -> list[str]:
        """The kinds of node there are in it."""
        return sorted({node.kind for node in self.nodes})

    def node(self, name: str) -> Node:
        """Return the node called `name`, or raise LabError that names those there are."""
        return self.nodes[self._position(name, "node", self.nodes)]

    def rail_position(self, name: str) -> int:
        """Return the place of the rail called `name`, or raise LabError that names those there are."""
        return self._position(name, "rail", self.rails)

    def _position(self, name: str, what: str, there: Sequence[Node] | Sequence[Rail]) -> int:
        names = [each.name for each in there]
        if name in names:
            return names.index(name)
        raise LabError(f"lab {self.name} has no {what} {name}", f"its {what}s: {', '.join(names)}", BAD_INPUT)


def default_file() -> Path:
    """Return the topology of the built-in lab.

    It is here and not in the inventory: Ansible would take each YAML file of an inventory folder for
    hosts.
    """
    return Path(__file__).with_name("topology.yml")


def load(file: Path, name: str | None = None, suite: str | None = None) -> Topology:
    """Read and check a topology file; `name` and `suite` take the place of those in it.

    Raises:
        LabError: with exit status 2 and every problem at once.
    """
    try:
        raw = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise LabError(
            f"{file}: {error.strerror}", "name a topology file with --topology", BAD_INPUT
        ) from error
    except yaml.YAMLError as error:
        raise LabError(f"{file}: not YAML: {error}", "correct the file", BAD_INPUT) from error
    return parse(raw, file, name, suite)


def parse(raw: object, file: Path, name: str | None = None, suite: str | None = None) -> Topology:
    """Check what a topology file holds (`raw`, as YAML gives it) and return it typed; see `load`."""
    checks = _Checks(file)
    top = checks.mapping(raw, "the file", {"name", "management", "nodes", "rails", "image"}, {"mtu"})
    lab_name = checks.text(name if name is not None else top.get("name"), "name", LAB_NAME)
    management = _management(checks, top.get("management"))
    nodes = _nodes(checks, top.get("nodes"), management)
    rails = _rails(checks, top.get("rails"), management)
    image = _image(checks, top.get("image"), suite)
    mtu_bytes = checks.number(top.get("mtu", 9000), "mtu", 1280, 65535, int)
    checks.raise_problems()
    return Topology(lab_name, management, nodes, rails, image, mtu_bytes, file.resolve())


_N = TypeVar("_N", int, float)


class _Checks:
    """Collects problems, so that all come at once; each reader returns something usable to go on with."""

    def __init__(self, file: Path):
        self.file = file
        self.problems: list[str] = []

    def add(self, message: str) -> None:
        self.problems.append(f"{self.file}: {message}")

    def raise_problems(self) -> None:
        if self.problems:
            raise LabError("\n".join(self.problems), "correct the topology file", BAD_INPUT)

    def mapping(self, value: object, where: str, needed: set[str], allowed: set[str]) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            self.add(f"{where}: a mapping with {', '.join(sorted(needed))} is needed, not {value!r}")
            return {}
        for key in sorted(needed - value.keys()):
            self.add(f"{where}: {key} is missing")
        for key in sorted(str(key) for key in value.keys() - needed - allowed):
            self.add(f"{where}: unknown key {key}; known: {', '.join(sorted(needed | allowed))}")
        return value

    def text(self, value: object, where: str, pattern: re.Pattern[str]) -> str:
        if isinstance(value, str) and pattern.fullmatch(value):
            return value
        if value is not None:  # an absent key has been reported by `mapping`
            self.add(f"{where}: {value!r} does not match {pattern.pattern}")
        return "invalid"

    def number(self, value: Any, where: str, low: float, high: float, kind: type[_N]) -> _N:
        if isinstance(value, int | kind) and not isinstance(value, bool) and low <= value <= high:
            return kind(value)
        what = "whole number" if kind is int else "number"
        self.add(f"{where}: {value!r} is not a {what} from {low} to {high}")
        return kind(low)

    def network(self, value: object, where: str) -> ipaddress.IPv4Network | None:
        try:
            return ipaddress.IPv4Network(str(value))
        except ValueError as error:
            self.add(f"{where}: {error}")
            return None

    def address(self, value: object, where: str, subnet: ipaddress.IPv4Network) -> ipaddress.IPv4Address:
        try:
            address = ipaddress.IPv4Address(str(value))
        except ValueError:
            if value is not None:
                self.add(f"{where}: {value!r} is not an IPv4 address")
            return subnet.network_address
        if not subnet.network_address < address < subnet.broadcast_address:
            self.add(f"{where}: {address} is not a host address of {subnet}")
        return address

    def unique(self, pairs: list[tuple[str, object]], what: str) -> None:
        seen: dict[object, str] = {}
        for where, value in pairs:
            if value in seen:
                self.add(f"{where}: {what} {value} is taken by {seen[value]} already")
            seen.setdefault(value, where)


def _management(checks: _Checks, raw: object) -> Management:
    data = checks.mapping(raw, "management", {"netdev", "subnet", "controller", "gateway"}, set())
    subnet = checks.network(data.get("subnet", _MANAGEMENT), "management.subnet") or _MANAGEMENT
    if not 16 <= subnet.prefixlen <= 29:
        checks.add(f"management.subnet: {subnet} must have a prefix length from 16 to 29")
        subnet = _MANAGEMENT
    if subnet.overlaps(WAY_OUT):
        checks.add(f"management.subnet: {subnet} overlaps {WAY_OUT}, which the lab's way out uses")
    controller = checks.address(data.get("controller"), "management.controller", subnet)
    gateway = checks.address(data.get("gateway"), "management.gateway", subnet)
    return Management(
        checks.text(data.get("netdev"), "management.netdev", _NETDEV), subnet, controller, gateway
    )


def _nodes(checks: _Checks, raw: object, management: Management) -> tuple[Node, ...]:
    if not isinstance(raw, dict) or not raw:
        checks.add("nodes: at least one node is needed")
        return ()
    nodes = []
    for position, (name, value) in enumerate(raw.items()):
        where = f"nodes.{name}"
        checks.text(name, where, _NODE_NAME)
        data = checks.mapping(value, where, {"address"}, {"kind", *_VM_KEYS})
        kind = data.get("kind", "container")
        if kind not in KINDS:
            checks.add(f"{where}.kind: {kind!r} is not known; known: {', '.join(KINDS)}")
        address = checks.address(data.get("address"), f"{where}.address", management.subnet)
        sizes = {key: data[key] for key in _VM_KEYS if key in data}
        if sizes and kind == "container":
            checks.add(f"{where}: {', '.join(sizes)} is for kind vm; a container has this machine's")
        for key, size in sizes.items():
            sizes[key] = checks.number(size, f"{where}.{key}", *_VM_KEYS[key], int)
        nodes.append(Node(str(name), str(kind), address, position, **sizes))
    taken = [
        ("management.controller", management.controller),
        ("management.gateway", management.gateway),
    ]
    checks.unique([*taken, *((f"nodes.{node.name}", node.address) for node in nodes)], "address")
    return tuple(nodes)


def _rails(checks: _Checks, raw: object, management: Management) -> tuple[Rail, ...]:
    if not isinstance(raw, list) or not raw:
        checks.add("rails: at least one rail is needed")
        return ()
    rails = []
    for position, value in enumerate(raw):
        where = f"rails[{position}]"
        data = checks.mapping(value, where, {"name", "netdev"}, {"rate_gbps", "subnet"})
        rate, subnet = data.get("rate_gbps"), data.get("subnet")
        rails.append(
            Rail(
                checks.text(data.get("name"), f"{where}.name", _RAIL_NAME),
                checks.text(data.get("netdev"), f"{where}.netdev", _NETDEV),
                None if rate is None else checks.number(rate, f"{where}.rate_gbps", 0.001, 1000, float),
                None if subnet is None else checks.network(subnet, f"{where}.subnet"),
            )
        )
    for key in ("name", "netdev", "subnet"):
        taken = [("management", management.netdev)] if key == "netdev" else []
        values = [(f"rails[{i}]", getattr(rail, key)) for i, rail in enumerate(rails)]
        checks.unique([*taken, *((where, value) for where, value in values if value is not None)], key)
    return tuple(rails)


def _image(checks: _Checks, raw: object, other_suite: str | None) -> Image:
    data = checks.mapping(raw, "image", {"suite"}, {"packages", "cached_packages", "boot_loader"})
    boot_loader = data.get("boot_loader", False)
    if not isinstance(boot_loader, bool):
        checks.add(f"image.boot_loader: {boot_loader!r} is not true or false")
    suite = checks.text(other_suite or data.get("suite"), "image.suite", _SUITE)
    packages = _packages(checks, data.get("packages", list(BASE_PACKAGES)), "image.packages")
    cached = _packages(checks, data.get("cached_packages", []), "image.cached_packages")
    return Image(suite, packages, boot_loader is True, cached)


def _packages(checks: _Checks, names: object, where: str) -> tuple[str, ...]:
    if not isinstance(names, list):
        checks.add(f"{where}: a list of package names is needed")
        return ()
    return tuple(
        sorted({checks.text(name, f"{where}[{place}]", _PACKAGE) for place, name in enumerate(names)})
    )
