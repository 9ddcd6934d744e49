# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render the templates of a role and send all its files in one request. Options: modules/managed_files.py."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import lookup_loader
from ansible_collections.railyard.fabric.plugins.modules import managed_files

_MODULE = "railyard.fabric.managed_files"


class ActionModule(ActionBase):
    """Render on the controller; the module of the same name compares and writes on the node."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the module returns."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        files = {**managed_files.ARGUMENTS["files"], "mutually_exclusive": [["template", "content"]]}
        _spec, args = self.validate_argument_spec({**managed_files.ARGUMENTS, "files": files})
        rendered: dict[str, str] = {}
        for file in args["files"]:
            if file["content"] is None:
                name = file["template"] or file["path"].lstrip("/") + ".j2"
                if name not in rendered:
                    rendered[name] = self._render(name, file["path"], task_vars or {})
                file.update(content=rendered[name], template=None)
        reply = self._execute_module(module_name=_MODULE, module_args=args, task_vars=task_vars)
        # At the highest verbosity Ansible would print the contents a second time.
        reply.pop("invocation", None)
        return {**result, **reply}

    def _render(self, name: str, path: str, task_vars: dict[str, Any]) -> str:
        lookup = lookup_loader.get("ansible.builtin.template", loader=self._loader, templar=self._templar)
        try:
            (text,) = lookup.run([name], variables=task_vars)
        except AnsibleError as error:
            raise AnsibleActionFail(f"{path}: template {name} cannot be rendered: {error}") from error
        return str(text)
