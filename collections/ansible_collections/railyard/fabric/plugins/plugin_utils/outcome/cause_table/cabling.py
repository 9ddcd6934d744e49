# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Causes found by beacons, ARP and LLDP on the rails."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.cause_table.cause import AGAIN, Cause

TABLE = (
    Cause("rails_swapped", "the cables of two rails are swapped",
          "Exchange the two cables, at the node or at the switches, then validate again. With two nodes "
          "either may be the one: look at the labels of both.",
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
    Cause("wrong_peer", "the rail reaches only some of its nodes",
          "Follow the cables of the nodes that are named: they end at another switch, in another VLAN, or in "
          "each other.",
          "a cable in another switch or VLAN", "lldpctl NETDEV"),
    Cause("rail_isolated", "the rail receives beacons from none of its nodes",
          "Follow the cable and look at the switch port: it ends elsewhere, or the port is in another VLAN "
          "or blocked.",
          "a cable in another switch, or a port that is blocked", "lldpctl NETDEV"),
    Cause("beacon_one_way", "a node receives a peer's beacons, but the peer does not receive its beacons",
          "Look at transceivers and fibres (one of a pair may be broken or crossed) and at the switch port's "
          "filters.",
          "one fibre of a pair, or a filter on the switch's port", "ethtool -m NETDEV"),
    Cause("peer_miswired", "a peer's cable ends at the wrong place or nowhere, so this rail is incomplete",
          "See the cabling and link checks of the named peer, and fix that first.",
          "the peer's cable", "lldpctl NETDEV"),
    Cause("beacon_silent", "no beacon arrived, so it is not known where the cables end",
          "See whether the switches drop broadcasts or EtherType 0x88B5; where they are meant to, set "
          "fabric_policy.beacon: false and look at the cables by LLDP.",
          "switches that drop broadcasts or EtherType 0x88B5", "tcpdump -c 5 -i NETDEV ether proto 0x88b5"),
    Cause("beacon_refused", "the node could not send or receive beacons on this rail",
          "Fix what the message names; the runner needs root and an Ethernet netdev.",
          "no root, or a netdev that is not Ethernet", "ip -d link show dev NETDEV"),
    Cause("peer_unheard", "no beacon of the peer arrived on this rail, so it could not be queried",
          "See the cabling check of this rail first.",
          "the peer's cable or link", "ethtool NETDEV"),
    Cause("arp_flux", "a node answers ARP for an address on another rail than the address's own",
          "Set arp_ignore=1 and arp_announce=2 on its rails (role rail_network does it for each netdev; the "
          "larger of the netdev's and `all`'s counts), and check whether two rails share a switch.",
          "arp_ignore is 0 on the node that is named", "sysctl net/ipv4/conf/NETDEV/arp_ignore"),
    Cause("no_arp_answer", "the address does not answer ARP, though the peer's beacons arrive",
          "See the address check of the peer; then firewalls for ARP (`nft list ruleset`).",
          "the peer does not have its address, or filters ARP", "arping -c 3 -I NETDEV PEER"),
    Cause("reply_other_rail", "replies leave by another rail than the one that received the request",
          "Look at `ip rule` and `ip route get PEER from ADDRESS` on the node that is named; role "
          "rail_network gives each rail its own table.",
          "the rail has no routing table of its own", "ip route get PEER from ADDRESS"),
    Cause("no_reply", "the peer's beacons arrive, but it does not reply to a ping",
          "See the reply_path and address checks of the peer, `ip route get` there, and firewalls for ICMP.",
          "a firewall on the peer, or no route back", "nft list ruleset"),
    Cause("route_unknown", "the node does not report by which netdev it would reply",
          "Install iproute2 on it and look at `ip route get PEER from ADDRESS`.",
          "iproute2 is not installed", "ip route get PEER from ADDRESS"),
    Cause("no_lldp", "no switch announced itself by LLDP here, so the inventory's leaf was not compared",
          "Enable LLDP at this leaf's port. A run shorter than the switch's interval (usually 30 s) finds "
          "it if lldpd runs on the node. If no switch sends LLDP, set fabric_policy.lldp: false.",
          "LLDP is off at the switch's port", "lldpctl NETDEV"),
    Cause("switch_unnamed", "the switch at the cable's end does not send its name",
          "Have it send its system name by LLDP, use the name that it sends as the leaf in the inventory, "
          "or set fabric_policy.lldp: false.",
          "the switch does not send its system name", "lldpctl NETDEV"),
    Cause("neighbour_unclear", "more than one switch sends LLDP on this cable",
          "Look for a hub, a media converter or a virtual switch between node and leaf.",
          "a hub or a virtual switch between node and leaf", "lldpctl NETDEV"),
    Cause("more_hops", "the latency indicates more switches on the path than planned",
          "Compare the leaf of both ends (`lldpctl`, the switch's MAC table) with the inventory; traffic may "
          "go over a spine that the plan does not have.",
          "a cable in another leaf than planned", "lldpctl NETDEV"),
    Cause("hops_unclear", "the latencies do not show how many switches are on the path",
          "More pairs of the same leaves, or more stable latencies, are needed: see the rdma_latency "
          "verdicts.",
          "too few pairs, or latencies that vary", AGAIN),
)  # fmt: skip
