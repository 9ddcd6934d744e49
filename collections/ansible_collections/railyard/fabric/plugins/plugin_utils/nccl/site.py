# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of a site's own in role nccl_profile: which are refused, and what is written above the others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import catalogue

# What the role makes of the inventory; with what to set to differ.
_FOLLOWS = {
    "NCCL_IB_HCA": "it follows from the rails in fabric; set nccl_profile_rails to differ",
    "NCCL_SOCKET_IFNAME": "it follows from fabric.frontend; set nccl_profile_socket_netdev to differ",
    "NCCL_NET": "it follows from fabric.transport; set nccl_profile_net to differ",
    "NCCL_IB_DISABLE": "it follows from fabric.transport, which chooses NCCL_NET",
}
_FORM = (
    "write a name NCCL_... and a number or a text without blanks, quotes, backslash or $ "
    "(NCCL wants 1 and 0, not true and false)"
)
_OLD_LEVEL = "a number is the old spelling ({value} means {level}, {what}); use LOC, PIX, PXB, PHB or SYS"


def refused(settings: Mapping[str, Any]) -> list[str]:
    """Say of each setting that is refused why, in the order of the settings."""
    return [f"{name}={value}: {why}" for name, value in settings.items() if (why := _why(str(name), value))]


def reasons(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return what each setting does, as the comment above it; empty where the catalogue does not know it."""
    rows = {str(name): catalogue.find(str(name)) for name in settings}
    # NCCL before 2.26 knows no comments: what has a = is a setting to it.
    return {name: row.why.replace("=", "") if row else "" for name, row in rows.items()}


def _why(name: str, value: Any) -> str | None:
    if name in _FOLLOWS:
        return _FOLLOWS[name]
    if (
        not re.fullmatch(r"NCCL_[A-Z0-9_]+", name)
        or isinstance(value, bool)
        or not isinstance(value, (str, int))
    ):
        return _FORM
    text = str(value)
    row = catalogue.find(name)
    if row is None:
        meant = catalogue.misspelt(name)
        return f"{catalogue.describe_unknown(name)}; did you mean {meant}?" if meant else None
    if row.until:
        return f"NCCL has not read it since {row.until}" + (f"; use {row.instead}" if row.instead else "")
    if not re.fullmatch(r"[^\s\"'\\$`]+", text):
        return _FORM
    if row.values == "<level>" and text[:1].isdigit() and (level := catalogue.level(text)):
        what = {"SYS": "across sockets", "LOC": "never"}.get(level, "by PCIe")
        return _OLD_LEVEL.format(value=text, level=level, what=what)
    wrong = catalogue.wrong_value(row, text)
    return f"{text} {wrong}" if wrong else None
