# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernel GRUB takes, by its manual's rules for `default`, and what depmod knows for it."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import headers as kernel_headers
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import next_boot
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.node import grub_cfg
from support.nodes.files import write

OLD, NEW = "6.1.0-56-amd64", "6.1.0-57-amd64"
# The parts that decide, as grub-mkconfig 2.06 lays them out.
HEADER = """\
if [ -s $prefix/grubenv ]; then
  set have_grubenv=true
  load_env
fi
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="DEFAULT"
fi
function savedefault {
  if [ -z "${boot_once}" ]; then
    saved_entry="${chosen}"
    save_env saved_entry
  fi
}
"""
MENU = """\
function gfxmode {
\tset gfxpayload="${1}"
}
menuentry 'Debian GNU/Linux' --class debian --class os $menuentry_id_option 'gnulinux-simple-ab12' {
\tload_video
\tif [ x$grub_platform = xxen ]; then insmod xzio; insmod lzopio; fi
\tlinux\t/boot/vmlinuz-6.1.0-57-amd64 root=UUID=ab12 ro  quiet
\tinitrd\t/boot/initrd.img-6.1.0-57-amd64
}
submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option 'gnulinux-advanced-ab12' {
\tmenuentry 'Debian GNU/Linux, with Linux 6.1.0-57-amd64' $menuentry_id_option 'gnulinux-6.1.0-57-ab12' {
\t\tlinux\t/boot/vmlinuz-6.1.0-57-amd64 root=UUID=ab12 ro  quiet
\t}
\tmenuentry 'Debian GNU/Linux, with Linux 6.1.0-56-amd64' $menuentry_id_option 'gnulinux-6.1.0-56-ab12' {
\t\tlinux\t/boot/vmlinuz-6.1.0-56-amd64 root=UUID=ab12 ro  quiet
\t}
}
if [ "$grub_platform" = "efi" ]; then
\tmenuentry 'Somebody'\\''s > choice' $menuentry_id_option 'own' {
\t\tlinuxefi /vmlinuz-6.8.0-60-generic root=/dev/sda2
\t}
fi
menuentry 'Memory test' {
\tlinux16 /boot/memtest86+x64.bin
}
"""


@pytest.fixture
def node(tmp_path):
    class Node:
        root = str(tmp_path)

        def write(self, path, text=""):
            write(tmp_path, path, text)

        def grub(self, default="0", **environment):
            self.write("boot/grub/grub.cfg", HEADER.replace("DEFAULT", default) + MENU)
            lines = "".join(f"{name}={value}\n" for name, value in environment.items())
            self.write("boot/grub/grubenv", "# GRUB Environment Block\n" + lines + "#" * 60)

        def kernel(self, release, modules=(), own=("kernel/drivers/net/virtio_net.ko",), headers=False):
            paths = [f"{path}.xz" for path in own] + list(modules)
            for path in paths:
                self.write(f"lib/modules/{release}/{path}", "x")
            self.write(f"lib/modules/{release}/modules.dep", "".join(f"{path}: a b\n" for path in paths))
            self.write(f"lib/modules/{release}/modules.order", "".join(f"{path}\n" for path in own))
            if headers:
                (tmp_path / f"lib/modules/{release}/build").mkdir()

    return Node()


@pytest.mark.parametrize(
    ("default", "environment", "kernel"),
    [
        ("0", {}, NEW),
        ("1>1", {}, OLD),
        ("1>0", {}, NEW),
        ("Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux 6.1.0-56-amd64", {}, OLD),
        ("gnulinux-advanced-ab12>gnulinux-6.1.0-56-ab12", {}, OLD),
        ("Somebody's >> choice", {}, "6.8.0-60-generic"),
        ("own", {}, "6.8.0-60-generic"),
        ("2", {}, "6.8.0-60-generic"),
        # What is not there is the first entry.
        ("9", {}, NEW),
        ("gone", {}, NEW),
        ("gnulinux-advanced-ab12>gone", {}, NEW),
        ("${saved_entry}", {"saved_entry": "gnulinux-advanced-ab12>gnulinux-6.1.0-56-ab12"}, OLD),
        ("${saved_entry}", {}, NEW),
        # What is saved counts only where the default says so; grub-reboot always, once.
        ("0", {"saved_entry": "1>1"}, NEW),
        ("0", {"next_entry": "1>1"}, OLD),
        ("${saved_entry}", {"saved_entry": "1>1", "next_entry": "0"}, NEW),
    ],
)
def test_grub_takes(node, default, environment, kernel):
    node.grub(default, **environment)
    assert next_boot.next_kernel(node.root) == (kernel, "grub")


