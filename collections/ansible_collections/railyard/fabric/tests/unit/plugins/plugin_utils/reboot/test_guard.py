# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node is not rebooted into a kernel that lacks its driver, nor into one that was not announced."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.reboot.guard import announcement, refusals

OLD, NEW = "6.1.0-56-amd64", "6.1.0-57-amd64"


def reading(**changes):
    return {
        "running": OLD,
        "next": NEW,
        "told_by": "grub",
        "modules": ["nvidia", "nvidia_drm"],
        "next_modules": ["nvidia", "nvidia_drm"],
        "next_has_headers": True,
        **changes,
    }


def test_the_kernel_that_runs_boots_again():
    same = reading(next=OLD, next_modules=[])  # a reboot takes nothing away that was there before
    assert refusals(same) == []
    assert announcement(same) is None


def test_an_announced_kernel_with_the_drivers_boots():
    assert refusals(reading(), [NEW]) == []
    assert announcement(reading()) == (
        "kernel 6.1.0-56-amd64 runs, 6.1.0-57-amd64 boots next and has modules nvidia, nvidia_drm"
    )


def test_a_driver_without_headers_is_named_with_kernel_and_fix():
    (said,) = refusals(reading(next_modules=["nvidia_drm"], next_has_headers=False), [NEW])
    assert said.startswith(
        "kernel 6.1.0-57-amd64 boots next and lacks module nvidia, which kernel 6.1.0-56-amd64 has, and its "
        "headers are not there. Fix: "
    )
    assert "install linux-headers-6.1.0-57-amd64" in said
    assert '"railyard_reboot_modules_may_go": ["nvidia"]' in said


def test_a_build_that_failed_is_another_fix():
    (said,) = refusals(reading(next_modules=[]), [NEW])
    assert "lacks modules nvidia, nvidia_drm, which" in said
    assert "dkms autoinstall -k 6.1.0-57-amd64" in said
    assert "make.log" in said
    assert "linux-headers" not in said
    assert '"railyard_reboot_modules_may_go": ["nvidia", "nvidia_drm"]' in said


@pytest.mark.parametrize("may_go", [["nvidia", "nvidia_drm"], ["nvidia", "nvidia-drm"]])
def test_what_may_go_is_not_missed(may_go):
    assert refusals(reading(next_modules=[]), [NEW], may_go) == []


def test_a_kernel_that_was_not_announced_is_refused_before_the_reboot():
    (said,) = refusals(reading())
    assert said.startswith("kernel 6.1.0-57-amd64 boots next, and 6.1.0-56-amd64 is expected. Fix: ")
    assert '-e \'{"railyard_reboot_kernels": ["6.1.0-57-amd64"]}\'' in said


def test_an_announced_kernel_that_would_not_boot_is_refused():
    (said,) = refusals(reading(next=OLD), [NEW])
    assert said.startswith("kernel 6.1.0-56-amd64 boots next, and 6.1.0-57-amd64 is expected. Fix: ")


def test_both_reasons_come_at_once():
    assert len(refusals(reading(next_modules=[]))) == 2


def test_what_is_only_assumed_is_judged_after_the_reboot_but_for_the_driver():
    assumed = reading(told_by="newest")
    assert refusals(assumed) == []
    assert "(the newest one; there is no GRUB to read)" in announcement(assumed)
    assert len(refusals(reading(told_by="newest", next_modules=[]))) == 1


def test_where_nothing_tells_there_is_no_reason_but_it_is_reported():
    unknown = reading(next=None, told_by=None, next_modules=[], next_has_headers=False)
    assert refusals(unknown) == []
    assert announcement(unknown) == (
        "it is not known which kernel boots next, nor whether it has modules nvidia, nvidia_drm"
    )
    assert announcement(reading(next=None, told_by=None, modules=[], next_modules=[])) is None


def test_a_node_without_drivers_from_outside_has_none_to_lose():
    bare = reading(modules=[], next_modules=[], next_has_headers=False)
    assert refusals(bare, [NEW]) == []
    assert announcement(bare) == "kernel 6.1.0-56-amd64 runs, 6.1.0-57-amd64 boots next"
