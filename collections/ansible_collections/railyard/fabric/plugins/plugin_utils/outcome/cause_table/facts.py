# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Causes found in a node's facts."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.cause_table.cause import Cause

TABLE = (
    Cause("node_unreachable", "the node is unreachable, so nothing is known about it",
          "Look at the node's power and console, try `ssh` to its ansible_host, then validate again.",
          "the node is off, hangs, or has lost its network", "ssh ANSIBLE_HOST true"),
    Cause("imported", "Railyard did not run this test: the run was made of files by `railyard parse run`",
          "To measure, validate the inventory.",
          "that is intended, for a comparison with another run", "railyard compare --help"),
    Cause("not_inspected", "the node answers, but could not be inspected, so nothing is known about it",
          "Fix what the message names (Python on the node, sudo without a password, or -K), then "
          "validate again.",
          "sudo asks for a password, or Python is missing",
          "ansible NODE -i INVENTORY -b -m ansible.builtin.ping"),
    Cause("not_staged", "the measurement could not be staged on the node",
          "Fix what the message names (such as space in /var/lib/railyard and /run), then validate again.",
          "a full or read-only file system", "df -h /var/lib/railyard /run"),
    Cause("not_collected", "what the node measured could not be fetched from it",
          "Fix what the message names, then collect again (`playbooks/collect.yml -e railyard_run=RUN`) "
          "while the node still has it, or validate again.",
          "the node was lost after it had measured", "ssh ANSIBLE_HOST true"),
    Cause("facts_lost", "the run folder does not hold the node's facts, though they were read",
          "Restore facts.jsonl from a copy of the run and judge again (`railyard judge RUN`), or validate "
          "again.",
          "a file of the run folder was removed or cut", "railyard judge RUN"),
    Cause("facts_garbled", "the node's facts are incomplete or contradict each other",
          "Run railyard.fabric.rail_info on the node by hand and compare; then validate again.",
          "a device that came or went while it was read",
          "ansible NODE -i INVENTORY -b -m railyard.fabric.rail_info"),
    Cause("netdev_missing", "the rail's netdev is not on the node",
          "Compare the inventory with the nodes' ports: `railyard discover --diff -i INVENTORY`. A port may "
          "be missing, renamed or bound to another driver.",
          "the port is missing or renamed, or its driver is not loaded", "ip -br link"),
    Cause("netdev_ambiguous", "the inventory's selector fits more than one netdev",
          "Name the rail by netdev or MAC in rail_overrides.",
          "a selector that fits several ports", "ip -br link"),
    Cause("netdev_differs", "the netdev is not the one that the inventory describes",
          "Compare MAC, PCI address and HCA with the inventory (`railyard discover --diff -i INVENTORY`); a "
          "card may have been moved or renamed.",
          "a card that was moved, exchanged or renamed", "ethtool -i NETDEV"),
    Cause("netdev_shared", "two rails are bound to one netdev",
          "Give each rail its own netdev, MAC or PCI address in the inventory.",
          "the inventory names one port twice", "railyard plan -i INVENTORY"),
    Cause("netdev_enslaved", "the rail's netdev is a member of another device",
          "Take it out of that device, or name another netdev: each rail needs a separate port.",
          "a bond, bridge or team that was set up at installation", "ip -d link show dev NETDEV"),
    Cause("lag_member", "the rail's netdev is a member of a LAG, and a LAG is not a rail",
          "Take the port out of the bond: RDMA and rail-wise NCCL need each port with its own address.",
          "a bond that was set up at installation", "ip -d link show dev NETDEV"),
    Cause("lag_differs", "the rail's bond is not the one that the inventory declares",
          "Put all ports of the card, and nothing else, into the bond, or correct `bond` of the rail.",
          "a port without link, or one that is missing in the bond", "cat /proc/net/bonding/NETDEV"),
    Cause("hca_missing", "the rail's HCA port is not on the node",
          "Where the port has another name now (`railyard discover --diff -i INVENTORY` shows it), remove "
          "hca from the rail in the inventory: netdev, mac or pci is enough. Otherwise look at `rdma link` "
          "and `lspci`: the driver may not be loaded; then `railyard provision` (role rdma_stack).",
          "the RDMA driver is not loaded, or the device has another name", "rdma link"),
    Cause("module_missing", "this kernel has no module for the RDMA device",
          "Install the package that brings it for the running kernel: on Debian linux-image-amd64 or "
          "linux-image-arm64 (the cloud flavour has no rdma_rxe), on Ubuntu "
          "linux-modules-extra-$(uname -r); start that kernel, then `railyard provision`.",
          "a kernel flavour that leaves the module out", "uname -r"),
    Cause("iwarp", "the device speaks iWARP, and neither RoCE nor InfiniBand",
          "Name a RoCE or InfiniBand port in the inventory, or declare `transport: tcp` for these nodes.",
          "another kind of card than the inventory's", "ibv_devinfo"),
    Cause("rdma_unsupported", "the installed perftest, or the EFA device, cannot run this test over SRD",
          "Install perftest 23.07 or newer on all nodes, built with libefa (Debian 13's is); for what the "
          "device itself lacks choose other tests in fabric_policy.rdma_tests. Until then "
          "/opt/amazon/efa/test/efa_test.sh and fi_rma_bw -p efa of libfabric's fabtests measure EFA.",
          "perftest of Debian 12 or Ubuntu 22.04, which has SRD for send and read alone",
          "ib_write_bw -c SRD --help"),
    Cause("dpu_mode", "the BlueField card is in DPU mode, so its Arm cores are between host and wire",
          "Set the card to NIC mode (INTERNAL_CPU_OFFLOAD_ENGINE by mstconfig or MFT's mlxconfig; NVIDIA's "
          "page on BlueField's modes of operation has it for each generation) and power the host off and on, "
          "or take this port out of the inventory.",
          "the mode in which the card was delivered", "mstconfig -d PCI query INTERNAL_CPU_OFFLOAD_ENGINE"),
    Cause("link_layer_wrong", "the port's link layer is not that of the declared transport",
          "Set the port's type (`mstconfig -d PCI set LINK_TYPE_P1=2` is Ethernet, 1 InfiniBand, and "
          "LINK_TYPE_P2 the second port; MFT's mlxconfig is the same; then reboot), or correct `transport` "
          "in the inventory: for EFA of AWS it is `efa`.",
          "a VPI port that is set to the other type", "mstconfig -d PCI query LINK_TYPE_P1"),
    Cause("sm_missing", "no subnet manager manages the InfiniBand port",
          "Start one: on a managed switch, or opensm on one node (role rdma_stack); `sminfo -C DEVICE` shows "
          "it (without -C it uses the first active port).",
          "no subnet manager runs, so that the port stays in state Initializing", "ibstat DEVICE"),
    Cause("no_gid", "the GID table of the port has no RoCE entry for the rail's address",
          "Look at the address check first; then `rdma link` and the GIDs in "
          "/sys/class/infiniband/DEVICE/ports/PORT/gids: an entry comes with the address on the netdev.",
          "the netdev lacks the rail's address", "ip addr show dev NETDEV"),
    Cause("gid_v1_only", "the address only has a RoCE v1 GID, which is not routable",
          "Use it inside one subnet; NCCL needs NCCL_IB_ROCE_VERSION_NUM=1, which role nccl_profile writes, "
          "or the index. Or set the card to RoCE v2, if it supports that.",
          "a card or driver older than RoCE v2", "ibv_devinfo -v -d DEVICE"),
    Cause("gid_wrong", "the test did not use the GID that the rail's address has",
          "Validate again; if it comes back, look at what adds and removes addresses on that node.",
          "an address that came or went during the run", "ip addr show dev NETDEV"),
    Cause("pkeys_differ", "the InfiniBand port has other P_Keys than most ports",
          "Give all ports of the fabric one partition in the subnet manager (partitions.conf of OpenSM, or "
          "UFM): jobs use one index of the table on all of them.",
          "a port that was left out of a partition", "cat /sys/class/infiniband/DEVICE/ports/1/pkeys/0"),
    Cause("rdma_mtu_small", "the RDMA MTU is smaller than the inventory's MTU allows",
          "See the mtu check first: the kernel derives the RDMA MTU from the netdev's, and may need the port "
          "down and up again; on InfiniBand look at the partition's MTU in the subnet manager.",
          "the netdev's MTU, or the partition's, is too small", "ibv_devinfo -d DEVICE"),
    Cause("rdma_mtu_unknown", "the node does not report which RDMA MTU the port uses",
          "Run `railyard provision` (role rdma_stack installs libibverbs), then validate again.",
          "libibverbs is not installed", "ibv_devinfo -d DEVICE"),
    Cause("rdma_unknown", "the node does not report enough about the RDMA port",
          "Run railyard.fabric.rail_info on the node by hand and look at /sys/class/infiniband; then "
          "validate again.",
          "a driver that does not report what others do", "ibv_devinfo -d DEVICE"),
    Cause("link_down", "the link is down",
          "Then try `ip link set NETDEV up`; provisioning brings it up too.",
          "cable, transceiver or the switch's port", "ethtool NETDEV"),
    Cause("link_unknown", "the node does not report whether the link is up",
          "Bring the netdev up, look at the driver's messages in `dmesg`, and validate again.",
          "the netdev is down, or its driver reports nothing", "ip -d link show dev NETDEV"),
    Cause("link_speed", "the link's speed is not the declared one",
          "Exchange the part that is too slow; or correct rate_gbps, if the inventory is wrong.",
          "a cable or transceiver for another speed, or the switch port's setting", "ethtool NETDEV"),
    Cause("link_slow",
          "the link runs below its port's maximum speed, and the inventory declares no rate for it",
          "Exchange the part that is too slow; if the lower speed is intended, declare rate_gbps of this "
          "rail in the inventory.",
          "a cable or transceiver for another speed, or the switch port's setting", "ethtool NETDEV"),
    Cause("mtu_differs", "the MTU is not the declared one",
          "Run `railyard provision`; if it comes back, find who sets it: `networkctl status NETDEV`, "
          "other netplan files.",
          "another netplan file, or a tool that sets the MTU", "ip -d link show dev NETDEV"),
    Cause("mtu_too_large", "the link cannot carry the declared MTU",
          "Lower `mtu` in the inventory on all nodes, or use a card that supports it.",
          "a card or driver whose largest MTU is smaller (maxmtu)", "ip -d link show dev NETDEV"),
    Cause("ipoib_mtu_small", "the IPoIB netdev has a smaller MTU than declared",
          "Run `railyard provision`; if it comes back, the partition's multicast group limits it: give "
          "the partition an MTU of 4096 in the subnet manager (opensm: `mtu=5` in partitions.conf; saquery "
          "shows 2048 as 0x84, 4096 as 0x85), or lower `mtu` in the inventory; in datagram mode it is the "
          "partition's less 4.",
          "the partition's multicast group has a small MTU", "saquery -C DEVICE -g"),
    Cause("ipoib_mode_differs", "the IPoIB netdev is not in the declared mode",
          "Run `railyard provision`. mlx5's enhanced IPoIB has no connected mode; only the vendor's ib_ipoib "
          "can disable it (option ipoib_enhanced=0). With the kernel's driver declare `ipoib_mode: "
          "datagram`.",
          "enhanced IPoIB, which has no connected mode", "cat /sys/class/net/NETDEV/mode"),
    Cause("address_missing", "the rail has no address",
          "Run `railyard provision`, then look at `ip addr` and `networkctl status NETDEV`.",
          "the netplan file was not applied", "networkctl status NETDEV"),
    Cause("address_wrong", "the rail has another address than the plan's",
          "Run `railyard provision`, or set the address in rail_overrides if this one is intended.",
          "another netplan file, or another node_index", "netplan get"),
    Cause("address_extra", "the rail has an address that is not in the plan",
          "Remove it: a second address lets tests and NCCL take an unplanned path.",
          "another netplan file, or DHCP", "netplan get"),
    Cause("address_duplicate", "the address is claimed by another machine too",
          "Find the other machine by the MAC address that answers (the switch's MAC table) and take "
          "the address from it.",
          "a machine outside of the inventory, or one node_index given twice",
          "arping -D -c 3 -I NETDEV ADDRESS"),
)  # fmt: skip
