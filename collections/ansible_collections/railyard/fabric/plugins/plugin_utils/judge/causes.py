# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cause table: why a check did not pass, in a sentence, what most often makes it so, and what to do next.

Verdicts take their `cause` and `next` from here, and docs/troubleshooting.md is generated from it
(tools/railyard/report/made_docs.py), so that what the report says can be looked up word for word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils import plain_text
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import gpu_causes

#: How much of a node's own words a verdict holds.
_MOST_CHARACTERS = 1000


@dataclass(frozen=True)
class Cause:
    """One way not to pass.

    Attributes:
        name: the id that verdicts carry as `cause_class`.
        sentence: what is wrong; verdicts put what was seen behind it.
        next: what to do, as a sentence in the imperative.
        likely: what most often makes it so; where the run shows it better, verdicts say that instead.
        command: what to type first; words in capitals (`PLACEHOLDERS`) stand for what the verdict names.
    """

    name: str
    sentence: str
    next: str
    likely: str
    command: str


#: What stands in a command until a place is known, and is the user's own: folders, inventory, addresses.
PLACEHOLDERS = (
    "NETDEV", "PCI", "DEVICE", "ADDRESS", "PEER", "NODE", "ANSIBLE_HOST", "BMC_ADDRESS", "INVENTORY", "RUN",
    "BASELINE_RUN", "SIZE",
)  # fmt: skip
_PLACEHOLDER = re.compile(rf"\b(?:{'|'.join(PLACEHOLDERS)})\b")
_AGAIN = "railyard validate -i INVENTORY"
_RAW = "tar -xzf RUN/raw/NODE.tar.gz"

_LOOK_AT_RAW = (
    "Read the tool's own output in the run folder's raw/ archive of that node, correct it, and "
    "validate again."
)

