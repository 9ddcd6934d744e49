# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node may be rebooted into the kernel that boots next. Pure: what was read in, sentences out.

A kernel update whose headers were missing, or whose build failed, leaves no trace but a line in apt's log:
the node would come back without its driver. So it is checked before the reboot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: What module `boot_kernel_info` returned.
Reading = Mapping[str, Any]


def refusals(reading: Reading, announced: Sequence[str] = (), may_go: Sequence[str] = ()) -> list[str]:
    """Say why a node must not be rebooted.

    Args:
        reading: What module `boot_kernel_info` returned.
        announced: The kernels that wait to be booted; without any, the one that runs.
        may_go: Modules that the node may lose.

    Returns:
        One sentence per reason, with its fix; none when the node may be rebooted, or when nothing tells which
        kernel would boot.
    """
    kernel = reading.get("next")
    if kernel is None:
        return []
    problems = []
    missing = _missing(reading, may_go)
    if missing:
        problems.append(
            f"kernel {kernel} boots next and lacks {_named(missing)}, which kernel {reading['running']} has"
            f"{_mend(reading)} (what DKMS does not build comes in a package for that kernel); or boot "
            f"another kernel (grub-reboot, or remove this one); or, {_give_up(missing)}"
        )
    expected = list(announced) or [reading["running"]]
    # What is only assumed to boot next is looked at after the reboot.
    if kernel not in expected and reading.get("told_by") == "grub":
        problems.append(
            f"kernel {kernel} boots next, and {' or '.join(expected)} is expected. Fix: let that one boot "
            "(grub-reboot, grub-set-default; `apt-mark hold` keeps a new one away), or, where the new one is "
            f'meant: -e \'{{"railyard_reboot_kernels": ["{kernel}"]}}\''
        )
    return problems


def announcement(reading: Reading) -> str | None:
    """Say which kernel comes and with which drivers; None where the same one boots again."""
    kernel, modules = reading.get("next"), reading.get("modules") or []
    if kernel is None:
        if not modules:
            return None
        return f"it is not known which kernel boots next, nor whether it has {_named(modules)}"
    if kernel == reading["running"]:
        return None
    has = [name for name in modules if name in set(reading["next_modules"])]
    told = "" if reading.get("told_by") == "grub" else " (the newest one; there is no GRUB to read)"
    return f"kernel {reading['running']} runs, {kernel} boots next{told}" + (
        f" and has {_named(has)}" if has else ""
    )


def _missing(reading: Reading, may_go: Sequence[str]) -> list[str]:
    if reading["next"] == reading["running"]:
        return []
    there = {*reading["next_modules"], *(name.replace("-", "_") for name in may_go)}
    return [name for name in reading["modules"] if name not in there]


def _named(modules: Sequence[str]) -> str:
    return ("module " if len(modules) == 1 else "modules ") + ", ".join(modules)


def _give_up(modules: Sequence[str]) -> str:
    names = ", ".join(f'"{name}"' for name in modules)
    return f"where it may go: -e '{{\"railyard_reboot_modules_may_go\": [{names}]}}'"


def _mend(reading: Reading) -> str:
    kernel = reading["next"]
    if reading.get("next_has_headers"):
        return (
            f", though its headers are there. Fix: build it with `dkms autoinstall -k {kernel}` on the node "
            "(should that fail, /var/lib/dkms/*/*/build/make.log says why)"
        )
    return f", and its headers are not there. Fix: install linux-headers-{kernel}, and DKMS builds it"
