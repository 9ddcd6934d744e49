"""A VM that boots as a server does: GRUB takes the kernel that the node's own /boot says, an update included.

GRUB's first part is on a separate small disk, which the VM starts from; that finds the node's disk,
which is one file system without partitions, and reads the menu there. The menu is the node's: `update-grub`
after an update of the kernel, `grub-reboot` and `grub-set-default` do what they do on a server.
"""

from __future__ import annotations

from pathlib import Path

from railyard.lab.nodes.vm_argv import KERNEL_OPTIONS, LOADER, ROOT

PACKAGES = ("grub-pc-bin", "grub2-common")
# The firmware reads nothing from a disk smaller than one cylinder: 16 heads, 63 sectors of 512 bytes.
_DISK_BYTES = 1024 * 1024
_MODULES = "/usr/lib/grub/i386-pc"
_FOLDER = "/boot/grub"
_CORE = f"{_FOLDER}/i386-pc/core.img"
# What the menu needs before it can load more from the node's disk.
_BUILT_IN = "biosdisk ext2 search search_fs_file normal serial terminal"
# A VM of the lab has no screen; left to its default terminal, which is one, GRUB was seen to hang.
_FIRST = f"""\
serial --unit=0 --speed=115200
terminal_output serial
terminal_input serial
search --no-floppy --set=root --file {_FOLDER}/grub.cfg
set prefix=($root){_FOLDER}
"""
# The console goes over the serial line, and no one is there to choose. The root is named as it is to
# a VM without a boot loader.
_DEFAULTS = f"""\
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX="{KERNEL_OPTIONS}"
GRUB_CMDLINE_LINUX_DEFAULT=""
GRUB_TERMINAL=serial
GRUB_SERIAL_COMMAND="serial --unit=0 --speed=115200"
GRUB_DISABLE_LINUX_UUID=true
GRUB_DISABLE_OS_PROBER=true
GRUB_DISABLE_RECOVERY=true
"""
# The menu until an update of a kernel makes the next one: grub-mkconfig finds no device under a folder.
_MENU = """\
set default="0"
set timeout=0
menuentry 'Debian GNU/Linux' {
	linux	/boot/vmlinuz-RELEASE ROOT OPTIONS
	initrd	/boot/initrd.img-RELEASE
}
""".replace("ROOT", ROOT).replace("OPTIONS", KERNEL_OPTIONS)
FILES = (
    ("/etc/default/grub", 0o644, _DEFAULTS),
    (f"{_FOLDER}/first.cfg", 0o644, _FIRST),
    (f"{_FOLDER}/grub.cfg", 0o644, _MENU),
)
SETUP = (
    'release=$(basename "$1"/boot/vmlinuz-*) && '
    f'sed -i "s/RELEASE/${{release#vmlinuz-}}/" "$1"{_FOLDER}/grub.cfg',
    # Where grub-install would put them.
    f'mkdir -p "$1"{_FOLDER}/i386-pc && cp "$1"{_MODULES}/*.mod "$1"{_MODULES}/*.lst "$1"{_FOLDER}/i386-pc/',
    f'chroot "$1" grub-mkimage -O i386-pc -o {_CORE} -p {_FOLDER} -c {_FOLDER}/first.cfg {_BUILT_IN}',
    f'chroot "$1" grub-editenv {_FOLDER}/grubenv create',
)


def write(root: Path, folder: Path) -> None:
    """Make the disk that a VM starts from, where the root file system has a GRUB for it.

    Args:
        root: The root file system that `SETUP` was run in.
        folder: Where the disk is to lie.
    """
    core = root / _CORE.lstrip("/")
    if not core.exists():
        return
    # The first sector loads what follows it; where that is, both were built to know.
    data = (root / _MODULES.lstrip("/") / "boot.img").read_bytes() + core.read_bytes()
    (folder / LOADER).write_bytes(data.ljust(_DISK_BYTES, b"\0"))
