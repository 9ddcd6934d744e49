# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check whether a parameter of the kernel's command line is in use, and in GRUB's menu. Only reads.

Debian's and Ubuntu's grub-mkconfig read `/etc/default/grub.d/*.cfg` after `/etc/default/grub`, and
`update-grub` runs it; without that program something else manages the menu (systemd-boot, a network boot).
"""

from __future__ import annotations

import os
import re
import typing as t

from .. import node_files

_UPDATE_GRUB = "usr/sbin/update-grub"
_MENU = "boot/grub/grub.cfg"
_LINUX = re.compile(r"^\s*linux(?:16|efi)?\s+\S+(.*)$", re.M)


def look(root: str, parameter: str) -> dict[str, t.Any]:
    """Return where a parameter is.

    Args:
        root: `/`, or a folder that looks like it.
        parameter: Such as `iommu.passthrough=1`.

    Returns:
        `runs`: the running kernel was booted with it. `in_menu`: an entry of GRUB's menu has it. `can_write`:
        the menu can be generated here.
    """
    running = node_files.read_text(os.path.join(root, "proc/cmdline")) or ""
    entries = _LINUX.findall(node_files.read_text(os.path.join(root, _MENU)) or "")
    return {
        "runs": parameter in running.split(),
        "in_menu": any(parameter in entry.split() for entry in entries),
        "can_write": os.path.exists(os.path.join(root, _UPDATE_GRUB)),
    }
