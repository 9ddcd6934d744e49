# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the port of a VLAN.

A VLAN's netdev has no driver statistics (torvalds/linux net/8021q/vlan_dev.c: vlan_ethtool_ops): errors of
the cable, drops and pauses are counted by the port.
"""

from __future__ import annotations

import os

_LOWER = "lower_"


def port_of(netdev: str, sys_root: str = "/sys") -> str:
    """Return the netdev of a VLAN's port; the netdev itself if it is no VLAN.

    Args:
        netdev: the netdev.
        sys_root: where sysfs is.
    """
    folder = os.path.join(sys_root, "class/net", netdev)
    try:
        with open(os.path.join(folder, "uevent"), "rb") as handle:
            is_vlan = b"DEVTYPE=vlan" in handle.read(4096).split()
        lower = [name[len(_LOWER) :] for name in os.listdir(folder) if name.startswith(_LOWER)]
    except OSError:
        return netdev
    return lower[0] if is_vlan and len(lower) == 1 else netdev
