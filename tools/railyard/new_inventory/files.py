"""The files of a new inventory, as text: hosts.yml, group_vars/all/*.yml and README.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import fold_names

from railyard.new_inventory.nodes import GROUP, NewNode
from railyard.new_inventory.rails import Rails, leaves_of, plain_number, subnets_of
from railyard.new_inventory.wanted import Wanted

_FABRIC_HEAD = """\
---
# What the fabric should be. Literals only: `railyard plan` and the playbooks read the same thing.
# docs/inventory.md of Railyard says what else can stand here.
"""
_CONNECTION = """\
---
# Log in by key; `-K` asks for sudo's password. No password belongs in this folder: preflight refuses an
# inventory that holds one in clear text.
ansible_user: {user}
ansible_become_method: ansible.builtin.sudo
"""
_RDMA = """\
---
# Where the RDMA driver comes from (role rdma_stack): `inbox` is the kernel's own, `doca` the vendor's.
"""
_RDMA_QOS = """\
# The kernel's own mlx5 driver has no setting for ECN and the traffic class: role roce_qos leaves them out,
# and NCCL marks its packets.
"""
_FOLDED_MAX = 100


@dataclass(frozen=True)
class Contents:
    """All that a new inventory says.

    Attributes:
        name: of its folder, which is the cluster's name.
        wanted: what was asked for.
        nodes: in the order of hosts.yml.
        rails: the rails, and what was assumed.
        host_offset: added to each node's number.
        mtu: bytes, or None where the links' own is left alone.
    """

    name: str
    wanted: Wanted
    nodes: Sequence[NewNode]
    rails: Rails
    host_offset: int
    mtu: int | None


def files(contents: Contents) -> dict[str, str]:
    """Return the inventory's files: path below its folder → text."""
    made = {
        "hosts.yml": _hosts(contents),
        "group_vars/all/fabric.yml": _FABRIC_HEAD + _yaml({"fabric": _fabric(contents)}),
        "README.md": _readme(contents),
    }
    wanted = contents.wanted
    if wanted.transport != "tcp":
        has_qos = wanted.transport == "roce" and wanted.node_class in (None, "hardware")
        has_qos = has_qos and wanted.cabling != "back_to_back"
        qos = _RDMA_QOS if has_qos else ""
        made["group_vars/all/rdma.yml"] = f"{_RDMA}{qos}rdma_stack_provider: inbox\n"
    if contents.wanted.user is not None:
        user = _inline(contents.wanted.user)
        made["group_vars/all/connection.yml"] = _CONNECTION.format(user=user)
    return made


class _Indented(yaml.SafeDumper):
    """Lists stand indented under their key, as in the inventories of this repository."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent always."""
        super().increase_indent(flow, False)


def _yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Indented, sort_keys=False, width=100, allow_unicode=True)


