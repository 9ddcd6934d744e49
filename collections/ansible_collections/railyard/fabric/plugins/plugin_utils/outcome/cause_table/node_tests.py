# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Causes found by tests that a node runs by itself."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.cause_table.cause import Cause

TABLE = (
    Cause("not_borne_out", "the kernel's own counters do not confirm what the tool reports for this node",
          "Read the row's `proof_reason`: if the counters show less than the tool, there is a cache between "
          "it and the device; if they show more, there is another load. Validate again while the node is "
          "idle.",
          "another load on the node", "top -b -n 1"),
    Cause("drive_stands_apart", "the result is far worse than those of comparable drives in this run",
          "Compare the drives in the report's table: one that is worn, full, hot, in a slower slot or "
          "rebuilding its RAID is slower than its peers; see `dmesg` for its errors.",
          "a drive that is worn, full, hot, or in a slower slot", "dmesg"),
    Cause("drive_differs", "the node reports other drives than most of its peers at the same mount",
          "Compare `lsblk` and `nvme list` with a peer's: a drive that reports no model or another size is "
          "failing or was exchanged. If the node is intended to differ, set thresholds "
          "(`fabric_policy.floors`) or declare its `expected_gpus` in a separate group.",
          "a drive that is failing, missing from its RAID or was exchanged", "lsblk"),
    Cause("drive_slot", "the drive's PCI Express link is trained below what drive and slot support",
          "Reseat the drive, and see `lspci -vv` (LnkSta against LnkCap) and `dmesg` for errors of its port.",
          "a drive or riser that is not seated well", "lspci -vv"),
    Cause("drive_failing", "a drive reports that it is failing",
          "Save its data and replace it; if only its temperature is named, improve its cooling. "
          "`smartctl -a` on the node shows more, including its serial number.",
          "a drive that is worn out or broken", "smartctl --scan"),
    Cause("drive_unread", "the health of a drive could not be queried",
          "Read the output of smartctl: a drive behind a RAID controller may need `-d megaraid,N`, one with "
          "SMART switched off `smartctl -s on`; set fabric_policy.storage_health: false if none can be "
          "queried.",
          "a RAID controller between smartctl and the drive", "smartctl --scan"),
    Cause("storage_not_mounted", "nothing is mounted at a path that fabric_policy.storage_mounts names",
          "Mount it, or take it from the list; a drive that is gone is not measured on the one below it.",
          "a drive that is missing, or was not mounted after a reboot", "df -h"),
    Cause("storage_no_device", "no drive of this node is below the mount",
          "Name a mount that is on a drive; tmpfs, overlay and network file systems are not, and btrfs and "
          "ZFS hide their devices.",
          "a file system in memory or over the network", "df -hT"),
    Cause("storage_full", "there is too little room below the mount for a scratch file",
          "Make room, or make fabric_policy.storage_file_bytes smaller.",
          "a file system that is nearly full", "df -h"),
    Cause("storage_refused", "no scratch file could be made below the mount",
          "Fix what the message names: a read-only mount, a quota, a file system without unnamed files.",
          "a file system that went read-only after an error", "dmesg"),
    Cause("memory_unfit", "memory bandwidth cannot be measured on this node",
          "Do what the message says: free memory on that NUMA node, or see why the kernel reports none.",
          "another program that holds the memory", "numactl --hardware"),
)  # fmt: skip
