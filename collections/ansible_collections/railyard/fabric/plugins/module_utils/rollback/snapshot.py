# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node's running network as one value that can be kept, compared and brought back.

Files alone cannot undo an apply: netplan leaves an MTU in place that the older file does not set, and deletes
rules that are not its own. So the state of before is taken with `ip -j` and replayed with `ip`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import node_files

Run = Callable[[list[str]], str]
Snapshot = dict[str, Any]

# What networkd writes on a link, or a later role may: brought back on the rails only.
SYSCTLS = (
    "ipv6/accept_ra",
    "ipv6/disable_ipv6",
    "ipv6/addr_gen_mode",
    "ipv4/rp_filter",
    "ipv4/arp_ignore",
    "ipv4/arp_announce",
)
_KERNEL_RULES = {("inet", 0), ("inet", 32766), ("inet", 32767), ("inet6", 0), ("inet6", 32766)}
# The kernel creates routes from addresses; router advertisements and routing daemons manage more routes.
_OTHERS_ROUTES = {"kernel", "ra", "redirect", "bgp", "isis", "ospf", "rip", "eigrp", "babel", "bird", "zebra"}
_OTHERS_ROUTES |= {"gated", "mrt", "dnrouted", "xorp", "ntk", "keepalived", "openr"}
_ROUTE_KEYS = ("dst", "gateway", "via", "dev", "metric", "scope", "prefsrc", "metrics", "nexthops")


def _links(listing: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        item["ifname"]: {
            "mtu_bytes": item["mtu"],
            "admin_up": "UP" in item["flags"],
            "carrier": "LOWER_UP" in item["flags"],
            "master": item.get("master"),
        }
        for item in listing
    }


