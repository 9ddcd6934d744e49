# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which inventory plugins of Ansible may read an inventory: by default those that execute nothing.

`script` runs a file as a program, and `auto` loads whichever plugin a file names, which may evaluate
templates or start programs. Both are used only if the caller of `railyard` allows it:
`--trust-inventory`, or a list of plugins in Ansible's own setting (`ANSIBLE_INVENTORY_ENABLED`, or
`enable_plugins` in ansible.cfg).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ansible import constants
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import files
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line

#: Ansible's setting, which this process and the programs that it starts read.
VARIABLE = "ANSIBLE_INVENTORY_ENABLED"
#: Ansible's default without `script` and `auto`.
STATIC = ("host_list", "yaml", "ini", "toml")
ALL = ("host_list", "script", "auto", "yaml", "ini", "toml")
#: Files in which `auto` looks for the name of a plugin.
_NAMES_PLUGIN = (".yml", ".yaml")

Refusal = tuple[str, str]  # what would run, fix


def enabled_plugins() -> tuple[str, ...]:
    """Return the names of the plugins that may read an inventory, in the order in which they are tried."""
    names, origin = constants.config.get_config_value_and_origin("INVENTORY_ENABLED")
    return STATIC if origin == "default" else tuple(str(name) for name in names)


def _is_enabled(plugin: str) -> bool:
    short = plugin.removeprefix("ansible.builtin.")
    return bool({short, f"ansible.builtin.{short}"} & set(enabled_plugins()))


def trust() -> None:
    """Let every plugin of Ansible's default read inventories, in this process and in those that it starts."""
    os.environ.setdefault(VARIABLE, ",".join(ALL))


def program_refusal(path: str) -> Refusal | None:
    """Return what is wrong with a file that Ansible would run as a program; None where it may, or is none."""
    if not files.is_program(path) or _is_enabled("script"):
        return None
    return (
        f"it is a program{_led_to(path)}, which Ansible would run here, on the controller, to get hosts",
        "read it; then pass --trust-inventory, or `chmod -x` it if it is no program",
    )


def plugin_refusal(path: str, data: Any) -> Refusal | None:
    """Return what is wrong with a file that names the plugin which is to read it; None where it names none.

    Args:
        path: the file.
        data: what it holds.
    """
    name = data.get("plugin") if isinstance(data, Mapping) else None
    if not name or not path.endswith(_NAMES_PLUGIN) or _is_enabled("auto") or _is_enabled(str(name)):
        return None
    plugin = clean_line(str(name))[:100]
    listed = ",".join([*enabled_plugins(), plugin])
    return (
        f"it names the inventory plugin {plugin}{_led_to(path)}, whose code Ansible would run here, on the "
        "controller, with the templates of this file",
        f"read it; then pass --trust-inventory, or list the plugin: {VARIABLE}={listed}",
    )


def _led_to(path: str) -> str:
    target = os.path.realpath(path)
    return f" (a link to {target})" if target != os.path.abspath(path) else ""
