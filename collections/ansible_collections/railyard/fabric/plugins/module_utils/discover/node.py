# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a node shows of itself before there is an inventory: facts, ports, addresses, NVLink domain."""

from __future__ import annotations

import ipaddress
import json
import re
import subprocess
from collections.abc import Sequence
from typing import Any, cast

from .. import bounded
from ..bounded import At, ToolError
from ..cabling import lldp
from ..facts import gpus, node, tools
from ..facts.sysfs import Reader
from ..records.bare_node import BareNode
from ..records.facts import NodeFacts
from . import ports

#: Everything together; what hangs is named.
LIMIT_S = 45.0
_GPU_S = 20.0
_PROGRAM_S = 5.0

_MOST_WARNINGS = 200
_MOST_ANCESTORS = 32
_ENVIRONMENT_BYTES = 1 << 20
_PPID = re.compile(r"^PPid:\s+([0-9]+)$", re.M)
_SSH = b"SSH_CONNECTION="
_LAN_ADDRESS = re.compile(r"^IP Address\s*:\s*([0-9.]+)\s*$", re.M)
_CLIQUE = re.compile(r"^\s*CliqueId\s*:\s*([0-9]+)\s*$", re.M)
_CLUSTER = re.compile(r"^\s*ClusterUUID\s*:\s*([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\s*$", re.M | re.I)
_NO_CLUSTER = re.compile(r"[0-]+\Z")


def run_bounded(argv: Sequence[str]) -> str | None:
    """Run a program for a few seconds at most and return what it printed; see `tools.Run`."""
    # A warning of ip's would make its JSON unreadable; other tools name their version on either stream.
    stderr = subprocess.DEVNULL if argv[0] == "ip" else subprocess.STDOUT
    try:
        return bounded.ask(argv, _PROGRAM_S, stderr).text
    except ToolError:
        return None


def collect(
    key: str, reader: Reader, at: At, run: tools.Run = run_bounded, ask_gpus: gpus.Ask | None = None
) -> BareNode:
    """Return the node without beacons.

    Args:
        key: what the controller calls it.
        reader: where the kernel's files are.
        at: is called with what is read next.
        run: runs a program.
        ask_gpus: runs nvidia-smi.
    """
    ask = ask_gpus or gpus.by_the_clock(_GPU_S)
    at("netdevs, RDMA devices and GPUs in sysfs")
    facts = node.collect(reader, run, None, ask=ask)
    facts["node"] = key
    at("neighbours that lldpd knows")
    neighbours = lldp.daemon_says()
    at("cards and ports in sysfs")
    found = ports.read(reader, facts, neighbours)
    idle = ports.idle_functions(reader, facts)
    at("routes, BMC and NVLink domain")
    row: BareNode = {
        "schema": 1,
        "key": key,
        "hostname": reader.text(reader.proc("sys", "kernel", "hostname")),
        "product": product(reader),
        "default_route": default_route(run),
        "login_address": login_address(reader),
        "bmc_address": bmc_address(run(["ipmitool", "lan", "print"])),
        "nvlink_domain": _nvlink_domain(facts, ask, reader),
        "facts": cast(NodeFacts, facts),
        "ports": found,
        "beacons": None,
        "idle_functions": idle,
    }
    if len(reader.warnings) > _MOST_WARNINGS:
        more = len(reader.warnings) - _MOST_WARNINGS
        row["facts"]["warnings"] = [*reader.warnings[:_MOST_WARNINGS], f"{more} more files could not be read"]
    return row


def product(reader: Reader) -> str | None:
    """Return maker and product by DMI, or the model of the device tree where there is no DMI."""
    maker, name = (
        reader.text(reader.sys("class", "dmi", "id", one)) for one in ("sys_vendor", "product_name")
    )
    if name is None:
        return reader.text(reader.proc("device-tree", "model")) or maker
    return name if maker is None or name.lower().startswith(maker.lower()) else f"{maker} {name}"