_TABLE = (
    # What a node's facts say
    Cause("node_unreachable", "the node is unreachable, so nothing of it is known",
          "Look at the node's power and console, try `ssh` to its ansible_host, then validate again.",
          "the node is off, hangs, or has lost its network", "ssh ANSIBLE_HOST true"),
    Cause("not_inspected", "the node answers, but could not be inspected, so nothing of it is known",
          "Mend what the message names (Python on the node, sudo without a password, or -K), then "
          "validate again.",
          "sudo asks for a password, or Python is missing",
          "ansible NODE -i INVENTORY -b -m ansible.builtin.ping"),
    Cause("not_staged", "the measurement could not be laid ready on the node",
          "Mend what the message names (room in /var/lib/railyard and /run, for one), then validate again.",
          "a full or read-only file system", "df -h /var/lib/railyard /run"),
    Cause("not_collected", "what the node measured could not be fetched from it",
          "Mend what the message names, then collect again (`playbooks/collect.yml -e railyard_run=RUN`) "
          "while the node still holds it, or validate again.",
          "the node was lost after it had measured", "ssh ANSIBLE_HOST true"),
    Cause("facts_lost", "the run folder does not hold the node's facts, though they were read",
          "Bring facts.jsonl back from a copy of the run and judge again (`railyard judge RUN`), or validate "
          "again.",
          "a file of the run folder was removed or cut", "railyard judge RUN"),
    Cause("facts_garbled", "the node's facts are incomplete or contradict each other",
          "Run railyard.fabric.rail_info on the node by hand and compare; then validate again.",
          "a device that came or went while it was read",
          "ansible NODE -i INVENTORY -b -m railyard.fabric.rail_info"),
    Cause("netdev_missing", "the rail's netdev is not on the node",
          "Compare `ip -br link` with the inventory; a port may be missing, renamed or bound to "
          "another driver.",
          "the port is missing or renamed, or its driver is not loaded", "ip -br link"),
    Cause("netdev_ambiguous", "the inventory's selector fits more than one netdev",
          "Name the rail by netdev or MAC in rail_overrides.",
          "a selector that fits several ports", "ip -br link"),
    Cause("netdev_differs", "the netdev is not the one that the inventory describes",
          "Compare MAC, PCI address and HCA with the inventory; a card may have been moved or renamed.",
          "a card that was moved, exchanged or renamed", "ethtool -i NETDEV"),
    Cause("netdev_shared", "two rails are bound to one netdev",
          "Give each rail its own netdev, MAC or PCI address in the inventory.",
          "the inventory names one port twice", "railyard plan -i INVENTORY"),
    Cause("netdev_enslaved", "the rail's netdev is a member of another device",
          "Take it out of that device, or name another netdev: a rail is a port of its own.",
          "a bond, bridge or team that was set up at installation", "ip -d link show dev NETDEV"),
    Cause("lag_member", "the rail's netdev is a member of a LAG, and a LAG is not a rail",
          "Take the port out of the bond: RDMA and rail-wise NCCL need each port with its own address.",
          "a bond that was set up at installation", "ip -d link show dev NETDEV"),
    Cause("hca_missing", "the rail's HCA port is not on the node",
          "Look at `rdma link`, /sys/class/infiniband and `lspci`: the driver may not be loaded or the name "
          "may differ; then `railyard provision` (role rdma_stack).",
          "the RDMA driver is not loaded, or the device has another name", "rdma link"),
    Cause("module_missing", "this kernel has no module for the RDMA device",
          "Install the package that brings it for the running kernel: on Debian linux-image-amd64 or "
          "linux-image-arm64 (the cloud flavour has no rdma_rxe), on Ubuntu "
          "linux-modules-extra-$(uname -r); start that kernel, then `railyard provision`.",
          "a kernel flavour that leaves the module out", "uname -r"),
    Cause("iwarp", "the device speaks iWARP, and neither RoCE nor InfiniBand",
          "Name a RoCE or InfiniBand port in the inventory, or declare `transport: tcp` for these nodes.",
          "another kind of card than the inventory's", "ibv_devinfo"),
    Cause("dpu_mode", "the BlueField card is in DPU mode, so its own Arm cores stand between host and wire",
          "Set the card to NIC mode (INTERNAL_CPU_OFFLOAD_ENGINE by mstconfig or MFT's mlxconfig; NVIDIA's "
          "page on BlueField's modes of operation has it for each generation) and power the host off and on, "
          "or take this port out of the inventory.",
          "the mode in which the card was delivered", "mstconfig -d PCI query INTERNAL_CPU_OFFLOAD_ENGINE"),
    Cause("link_layer_wrong", "the port's link layer is not that of the declared transport",
          "Set the port's type (`mstconfig -d PCI set LINK_TYPE_P1=2` is Ethernet, 1 InfiniBand, and "
          "LINK_TYPE_P2 the second port; MFT's mlxconfig is the same; then reboot), or correct `transport` "
          "in the inventory.",
          "a VPI port that is set to the other type", "mstconfig -d PCI query LINK_TYPE_P1"),
    Cause("sm_missing", "no subnet manager takes care of the InfiniBand port",
          "Start one: on a managed switch, or opensm on one node (role rdma_stack); `sminfo -C DEVICE` shows "
          "it, where without -C it asks by whichever port is active first.",
          "no subnet manager runs, so that the port stays in state Initializing", "ibstat DEVICE"),
    Cause("no_gid", "the GID table of the port has no RoCE entry for the rail's address",
          "Look at the address check first; then `rdma link` and the GIDs in "
          "/sys/class/infiniband/DEVICE/ports/PORT/gids: an entry comes with the address on the netdev.",
          "the netdev lacks the rail's address", "ip addr show dev NETDEV"),
    Cause("gid_v1_only", "the address has a RoCE v1 GID alone, which no router passes on",
          "Use it inside one subnet; NCCL needs NCCL_IB_ROCE_VERSION_NUM=1, which role nccl_profile writes, "
          "or the index. Or set the card to RoCE v2, where it can.",
          "a card or driver of before RoCE v2", "ibv_devinfo -v -d DEVICE"),
    Cause("gid_wrong", "the test did not use the GID that the rail's address has",
          "Validate again; if it comes back, look at what adds and removes addresses on that node.",
          "an address that came or went during the run", "ip addr show dev NETDEV"),
    Cause("pkeys_differ", "the InfiniBand port has other P_Keys than most ports",
          "Give all ports of the fabric one partition in the subnet manager (partitions.conf of OpenSM, or "
          "UFM): jobs use one index of the table on all of them.",
          "a port that was left out of a partition", "cat /sys/class/infiniband/DEVICE/ports/1/pkeys/0"),
    Cause("rdma_mtu_small", "the RDMA MTU is smaller than the inventory's MTU allows",
          "See the mtu check first: the kernel takes the RDMA MTU from the netdev's, and may need the port "
          "down and up again; on InfiniBand look at the partition's MTU in the subnet manager.",
          "the netdev's MTU, or the partition's, is too small", "ibv_devinfo -d DEVICE"),
    Cause("rdma_mtu_unknown", "the node does not say which RDMA MTU the port uses",
          "Run `railyard provision` (role rdma_stack installs libibverbs), then validate again.",
          "libibverbs is not installed", "ibv_devinfo -d DEVICE"),
    Cause("rdma_unknown", "the node does not say enough of the RDMA port",
          "Run railyard.fabric.rail_info on the node by hand and look at /sys/class/infiniband; then "
          "validate again.",
          "a driver that leaves out what others tell", "ibv_devinfo -d DEVICE"),
    Cause("link_down", "the link is down",
          "Then try `ip link set NETDEV up`; provisioning brings it up too.",
          "cable, transceiver or the switch's port", "ethtool NETDEV"),
    Cause("link_unknown", "the node does not say whether the link is up",
          "Bring the netdev up, look at the driver's messages in `dmesg`, and validate again.",
          "the netdev is down, or its driver tells nothing", "ip -d link show dev NETDEV"),
    Cause("link_speed", "the link's speed is not the declared one",
          "Exchange what is too slow; or correct rate_gbps, if the inventory is wrong.",
          "a cable or transceiver for another speed, or the switch port's setting", "ethtool NETDEV"),
    Cause("link_slow", "the link runs below what its port can do, and the inventory declares no rate for it",
          "Exchange what is too slow; where the lower speed is meant, declare rate_gbps of this rail in the "
          "inventory.",
          "a cable or transceiver for another speed, or the switch port's setting", "ethtool NETDEV"),
    Cause("mtu_differs", "the MTU is not the declared one",
          "Run `railyard provision`; if it comes back, find who sets it: `networkctl status NETDEV`, "
          "other netplan files.",
          "another netplan file, or a tool that sets the MTU", "ip -d link show dev NETDEV"),
    Cause("mtu_too_large", "the link cannot carry the declared MTU",
          "Lower `mtu` in the inventory on all nodes, or use a card that carries it.",
          "a card or driver whose largest MTU is smaller (maxmtu)", "ip -d link show dev NETDEV"),
    Cause("ipoib_mtu_small", "the IPoIB netdev has a smaller MTU than declared",
          "Run `railyard provision`; if it comes back, the partition's multicast group holds it down: give "
          "the partition an MTU of 4096 in the subnet manager (opensm: `mtu=5` in partitions.conf; saquery "
          "shows 2048 as 0x84, 4096 as 0x85), or lower `mtu` in the inventory; in datagram mode it is the "
          "partition's less 4.",
          "the partition's multicast group has a small MTU", "saquery -C DEVICE -g"),
    Cause("ipoib_mode_differs", "the IPoIB netdev is not in the declared mode",
          "Run `railyard provision`; mlx5's enhanced IPoIB has no connected mode (the vendor's ib_ipoib is "
          "without it by its option ipoib_enhanced=0, which the kernel's own lacks), so declare `ipoib_mode: "
          "datagram` where it stays.",
          "enhanced IPoIB, which has no connected mode", "cat /sys/class/net/NETDEV/mode"),
    Cause("address_missing", "the rail has no address",
          "Run `railyard provision`, then look at `ip addr` and `networkctl status NETDEV`.",
          "the netplan file was not applied", "networkctl status NETDEV"),
    Cause("address_wrong", "the rail has another address than the plan's",
          "Run `railyard provision`, or set the address in rail_overrides if this one is meant.",
          "another netplan file, or another node_index", "netplan get"),
    Cause("address_extra", "the rail has an address that is not in the plan",
          "Remove it: a second address lets tests and NCCL take a path that nobody planned.",
          "another netplan file, or DHCP", "netplan get"),
    Cause("address_duplicate", "the address is claimed by another machine too",
          "Find the other machine by the MAC address that answers (the switch's MAC table) and take "
          "the address from it.",
          "a machine outside of the inventory, or one node_index given twice",
          "arping -D -c 3 -I NETDEV ADDRESS"),
    # What a test's rows say
    Cause("no_row", "neither end wrote a result",
          "Collect again (`playbooks/collect.yml -e railyard_run=RUN`) while the nodes still hold it, "
          "or validate again.",
          "the runner was ended, or its archive was lost", "railyard judge RUN"),
    Cause("one_ended", "only one end wrote a result, and one end's word proves nothing",
          "Collect again, or look at the silent node; then validate again.",
          "the silent node hung or was started anew", _AGAIN),
    Cause("duplicate_row", "an end wrote more than one result for the test, so none can be trusted",
          "Validate again into a new run folder.",
          "a copy of a row in the run folder", _AGAIN),
    Cause("node_rebooted", "the node was started anew between inspection and measurement",
          "Validate again; what was read of the node before may hold no more.",
          "a crash, or a reboot by somebody else", "journalctl --list-boots"),
    Cause("row_garbled", "a result row is incomplete, impossible or not that of the asked test",
          "Validate again; if it comes back, the runner on that node is of another version or its disk "
          "is damaged.",
          "a runner of another version, or a damaged disk", _RAW),
    Cause("ends_disagree", "the two ends report different numbers",
          "Look at both raw outputs: the ends may have talked to others, or another load ran on the rail.",
          "another load on the rail, or an end that was held up", _RAW),
    Cause("unproven", "the counters do not show that this traffic ran over this rail",
          "Look for other traffic on the rails and for a route that takes another one.",
          "a route by another rail, or other traffic on it", "ip route get PEER from ADDRESS"),
    Cause("counted_twice", "two tests claim the same bytes of one counter, so they prove neither",
          "Validate again into a new run folder: tests of one rail run one after the other, so rows were "
          "copied, or two rails are one netdev or one port.",
          "copied rows, or two rails on one port", _AGAIN),
    Cause("version_differs", "the two ends have different versions of the tool",
          "Install one version on all nodes (role benchmark_tools), then validate again.",
          "the tool was installed by hand on one node", "dpkg -l iperf3 perftest sockperf"),
    Cause("slot_slow", "the card's PCIe link is trained below what card and slot can do",
          "Look at `lspci -vv -s PCI` (LnkCap, LnkSta), reseat the card or the riser, look at the slot's "
          "setting in the firmware and at AER errors in `dmesg`; after a reset it may train right.",
          "a card that sits badly, a riser, or the slot's setting in the firmware", "lspci -vv -s PCI"),
    Cause("not_hardware", "the inventory declares hardware, and this is none",
          "Name the card's own netdev and hca in the inventory, or take the software device away (`rdma link "
          "delete NAME`); for virtual machines or containers declare `node_class: virtual` or `container`.",
          "Soft-RoCE or a virtual netdev under the rail's name", "rdma link"),
    Cause("link_errors", "error counters of the link grew",
          "Look at the cable and transceivers between the two ends that are named, reseat or replace them; "
          "`ethtool -S NETDEV` and the port's counters in /sys/class/infiniband show whether it goes on.",
          "cable or transceiver: dirty, bent or loose", "ethtool -m NETDEV"),
    Cause("lossless_drops", "packets were dropped for want of buffers on a rail that is to be lossless",
          "Compare trust, PFC priority, buffers and DSCP of both ends and of the switch ports between (role "
          "roce_qos; `dcb app show dev NETDEV`, `dcb buffer show dev NETDEV`, or all at once the vendor's "
          "`mlnx_qos -i NETDEV`): traffic may come in a priority without PFC, or the headroom be too small "
          "for the cable; `ethtool -S NETDEV` shows whether discards and pauses go on.",
          "traffic in a priority without PFC, or too little headroom", "dcb pfc show dev NETDEV"),
    Cause("pause_storm", "the port sent pauses for so long that it stopped pausing, and may drop since",
          "Look at what keeps the node from taking its packets (PCIe slot and NUMA node of the card, a stuck "
          "process, IOMMU), then at the switch port's PFC watchdog; `ethtool -S NETDEV | grep storm`.",
          "a node that does not take its packets (PCIe, NUMA, a stuck process)", "ethtool -S NETDEV"),
    Cause("no_error_counters", "no test on this rail read the link's error counters",
          "Mend the tests of this rail first; their own verdicts say how.",
          "the rail's tests did not run", _RAW),
    Cause("error_counters_reset", "the link's error counters were reset, are full or cannot be read",
          "Look in `dmesg` for a device that was reset or came back; clear a counter that is full "
          "(InfiniBand: `perfquery -C DEVICE -P PORT -R`), then validate again.",
          "the device was reset, or somebody cleared the counters", "dmesg"),
    Cause("lost_packets", "packets were lost",
          "Look at error counters (`ip -s link`, `ethtool -S`), cable, and duplicate addresses on the rail.",
          "a bad cable, a full queue, or an address that two machines have", "ip -s link show dev NETDEV"),
    Cause("probes_missed", "the tool missed packets that the rail's counters show to have come",
          "Look at what holds the receiving node up (processors, another load), then validate again.",
          "the receiving node's processors were busy", "top -b -n 1"),
    Cause("path_mtu_small", "a packet of the declared MTU does not pass in this direction",
          "Check the MTU of the peer's netdev and of every switch port between; the mtu checks name "
          "the node. SIZE is the MTU less 28, with IPv6 less 48: 8972 or 8952 of 9000.",
          "a switch port or peer with a smaller MTU", "ping -M do -s SIZE -c 3 -I NETDEV PEER"),
    Cause("below_floor", "the number is below its floor",
          "Compare with the other rails and the other direction; then look at link speed, errors, CPU "
          "and shaping.",
          "what all slow tests share: processors, MTU, or a rate limit", "tc -s qdisc show dev NETDEV"),
    Cause("rail_slow", "the rail is slower than planned, and slower than the others",
          "Look at the port that is named and at its switch port: speed (`ethtool NETDEV`), error counters, "
          "the slot's width and speed (`lspci -vv -s PCI`), and rate limits (`tc qdisc show dev NETDEV`, "
          "policers and shapers of the switch); where the lower rate is meant, declare it as rate_gbps of "
          "this rail.",
          "its card, its cable, its PCIe slot, or a rate limit on the port", "tc -s qdisc show dev NETDEV"),
    Cause("node_slow", "the node is slow on all of its rails, and others are not",
          "Compare the node that is named with a fast one: governor and C-states, the card's NUMA node "
          "(/sys/class/net/NETDEV/device/numa_node), IOMMU and ACS, memory channels, firmware settings, "
          "other load (`top`); role node_tuning sets what can be set.",
          "the node itself: processors (governor, C-states), PCIe or NUMA", "cpupower frequency-info"),
    Cause("path_slow", "the path between two nodes is slow, and both are fast with others",
          "Follow the path from switch port to switch port (uplinks, a port that runs low, errors, a link of "
          "a bundle that ECMP or LAG puts these flows on); it is neither node's card.",
          "a switch port, an uplink or a cable between the two", "lldpctl NETDEV"),
    Cause("switch_slow", "the rail is slow for all of its nodes, and other rails are not",
          "Look at the switch that the rail's cables end at: speed and rate limits of its ports, buffers, "
          "pauses, QoS, firmware; where the lower rate is meant, declare it as rate_gbps of this rail.",
          "the rail's switch: rate limits, buffers, pauses, or the speed of its ports", "lldpctl NETDEV"),
    Cause("above_ceiling", "the number is above what is possible here, so it was not measured on this link",
          "Look at the counters: the traffic took another path, or the declared rate is wrong.",
          "traffic that took another path, or a declared rate that is too low",
          "ip route get PEER from ADDRESS"),
    Cause("too_slow", "the number is above the ceiling that the site lays down",
          "Compare with the other rails and the other direction; then look at CPU governor, C-states "
          "and other load.",
          "the processors: governor, C-states or another load", "cpupower frequency-info"),
    Cause("worse_than_baseline", "the number is worse than the saved baseline's of the same link",
          "`railyard compare` the baseline's run with this one: it tells what else differs (firmware, "
          "driver, settings, cabling); mend it, or save a new baseline where the change is meant.",
          "what was changed since: firmware, driver, settings, cabling", "railyard compare BASELINE_RUN RUN"),
    Cause("baseline_lost", "the baseline that this run was to be held against is not in its folder as it was",
          "Bring baseline.json back from a copy of the run and judge again, or validate again.",
          "a file of the run folder was cut", "railyard judge RUN"),
    Cause("stands_apart", "the number is far worse than those of like tests in this run",
          "Compare with the like tests in the report's table of the check: one rail of one node is its card, "
          "slot or cable, one node its processor (governor, NUMA node, another load), one rail its switch.",
          "one rail of one node: card, slot or cable; one node: its processors", "ethtool -S NETDEV"),
    Cause("attempt_missing", "a test that looked bad was to be measured again, and rows of that are missing",
          "Bring results.jsonl back from a copy of the run and judge again, or validate again.",
          "a file of the run folder was cut", "railyard judge RUN"),
    Cause("unsteady", "too many tests were good only when they were measured again",
          "Look for what comes and goes: other load on the nodes (`top`, cron), a cable or transceiver "
          "(`ethtool -m NETDEV`), pauses (`ethtool -S NETDEV`); then validate again.",
          "a load that comes and goes, or a cable with loose contact", "top -b -n 1"),
    Cause("part_unmeasured", "a part of the sum is not measured and proven",
          "Mend that part first; its own verdict says how.",
          "another verdict of the same rail has it", "railyard judge RUN"),
    Cause("samples_sparse", "the rail's counters were not read often enough to add the rails up",
          "The node was held up; see what else runs on it, and validate again.",
          "the node's processors were busy", "top -b -n 1"),
    Cause("window_short", "less than half of the asked time was measured",
          "The node was held up; see what else runs on it, and validate again.",
          "the node's processors were busy", "top -b -n 1"),
    Cause("windows_apart", "the rails did not run at the same time for long enough to be added up",
          "Validate again on quieter nodes, or measure longer (fabric_policy.iperf3_duration_s).",
          "the nodes' processors were busy", "top -b -n 1"),
    Cause("no_bound_agreed", "the inventory gives the two ends nothing common to be held against",
          "Give both nodes the same `mtu` for this rail in the inventory.",
          "two groups of the inventory declare different MTUs", "railyard plan -i INVENTORY"),
    # What the rails hear of each other
    Cause("rails_swapped", "the cables of two rails are swapped",
          "Exchange the two cables, at the node or at the switches, then validate again; where two nodes "
          "leave open which of them it is, look at the labels of both.",
          "two cables exchanged, at the node or at the switches", "lldpctl NETDEV"),
    Cause("rail_crossed", "the rail is patched into another rail's switch",
          "Follow the cable from this port and put its other end where the rail's other cables end.",
          "a cable in the wrong switch", "lldpctl NETDEV"),
    Cause("rails_joined", "two rails are one layer-2 segment",
          "Separate them: look for a cable between the two switches, for both rails in one VLAN, or for a "
          "bridge on a node that holds both netdevs (`bridge link`).",
          "a cable between two rails' switches, one VLAN for both, or a bridge", "bridge link"),
    Cause("wrong_leaf", "the rail is patched to another leaf switch than planned",
          "Move the cable to the planned leaf, or correct `leaf` (or `scalable_unit`) in the inventory.",
          "a cable in another leaf", "lldpctl NETDEV"),
    Cause("wrong_peer", "the rail is joined to a part of its nodes alone",
          "Follow the cables of the nodes that are named: they end at another switch, in another VLAN, or in "
          "each other.",
          "a cable in another switch or VLAN", "lldpctl NETDEV"),
    Cause("rail_isolated", "the rail hears none of its nodes",
          "Follow the cable and look at the switch port: it ends elsewhere, or the port is in another VLAN "
          "or blocked.",
          "a cable in another switch, or a port that is blocked", "lldpctl NETDEV"),
    Cause("beacon_one_way", "a node hears a peer that does not hear it",
          "Look at transceivers and fibres (one of a pair may be broken or crossed) and at the switch port's "
          "filters.",
          "one fibre of a pair, or a filter on the switch's port", "ethtool -m NETDEV"),
    Cause("peer_miswired", "a peer's cable ends at the wrong place or nowhere, so this rail is not whole",
          "See the cabling and link checks of the peer that is named, and mend that first.",
          "the peer's cable", "lldpctl NETDEV"),
    Cause("beacon_silent", "no beacon came through, so nothing is known of where the cables end",
          "See whether the switches drop broadcasts or EtherType 0x88B5; where they are meant to, set "
          "fabric_policy.beacon: false and look at the cables by LLDP.",
          "switches that drop broadcasts or EtherType 0x88B5", "tcpdump -c 5 -i NETDEV ether proto 0x88b5"),
    Cause("beacon_refused", "the node could not send or hear beacons on this rail",
          "Mend what the message names; the runner needs root and an Ethernet netdev.",
          "no root, or a netdev that is no Ethernet", "ip -d link show dev NETDEV"),
    Cause("peer_unheard", "the peer was not heard on this rail, so that it could not be asked",
          "See the cabling check of this rail first.",
          "the peer's cable or link", "ethtool NETDEV"),
    Cause("arp_flux", "a node answers for an address by another rail than the address's own",
          "Set arp_ignore=1 and arp_announce=2 on its rails (role rail_network does, of each netdev; the "
          "larger of the netdev's and `all`'s counts), and look whether two rails share a switch.",
          "arp_ignore is 0 on the node that is named", "sysctl net/ipv4/conf/NETDEV/arp_ignore"),
    Cause("no_arp_answer", "nobody answers for the address, though the peer is on the wire",
          "See the address check of the peer; then firewalls for ARP (`nft list ruleset`).",
          "the peer lacks its address, or filters ARP", "arping -c 3 -I NETDEV PEER"),
    Cause("reply_other_rail", "replies leave by another rail than the one that was asked",
          "Look at `ip rule` and `ip route get PEER from ADDRESS` on the node that is named; role "
          "rail_network gives each rail its own table.",
          "the rail has no routing table of its own", "ip route get PEER from ADDRESS"),
    Cause("no_reply", "the peer is on the wire and does not reply to a ping",
          "See the reply_path and address checks of the peer, `ip route get` there, and firewalls for ICMP.",
          "a firewall on the peer, or no route back", "nft list ruleset"),
    Cause("route_unknown", "the node does not tell by which netdev it would reply",
          "Install iproute2 on it and look at `ip route get PEER from ADDRESS`.",
          "iproute2 is not installed", "ip route get PEER from ADDRESS"),
    Cause("no_lldp", "no switch said by LLDP who it is here, so that the inventory's leaf was not compared",
          "Switch LLDP on at this leaf's port; a run shorter than the switch's interval (30 s as a rule) "
          "hears it where lldpd runs on the node. Where none is to speak: fabric_policy.lldp: false.",
          "LLDP is off at the switch's port", "lldpctl NETDEV"),
    Cause("switch_unnamed", "the switch at the cable's end does not tell its name",
          "Have it send its system name by LLDP, name the leaf in the inventory as the switch tells it, or "
          "set fabric_policy.lldp: false.",
          "the switch does not send its system name", "lldpctl NETDEV"),
    Cause("neighbour_unclear", "more than one switch speaks on this cable",
          "Look for a hub, a media converter or a virtual switch between node and leaf.",
          "a hub or a virtual switch between node and leaf", "lldpctl NETDEV"),
    Cause("more_hops", "the latency is that of more switches on the way than planned",
          "Compare the leaf of both ends (`lldpctl`, the switch's MAC table) with the inventory; traffic may "
          "go over a spine that the plan does not have.",
          "a cable in another leaf than planned", "lldpctl NETDEV"),
    Cause("hops_unclear", "the latencies do not show how many switches are on the way",
          "More pairs of the same leaves, or steadier ones, are needed: see the rdma_latency verdicts.",
          "too few pairs, or latencies that are not steady", _AGAIN),
    # What the controller hears of BMCs
    Cause("bmc_silent", "the node's BMC does not answer",
          "Look at the BMC's cable and its own network settings (`ipmitool lan print` on the node) and at "
          "the way from the controller to its network; the TCP ports that are tried are "
          "fabric_policy.bmc_tcp_ports.",
          "the BMC's cable or its network settings", "ipmitool lan print"),
    Cause("bmc_no_way", "the controller cannot send to the BMC's network",
          "See `ip route get BMC_ADDRESS` and the firewall on the controller; run from a machine that "
          "reaches the BMCs, or leave them unasked by fabric_policy.bmc_check: none.",
          "the controller has no route to the BMCs", "ip route get BMC_ADDRESS"),
    Cause("bmc_not_asked", "the controller did not come to ask the BMC",
          "See what the task `Ask the BMCs` says, and validate again.",
          "the run was ended before", _AGAIN),
    Cause("bmc_address_taken", "a node has the BMC's address on one of its own netdevs",
          "Take the address from that netdev, or correct bmc_address in the inventory.",
          "an address given to BMC and netdev alike", "ip -br addr"),
    # What a node measures by itself
    Cause("not_borne_out", "the kernel's own counters do not bear out what the tool says of this node",
          "Read the row's `proof_reason`: less than the tool says is a cache between it and the device, more "
          "is another load; validate again while the node is idle.",
          "another load on the node", "top -b -n 1"),
    Cause("drive_stands_apart", "the number is far worse than those of the like drives of this run",
          "Compare the drives in the report's table: one that is worn, full, hot, in a slower slot or "
          "rebuilding its RAID is slower than its like; see `dmesg` for its errors.",
          "a drive that is worn, full, hot, or in a slower slot", "dmesg"),
    Cause("drive_slot", "the drive's PCI Express link is trained below what drive and slot can do",
          "Reseat the drive, and see `lspci -vv` (LnkSta against LnkCap) and `dmesg` for errors of its port.",
          "a drive or riser that is not seated well", "lspci -vv"),
    Cause("storage_not_mounted", "nothing is mounted at a path that fabric_policy.storage_mounts names",
          "Mount it, or take it from the list; a drive that is gone is not measured on the one below it.",
          "a drive that is missing, or was not mounted after a reboot", "df -h"),
    Cause("storage_no_device", "no drive of this node is below the mount",
          "Name a mount that stands on a drive: tmpfs, overlay and network file systems are none, nor are "
          "those that hide their devices (btrfs, ZFS).",
          "a file system in memory or over the network", "df -hT"),
    Cause("storage_full", "there is too little room below the mount for a scratch file",
          "Make room, or make fabric_policy.storage_file_bytes smaller.",
          "a file system that is nearly full", "df -h"),
    Cause("storage_refused", "no scratch file could be made below the mount",
          "Mend what the message names: a read-only mount, a quota, a file system without unnamed files.",
          "a file system that went read-only after an error", "dmesg"),
    Cause("memory_unfit", "memory bandwidth cannot be measured on this node",
          "Do what the message names: free memory of that NUMA node, or look why the kernel tells of none.",
          "another program that holds the memory", "numactl --hardware"),
    # What the runner reports as error class
    Cause("rendezvous_timeout", "the ends did not meet over the rail in time",
          "See the link, address and mtu checks of both nodes first; then firewalls on the rail "
          "(`nft list ruleset`; ufw allow in on NETDEV, or the zone trusted of firewalld, lets it in).",
          "a link or an address that is down, or a firewall", "nft list ruleset"),
    Cause("no_management", "without IP on the rail the ends meet over the management network, and a node's "
          "address there is not known",
          "Set the host variable management_address to the node's own address as the other nodes reach it, "
          "or give the rails a subnet (IPoIB).",
          "the inventory names no address for the management network", "railyard plan -i INVENTORY"),
    Cause("management_timeout", "the ends did not meet over the management network in time",
          "Look at `ip route get ADDRESS` and `ping ADDRESS` between the two nodes, and at firewalls: TCP "
          "from fabric_policy.base_port upward must pass; set management_address where another is meant.",
          "a firewall, or no route between the nodes", "nft list ruleset"),
    Cause("guid_differs", "the RDMA port at the other end is not the one that was inspected",
          "Compare `rdma link` and the GUIDs in /sys/class/infiniband/*/ports/*/gids/0 with the inventory's "
          "`hca`: a card was moved, or device names changed over a reboot; then validate again.",
          "a card that was moved, or device names that changed over a reboot", "rdma link"),
    Cause("guid_unknown", "the node's facts hold no GUID of the rail's InfiniBand port",
          "Name the rail's `hca` in the inventory, see its rdma_port check, and validate again.",
          "the inventory does not name the rail's hca", "rdma link"),
    Cause("stranger", "somebody else answered at the peer's address",
          "Find the duplicate: at the peer whose address it is only another machine answers that; compare "
          "its MAC address with the plan.",
          "another machine has the address", "arping -D -c 3 -I NETDEV ADDRESS"),
    Cause("address_in_use", "the rail's address is in use by another host",
          "Find the duplicate: at the node whose address it is only another machine answers that; take the "
          "address from the host that is not in the plan.",
          "another machine has the address", "arping -D -c 3 -I NETDEV ADDRESS"),
    Cause("tool_missing", "the tool is not installed on the node",
          "Run `railyard provision` (role benchmark_tools), or install the package on that node.",
          "the node was not provisioned", "railyard provision -i INVENTORY"),
    Cause("tool_too_old", "the installed version of the tool cannot measure this",
          "Install the version that the message names on all nodes, then validate again.",
          "an older distribution's package", "railyard provision -i INVENTORY"),
    Cause("port_taken", "the test's TCP port is taken on the node",
          "Find who listens (`ss -ltnp`), or move fabric_policy.base_port.",
          "a tool that another run or a person left", "ss -ltnp"),
    Cause("tool_failed", "the tool ended with an error", _LOOK_AT_RAW,
          "the tool's own message says", _RAW),
    Cause("tool_garbage", "the tool's output could not be understood", _LOOK_AT_RAW,
          "another version of the tool, or one in another language", _RAW),
    Cause("clock_lost", "perftest could not calibrate its clock, try after try",
          "Measure when the node's processors are quiet; an emulated or crowded machine takes them away in "
          "between.",
          "a virtual machine without processors of its own", "top -b -n 1"),
    Cause("deadline", "the tool ran past its deadline and was stopped", _LOOK_AT_RAW,
          "a path that stalls: MTU, pauses or lost packets", _RAW),
    Cause("peer_absent", "the other end could not be reached when the run was made",
          "Look at that node's power and console, try `ssh` to its ansible_host, then validate again.",
          "the node is off, hangs, or has lost its network", "ssh ANSIBLE_HOST true"),
    Cause("peer_failed", "the other end could not run its part",
          "See the other end's error; its node has the cause.",
          "the other end's error says", _RAW),
    Cause("peer_deaf", "the other end did not take the word to go on",
          "Look at what holds that node up (processors, a stalled disk), and at its runner.log in raw/; then "
          "validate again.",
          "the other node's processors or disk stall", "top -b -n 1"),
    Cause("busy", "the node is busy with something else, and load on it was not allowed",
          "Wait until the job has ended, or set fabric_policy.allow_busy: true if the disturbance is "
          "acceptable.",
          "a job that was not told to this run", "top -b -n 1"),
    Cause("lease", "another controller is measuring this node",
          "Wait for the other run to end; a lease that nobody renews ends by itself.",
          "a second controller or a second shell", _AGAIN),
    Cause("no_netdev", "the rail's netdev was not there when the test began",
          "See the rail's link check; the device may have vanished since inspection: look at `dmesg`.",
          "the device was reset or taken away", "dmesg"),
    Cause("no_address", "the rail had no address when the test began",
          "See the rail's address check; run `railyard provision`.",
          "a netplan file that was not applied, or removed", "networkctl status NETDEV"),
    Cause("interrupted", "the run was interrupted before this test was done", "Validate again.",
          "somebody ended the run", _AGAIN),
    # What all nodes do together
    Cause("collective_failed", "a job of all nodes broke off",
          "See which node's row names a cause of its own, and the tests of the rails; then validate again.",
          "a rail that loses large packets, or a node that ended", _RAW),
    Cause("collective_wrong", "a job of all nodes gave a wrong result",
          "Test the nodes' memory and GPUs, leave out one node after the other (--limit), validate again.",
          "faulty memory, or a GPU that computes wrongly", "dcgmi diag -r 3"),
    Cause("collective_elsewhere", "a job of all nodes did not cross the rails that it was given",
          "Look at the routes to the others' rail addresses, and at NCCL's settings by `railyard lint-nccl`.",
          "a route over management, or NCCL that fell back to sockets", "ip route get ADDRESS"),
    Cause("collective_slow_rail", "all-reduce over this rail falls far behind that over the others",
          "See the rail's own bandwidth tests, which name the node; look at its cable, port and switch.",
          "a rail that is slow at one node holds up all of them", "ethtool NETDEV"),
    Cause("internal", "the runner itself failed",
          "This is a defect of Railyard: please report it with the run folder's raw/ archive.",
          "a defect of Railyard", _RAW),
    # What a node's GPUs say
    *(Cause(*row) for row in gpu_causes.TABLE),
)  # fmt: skip

