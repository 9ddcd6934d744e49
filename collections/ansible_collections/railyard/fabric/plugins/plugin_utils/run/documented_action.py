# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base class of actions: their options are those that the module of the same name documents."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.common.yaml import yaml_load
from ansible.plugins.action import ActionBase

_PLUGINS = "ansible_collections.railyard.fabric.plugins"
_KEYS = ("type", "elements", "choices", "default", "required")


class DocumentedAction(ActionBase):  # type: ignore[misc] # ansible-core ships no types
    """An action whose options are documented once, in `modules/NAME.py`."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Check the options and do what they say; nothing is changed unless `act` says so."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        modules = (kind.__module__ for kind in type(self).__mro__)
        name = next(one for one in modules if one.startswith(f"{_PLUGINS}.action.")).rpartition(".")[2]
        _spec, args = self.validate_argument_spec(read_options(name))
        return {**result, "changed": False, **self.act(args, task_vars or {})}

    def act(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Do what the options say, and return the result."""
        raise NotImplementedError


def read_options(name: str) -> dict[str, Any]:
    """Return the argument spec of an action, from the documentation of the module of its name."""
    documentation = importlib.import_module(f"{_PLUGINS}.modules.{name}").DOCUMENTATION
    return _to_spec(yaml_load(documentation)["options"])


def _to_spec(options: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    spec: dict[str, dict[str, Any]] = {}
    for name, option in options.items():
        spec[name] = {key: option[key] for key in _KEYS if key in option}
        if "suboptions" in option:
            spec[name]["options"] = _to_spec(option["suboptions"])
    return spec