@pytest.mark.parametrize("default", ["1", "3", "${somebody_else}"])
def test_where_grub_does_not_tell_the_newest_kernel_is_assumed(node, default):
    # A submenu that waits, a memory test, a variable of somebody's script.
    node.grub(default)
    for release in (OLD, NEW, "6.1.0-9-amd64"):
        node.write(f"boot/vmlinuz-{release}")
        node.write(f"boot/initrd.img-{release}")
    assert next_boot.next_kernel(node.root) == (NEW, "newest")


def test_two_defaults_are_none():
    menu = grub_cfg.parse_menu(HEADER.replace("DEFAULT", "0") + 'set default="1>1"\n' + MENU)
    assert next_boot.chosen_image(menu, {}) is None
    assert next_boot.chosen_image(menu, {"next_entry": "1>1"}) == f"/boot/vmlinuz-{OLD}"


def test_a_menu_that_does_not_look_for_grub_reboots_word_does_not_follow_it():
    menu = grub_cfg.parse_menu('set default="0"\n' + MENU)
    assert next_boot.chosen_image(menu, {"next_entry": "1>1"}) == f"/boot/vmlinuz-{NEW}"


def test_without_a_boot_loader_or_a_kernel_nothing_is_reported(node):
    assert next_boot.next_kernel(node.root) == (None, None)
    node.write("boot/config-6.1.0-56-amd64")
    assert next_boot.next_kernel(node.root) == (None, None)


@pytest.mark.parametrize(
    "text", ["", "}\n}\n", "menuentry 'a {\n linux /vmlinuz-1\n}\n", 'set default="0"\n', "menuentry {\n}\n"]
)
def test_a_torn_menu_is_no_error(text):
    assert next_boot.chosen_image(grub_cfg.parse_menu(text), {}) is None


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("/boot/vmlinuz-6.1.0-56-amd64", OLD),
        ("/@/boot/vmlinuz-6.8.0-60-generic.efi.signed", "6.8.0-60-generic"),
        ("/vmlinux-6.1.0-9-arm64", "6.1.0-9-arm64"),
        ("/vmlinuz", None),
        ("/boot/memtest86+x64.bin", None),
        (None, None),
    ],
)
def test_the_files_name_tells_the_release(image, release):
    assert next_boot.release_of(image) == release


def test_modules_from_outside_are_distinguished_from_the_kernels_own(node):
    node.kernel(
        OLD,
        modules=["updates/dkms/railyard-probe.ko.xz", "extra/gdrdrv.ko", "kernel/nvidia-580/nvidia.ko.zst"],
        own=("kernel/drivers/net/virtio_net.ko", "kernel/drivers/net/mlx5_core.ko"),
    )
    assert next_boot.read_modules(node.root, OLD) == ({"railyard_probe", "gdrdrv"}, {"nvidia"})
    assert next_boot.read_modules(node.root, NEW) == (set(), set())


def test_what_depmod_or_the_kernel_does_not_list_is_no_module_from_outside(node):
    node.kernel(OLD)
    node.write(f"lib/modules/{OLD}/modules.dep", "updates/dkms/railyard_probe.ko:\n")  # gone since
    assert next_boot.read_modules(node.root, OLD).outside == set()
    node.kernel(NEW, own=())
    node.write(f"lib/modules/{NEW}/modules.dep", "kernel/a.ko:\n")
    node.write(f"lib/modules/{NEW}/kernel/a.ko", "x")
    assert next_boot.read_modules(node.root, NEW).added == set()


def test_the_guard_gets_what_the_node_shows(node):
    node.grub()
    node.kernel(OLD, ["updates/dkms/railyard_probe.ko", "kernel/nvidia/nvidia.ko", "kernel/zfs/zfs.ko"])
    node.kernel(NEW, ["updates/dkms/other.ko"])
    node.write("proc/modules", "nvidia 1 0 - Live 0x0 (POE)\nvirtio_net 1 0 - Live 0x0\n")
    assert next_boot.look(node.root, OLD) == {
        "running": OLD,
        "next": NEW,
        "told_by": "grub",
        # The kernel's folder has zfs as well, and it is not loaded.
        "modules": ["nvidia", "railyard_probe"],
        "next_modules": ["other"],
        "next_has_headers": False,
    }
    node.kernel(NEW, ["updates/dkms/railyard_probe.ko", "kernel/nvidia/nvidia.ko"], headers=True)
    told = next_boot.look(node.root, OLD)
    assert (told["next_modules"], told["next_has_headers"]) == (["nvidia", "railyard_probe"], True)


def test_headers_that_have_gone_are_none(node, tmp_path):
    node.kernel(NEW)
    link = tmp_path / f"lib/modules/{NEW}/build"
    link.symlink_to("/nowhere/linux-headers")
    assert not kernel_headers.are_there(node.root, NEW)


def test_a_node_that_tells_nothing(node):
    untold = {"next": None, "told_by": None, "modules": [], "next_modules": [], "next_has_headers": False}
    assert next_boot.look(node.root, OLD) == {"running": OLD, **untold}