CAUSES: dict[str, Cause] = {cause.name: cause for cause in _TABLE}


def explain(
    name: str,
    detail: str = "",
    fix: str | None = None,
    likely: tuple[str, str] | None = None,
    known: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a verdict's `cause_class`, `cause` and `next`: the likely cause, what to type, what to do.

    Args:
        name: an id of the table; an id that it lacks is the runner's defect and named as such.
        detail: what was seen; it may hold a node's own words, which become one line that has an end.
        fix: a more exact next step, where the row brought one.
        likely: what the run itself shows to be the likely cause, and the command that shows more of it.
        known: what the placeholders stand for.
    """
    detail, fix = (plain_text.clean_line(text or "")[:_MOST_CHARACTERS] for text in (detail, fix))
    cause = CAUSES.get(name)
    if cause is None:
        cause, detail = (
            CAUSES["row_garbled"],
            f"unknown error class {name[:_MOST_CHARACTERS]!r}" + (f", {detail}" if detail else ""),
        )
    text = cause.sentence + (f": {detail}" if detail else "")
    told, command = likely or (cause.likely, cause.command)
    advice = fix if fix and not likely else f"Likely {told}; see `{command}`. {fix or cause.next}"
    known = {name: plain_text.clean_line(value) for name, value in (known or {}).items()}
    advice = _PLACEHOLDER.sub(lambda word: known.get(word[0], word[0]), advice) if known else advice
    return {"cause_class": cause.name, "cause": text, "next": advice}


def explain_error(error: Mapping[str, Any], *hosts: str) -> dict[str, Any]:
    """Return the same for an `error`: of a row, that of one of `hosts`, whose first wrote the row."""
    host = error.get("host")
    if hosts and host not in hosts:
        host = hosts[0]
    message = str(error.get("message") or "")
    detail = f"{host}: {message}" if host else message
    fix = error.get("fix")
    return explain(str(error.get("class")), detail, fix if isinstance(fix, str) and fix else None)
