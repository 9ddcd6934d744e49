# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Summaries of many nodes: each item once, with the option that confirms it."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import node_summary

ITEM = {"topic": "nvidia_driver", "what": "load driver 580", "why": "570 is loaded"}


@pytest.mark.parametrize(
    ("needs", "says"),
    [
        ("reboot", "railyard_allow_reboot=true"),
        ("module_restart", "allow_restart=true"),
        ("consent:nvidia_driver_allow_restart", "-e nvidia_driver_allow_restart=true"),
    ],
)
def test_what_waits_names_its_confirmation(needs, says):
    [line] = node_summary.describe_waits([{**ITEM, "needs": needs}])
    assert line.startswith("nvidia_driver: load driver 580: 570 is loaded. Confirm with ")
    assert says in line


def test_nodes_that_say_the_same_are_folded():
    same = ["a: b"]
    text = node_summary.fold_nodes(
        {**{f"gpu{n:03}": same for n in (1, 2, 3)}, "gpu004": [], "gpu005": ["c"], "gpu006": None}
    )
    assert text[:4] == ["gpu[001-003]:", "  a: b", "gpu005:", "  c"]
    assert text[4].startswith("gpu006: not checked")
    assert len(text) == 5


def test_no_finding_is_no_line():
    assert node_summary.fold_nodes({"gpu001": [], "gpu002": []}) == []
    assert (
        node_summary.describe_driver_plan({"install": [], "remove": [], "problem": None, "needs": []}) == []
    )
    assert node_summary.describe_uninstall({"remove_packages": [], "remove_folders": ["/etc/railyard"]}) == []


def test_a_note_of_a_driver_plan_is_a_line_of_its_own():
    assert node_summary.describe_driver_plan({"needs": ["a reboot"], "notes": ["nothing for RDMA"]}) == [
        "afterwards: a reboot",
        "nothing for RDMA",
    ]


def test_a_driver_plan_says_versions_removals_and_what_apt_does_not_know():
    lines = node_summary.describe_driver_plan(
        {
            "install": [
                {"name": "rdma-core", "from": None, "to": "44.0-2"},
                {"name": "libibumad3", "from": None, "to": "44.0-3"},
                {"name": "x", "from": "1", "to": "2"},
            ],
            "remove": ["mlnx-ofed-kernel-dkms"],
            "problem": "Unable to locate package doca-ofed",
            "missing": ["doca-ofed"],
            "needs": ["a reboot, since a kernel is installed"],
            "refused": ["apt would remove y. Fix: allow it"],
        }
    )
    assert lines == [
        "apt installs rdma-core 44.0-2, libibumad3 44.0-3",
        "apt moves x from 1 to 2",
        "apt REMOVES mlnx-ofed-kernel-dkms",
        "apt cannot plan doca-ofed yet: Unable to locate package doca-ofed",
        "REFUSED: apt would remove y. Fix: allow it",
        "afterwards: a reboot, since a kernel is installed",
    ]


def test_an_uninstall_plan_says_what_stays_and_why():
    lines = node_summary.describe_uninstall(
        {
            "by_roles": ["node_tuning: the recorded governor"],
            "remove_packages": ["iperf3", "libiperf0"],
            "keep_packages": [{"name": "libverbs", "why": "needed by openmpi"}],
            "unhold": ["driver"],
            "moved_packages": [{"name": "driver", "was": "1", "is": "2"}],
            "gone_packages": [{"name": "old", "was": "3"}],
            "remove_files": ["/etc/railyard/nccl.env"],
            "restore_files": [{"path": "/etc/nccl.conf"}],
            "keep_files": [{"path": "/etc/x", "why": "somebody else has written it since"}],
            "units": [{"unit": "iperf3.service"}],
            "needs": ["a restart of its modules or a reboot, since x-dkms goes"],
        }
    )
    assert len(lines) == 11
    assert "package old 3 was replaced and does not come back: install it again by hand" in lines
    assert lines[-1] == "afterwards: a restart of its modules or a reboot, since x-dkms goes"
    assert "apt purges iperf3, libiperf0" in lines
    assert "package libverbs stays: needed by openmpi" in lines
    assert "package driver stays at 2; it was 1" in lines
