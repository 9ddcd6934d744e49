"""What a node should be, from the plan; each function returns what is wrong, nothing when all is well.

Pure: a plan and a reading in, sentences out. It shares no code with what configured or measured the node.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any

import yaml

Plan = dict[str, Any]
# Variables of the roles that an inventory sets, by name.
Options = dict[str, Any]
Reading = dict[str, Any]
Problems = list[str]

_FILE_MODE = 0o600
_NETWORKS_FILE = "/etc/netplan/60-railyard-networks.yaml"
# Units of Railyard that stay; all others of Railyard's belong to a run or a change in progress.
_LASTING_UNITS = ("railyard-cpu-governor.service",)


def netdev_of(rail: Plan, reading: Reading) -> str | None:
    """Find a rail's netdev on the node by what the inventory says: netdev, MAC, bus address or HCA port."""
    if rail.get("netdev"):
        name = str(rail["netdev"])
    elif rail.get("mac"):
        mac = str(rail["mac"]).lower()
        name = next((one["ifname"] for one in reading["addresses"] or [] if mac in _macs(one)), "")
    elif rail.get("pci"):
        wanted = str(rail["pci"]).lower()
        name = next(
            (name for name, one in reading["netdevs"].items() if (one["pci"] or "").lower() == wanted), ""
        )
    else:
        name = reading["hcas"].get(str(rail.get("hca")), "")
    if name and rail.get("vlan"):
        name = f"{name}.{rail['vlan']}"
    return name or None


def link(rail: Plan, reading: Reading) -> Problems:
    """The rail's link is up."""
    device = _device(rail, reading)
    if device is None:
        return _missing(rail)
    flags = device.get("flags") or []
    problems = [f"{device['ifname']} is not {flag}" for flag in ("UP", "LOWER_UP") if flag not in flags]
    if device.get("operstate") in ("DOWN", "LOWERLAYERDOWN"):
        problems.append(f"{device['ifname']} has operstate {device['operstate']}")
    return problems


def mtu(rail: Plan, reading: Reading) -> Problems:
    """The rail has the planned MTU, exactly."""
    device = _device(rail, reading)
    if device is None:
        return _missing(rail)
    if rail.get("mtu") is None or device["mtu"] == rail["mtu"]:
        return []
    return [f"{device['ifname']} has MTU {device['mtu']}, planned is {rail['mtu']}"]


def addresses(rail: Plan, reading: Reading) -> Problems:
    """The rail has the planned addresses and no other; link-local ones are the kernel's own."""
    device = _device(rail, reading)
    if device is None:
        return _missing(rail)
    planned = {ipaddress.ip_interface(rail[key]) for key in ("address", "address6") if rail.get(key)}
    found = {one for one in _addresses(device) if not one.ip.is_link_local}
    if found == planned:
        return []
    return [f"{device['ifname']} has {_listed(found)}, planned is {_listed(planned)}"]


def own_table(rail: Plan, reading: Reading) -> Problems:
    """What leaves from the rail's address leaves by it: a rule picks its table, which has its subnet."""
    table = rail.get("table")
    netdev = netdev_of(rail, reading)
    if table is None or netdev is None:
        return []
    problems = []
    for key in ("address", "address6"):
        if not rail.get(key):
            continue
        own = ipaddress.ip_interface(rail[key])
        picked = [str(rule.get("table")) for rule in reading["rules"] if rule.get("src") == str(own.ip)]
        if str(table) not in picked:
            problems.append(f"no routing rule sends what comes from {own.ip} to table {table}")
        if own.version == 4 and not any(
            str(route.get("table")) == str(table)
            and route.get("dst") == str(own.network)
            and route.get("dev") == netdev
            for route in reading["tables"]
        ):
            problems.append(f"table {table} has no route to {own.network} by {netdev}")
    return problems


def arp(rail: Plan, reading: Reading) -> Problems:
    """The rail answers ARP for its own address alone, and asks with it."""
    netdev = netdev_of(rail, reading)
    if netdev is None or not rail.get("address") or rail.get("bond"):
        return []
    found = reading["arp"].get(netdev, {})
    return [
        f"{netdev} has {name} {found.get(name) or 'unknown'}, wanted is {value}"
        for name, value in (("arp_ignore", "1"), ("arp_announce", "2"))
        if found.get(name) != value
    ]


