# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check nodes' addresses on other networks than the rails, and their BMCs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails import networks as node_networks
from ansible_collections.railyard.fabric.plugins.module_utils.rails import plan
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.addresses import (
    IPAddress,
    IPNetwork,
    address_of,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Node
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.networks import Networks
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import Finding, Item

_ANSIBLE, _BMC, _MANAGEMENT = "where Ansible connects", "the BMC", "its management address"
_BMC_FIX = "give each BMC its own address, in the BMCs' network"


@dataclass
class OtherAddresses:
    """Addresses of all nodes outside the rails: address → (node, its use)."""

    addresses: dict[str, tuple[str, str]] = field(default_factory=dict)

    def check(
        self, node: Node, fabric: Item, networks: Networks, refused: frozenset[str], twin: str | None
    ) -> Iterator[Finding]:
        """Yield errors in one node's addresses outside its rails, and record these.

        Args:
            node: the node.
            fabric: its fabric, without refused values.
            networks: the networks of all fabrics.
            refused: the node's variables that already have a finding.
            twin: another node with the same index; its equal addresses are not reported again.
        """
        taken: list[tuple[str, str, str]] = []
        ansible_host = address_of(node.ansible_host or "")
        if ansible_host is not None:
            taken.append((str(ansible_host), _ANSIBLE, "ansible_host"))
            yield from _check_ansible_host(ansible_host, fabric)
        if node.management_address is not None and "management_address" not in refused:
            taken.append((node.management_address, _MANAGEMENT, "management_address"))
        if not {"network_addresses", "node_index"} & refused:
            declared = node.network_addresses or {}
            try:
                planned = node_networks.plan_networks(fabric, node.name, node.node_index, declared)
            except plan.PlanError as error:
                yield Finding(error.variable, error.problem, error.fix)
                planned = []
            for network in planned:
                if network["address"] is not None:
                    name = network["name"]
                    variable = f"network_addresses.{name}" if name in declared else "node_index"
                    if network["subnet"] is None:
                        yield from _check_own_network(network["address"], name, networks)
                    taken.append((network["address"].split("/", 1)[0], f"network {name}", variable))
        if "bmc_address" not in refused:
            yield from _check_bmc(node, fabric, networks)
            if node.bmc_address is not None:
                taken.append((node.bmc_address, _BMC, "bmc_address"))
        for address, what, variable in taken:
            yield from self._take(node, address, what, variable, twin)

    def _take(self, node: Node, text: str, what: str, variable: str, twin: str | None) -> Iterator[Finding]:
        address = str(address_of(text))
        other, other_what = self.addresses.setdefault(address, (node.name, what))
        if other == twin and variable == "node_index":
            return
        if _BMC not in (what, other_what) and (other == node.name or what == other_what == _ANSIBLE):
            return  # Ansible may use a managed network, or one address with a port per node
        if (other, other_what) != (node.name, what):
            message = f"{address} is already that of {other} ({other_what})"
            yield Finding(variable, message, _BMC_FIX if what == _BMC else "change one of the two")


def _of_bmcs(fabric: Item) -> Mapping[str, Any] | None:
    return next((item for item in fabric.get("networks") or [] if item.get("bmc") is True), None)


def _check_ansible_host(address: IPAddress, fabric: Item) -> Iterator[Finding]:
    item = _of_bmcs(fabric) or {}
    if item.get("subnet") is not None and address in IPNetwork(item["subnet"]):
        message = f"{address} is inside {item['subnet']}, the network of the BMCs"
        yield Finding("ansible_host", message, "reach the nodes over the frontend, not over their BMCs")


def _check_own_network(text: str, name: str, networks: Networks) -> Iterator[Finding]:
    """Check an address whose network is not in the fabric, so that it was not compared with the rails'."""
    network = IPNetwork(text).cidr
    claim = networks.overlapping(network, None, rails_alone=True)
    if claim is not None:
        message = f"its network {network} shares addresses with {claim.network} of {claim.owner}"
        fix = "correct the address, or its prefix length"
        yield Finding(f"network_addresses.{name}", message, fix, None, claim.rail)


def _check_bmc(node: Node, fabric: Item, networks: Networks) -> Iterator[Finding]:
    """Check a node's BMC; where no network has `bmc: true`, BMCs may share one with the frontend."""
    item = _of_bmcs(fabric)
    if node.bmc_address is None:
        if item is not None:
            message = f"it is not set, but network {item.get('name')} is that of the BMCs"
            yield Finding("bmc_address", message, "set the host variable bmc_address, as 192.168.10.7")
        return
    address = IPAddress(node.bmc_address)
    claim = networks.rail_with(address)
    if claim is not None:
        message = f"the BMC's address {address} is inside {claim.network} of {claim.owner}"
        yield Finding("bmc_address", message, _BMC_FIX, None, claim.rail)
    elif item is not None and item.get("subnet") is not None:
        network = plan.network_of(item["subnet"])
        first, last = plan.usable_range(network)
        if address.version != network.version or not first <= int(address) <= last:
            message = f"{address} is not a usable address of {network}, the network of the BMCs"
            yield Finding("bmc_address", message, _BMC_FIX)
