# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Causes found in the result rows of a test."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.cause_table.cause import (
    AGAIN,
    RAW,
    Cause,
)

TABLE = (
    Cause("no_row", "neither end wrote a result",
          "Collect again (`playbooks/collect.yml -e railyard_run=RUN`) while the nodes still have it, "
          "or validate again.",
          "the runner was stopped, or its archive was lost", "railyard judge RUN"),
    Cause("one_ended", "only one end wrote a result, which proves nothing by itself",
          "Collect again, or look at the node without a result; then validate again.",
          "the node without a result hung or was restarted", AGAIN),
    Cause("duplicate_row", "an end wrote more than one result for the test, so none can be trusted",
          "Validate again into a new run folder.",
          "a copy of a row in the run folder", AGAIN),
    Cause("node_rebooted", "the node was rebooted between inspection and measurement",
          "Validate again; facts that were read before the reboot may be outdated.",
          "a crash, or a reboot by another user", "journalctl --list-boots"),
    Cause("row_garbled", "a result row is incomplete, impossible or not that of the planned test",
          "Validate again; if it comes back, the runner on that node is of another version or its disk "
          "is damaged.",
          "a runner of another version, or a damaged disk", RAW),
    Cause("ends_disagree", "the two ends report different numbers",
          "Look at both raw outputs: an end may have been connected to another host, or another load ran on "
          "the rail.",
          "another load on the rail, or an end that was delayed", RAW),
    Cause("unproven", "the counters do not show that this traffic ran over this rail",
          "Look for other traffic on the rails and for a route over another rail.",
          "a route over another rail, or other traffic on this one", "ip route get PEER from ADDRESS"),
    Cause("counted_twice", "two tests claim the same bytes of one counter, so neither is proven",
          "Validate again into a new run folder: tests of one rail run one after the other, so rows were "
          "copied, or two rails are one netdev or one port.",
          "copied rows, or two rails on one port", AGAIN),
    Cause("version_differs", "the two ends have different versions of the tool",
          "Install one version on all nodes (role benchmark_tools), then validate again.",
          "the tool was installed by hand on one node", "dpkg -l iperf3 perftest sockperf"),
    Cause("slot_slow", "the card's PCIe link is trained below what card and slot support",
          "Look at `lspci -vv -s PCI` (LnkCap, LnkSta), reseat the card or the riser, look at the slot's "
          "setting in the firmware and at AER errors in `dmesg`; after a reset it may train correctly.",
          "a badly seated card, a riser, or the slot's setting in the firmware", "lspci -vv -s PCI"),
    Cause("upstream_slow", "a PCIe link above the card is trained below what both of its ends support",
          "Look at `lspci -tv` and `lspci -vv -s ADDRESS` of the port that is named (LnkCap, LnkSta) and at "
          "AER errors in `dmesg`; reseat the riser or the switch's board, and restart the node: it may then "
          "train correctly.",
          "a riser, cable or board between processor and switch, or a bad link training at boot",
          "lspci -tv"),
    Cause("not_hardware", "the inventory declares hardware, but this is a software device",
          "Name the card's own netdev and hca in the inventory, or take the software device away (`rdma link "
          "delete NAME`); for virtual machines or containers declare `node_class: virtual` or `container`.",
          "Soft-RoCE or a virtual netdev under the rail's name", "rdma link"),
    Cause("link_errors", "error counters of the link grew",
          "Look at the cable and transceivers between the two named ends, reseat or replace them; "
          "`ethtool -S NETDEV` and the port's counters in /sys/class/infiniband show whether it continues; "
          "`mlxlink -d DEVICE -m -c` (NVIDIA's MFT) shows the optics' power and the bit error ratio before "
          "and after FEC. If only out_of_sequence grew and the fabric has adaptive routing, set "
          "fabric_policy.adaptive_routing.",
          "cable or transceiver: dirty, bent or loose", "ethtool -m NETDEV"),
    Cause("module_alarm", "the port's transceiver module reports an alarm by its own limits",
          "Received power too low: clean and reseat the fibre at both ends, then exchange the fibre or the "
          "module at the other end, which sends. Sent power, bias current or voltage: exchange this "
          "module. Received power too high: an attenuator or a module for the distance is missing. "
          "Temperature: look at the airflow of the cage. Then validate again.",
          "a dirty fibre, or a module that fails or is too hot", "ethtool -m NETDEV"),
    Cause("ber_high", "the link has more bit errors before FEC than its FEC is specified for",
          "Clean and reseat the fibre or cable at both ends, then exchange it, then the modules one by one; "
          "compare both ends' FEC (`ethtool --show-fec NETDEV`) and the lanes (`mlxlink -d DEVICE -m -c`), "
          "then validate again.",
          "a dirty or damaged cable, or a module that fails", "ethtool -I --show-fec NETDEV"),
    Cause("lossless_drops", "packets were dropped for lack of buffers on a lossless rail",
          "Compare trust, PFC priority, buffers and DSCP of both ends and of the switch ports between (role "
          "roce_qos; `dcb app show dev NETDEV`, `dcb buffer show dev NETDEV`, or all at once with the "
          "vendor's `mlnx_qos -i NETDEV`): traffic may come in a priority without PFC, or the headroom may "
          "be too small for the cable; `ethtool -S NETDEV` shows whether discards and pauses continue.",
          "traffic in a priority without PFC, or too little headroom", "dcb pfc show dev NETDEV"),
    Cause("pause_storm",
          "the port sent pauses for so long that it stopped pausing, and may have dropped packets since",
          "Find out why the node does not drain its packets (PCIe slot and NUMA node of the card, a stuck "
          "process, IOMMU), then look at the switch port's PFC watchdog; `ethtool -S NETDEV | grep storm`.",
          "a node that does not drain its packets (PCIe, NUMA, a stuck process)", "ethtool -S NETDEV"),
    Cause("no_error_counters", "no test on this rail read the link's error counters",
          "Fix the tests of this rail first, as their verdicts explain.",
          "the rail's tests did not run", RAW),
    Cause("error_counters_reset", "the link's error counters were reset, are full or cannot be read",
          "Look in `dmesg` for a device that was reset or reappeared; clear a counter that is full "
          "(InfiniBand: `perfquery -C DEVICE -P PORT -R`), then validate again.",
          "the device was reset, or the counters were cleared", "dmesg"),
    Cause("lost_packets", "packets were lost",
          "Look at error counters (`ip -s link`, `ethtool -S`), cable, and duplicate addresses on the rail.",
          "a bad cable, a full queue, or an address that two machines have", "ip -s link show dev NETDEV"),
    Cause("probes_missed", "the tool missed packets that arrived according to the rail's counters",
          "Look at what slows the receiving node down (processors, another load), then validate again.",
          "the receiving node's processors were busy", "top -b -n 1"),
    Cause("path_mtu_small", "a packet of the declared MTU does not pass in this direction",
          "Check the MTU of the peer's netdev and of every switch port between; the mtu checks name "
          "the node. SIZE is the MTU less 28, with IPv6 less 48: 8972 or 8952 of 9000.",
          "a switch port or peer with a smaller MTU", "ping -M do -s SIZE -c 3 -I NETDEV PEER"),
    Cause("below_floor", "the result is below its floor",
          "Compare with the other rails and the other direction; then look at link speed, errors, CPU "
          "and shaping.",
          "what all slow tests have in common: processors, MTU, or a rate limit",
          "tc -s qdisc show dev NETDEV"),
    Cause("rail_slow", "the rail is slower than planned, and slower than the others",
          "Look at the port that is named and at its switch port: speed (`ethtool NETDEV`), error counters, "
          "the slot's width and speed (`lspci -vv -s PCI`), and rate limits (`tc qdisc show dev NETDEV`, "
          "policers and shapers of the switch); if the lower rate is intended, declare it as rate_gbps of "
          "this rail.",
          "its card, its cable, its PCIe slot, or a rate limit on the port", "tc -s qdisc show dev NETDEV"),
    Cause("node_slow", "the node is slow on all of its rails, and others are not",
          "Compare the named node with a fast one: governor and C-states, the card's NUMA node "
          "(/sys/class/net/NETDEV/device/numa_node), IOMMU and ACS, memory channels, firmware settings, "
          "other load (`top`); role node_tuning sets what software can set.",
          "the node itself: processors (governor, C-states), PCIe or NUMA", "cpupower frequency-info"),
    Cause("path_slow", "the path between two nodes is slow, and both are fast with others",
          "Follow the path from switch port to switch port (uplinks, a port that runs low, errors, a link of "
          "a bundle that ECMP or LAG puts these flows on); it is neither node's card.",
          "a switch port, an uplink or a cable between the two", "lldpctl NETDEV"),
    Cause("leaf_slow", "a leaf switch is slow for all nodes behind it, and other leaves of its rail are not",
          "Look at the named leaf switch: its uplinks (speed, errors, one that is missing), rate "
          "limits, buffers, pauses, QoS, firmware; compare with a leaf of the same rail that is fast.",
          "the leaf's uplinks, or rate limits, buffers and pauses of its ports", "lldpctl NETDEV"),
    Cause("switch_slow", "the rail is slow for all of its nodes, and other rails are not",
          "Look at the switch that the rail's cables end at: speed and rate limits of its ports, buffers, "
          "pauses, QoS, firmware; if the lower rate is intended, declare it as rate_gbps of this rail.",
          "the rail's switch: rate limits, buffers, pauses, or the speed of its ports", "lldpctl NETDEV"),
    Cause("above_ceiling",
          "the result is above the physical limit of this link, so it was not measured on this link",
          "Look at the counters: the traffic took another path, or the declared rate is wrong.",
          "traffic that took another path, or a declared rate that is too low",
          "ip route get PEER from ADDRESS"),
    Cause("too_slow", "the latency is above the ceiling that the site sets",
          "Compare with the other rails and the other direction; then look at CPU governor, C-states "
          "and other load.",
          "the processors: governor, C-states or another load", "cpupower frequency-info"),
    Cause("worse_than_baseline", "the result is worse than the saved baseline of the same link",
          "`railyard compare` the baseline's run with this one: it shows what else differs (firmware, "
          "driver, settings, cabling); fix it, or save a new baseline if the change is intended.",
          "a change since the baseline: firmware, driver, settings, cabling",
          "railyard compare BASELINE_RUN RUN"),
    Cause("baseline_lost", "the baseline of this run is missing from its folder, or was changed",
          "Restore baseline.json from a copy of the run and judge again, or validate again.",
          "a file of the run folder was truncated", "railyard judge RUN"),
    Cause("stands_apart", "the result is far worse than those of comparable tests in this run",
          "Compare with the comparable tests in the report's table of the check: if one rail of one node is "
          "slow, look at its card, slot or cable; if one node, at its processor (governor, NUMA node, other "
          "load); if one rail, at its switch.",
          "one rail of one node: card, slot or cable; one node: its processors", "ethtool -S NETDEV"),
    Cause("attempt_missing", "rows are missing of a second attempt at a test that looked bad",
          "Restore results.jsonl from a copy of the run and judge again, or validate again.",
          "a file of the run folder was truncated", "railyard judge RUN"),
    Cause("unsteady", "too many tests were good only when they were measured again",
          "Look for intermittent problems: other load on the nodes (`top`, cron), a cable or transceiver "
          "(`ethtool -m NETDEV`), pauses (`ethtool -S NETDEV`); then validate again.",
          "an intermittent load, or a cable with loose contact", "top -b -n 1"),
    Cause("part_unmeasured", "a part of the sum is not measured and proven",
          "Fix that part first, as its verdict explains.",
          "see the other verdicts of the same rail", "railyard judge RUN"),
    Cause("samples_sparse", "the rail's counters were not read often enough to add the rails up",
          "The node was too busy; see what else runs on it, and validate again.",
          "the node's processors were busy", "top -b -n 1"),
    Cause("window_short", "less than half of the planned time was measured",
          "The node was too busy; see what else runs on it, and validate again.",
          "the node's processors were busy", "top -b -n 1"),
    Cause("windows_apart", "the rails did not run at the same time for long enough to be added up",
          "Validate again on quieter nodes, or measure longer (fabric_policy.iperf3_duration_s).",
          "the nodes' processors were busy", "top -b -n 1"),
)  # fmt: skip
