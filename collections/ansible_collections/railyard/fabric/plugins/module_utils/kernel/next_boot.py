# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernel a node boots next, and which modules from outside the kernel it has for it.

A driver that DKMS builds, or that comes in a package of its own, is there for one kernel and missing for the
next whose headers were not installed: dpkg and DKMS pass over that without an error. `root` is `/` on a node
and a folder in the tests.
"""

from __future__ import annotations

import os
import re
import typing as t

from .. import node_files
from ..parsers.node import grub_cfg
from . import headers

_GRUB = "boot/grub/grub.cfg"
_GRUB_ENVIRONMENT = "boot/grub/grubenv"
_IMAGE = re.compile(r"vmlinu[xz]-(\S+?)(?:\.efi\.signed)?\Z")
_COMPRESSED = re.compile(r"\.(?:gz|xz|zst)\Z")
_SAVED = ("${saved_entry}", "$saved_entry")
# One > leads into a submenu, two are the character itself.
_STEP = re.compile(r"(?<!>)>(?!>)")


class Next(t.NamedTuple):
    """The kernel that boots next.

    Attributes:
        kernel: Its release; None where it is unknown.
        told_by: `grub`, or `newest` where no boot loader shows it and the newest kernel of /boot is assumed.
    """

    kernel: str | None
    told_by: str | None


class Modules(t.NamedTuple):
    """The modules of one kernel on disk, by the names that modprobe knows.

    Attributes:
        outside: From outside the kernel's own tree: DKMS's and the vendors' (updates, extra, ...).
        added: In the kernel's tree, and not of the kernel's own list: a distribution's prebuilt drivers.
    """

    outside: frozenset[str]
    added: frozenset[str]


_NONE = Modules(frozenset(), frozenset())


def next_kernel(root: str) -> Next:
    """Return which kernel boots next, unless a user chooses another at the console."""
    text = node_files.read_text(os.path.join(root, _GRUB))
    if text is not None:
        environment = grub_cfg.parse_environment(
            node_files.read_text(os.path.join(root, _GRUB_ENVIRONMENT)) or ""
        )
        kernel = release_of(chosen_image(grub_cfg.parse_menu(text), environment))
        if kernel is not None:
            return Next(kernel, "grub")
    names = node_files.list_names(os.path.join(root, "boot"))
    releases = [release for release in map(release_of, names) if release is not None]
    return Next(max(releases, key=_by_age), "newest") if releases else Next(None, None)


def chosen_image(menu: grub_cfg.Menu, environment: t.Mapping[str, str]) -> str | None:
    """Return the kernel's file of GRUB's default entry; None where it is unknown.

    Args:
        menu: What grub.cfg says.
        environment: What grubenv says: `next_entry` by grub-reboot, for one boot, and `saved_entry`.
    """
    if menu.obeys_next and environment.get("next_entry"):
        default = environment["next_entry"]
    elif len(menu.defaults) == 1:
        default = menu.defaults[0]
    else:
        return None
    if default in _SAVED:
        default = environment.get("saved_entry", "")
    return None if "$" in default else _image_at(menu.entries, _STEP.split(default))


def release_of(image: str | None) -> str | None:
    """Return the release of a kernel by its file's name, which Debian and Ubuntu end with it."""
    found = _IMAGE.match(os.path.basename(image)) if image else None
    return found.group(1) if found else None


def read_modules(root: str, kernel: str) -> Modules:
    """Return the modules that depmod knows for a kernel and that are not the kernel's own."""
    folder = os.path.join(root, "lib/modules", kernel)
    order = node_files.read_text(os.path.join(folder, "modules.order")) or ""
    own = {line.strip() for line in order.splitlines()}
    outside, added = set(), set()
    for path in node_files.list_modules(root, kernel):
        if not os.path.isfile(os.path.join(folder, path)):
            continue  # depmod once saw it, and it has gone since
        if not path.startswith("kernel/"):
            outside.add(module_name(path))
        # Without the list it is unknown which modules in the kernel's tree are its own.
        elif own and _COMPRESSED.sub("", path) not in own:
            added.add(module_name(path))
    return Modules(frozenset(outside), frozenset(added))


def loaded(root: str) -> frozenset[str]:
    """Return the names of the loaded modules."""
    lines = (node_files.read_text(os.path.join(root, "proc/modules")) or "").splitlines()
    return frozenset(line.split(" ", maxsplit=1)[0] for line in lines)


def module_name(path: str) -> str:
    """Return a module's name by its file: mlx5_core for updates/dkms/mlx5-core.ko.zst."""
    return os.path.basename(path).split(".", maxsplit=1)[0].replace("-", "_")


def look(root: str, running: str) -> dict[str, t.Any]:
    """Read what `plugin_utils/reboot/guard.py` judges.

    Args:
        root: Where the node's files are.
        running: The running kernel's release.
    """
    found = next_kernel(root)
    here = read_modules(root, running)
    there = _NONE if found.kernel is None else read_modules(root, found.kernel)
    return {
        "running": running,
        "next": found.kernel,
        "told_by": found.told_by,
        # A prebuilt driver that nothing has loaded is not missed.
        "modules": sorted(here.outside | (here.added & loaded(root))),
        "next_modules": sorted(there.outside | there.added),
        "next_has_headers": found.kernel is not None and headers.are_there(root, found.kernel),
    }


def _image_at(entries: t.Sequence[grub_cfg.Entry], steps: t.Sequence[str]) -> str | None:
    if not entries:
        return None
    entry = entries[_place(entries, steps[0].replace(">>", ">"))]
    if entry.entries is None:
        return entry.image
    # A submenu without a word about what is in it waits at its own menu.
    return _image_at(entry.entries, steps[1:]) if len(steps) > 1 else None


def _place(entries: t.Sequence[grub_cfg.Entry], step: str) -> int:
    """Return the place that GRUB takes: by number, else by title or id; the first where there is none."""
    if step.isdigit():
        return int(step) if int(step) < len(entries) else 0
    for place, entry in enumerate(entries):
        if step in (entry.title, entry.name):
            return place
    return 0


def _by_age(release: str) -> list[tuple[int, int, str]]:
    """Order releases as `sort -V` does: numbers by value, what is between them as text."""
    parts = re.findall(r"[0-9]+|[^0-9]+", release)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]
