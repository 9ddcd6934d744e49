# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Causes found by the controller's connections to BMCs."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.cause_table.cause import AGAIN, Cause

TABLE = (
    Cause("bmc_silent", "the node's BMC does not answer",
          "Look at the BMC's cable and its own network settings (`ipmitool lan print` on the node) and at "
          "the route from the controller to its network; the TCP ports that are tried are in "
          "fabric_policy.bmc_tcp_ports.",
          "the BMC's cable or its network settings", "ipmitool lan print"),
    Cause("bmc_no_way", "the controller cannot send to the BMC's network",
          "See `ip route get BMC_ADDRESS` and the firewall on the controller; run from a machine that "
          "reaches the BMCs, or skip the check with fabric_policy.bmc_check: none.",
          "the controller has no route to the BMCs", "ip route get BMC_ADDRESS"),
    Cause("bmc_not_asked", "the controller did not connect to the BMC",
          "See the output of the task `Check that the BMCs answer`, and validate again.",
          "the run ended before that", AGAIN),
    Cause("bmc_address_taken", "a node has the BMC's address on one of its own netdevs",
          "Take the address from that netdev, or correct bmc_address in the inventory.",
          "one address given to both the BMC and a netdev", "ip -br addr"),
)  # fmt: skip