def _inline(value: Any) -> str:
    """Write one value on one line, in quotes where YAML would take it for something else."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def _fabric(contents: Contents) -> dict[str, Any]:
    wanted = contents.wanted
    fabric: dict[str, Any] = {"transport": wanted.transport}
    for key in ("node_class", "cabling"):
        if getattr(wanted, key) is not None:
            fabric[key] = getattr(wanted, key)
    if contents.mtu is not None:
        fabric["mtu"] = contents.mtu
    if contents.host_offset:
        fabric["host_offset"] = contents.host_offset
    fabric["rails"] = contents.rails.items
    if wanted.leaf_uplink_gbps is not None:
        uplink_gbps = plain_number(wanted.leaf_uplink_gbps)
        fabric["leaves"] = {name: {"uplink_gbps": uplink_gbps} for name in contents.rails.leaves()}
    if wanted.frontend is not None:
        # It is the way in: Railyard leaves it alone unless that is asked for.
        fabric["frontend"] = {"netdev": wanted.frontend, "dhcp4": True, "manage": False}
    return fabric


def _hosts(contents: Contents) -> str:
    lines = ["---", f"# {_nodes_in_words(contents)}."]
    if any(node.node_index is not None for node in contents.nodes):
        lines.append("# node_index numbers a node's addresses: keep it when nodes are added or leave.")
    else:
        lines.append("# The number that ends a name numbers the node's addresses.")
    lines.append(f"{GROUP}:")
    units: dict[str | None, list[NewNode]] = {}
    for node in contents.nodes:
        units.setdefault(node.scalable_unit, []).append(node)
    if None in units:
        return "\n".join([*lines, "  hosts:", *_host_lines(contents.nodes, 4)]) + "\n"
    lines.append("  children:")
    for unit, members in units.items():
        lines += [f"    {unit}:", "      vars:", f"        scalable_unit: {unit}", "      hosts:"]
        lines += _host_lines(members, 8)
    return "\n".join(lines) + "\n"


def _host_lines(nodes: Sequence[NewNode], indent: int) -> Iterator[str]:
    for node in nodes:
        variables = {
            key: value
            for key in ("ansible_host", "ansible_user", "bmc_address", "node_index")
            if (value := getattr(node, key)) is not None
        }
        line = f"{' ' * indent}{_inline(node.name)}:"
        yield f"{line} {_inline(variables)}" if variables else line


def _nodes_in_words(contents: Contents) -> str:
    names = fold_names([node.name for node in contents.nodes])
    names = names if len(names) <= _FOLDED_MAX else f"{contents.nodes[0].name} to {contents.nodes[-1].name}"
    count = len(contents.nodes)
    return f"{'1 node' if count == 1 else f'{count} nodes'}, {names}"


def _readme(contents: Contents) -> str:
    wanted, items = contents.wanted, contents.rails.items
    count = "1 rail" if len(items) == 1 else f"{len(items)} rails"
    lines = [
        f"# {contents.name}",
        "",
        f"{_nodes_in_words(contents)}, with {count} each; transport `{wanted.transport}`"
        + (f", MTU {contents.mtu}." if contents.mtu is not None else "."),
        "Written by `railyard new-inventory`; from here on it is yours to edit.",
        "",
        "| Rail | Port | Subnets | Leaves |",
        "|---|---|---|---|",
    ]
    for item in items:
        port = ", ".join(f"{key} {item[key]}" for key in ("netdev", "pci", "hca") if key in item)
        leaves = _ends(leaves_of(item)) or "not said"
        subnets = _ends(subnets_of(item)) or "none"
        lines.append(f"| {item['name']} | {port} | {subnets} | {leaves} |")
    lines += ["", _numbering(contents), "", "## Before the first run", ""]
    steps = [f"Check what was assumed: {text}." for text in contents.rails.assumed]
    if any(node.ansible_host is None for node in contents.nodes):
        steps.append(
            "The nodes are reached by their names; where no resolver knows them, set `ansible_host`."
        )
    if wanted.user is None and any(node.ansible_user is None for node in contents.nodes):
        steps.append("Set `ansible_user` in a file of `group_vars/all/` where it is not your own name.")
    if wanted.frontend is None:
        steps.append(
            "Name the interface that the nodes are reached over, as `frontend: {netdev: enp5s0}` in "
            "`fabric.yml`: no rail can then be it by mistake."
        )
    steps.append("Log in to each node by key. No password belongs in this folder; preflight refuses one.")
    steps.append("Look at what is planned: `railyard plan -i` with this folder, `--svg FILE` for a drawing.")
    lines += [f"{number}. {step}" for number, step in enumerate(steps, start=1)]
    return "\n".join(lines) + "\n"


def _ends(texts: Sequence[str]) -> str:
    texts = list(dict.fromkeys(texts))
    return ", ".join(texts) if len(texts) <= 2 else f"{texts[0]} to {texts[-1]} ({len(texts)})"


def _numbering(contents: Contents) -> str:
    if not any(subnets_of(item) for item in contents.rails.items):
        return "The rails have no IP addresses; give a rail a `subnet` where IPoIB is wanted."
    own = "`node_index`" if contents.nodes[0].node_index is not None else "the number that ends its name"
    offset = contents.host_offset
    sign = f" {'+' if offset > 0 else '-'} {abs(offset)}" if offset else ""
    gateway = contents.rails.gateway
    rule = f" The {gateway} usable address of a subnet is the gateway." if gateway != "none" else ""
    return f"A node's address is the network's own + {own}{sign}.{rule}"
