"""What VMs are made from: a disk with Debian on it, its kernel and its initramfs, in a folder per recipe.

The folder `.lab/.images/SUITE-HASH` outlives the labs; `railyard lab down --images` removes those that no
node's disk lies on.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils.atomic_files import read_json

from railyard.lab import bootstrap, naming
from railyard.lab.apt import UBUNTU_SUITES, AptSettings
from railyard.lab.nodes import cached_packages, vm_loader
from railyard.lab.process import CommandError, LabError, tied
from railyard.lab.topology import Image

# Nothing here that a role installs.
_PACKAGES = ("initramfs-tools", "lz4", "python3-apt")
# The full kernel: Debian's cloud flavour has no rdma_rxe. Ubuntu has one kernel, and rdma_rxe in a package
# that is named after its release.
_KERNEL = {True: "linux-image-virtual", False: "linux-image-amd64"}
_EXTRA_MODULES = (
    'cp /etc/resolv.conf "$1"/etc/resolv.conf',
    'chroot "$1" apt-get install --yes --no-install-recommends linux-modules-extra-"$(ls "$1"/lib/modules)"',
)
_DISK_BYTES = 6 * 2**30  # sparse
# Units that take seconds of an emulated boot and do nothing for a node that lives for an hour.
_MASKED_UNITS = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty.target",
)
# systemd runs every generator at boot and at each `daemon-reload`. These look for what no node has: encrypted
# or foreign partitions, a hibernated system, terminals.
_MASKED_GENERATORS = (
    "systemd-cryptsetup-generator",
    "systemd-getty-generator",
    "systemd-gpt-auto-generator",
    "systemd-hibernate-resume-generator",
    "systemd-integritysetup-generator",
    "systemd-veritysetup-generator",
)
# Only what finds the root: the rest of the modules come from there.
_INITRAMFS = "MODULES=list\nCOMPRESS=lz4\n"
_INITRAMFS_HOOK = """\
#!/bin/sh
[ "$1" = prereqs ] && exit 0
. /usr/share/initramfs-tools/hook-functions
manual_add_modules virtio_pci virtio_blk ext4
"""
# Lays the node's own files over its root before systemd starts: what generators and udev read is there in
# time. Once for each seed, so that a reboot brings back nothing that was changed since.
_SEED_SCRIPT = """\
#!/bin/sh
[ "$1" = prereqs ] && exit 0
for _ in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/vdb ] && break; sleep 0.3; done
chroot "${rootmnt}" /usr/local/sbin/railyard-lab-seed < /dev/vdb ||
  echo "railyard-lab: the node's own files could not be laid over its root" > /dev/console
"""
_SEED = """\
#!/bin/sh
# Standard input: the seed, a tar. Called in the initramfs, with nothing mounted but the root.
set -e
PATH=/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p /var/lib/railyard-lab
cd /var/lib/railyard-lab
cat > seed.new
if ! cmp -s seed.new seed; then
  tar -xf seed.new -C /
  mv seed.new seed
fi
rm -f seed.new
"""
_EARLY_FILES = (
    ("/etc/initramfs-tools/conf.d/railyard-lab", 0o644, _INITRAMFS),
    ("/etc/initramfs-tools/hooks/railyard-lab", 0o755, _INITRAMFS_HOOK),
    ("/etc/initramfs-tools/scripts/local-bottom/railyard-lab", 0o755, _SEED_SCRIPT),
)
_FILES = (*bootstrap.COMMON_FILES, ("/usr/local/sbin/railyard-lab-seed", 0o755, _SEED))
# As cloud images do, it comes with python3-apt; and with the lists of the day it was made, since to fetch and
# sort them takes an emulated node most of a minute. An installation fetches outdated lists again.
_KEEP_LISTS = ("--skip=cleanup/apt",)
_SETUP = (
    *bootstrap.COMMON_SETUP,
    'chroot "$1" systemctl mask ' + " ".join(_MASKED_UNITS),
    'mkdir -p "$1"/etc/systemd/system-generators',
    *(f'ln -s /dev/null "$1"/etc/systemd/system-generators/{name}' for name in _MASKED_GENERATORS),
    'rm -f "$1"/var/cache/apt/archives/*.deb',
)
_INDEX = ('chroot "$1" apt-cache gencaches',)


def recipe(image: Image, settings: AptSettings) -> bootstrap.Recipe:
    """Return what the image is made of."""
    loader = vm_loader if image.boot_loader else None
    ubuntu = image.suite in UBUNTU_SUITES
    own = {*_PACKAGES, _KERNEL[ubuntu]}
    packages = tuple(sorted({*image.packages, *own, *(loader.PACKAGES if loader else ())}))
    cached = image.cached_packages
    files = _FILES + cached_packages.files(cached) + (loader.FILES if loader else ())
    setup = (_EXTRA_MODULES if ubuntu else ()) + _SETUP + cached_packages.setup(cached) + _INDEX
    setup += loader.SETUP if loader else ()
    return bootstrap.Recipe(image.suite, packages, settings, files, setup, _EARLY_FILES, _KEEP_LISTS)


def tag(image: Image, settings: AptSettings) -> str:
    """Return the image's name, whose last part is the hash of its recipe."""
    return f"{image.suite}-{recipe(image, settings).digest()}"


def folder_of(name: str) -> Path:
    """Return the folder of an image: base.qcow2, vmlinuz, initrd, loader.img where it has a boot loader."""
    return naming.vm_images() / name


def ensure(image: Image, settings: AptSettings, say: Callable[[str], None]) -> str:
    """Return the image's name, building it first when it is not there; see `bootstrap.ensure`."""
    name = tag(image, settings)

    def build(workshop: Path) -> None:
        root, made = workshop / "root", workshop / "made"
        bootstrap.make(recipe(image, settings), "directory", root, workshop, say)
        made.mkdir(mode=0o755)
        say("making the disk")
        for part, pattern in (("vmlinuz", "vmlinuz-*"), ("initrd", "initrd.img-*")):
            shutil.copyfile(_only(root / "boot", pattern), made / part)
        vm_loader.write(root, made)
        raw = workshop / "disk.raw"
        with raw.open("wb") as file:
            file.truncate(_DISK_BYTES)
        _make(["mke2fs", "-q", "-t", "ext4", "-d", str(root), str(raw)])
        _make(["qemu-img", "convert", "-q", "-O", "qcow2", str(raw), str(made / "base.qcow2")])
        naming.vm_images().mkdir(parents=True, exist_ok=True)
        os.rename(made, folder_of(name))  # whole or not at all

    word = f"building the VMs' image ({image.suite} with its kernel, once; about a minute)"
    return bootstrap.ensure(name, folder_of(name).is_dir, build, word, say)


def remove_unused() -> list[str]:
    """Remove the images of this checkout that no node's disk lies on; return their names."""
    used = {used_by(path) for path in naming.lab_root().glob("*/nodes/*/vm.json")}
    there = [path for path in naming.vm_images().glob("*") if path.is_dir()]
    unused = sorted(path for path in there if path.name not in used)
    for path in unused:
        shutil.rmtree(path)
    return [path.name for path in unused]


def used_by(record: Path) -> str:
    """Return the image that a VM's record names, or "" where it cannot be read."""
    return str((read_json(str(record)) or {}).get("image", ""))


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise LabError(f"the VM image should hold one /boot/{pattern}, and holds {len(found)}")
    return found[0]


def _make(call: list[str]) -> None:
    """Run a program that makes a part of the image."""
    with tied(call) as process:
        said = process.communicate()[1]
    if process.returncode != 0:
        raise CommandError(call, process.returncode, said.decode(errors="replace"))
