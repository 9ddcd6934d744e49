# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the variables of roles for all nodes at once, by the roles' argument_specs.

A role that runs alone does it on each node in its own task (Ansible's validate_argument_spec), with the same
validator. Here it needs no task per node, and an error on the last node is known before the first is changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.load import fold
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Problem

Values = Mapping[str, Any]


class Role(NamedTuple):
    """A role's name, the options of its entry point `main`, and its defaults, not rendered."""

    name: str
    options: dict[str, Any]
    defaults: dict[str, Any]


def read_role(name: str, folders: Sequence[str], load: Callable[[str], Any]) -> Role:
    """Read a role's options and defaults.

    Args:
        name: The role's name.
        folders: The folders with roles, in search order.
        load: Reads a YAML file, whose strings may be templates.

    Raises:
        AnsibleError: The role is in none of the folders.
    """
    for folder in folders:
        specs = os.path.join(folder, name, "meta", "argument_specs.yml")
        if os.path.isfile(specs):
            options = load(specs)["argument_specs"]["main"]["options"]
            return Role(name, options, load(os.path.join(folder, name, "defaults", "main.yml")))
    raise AnsibleError(f"role {name} is in none of {', '.join(folders)}. Fix: set roles_path in ansible.cfg")


def check_roles(
    roles: Sequence[Role],
    hosts: Sequence[str],
    variables_of: Callable[[str], dict[str, Any]],
    render: Callable[[Values, Values], dict[str, Any]],
    seen: Callable[[str, str, Any], None] = lambda host, name, value: None,
) -> list[Problem]:
    """Return the problems in the role variables of hosts; hosts with the same problem are folded.

    Args:
        roles: The roles that will run on each host.
        hosts: The hosts.
        variables_of: Returns a host's variables, not rendered.
        render: Renders values with variables.
        seen: Called with host, name and rendered value of each valid variable that is set.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for host in hosts if roles else ():
        known = variables_of(host)
        for role in roles:
            variables = {**role.defaults, **known}
            messages: list[str] = []
            # Defaults are checked by tools/role_docs.py, and most nodes set few other variables.
            for name in (one for one in role.options if one in known):
                try:
                    rendered = render({name: known[name]}, variables)
                    wrong = _errors(name, role.options[name], rendered)
                    messages += wrong
                    if not wrong:
                        seen(host, name, rendered[name])
                except AnsibleError as error:
                    # A later play may gather the fact.
                    if "ansible_facts" not in str(known[name]):
                        messages.append(f"{name} cannot be rendered: {error}")
            for message in messages:
                found.setdefault((role.name, message), []).append(host)
    return [
        Problem(f"role {role}", fold(named), None, message, f"see the variables in roles/{role}/README.md")
        for (role, message), named in found.items()
    ]


def _errors(name: str, option: Any, rendered: dict[str, Any]) -> list[str]:
    """Return Ansible's errors about a value; a wrong type once, which Ansible reports twice."""
    found = list(ArgumentSpecValidator({name: option}).validate(rendered).error_messages)
    named = [message for message in found if name in message] or [f"{name}: {one}" for one in found]
    wrong_type = [message for message in named if message.startswith("argument ")]
    return wrong_type[:1] or named
