# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Causes that the runner reports as an error class."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.cause_table.cause import (
    AGAIN,
    LOOK_AT_RAW,
    RAW,
    Cause,
)

TABLE = (
    Cause("rendezvous_timeout", "the two ends did not connect over the rail in time",
          "See the link, address and mtu checks of both nodes first; then firewalls on the rail "
          "(`nft list ruleset`; `ufw allow in on NETDEV`, or firewalld's zone trusted, permits it).",
          "a link or an address that is down, or a firewall", "nft list ruleset"),
    Cause("no_management", "a rail without IP needs the management network for the ends to connect, and a "
          "node's address there is not known",
          "Set the host variable management_address to the node's own address as the other nodes reach it, "
          "or give the rails a subnet (IPoIB).",
          "the inventory names no address for the management network", "railyard plan -i INVENTORY"),
    Cause("management_timeout", "the two ends did not connect over the management network in time",
          "Look at `ip route get ADDRESS` and `ping ADDRESS` between the two nodes, and at firewalls: TCP "
          "from fabric_policy.base_port upward must pass; set management_address if another address is "
          "intended.",
          "a firewall, or no route between the nodes", "nft list ruleset"),
    Cause("guid_differs", "the RDMA port at the other end is not the one that was inspected",
          "Compare `rdma link` and the GUIDs in /sys/class/infiniband/*/ports/*/gids/0 with the inventory's "
          "`hca`: a card was moved, or device names changed over a reboot; then validate again.",
          "a card that was moved, or device names that changed over a reboot", "rdma link"),
    Cause("guid_unknown", "the node's facts hold no GUID of the rail's InfiniBand port",
          "Name the rail's `hca` in the inventory, see its rdma_port check, and validate again.",
          "the inventory does not name the rail's hca", "rdma link"),
    Cause("stranger", "an unknown host answered at the peer's address",
          "Find the duplicate: run the command on the peer that owns the address, where only another machine "
          "can answer; compare its MAC address with the plan.",
          "another machine has the address", "arping -D -c 3 -I NETDEV ADDRESS"),
    Cause("address_in_use", "the rail's address is in use by another host",
          "Find the duplicate: run the command on the node that owns the address, where only another machine "
          "can answer; take the address from the host that is not in the plan.",
          "another machine has the address", "arping -D -c 3 -I NETDEV ADDRESS"),
    Cause("tool_missing", "the tool is not installed on the node",
          "Run `railyard provision` (role benchmark_tools), or install the package on that node.",
          "the node was not provisioned", "railyard provision -i INVENTORY"),
    Cause("tool_too_old", "the installed version of the tool cannot measure this",
          "Install the version that the message names on all nodes, then validate again.",
          "an older distribution's package", "railyard provision -i INVENTORY"),
    Cause("port_taken", "the test's TCP port is taken on the node",
          "Find the process that listens (`ss -ltnp`), or change fabric_policy.base_port.",
          "a tool that another run or a user left running", "ss -ltnp"),
    Cause("unknown_connection", "a host other than the test's peer connected to the test's tool",
          "Find what connects to the ports from fabric_policy.base_port upward (a port scanner, a monitor, "
          "another user), keep it out of the rails' networks, and validate again.",
          "a scanner or a monitor in the rail's network", "ss -tn 'sport >= :18600'"),
    Cause("tool_failed", "the tool ended with an error", LOOK_AT_RAW,
          "the reason in the tool's own message", RAW),
    Cause("tool_garbage", "the tool's output could not be understood", LOOK_AT_RAW,
          "another version of the tool, or one in another language", RAW),
    Cause("clock_lost", "perftest could not calibrate its clock in any attempt",
          "Measure while the node's processors are idle; an emulated or overcommitted machine is interrupted "
          "too often.",
          "a virtual machine without dedicated processors", "top -b -n 1"),
    Cause("deadline", "the tool ran past its deadline and was stopped", LOOK_AT_RAW,
          "a path that stalls: MTU, pauses or lost packets", RAW),
    Cause("peer_absent", "the other end could not be reached when the run was prepared",
          "Look at that node's power and console, try `ssh` to its ansible_host, then validate again.",
          "the node is off, hangs, or has lost its network", "ssh ANSIBLE_HOST true"),
    Cause("peer_failed", "the other end could not run its part",
          "See the other end's error; its node has the cause.",
          "the reason in the other end's error", RAW),
    Cause("peer_deaf", "the other end did not respond to the signal to continue",
          "Look at what slows that node down (processors, a stalled disk), and at its runner.log in raw/, "
          "then validate again.",
          "the other node's processors or disk stall", "top -b -n 1"),
    Cause("busy", "the node is busy with another job, and measuring beside load is not allowed",
          "Wait until the job has ended, or set fabric_policy.allow_busy: true if the disturbance is "
          "acceptable.",
          "a job outside of this run", "top -b -n 1"),
    Cause("lease", "another controller is measuring this node",
          "Wait for the other run to end; a lease that is not renewed ends by itself.",
          "a second controller or a second shell", AGAIN),
    Cause("no_netdev", "the rail's netdev was not there when the test began",
          "See the rail's link check; the device may have vanished since inspection: look at `dmesg`.",
          "the device was reset or removed", "dmesg"),
    Cause("no_address", "the rail had no address when the test began",
          "See the rail's address check; run `railyard provision`.",
          "a netplan file that was not applied, or removed", "networkctl status NETDEV"),
    Cause("interrupted", "the run was interrupted before this test was done", "Validate again.",
          "a user ended the run", AGAIN),
    Cause("internal", "the runner itself failed",
          "This is a defect of Railyard: please report it with the run folder's raw/ archive.",
          "a defect of Railyard", RAW),
)  # fmt: skip