def netplan_file(rail: Plan, reading: Reading) -> Problems:
    """One netplan file names the rail, and it is root's alone."""
    if not (rail.get("address") or rail.get("address6")) or rail.get("bond"):
        return []  # a bond's network is the site's
    netdev = netdev_of(rail, reading)
    if netdev is None:
        return _missing(rail)
    problems = []
    claiming = []
    for path, file in reading["netplan"].items():
        # A network's VLAN on a rail's port names the port there, and says nothing of it.
        text = re.sub(r"^ +\S+: \{\}$", "", (file or {}).get("text") or "", flags=re.MULTILINE)
        try:
            claims = file and _claims(text if path == _NETWORKS_FILE else file["text"] or "", netdev, rail)
        except yaml.YAMLError as error:
            problems.append(f"{path} is no YAML: {str(error).splitlines()[0]}")
            continue
        if claims:
            claiming.append(path)
    if len(claiming) != 1:
        problems.append(
            f"{netdev} stands in {', '.join(claiming) or 'no netplan file'}; it must stand in one"
        )
    for path in claiming:
        file = reading["netplan"][path]
        if (file["mode"], file["owner"]) != (_FILE_MODE, "root"):
            problems.append(
                f"{path} has mode {file['mode']:04o} and owner {file['owner']}, not 0600 and root"
            )
    return problems


def governor(wanted: str, reading: Reading) -> Problems:
    """Every CPU has the governor; call it only where the node has governors."""
    found = reading["governors"]
    if wanted == "saving" and reading["cpufreq_driver"] in ("intel_pstate", "amd-pstate-epp"):
        wanted = "powersave"
    if wanted == "saving" and len(found) == 1 and found[0] in ("schedutil", "ondemand", "conservative"):
        return []
    return [] if found == [wanted] else [f"the governor is {', '.join(found)}, wanted is {wanted}"]


def no_cpufreq(name: str, wanted: str) -> str:
    """Say that nothing tells at what clock a hardware node's CPUs run; a machine of metal has cpufreq."""
    return (
        f"{name}: whether its CPUs run as governor {wanted} would have them is not known: it is declared as "
        "hardware and has no cpufreq (/sys/devices/system/cpu/cpu*/cpufreq). "
        "Fix: leave power management to the operating system in its firmware settings, or load the driver "
        "(intel_pstate, amd_pstate, acpi-cpufreq; see `dmesg`). Where the firmware is to keep the clock: "
        f"node_tuning_governor: '' for {name}; a virtual machine is declared by fabric.node_class: virtual"
    )


def memlock(node_class: str, reading: Reading) -> Problems:
    """A login and a service may lock all the memory that the node can give; no limit, but in a container."""
    problems = []
    limits = reading["login_memlock"]
    if len(limits) != 2:
        problems.append("the limit of a login could not be read (su and ulimit)")
    elif limits[0] != limits[1]:
        problems.append(f"a login may lock {limits[0]} KiB, and could have {limits[1]}")
    elif limits[1] != "unlimited" and node_class != "container":
        problems.append(f"a login may lock {limits[1]} KiB, not any amount")
    if reading["service_memlock"] != "DefaultLimitMEMLOCK=infinity":
        problems.append(
            f"services start with {reading['service_memlock'] or 'an unknown limit'}, not infinity"
        )
    return problems


def tools(node: Plan, options: Options, reading: Reading) -> Problems:
    """The benchmark tools are installed, perftest where RDMA is configured, others where configured."""
    wanted = ["ping", "iperf3", "sockperf"]
    if options.get("benchmark_tools_rdma", node["transport"] != "tcp"):
        wanted += ["ib_write_bw", "ibv_devinfo", "numactl"]
    wanted += ["fio"] if options.get("benchmark_tools_storage") else []
    wanted += ["smartctl"] if options.get("benchmark_tools_health") else []
    wanted += ["likwid-bench"] if options.get("benchmark_tools_memory") else []
    return [f"{tool} is not installed" for tool in wanted if not reading["tools"].get(tool)]


