# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A parameter in the running kernel's command line, and in GRUB's menu."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import boot_parameter

PARAMETER = "iommu.passthrough=1"
# As grub-mkconfig of Debian 12 writes an entry; written by hand to that form.
MENU = """\
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-1' {
\techo\t'Loading Linux 6.1.0-28-amd64 %s ...'
\tlinux\t/boot/vmlinuz-6.1.0-28-amd64 root=UUID=1 ro quiet %s
\tinitrd\t/boot/initrd.img-6.1.0-28-amd64
}
"""


@pytest.fixture
def node(tmp_path):
    def make(command_line="ro quiet", menu=None, updater=False):
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/cmdline").write_text(command_line + "\n")
        if menu is not None:
            (tmp_path / "boot/grub").mkdir(parents=True)
            (tmp_path / "boot/grub/grub.cfg").write_text(menu)
        if updater:
            (tmp_path / "usr/sbin").mkdir(parents=True)
            (tmp_path / "usr/sbin/update-grub").write_text("#!/bin/sh\n")
        return boot_parameter.look(str(tmp_path), PARAMETER)

    return make


def test_a_node_that_was_booted_with_it(node):
    found = node(f"BOOT_IMAGE=/boot/vmlinuz ro {PARAMETER}", MENU % ("", PARAMETER), updater=True)
    assert found == {"runs": True, "in_menu": True, "can_write": True}


def test_a_parameter_waits_in_the_menu(node):
    assert node(menu=MENU % ("", PARAMETER), updater=True) == {
        "runs": False,
        "in_menu": True,
        "can_write": True,
    }


@pytest.mark.parametrize("other", [f"{PARAMETER}0", f"x{PARAMETER}", "iommu.passthrough=0", ""])
def test_what_only_looks_like_it_or_is_elsewhere_does_not_count(node, other):
    found = node(f"ro {other}", MENU % (PARAMETER, other))
    assert found == {"runs": False, "in_menu": False, "can_write": False}


def test_a_node_without_grub_has_no_menu(node):
    assert node() == {"runs": False, "in_menu": False, "can_write": False}
