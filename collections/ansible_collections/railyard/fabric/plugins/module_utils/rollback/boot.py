# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A reset inside a change's window: two units that undo it at the next boot, before and after networkd.

The timer that rolls an unconfirmed change back ends with its boot. The units' links are written and removed
with the record; since nothing in this boot waits for them, systemd need not be reloaded.
"""

from __future__ import annotations

import contextlib
import os

from .. import atomic_files

SYSTEM_DIR = "/etc/systemd/system"
FILES_UNIT = "railyard-rail-network-boot.service"
RUNNING_UNIT = "railyard-rail-network-settle.service"
_WANTED_BY = {FILES_UNIT: "sysinit.target.wants", RUNNING_UNIT: "multi-user.target.wants"}
_CONDITIONS = """ConditionPathExists=|{folder}/pending.json
ConditionPathExists=|{folder}/rolling_back.json
"""
_TEXTS = {
    # netplan's generator has run by now, on the new files; so they are generated again before networkd looks.
    FILES_UNIT: """[Unit]
Description=Undo a network change that a reset interrupted: files
DefaultDependencies=no
RequiresMountsFor={folder} /etc/netplan
After=systemd-remount-fs.service local-fs.target
Before=systemd-sysctl.service network-pre.target systemd-networkd.service sysinit.target shutdown.target
Wants=network-pre.target
Conflicts=shutdown.target
{conditions}
[Service]
Type=oneshot
ExecStart={python} {program} boot
TimeoutStartSec=120
""",
    # Type=exec: whatever it waits for, the boot does not wait for it.
    RUNNING_UNIT: """[Unit]
Description=Undo a network change that a reset interrupted: running network
After=systemd-networkd.service network.target {files_unit}
{conditions}
[Service]
Type=exec
ExecStart={python} {program} settle
""",
}


def arm(folder: str, python: str, program: str) -> None:
    """Write both units and have the next boot want them, on disk before this returns.

    Raises:
        OSError: they cannot be written.
    """
    conditions = _CONDITIONS.format(folder=folder)
    for name, text in _TEXTS.items():
        words = {"folder": folder, "python": python, "program": program, "files_unit": FILES_UNIT}
        unit = text.format(conditions=conditions, **words)
        atomic_files.write_file(os.path.join(SYSTEM_DIR, name), unit, 0o644)
        wants = os.path.join(SYSTEM_DIR, _WANTED_BY[name])
        os.makedirs(wants, mode=0o755, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.symlink(f"../{name}", os.path.join(wants, name))
        atomic_files.sync_folder(wants)


def disarm() -> None:
    """Remove the units and their links; needs no space, and it does no harm when they are not there."""
    for name, wants in _WANTED_BY.items():
        for folder in (os.path.join(SYSTEM_DIR, wants), SYSTEM_DIR):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))
