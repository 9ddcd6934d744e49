"""The files of a discovered inventory, as text: what `new-inventory` writes, and what was found by what."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from railyard.discover import found
from railyard.discover.model import Node, Rail, Survey
from railyard.discover.readme import readme
from railyard.discover.text import most_common
from railyard.new_inventory.files import hosts_file, to_yaml, variable_files
from railyard.new_inventory.nodes import NewNode
from railyard.new_inventory.rails import plain_number

_GPUS_HEAD = "---\n# What the nodes' GPUs are to be; docs/gpu.md of Railyard says what is checked.\n"


# Of the groups of nodes that are alike in something. There can be fewer at the next discovery.
GENERATED = "group_vars/nodes_by_*.yml"


def render(survey: Survey) -> dict[str, str]:
    """Return the inventory's files: path below its folder → text.

    Args:
        survey: what was found; it has no open question.

    Raises:
        ValueError: it has one, so the text to write is unknown.
    """
    if survey.questions:
        raise ValueError("an inventory cannot be written while a question is open")
    nodes = [
        NewNode(node.name, node.unit, node.node_index, node.named.ansible_host)
        for node in survey.nodes.values()
    ]
    users = {node.named.user for node in survey.nodes.values()}
    user = users.pop() if len(users) == 1 else None
    shared, own = _variables(survey, has_one_user=not users)
    groups = _groups(own)
    made = variable_files(fabric(survey), user)
    if survey.soft_roce:
        soft = {"rdma_stack_provider": "soft_roce", "rdma_stack_soft_roce_devices": survey.soft_roce}
        made["group_vars/all/rdma.yml"] = "---\n" + to_yaml(soft)
    if shared:
        made["group_vars/all/gpus.yml"] = _GPUS_HEAD + to_yaml(shared)
    for group, (_names, variables) in groups.items():
        made[f"group_vars/{group}.yml"] = "---\n" + to_yaml(variables)
    return {
        **made,
        "hosts.yml": hosts_file(nodes, own, {group: names for group, (names, _variables) in groups.items()}),
        "README.md": readme(survey),
        found.FILE: found.write(survey),
    }


def fabric(survey: Survey) -> dict[str, Any]:
    """Return the variable `fabric`."""
    made: dict[str, Any] = {"transport": survey.transport, "node_class": survey.node_class}
    for key in ("cabling", "mtu"):
        if (value := getattr(survey, key)) is not None:
            made[key] = value
    if survey.host_offset:
        made["host_offset"] = survey.host_offset
    made["rails"] = [_rail(rail) for rail in survey.rails]
    if survey.frontend is not None:
        # It is the way in: Railyard leaves it alone unless somebody changes this.
        made["frontend"] = {"netdev": survey.frontend, "dhcp4": True, "manage": False}
    if survey.networks:
        made["networks"] = survey.networks
    return made


def _rail(rail: Rail) -> dict[str, Any]:
    item = {"name": rail.name, rail.selector: rail.value, **rail.keys}
    if rail.rate_gbps is not None:
        item["rate_gbps"] = plain_number(rail.rate_gbps)
    if None in rail.leaves:
        item["leaf"] = rail.leaves[None]
    elif rail.leaves:
        item["leaves"] = dict(rail.leaves)
    if rail.shares_wire_with is not None:
        item["shares_wire_with"] = rail.shares_wire_with
    return item


def _variables(survey: Survey, has_one_user: bool) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return what is true of all nodes, and what each has of its own."""
    nodes = list(survey.nodes.values())
    shared: dict[str, Any] = {}
    usual = most_common(
        json.dumps(node.gpus, sort_keys=True) for node in nodes if node.gpus and node.gpus["count"]
    )
    if usual is not None:
        shared["expected_gpus"] = json.loads(usual)
    domains = {node.nvlink_domain for node in nodes}
    if len(domains) == 1 and None not in domains:
        shared["nvlink_domain"] = domains.pop()
    own: dict[str, dict[str, Any]] = {}
    for node in nodes:
        own[node.name] = _of_node(node, has_one_user)
        if "nvlink_domain" not in shared and node.nvlink_domain is not None:
            own[node.name]["nvlink_domain"] = node.nvlink_domain
        if usual is not None and node.gpus is not None and not _fits(node.gpus, shared["expected_gpus"]):
            own[node.name]["expected_gpus"] = node.gpus
    return shared, own


def _fits(gpus: Mapping[str, Any], usual: Mapping[str, Any]) -> bool:
    """Tell whether a node's GPUs are the usual ones, as far as they are known."""
    return all(usual.get(key) == value for key, value in gpus.items())


def _of_node(node: Node, has_one_user: bool) -> dict[str, Any]:
    variables: dict[str, Any] = {}
    if node.named.user is not None and not has_one_user:
        variables["ansible_user"] = node.named.user
    if node.bmc_address is not None:
        variables["bmc_address"] = node.bmc_address
    if node.overrides:
        variables["rail_overrides"] = node.overrides
    return variables


def _groups(own: dict[str, dict[str, Any]]) -> dict[str, tuple[list[str], Mapping[str, Any]]]:
    """Move what several nodes have alike to groups of them: same ports, same GPUs, same NVLink domain."""
    made: dict[str, tuple[list[str], Mapping[str, Any]]] = {}
    for variable, prefix in (
        ("rail_overrides", "ports"),
        ("expected_gpus", "gpus"),
        ("nvlink_domain", "nvlink"),
    ):
        alike: dict[str, list[str]] = defaultdict(list)
        for name, variables in own.items():
            if variable in variables:
                alike[json.dumps(variables[variable], sort_keys=True)].append(name)
        number = Counter({prefix: 0})
        for names in alike.values():
            if len(names) > 1:
                number[prefix] += 1
                shared = {variable: own[names[0]][variable]}
                for name in names:
                    del own[name][variable]
                made[f"nodes_by_{prefix}_{number[prefix]}"] = (names, shared)
    return made
