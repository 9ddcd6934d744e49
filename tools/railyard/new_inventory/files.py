"""The files of a new inventory, as text: hosts.yml, group_vars/all/*.yml and README.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import fold_names

from railyard.new_inventory.nodes import GROUP, NewNode
from railyard.new_inventory.rails import Rails, leaves_of, plain_number, subnets_of
from railyard.new_inventory.wanted import Wanted

_FABRIC_HEAD = """\
---
# The rails of the nodes. Literals only: `railyard plan` and the playbooks read the same values.
# docs/inventory.md of Railyard has all keys.
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
_OVERLAYS = Path(__file__).with_name("overlays")


@dataclass(frozen=True)
class Contents:
    """All that a new inventory says.

    Attributes:
        name: of its folder, which is the cluster's name.
        wanted: the options.
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
    return {
        **variable_files(_fabric(contents), contents.wanted.user),
        "hosts.yml": hosts_file(contents.nodes),
        "README.md": _readme(contents),
        **overlay_files(contents.wanted.overlay),
    }


def overlays() -> list[str]:
    """Return the names of the known overlays."""
    return sorted(path.stem for path in _OVERLAYS.glob("*.yml"))


def overlay_files(name: str | None) -> dict[str, str]:
    """Return the file of an overlay; none without a name."""
    if name is None:
        return {}
    return {f"group_vars/all/{name}.yml": (_OVERLAYS / f"{name}.yml").read_text(encoding="utf-8")}


def variable_files(fabric: Mapping[str, Any], user: str | None) -> dict[str, str]:
    """Return the files of `group_vars/all`: what the fabric is, the RDMA driver, and who Ansible logs in as.

    Args:
        fabric: the variable `fabric`.
        user: None where each person is to log in as they are used to.
    """
    made = {"group_vars/all/fabric.yml": _FABRIC_HEAD + to_yaml({"fabric": fabric})}
    if fabric["transport"] != "tcp":
        has_qos = fabric["transport"] == "roce" and fabric.get("node_class", "hardware") == "hardware"
        has_qos = has_qos and fabric.get("cabling") != "back_to_back"
        qos = _RDMA_QOS if has_qos else ""
        made["group_vars/all/rdma.yml"] = f"{_RDMA}{qos}rdma_stack_provider: inbox\n"
    if user is not None:
        made["group_vars/all/connection.yml"] = _CONNECTION.format(user=_inline(user))
    return made


class _Indented(yaml.SafeDumper):
    """Indents lists under their key, as in the inventories of this repository."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent always."""
        super().increase_indent(flow, False)


def to_yaml(value: Any) -> str:
    """Write a value as the inventories of this repository do."""
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
        # Ansible connects over it: Railyard does not change it by default.
        fabric["frontend"] = {"netdev": wanted.frontend, "dhcp4": True, "manage": False}
    return fabric


def hosts_file(
    nodes: Sequence[NewNode],
    variables: Mapping[str, Mapping[str, Any]] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Return hosts.yml.

    Args:
        nodes: all nodes, in the order of the file.
        variables: node → what it has beside its own keys.
        groups: name of a further group → its nodes; its variables belong in `group_vars`.
    """
    lines = ["---", f"# {summarise_nodes(nodes)}."]
    if any(node.node_index is not None for node in nodes):
        lines.append("# node_index numbers a node's addresses: keep it when nodes are added or leave.")
    else:
        lines.append("# The number that ends a name numbers the node's addresses.")
    lines.append(f"{GROUP}:")
    units: dict[str | None, list[NewNode]] = {}
    for node in nodes:
        units.setdefault(node.scalable_unit, []).append(node)
    if None in units:
        lines += ["  hosts:", *_host_lines(nodes, 4, variables or {})]
    else:
        lines.append("  children:")
        for unit, members in units.items():
            lines += [f"    {unit}:", "      vars:", f"        scalable_unit: {unit}", "      hosts:"]
            lines += _host_lines(members, 8, variables or {})
    for group, names in (groups or {}).items():
        lines += [f"{_inline(group)}:", "  hosts:", *(f"    {_inline(name)}:" for name in names)]
    return "\n".join(lines) + "\n"


def _host_lines(
    nodes: Sequence[NewNode], indent: int, more: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    for node in nodes:
        variables = {
            key: value
            for key in ("ansible_host", "ansible_user", "bmc_address", "node_index")
            if (value := getattr(node, key)) is not None
        }
        variables |= more.get(node.name, {})
        line = f"{' ' * indent}{_inline(node.name)}:"
        yield f"{line} {_inline(variables)}" if variables else line


def summarise_nodes(nodes: Sequence[NewNode]) -> str:
    """Return how many nodes there are, and their folded names."""
    names = fold_names([node.name for node in nodes])
    names = names if len(names) <= _FOLDED_MAX else f"{nodes[0].name} to {nodes[-1].name}"
    count = len(nodes)
    return f"{'1 node' if count == 1 else f'{count} nodes'}, {names}"


def _readme(contents: Contents) -> str:
    wanted, items = contents.wanted, contents.rails.items
    count = "1 rail" if len(items) == 1 else f"{len(items)} rails"
    lines = [
        f"# {contents.name}",
        "",
        f"{summarise_nodes(contents.nodes)}, with {count} each; transport `{wanted.transport}`"
        + (f", MTU {contents.mtu}." if contents.mtu is not None else "."),
        "Written by `railyard new-inventory`. Edit it as you like.",
        "",
        "| Rail | Port | Subnets | Leaves |",
        "|---|---|---|---|",
    ]
    for item in items:
        port = ", ".join(f"{key} {item[key]}" for key in ("netdev", "pci", "hca") if key in item)
        leaves = _ends(leaves_of(item)) or "none"
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