def _addresses(listing: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found = {}
    for item in listing:
        rows = []
        for info in item.get("addr_info", []):
            # Privacy addresses come and go by themselves.
            if "local" in info and not info.get("temporary"):
                row = {"cidr": f"{info['local']}/{info['prefixlen']}", "scope": info["scope"]}
                for key in ("broadcast", "noprefixroute"):
                    if info.get(key):
                        row[key] = info[key]
                if info.get("label", item["ifname"]) != item["ifname"]:
                    row["label"] = info["label"]
                rows.append(row)
        found[item["ifname"]] = sorted(rows, key=lambda row: str(row["cidr"]))
    return found


def _routes(family: str, listing: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for item in listing:
        if item.get("protocol") in _OTHERS_ROUTES or item.get("table") == "local":
            continue
        row = {key: item[key] for key in _ROUTE_KEYS if item.get(key) not in (None, [])}
        row.update(family=family, type=item.get("type", "unicast"), table=str(item.get("table", "main")))
        row["protocol"] = str(item.get("protocol", "boot"))
        if "onlink" in item.get("flags", []):
            row["onlink"] = True
        for hop in row.get("nexthops", []):
            hop.pop("flags", None)
        rows.append(row)
    return sorted(rows, key=_text)


def _rules(family: str, listing: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    rows = [
        {"family": family, **{key: item[key] for key in item if not key.endswith("_detached")}}
        for item in listing
        if (family, item.get("priority")) not in _KERNEL_RULES
    ]
    return sorted(rows, key=_text)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def take(run: Run, netdevs: Sequence[str], sysctls: Sequence[str] = (), proc_root: str = "/proc") -> Snapshot:
    """Read the running network.

    Args:
        run: runs an argv list and returns its standard output.
        netdevs: the rails' netdevs, whose sysctls are read too.
        sysctls: paths under /proc/sys that the change sets besides.
        proc_root: where /proc is, for tests.

    Returns:
        `{"links": {netdev: {mtu_bytes, admin_up, carrier, master}},
        "addresses": {netdev: [{cidr, scope, ...}]}, "routes": [...], "rules": [...],
        "sysctls": {"net/ipv6/conf/ens6/accept_ra": "0", ...}}`
    """
    listing = [item for item in json.loads(run(["ip", "-j", "address", "show"]) or "[]") if item]
    routes, rules = [], []
    for family, flag in (("inet", "-4"), ("inet6", "-6")):
        routes += _routes(
            family, json.loads(run(["ip", "-j", flag, "route", "show", "table", "all"]) or "[]")
        )
        rules += _rules(family, json.loads(run(["ip", "-j", flag, "rule", "show"]) or "[]"))
    own = [sysctl_path(netdev, name) for netdev in netdevs for name in SYSCTLS]
    values = {path: read_sysctl(path, proc_root) for path in sorted({*own, *sysctls})}
    return {
        "links": _links(listing),
        "addresses": _addresses(listing),
        "routes": routes,
        "rules": rules,
        "sysctls": {path: value for path, value in values.items() if value is not None},
    }


def sysctl_path(netdev: str, name: str) -> str:
    """Return the path under /proc/sys of a netdev's sysctl such as `ipv6/accept_ra` (netdevs have dots)."""
    family, key = name.split("/")
    return f"net/{family}/conf/{netdev}/{key}"


def read_sysctl(path: str, proc_root: str = "/proc") -> str | None:
    """Return a sysctl's value by its path under /proc/sys; None where the kernel has no such one."""
    text = node_files.read_text(os.path.join(proc_root, "sys", path))
    return None if text is None else " ".join(text.split())


def _lasting(addresses: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Leave link-local addresses out: the kernel makes them from the link."""
    return {str(row["cidr"]): row for row in addresses if row["scope"] != "link"}


def differences(before: Snapshot, now: Snapshot, netdevs: Sequence[str]) -> list[str]:
    """Say in sentences how the running network differs from the snapshot; empty when it is the same.

    Links are compared on the rails (`netdevs`), addresses on every link of both, routes and rules everywhere.
    Carrier is left out: a rollback cannot restore a cable.
    """
    found = []
    for netdev in netdevs:
        old, new = before["links"].get(netdev, {}), now["links"].get(netdev, {})
        changed = [key for key in ("mtu_bytes", "admin_up", "master") if old.get(key) != new.get(key)]
        found += [f"{netdev}: {key} {old.get(key)} is {new.get(key)}" for key in changed]
    for path, value in before["sysctls"].items():
        if now["sysctls"].get(path) != value:
            found.append(f"sysctl {path} {value} is {now['sysctls'].get(path)}")
    for netdev in sorted(set(before["addresses"]) | set(now["addresses"])):
        old_rows = _lasting(before["addresses"].get(netdev, []))
        new_rows = _lasting(now["addresses"].get(netdev, []))
        found += [f"{netdev}: address {cidr} is gone" for cidr in sorted(set(old_rows) - set(new_rows))]
        found += [f"{netdev}: address {cidr} is new" for cidr in sorted(set(new_rows) - set(old_rows))]
    for kind in ("routes", "rules"):
        old_set, new_set = {_text(row) for row in before[kind]}, {_text(row) for row in now[kind]}
        found += [f"{kind[:-1]} {row} is gone" for row in sorted(old_set - new_set)]
        found += [f"{kind[:-1]} {row} is new" for row in sorted(new_set - old_set)]
    return found


def of_rails(snapshot: Snapshot, netdevs: Sequence[str]) -> Snapshot:
    """Return the part of a snapshot that is the rails' own: links, addresses, routes and sysctls.

    Rules are not in it: those of the rails' files come and go with them, and others' are looked after apart.
    """
    links = {netdev: link for netdev, link in snapshot["links"].items() if netdev in netdevs}
    addresses = {netdev: rows for netdev, rows in snapshot["addresses"].items() if netdev in netdevs}
    routes = [row for row in snapshot["routes"] if row.get("dev") in netdevs]
    return {**snapshot, "links": links, "addresses": addresses, "routes": routes, "rules": []}


def missing_rules(wanted: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the rules of `wanted` that are not there now."""
    there = {_text(row) for row in now}
    return [row for row in wanted if _text(row) not in there]


def lost_management(before: Snapshot, now: Snapshot, netdevs: Sequence[str]) -> list[str]:
    """Say what the node lost that is not the rails': addresses of other netdevs, default routes, rules.

    A default route that leaves by a rail and was not there before is a loss too: it takes the node's traffic.
    """
    found = []
    for netdev, rows in sorted(before["addresses"].items()):
        if netdev in netdevs:
            continue
        now_rows = _lasting(now["addresses"].get(netdev, []))
        found += [f"address {cidr} of {netdev} is gone" for cidr in _lasting(rows) if cidr not in now_rows]

    def defaults(snapshot: Snapshot) -> set[tuple[str, ...]]:
        keys = ("dev", "gateway", "family", "table", "nexthops")
        routes = [row for row in snapshot["routes"] if row.get("dst") == "default"]
        return {tuple(str(row.get(key)) for key in keys) for row in routes}

    old, new = defaults(before), defaults(now)
    gone = [row for row in sorted(old - new) if row[0] not in netdevs]
    found += [f"default route by {row[0]} via {row[1]} is gone" for row in gone]
    # A rail's own table may well have one: it takes only what comes from the rail's address.
    found += [
        f"default route by rail {row[0]} is new"
        for row in sorted(new - old)
        if row[0] in netdevs and row[3] == "main"
    ]
    there = {_text(row) for row in now["routes"]}
    found += [
        f"route {row['dst']} by {row.get('dev', 'several')} is gone"
        for row in before["routes"]
        if row["dst"] != "default"
        and row["protocol"] in ("static", "boot")
        and row.get("dev") not in netdevs
        and _text(row) not in there
    ]
    lost = missing_rules(before["rules"], now["rules"])
    found += [
        f"routing rule `{' '.join(rule_argv('add', row)[4:])}` is gone: networkd deletes rules it does "
        "not know; declare it in netplan, or set ManageForeignRoutingPolicyRules=no in networkd.conf"
        for row in lost
    ]
    return found


def _address_argv(action: str, netdev: str, row: Mapping[str, Any]) -> list[str]:
    argv = ["ip", "address", action, str(row["cidr"]), "dev", netdev]
    if action == "add":
        if row.get("broadcast"):
            argv += ["broadcast", str(row["broadcast"])]
        if row.get("label"):
            argv += ["label", str(row["label"])]
        argv += ["scope", str(row["scope"])]
        if row.get("noprefixroute"):
            argv.append("noprefixroute")
    return argv


def _hop_argv(hop: Mapping[str, Any]) -> list[str]:
    argv = []
    if hop.get("via"):
        argv += ["via", str(hop["via"]["family"]), str(hop["via"]["host"])]
    elif hop.get("gateway"):
        argv += ["via", str(hop["gateway"])]
    return argv + (["dev", str(hop["dev"])] if hop.get("dev") else [])


def _route_argv(action: str, row: Mapping[str, Any]) -> list[str]:
    kind = [] if row["type"] == "unicast" else [row["type"]]
    argv = ["ip", "-4" if row["family"] == "inet" else "-6", "route", action, *kind, row["dst"]]
    argv += _hop_argv(row)
    argv += ["table", row["table"], "protocol", row["protocol"]]
    for key, word in (("metric", "metric"), ("scope", "scope"), ("prefsrc", "src")):
        if key in row:
            argv += [word, str(row[key])]
    for metric in row.get("metrics", [])[:1]:
        for word in sorted(metric):
            argv += [word, str(metric[word])]
    if row.get("onlink"):
        argv.append("onlink")
    for hop in row.get("nexthops", []):
        argv += ["nexthop", *_hop_argv(hop), "weight", str(hop.get("weight", 1))]
    return argv


def rule_argv(action: str, row: Mapping[str, Any]) -> list[str]:
    """Return the `ip rule` command that adds (`add`) or deletes (`del`) a rule of a snapshot."""
    argv = ["ip", "-4" if row["family"] == "inet" else "-6", "rule", action, "priority", str(row["priority"])]
    if "not" in row:
        argv.append("not")
    for key, length, word in (("src", "srclen", "from"), ("dst", "dstlen", "to")):
        if row.get(key):
            argv += [word, f"{row[key]}/{row[length]}" if length in row else str(row[key])]
    if row.get("fwmark"):
        argv += ["fwmark", f"{row['fwmark']}/{row['fwmask']}" if "fwmask" in row else str(row["fwmark"])]
    for key in ("tos", "iif", "oif", "ipproto", "sport", "dport"):
        if row.get(key):
            argv += [key, str(row[key])]
    if "table" in row:
        argv += ["lookup", str(row["table"])]
    for key in ("suppress_prefixlen", "protocol"):
        if key in row:
            argv += [key, str(row[key])]
    return argv


def replay(before: Snapshot, now: Snapshot, netdevs: Sequence[str]) -> list[list[str]]:
    """Return the `ip` commands that lead from the running network back to the snapshot, in order.

    What should not be there goes first, so that an address can move between links; links before addresses,
    addresses before routes, rules last; a link that was down is put down at the end.
    """
    argvs: list[list[str]] = []
    for kind, argv_of in (("rules", rule_argv), ("routes", _route_argv)):
        wanted = {_text(row) for row in before[kind]}
        argvs += [argv_of("del", row) for row in now[kind] if _text(row) not in wanted]
    present = {netdev: _lasting(rows) for netdev, rows in now["addresses"].items()}
    planned = {netdev: _lasting(rows) for netdev, rows in before["addresses"].items()}
    for netdev, rows in present.items():
        # A link that appeared since (a container's) is somebody's own business.
        if netdev in planned:
            argvs += [
                _address_argv("del", netdev, rows[cidr]) for cidr in rows if cidr not in planned[netdev]
            ]
    for netdev in netdevs:
        old, new = before["links"].get(netdev), now["links"].get(netdev)
        if old and new and old["mtu_bytes"] != new["mtu_bytes"]:
            argvs.append(["ip", "link", "set", "dev", netdev, "mtu", str(old["mtu_bytes"])])
    for netdev, old in before["links"].items():
        if old["admin_up"] and not now["links"].get(netdev, {"admin_up": True})["admin_up"]:
            argvs.append(["ip", "link", "set", "dev", netdev, "up"])
    for netdev, rows in planned.items():
        if netdev in present:
            argvs += [
                _address_argv("add", netdev, rows[cidr]) for cidr in rows if cidr not in present[netdev]
            ]
    for kind, argv_of in (("routes", _route_argv), ("rules", rule_argv)):
        there = {_text(row) for row in now[kind]}
        argvs += [argv_of("add", row) for row in before[kind] if _text(row) not in there]
    for netdev in netdevs:
        old, new = before["links"].get(netdev), now["links"].get(netdev)
        if old and new and new["admin_up"] and not old["admin_up"]:
            argvs.append(["ip", "link", "set", "dev", netdev, "down"])
    return argvs