def default_route(run: tools.Run) -> list[str]:
    """Return the netdevs of the main table's default routes, IPv4 first, each once."""
    found: dict[str, None] = {}
    for family in ("-4", "-6"):
        for netdev in _netdevs_of_routes(run(["ip", family, "-j", "route", "show", "default"])):
            found[netdev] = None
    return list(found)


def _netdevs_of_routes(text: str | None) -> list[str]:
    """Return the netdevs of `ip -j route`; a route over several has them as `nexthops`."""
    try:
        routes = json.loads(text or "")
    except (ValueError, RecursionError):
        return []
    found: list[str] = []
    for route in routes if isinstance(routes, list) else []:
        if not isinstance(route, dict) or route.get("dst") != "default":
            continue
        hops = route.get("nexthops")
        for hop in (route, *(hops if isinstance(hops, list) else [])):
            netdev = hop.get("dev") if isinstance(hop, dict) else None
            if isinstance(netdev, str) and netdev != "lo":
                found.append(netdev)
    return found


def login_address(reader: Reader) -> str | None:
    """Return the node's own address of the SSH connection that this process descends from.

    sshd gives it to the login shell as SSH_CONNECTION (client address and port, server address and port).
    sudo takes it out of the environment, but is a child of that shell; so it is looked for in the environment
    of each ancestor. What the controller connects to (ansible_host) would not do: behind a jump host, NAT or
    a forwarded port it is no address of the node's.
    """
    process: str | None = "self"
    for _step in range(_MOST_ANCESTORS):
        if process is None or process in ("0", "1"):
            return None
        for one in (reader.data(reader.proc(process, "environ"), _ENVIRONMENT_BYTES) or b"").split(b"\0"):
            if one.startswith(_SSH):
                return _server_address(one[len(_SSH) :].decode("ascii", "replace").split())
        parent = _PPID.search(reader.text(reader.proc(process, "status")) or "")
        process = parent.group(1) if parent else None
    return None


def _server_address(words: Sequence[str]) -> str | None:
    try:
        # A link-local address is followed by its zone.
        address = ipaddress.ip_address(words[2].partition("%")[0])
    except (IndexError, ValueError):
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def bmc_address(text: str | None) -> str | None:
    """Return the BMC's address from `ipmitool lan print`; 0.0.0.0 is none."""
    found = _LAN_ADDRESS.search(text or "")
    try:
        address = ipaddress.IPv4Address(found.group(1)) if found else None
    except ValueError:
        return None
    return None if address is None or address.is_unspecified else str(address)


def _nvlink_domain(facts: dict[str, Any], ask: gpus.Ask, reader: Reader) -> str | None:
    """Ask nvidia-smi for the NVLink domain, where the driver is loaded and has answered so far."""
    found = facts["gpus"]
    if not found["driver"] or not found["rows"]:
        return None
    try:
        text = ask(["nvidia-smi", "-q"]).text
    except ToolError as error:
        reader.warnings.append(f"NVLink domain: {error}")
        return None
    domains = nvlink_domains(text)
    if len(domains) > 1:
        reader.warnings.append(f"the GPUs belong to several NVLink domains: {', '.join(domains)}")
    return domains[0] if len(domains) == 1 else None


def nvlink_domains(text: str) -> list[str]:
    """Return the NVLink domains of `nvidia-smi -q`, each as `UUID.clique`.

    That is the form of Kubernetes' label nvidia.com/gpu.clique. A node whose NVLinks end in it (HGX
    H100) has a cluster UUID of zeros, which is none (meta-pytorch/torchcomms pull request 1385).
    """
    pairs = zip(_CLIQUE.findall(text), _CLUSTER.findall(text))  # noqa: B905 - nodes may have Python 3.9
    found = {f"{cluster.lower()}.{clique}" for clique, cluster in pairs if not _NO_CLUSTER.match(cluster)}
    return sorted(found)
