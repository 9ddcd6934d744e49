# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a role's variables and templates come to on a node of the gallery, by Ansible's own templating."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from railyard.base import paths

if TYPE_CHECKING:
    from support.machines.pair import NodeOn

ROLES = paths.repo_root() / "roles"


class Role:
    """A role on one node.

    Args:
        name: the role's.
        node: the node, whose facts the role reads.
        inventory: what the inventory sets of variables: `fabric` and those of roles.
    """

    def __init__(self, name: str, node: NodeOn, inventory: dict[str, Any]) -> None:
        _show_filters_to_ansible()
        loader = DataLoader()
        self._folder = ROLES / name
        loader.set_basedir(str(self._folder))
        self._templar = Templar(
            loader,
            {
                **_read(loader, self._folder / "defaults/main.yml"),
                **_read(loader, self._folder / "vars/main.yml"),
                **inventory,
                "inventory_hostname": node.name,
                "node_index": node.plan["node_index"],
                "scalable_unit": node.plan["scalable_unit"],
                "rail_overrides": node.plan["rail_overrides"],
                f"__{name}_facts": {"rail_info": node.facts()},
            },
        )

    def variable(self, name: str) -> Any:
        """Return what a variable comes to."""
        return self._templar.template(trust_as_template("{{ " + name + " }}"))

    def template(self, path: str) -> str:
        """Return what a template of the role comes to."""
        place = self._folder / "templates" / path
        lookup = f"{{{{ lookup('ansible.builtin.template', '{place}') }}}}"
        return str(self._templar.template(trust_as_template(lookup)))


def _show_filters_to_ansible() -> None:
    """Let Ansible find the collection's filters where a test imported one of them before.

    Ansible looks for them beside the file of their package. A package without an __init__.py has one only
    where Ansible's own importer made it.
    """
    package = importlib.import_module("ansible_collections.railyard.fabric.plugins.filter")
    if package.__file__ is None:
        package.__file__ = str(Path(next(iter(package.__path__))) / "__init__.py")


def _read(loader: DataLoader, path: Path) -> dict[str, Any]:
    return dict(loader.load_from_file(str(path), trusted_as_template=True) or {}) if path.exists() else {}
