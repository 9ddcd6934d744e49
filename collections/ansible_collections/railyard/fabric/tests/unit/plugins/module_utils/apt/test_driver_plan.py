# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the roles' transactions would do, put together, and what that needs afterwards."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils.apt import driver_plan
from ansible_collections.railyard.fabric.plugins.module_utils.apt.driver_plan import Planned
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.node.apt_get import Move

EMPTY = {"missing": [], "install": [], "remove": [], "problem": None, "refused": [], "needs": [], "notes": []}


def test_nothing_planned_is_an_empty_plan():
    assert driver_plan.put_together([]) == EMPTY
    assert driver_plan.put_together([Planned([], [], None, [])]) == EMPTY


def test_plans_of_two_roles_name_once_what_both_bring():
    first = Planned(
        ["doca-ofed=3.2.0"],
        [
            Move("old-driver-dkms", "5.1-1", None),
            Move("dkms", None, "3.0"),
            Move("doca-ofed", "3.1.0", "3.2.0"),
        ],
        None,
        ["no"],
    )
    second = Planned(["nvidia-x"], [Move("dkms", None, "3.0"), Move("libx:i386", None, "1")], None, ["no"])
    third = Planned(["cuda"], [], "no source has cuda. Fix: x", ["other"])
    plan = driver_plan.put_together([first, second, third])
    assert plan["missing"] == ["doca-ofed=3.2.0", "nvidia-x", "cuda"]
    assert plan["install"] == [
        {"name": "dkms", "from": None, "to": "3.0"},
        {"name": "doca-ofed", "from": "3.1.0", "to": "3.2.0"},
        {"name": "libx", "from": None, "to": "1"},
    ]
    assert plan["remove"] == ["old-driver-dkms"]
    assert (plan["problem"], plan["refused"]) == ("no source has cuda. Fix: x", ["no", "other"])


def test_what_a_role_does_not_do_is_noted():
    assert driver_plan.put_together([], ["", "nothing for RDMA"]) == {**EMPTY, "notes": ["nothing for RDMA"]}


def test_kernels_moved_drivers_and_drivers_that_go_need_something_afterwards():
    install = [
        {"name": "linux-image-6.1.0-56-amd64", "from": None, "to": "6.1.176-1"},
        {"name": "nvidia-kernel-dkms", "from": "535.261.03-1", "to": "535.309.01-1"},
        {"name": "libibverbs1", "from": "43", "to": "44.0-2"},
    ]
    kernel, moved, gone = driver_plan.needs(install, ["nvidia-dkms-570", "libcuda1"])
    assert kernel == "a reboot, since linux-image-6.1.0-56-amd64 is installed"
    assert "since nvidia-kernel-dkms changes its version" in moved
    assert "since nvidia-dkms-570 goes" in gone


def test_a_driver_that_was_not_there_needs_no_restart():
    assert driver_plan.needs([{"name": "nvidia-kernel-dkms", "from": None, "to": "535.309.01-1"}], []) == []


def test_what_a_request_does_not_name_is_not_queried():
    assert driver_plan.wish_of({}) == ([], {}, [], [], [], [])
    wish = driver_plan.wish_of({"pins": {"doca-ofed": 3.1}, "hold": ["doca-ofed"], "unhold": None})
    assert (wish.pins, wish.hold, wish.unhold) == ({"doca-ofed": "3.1"}, ["doca-ofed"], [])