def leftovers(reading: Reading) -> Problems:
    """No measurement or change goes on: nothing of Railyard's listens, runs, or waits to be confirmed."""
    problems = [f"still running: {line}" for line in reading["processes"]]
    problems += [
        f"still listening: {line.strip()}"
        for line in reading["listening"]
        if any(
            name in line for name in ("iperf3", "sockperf", "runner.pyz", "ib_write", "ib_read", "ib_send")
        )
    ]
    for line in reading["units"]:
        words = line.split()
        if (
            words
            and words[0] not in _LASTING_UNITS
            and len(words) > 2
            and words[2] in ("active", "activating")
        ):
            problems.append(f"unit is still there: {words[0]} {words[2]}")
    if reading["pending"]:
        problems.append("a network change was neither confirmed nor undone")
    return problems


def management(node: Plan, reading: Reading) -> Problems:
    """The way in is where it was: on the frontend; no rail carries it or an unplanned default route."""
    rails = {netdev_of(rail, reading) for rail in node["rails"]}
    problems = []
    frontend = (node.get("frontend") or {}).get("netdev")
    if frontend:
        device = next((one for one in reading["addresses"] or [] if one["ifname"] == frontend), None)
        if device is None:
            problems.append(f"the frontend {frontend} is not there")
        elif not any(not one.ip.is_link_local for one in _addresses(device)):
            problems.append(f"the frontend {frontend} has no address")
    way_in = node.get("ansible_host")
    holding = [
        device["ifname"]
        for device in reading["addresses"] or []
        if way_in in {str(one.ip) for one in _addresses(device)}
    ]
    problems += [
        f"the management address {way_in} is on the rail {name}" for name in holding if name in rails
    ]
    for route in reading["routes"] or []:
        planned = any(
            rail.get("gateway") == route.get("gateway") for rail in node["rails"] if rail.get("gateway")
        )
        if route.get("dev") in rails and not planned:
            problems.append(f"the default route leaves by the rail {route['dev']}")
    return problems


def gid_ip(gid: str) -> Any:
    """Return the IP address that a GID stands for, or None."""
    try:
        address = ipaddress.IPv6Address(gid)
    except ValueError:
        return None
    return address.ipv4_mapped or address


def _device(rail: Plan, reading: Reading) -> dict[str, Any] | None:
    netdev = netdev_of(rail, reading)
    return next((one for one in reading["addresses"] or [] if one["ifname"] == netdev), None)


def _missing(rail: Plan) -> Problems:
    if not any(rail.get(key) for key in ("netdev", "mac", "address", "address6")):
        return []  # InfiniBand without IP: the inventory names a port, by `pci` or `hca`, and no netdev
    said = ", ".join(f"{key} {rail[key]}" for key in ("netdev", "mac", "pci", "hca") if rail.get(key))
    return [f"the node has no netdev for it ({said or 'the inventory names none'})"]


def _macs(device: dict[str, Any]) -> set[str]:
    return {str(device.get(key, "")).lower() for key in ("address", "permaddr")}


def _addresses(device: dict[str, Any]) -> Iterator[Any]:
    for one in device.get("addr_info") or []:
        yield ipaddress.ip_interface(f"{one['local']}/{one['prefixlen']}")


def _listed(interfaces: set[Any]) -> str:
    return ", ".join(sorted(str(one) for one in interfaces)) or "no address"


def _claims(text: str, netdev: str, rail: Plan) -> bool:
    """Whether a netplan file says something of a netdev: by id, by a name that it sets, or by a match."""
    network = (yaml.safe_load(text) or {}).get("network") or {}
    for section in network.values():
        for identity, settings in section.items() if isinstance(section, dict) else ():
            match = (settings or {}).get("match") or {} if isinstance(settings, dict) else {}
            mac = str(match.get("macaddress", "")).lower()
            if netdev in (identity, (settings or {}).get("set-name"), match.get("name")):
                return True
            if mac and mac == str(rail.get("mac") or "").lower():
                return True
    return False
