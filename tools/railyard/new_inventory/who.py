"""Read the nodes from a list in a file, and find nodes without an address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from railyard.base import options
from railyard.base.options import Wrong
from railyard.new_inventory import hosts_file, nodes
from railyard.new_inventory.wanted import Wanted

REFUSED = "with the options; nothing was written"


def listed(wanted: Wanted) -> list[hosts_file.ListedHost]:
    """Return the nodes of `--hosts-from`, none where `--nodes` names them.

    Raises:
        UserError: neither says the nodes, both do, or the file is wrong.
    """
    if wanted.hosts_from is None:
        if wanted.nodes is None:
            fix = (
                "give --nodes 'gpu[001-032]', or --hosts-from FILE with a line `name address [user]` per node"
            )
            raise options.refused([("--nodes", "no nodes are given", fix)], REFUSED)
        return []
    both = [("--nodes", wanted.nodes), ("--ansible-host", wanted.ansible_host)]
    wrong = [
        (
            option,
            f"the lines of {wanted.hosts_from} say it for each node",
            "leave it out, or leave --hosts-from out",
        )
        for option, value in both
        if value is not None
    ]
    if wrong:
        raise options.refused(wrong, REFUSED)
    return hosts_file.read(wanted.hosts_from)


def of_list(
    wanted: Wanted, hosts: Sequence[hosts_file.ListedHost]
) -> tuple[list[nodes.NewNode], list[Wrong]]:
    """Return the nodes of a list, in its order."""
    wrong = [
        (host.place, f"{host.address} has no name", "write it before the address, as `gpu1 192.168.1.73`")
        for host in hosts
        if host.name is None
    ]
    names = [host.name for host in hosts if host.name is not None]
    found, wrong_names = nodes.in_units(names, wanted.nodes_per_unit, f"{wanted.hosts_from}")
    common = with_common_user(wanted, hosts).user
    by_name = {host.name: host for host in hosts}
    users = {name: host.user for name, host in by_name.items() if host.user != common}
    return [
        replace(node, ansible_host=by_name[node.name].address, ansible_user=users.get(node.name))
        for node in found
    ], [*wrong, *wrong_names]


def with_common_user(wanted: Wanted, hosts: Sequence[hosts_file.ListedHost]) -> Wanted:
    """Report the user once, where all lines of a list have the same."""
    users = {host.user for host in hosts}
    return replace(wanted, user=users.pop()) if wanted.user is None and len(users) == 1 else wanted


def counted_up(reached: Sequence[nodes.NewNode], pattern: str | None) -> list[str]:
    """Report the nodes without an address."""
    if len(reached) < 2 or not nodes.is_counted_up(pattern):
        return []
    second, last = reached[1], reached[-1]
    which = f"{second.name} is reached at {second.ansible_host}"
    which += f", and so on to {last.name} at {last.ansible_host}" if last is not second else ""
    why = f"counted up from {pattern}; where a BMC or another machine has that address, list each node's"
    return [f"{which}: {why}"]
