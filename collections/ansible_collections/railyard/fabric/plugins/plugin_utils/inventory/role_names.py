# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find names of variables that look like a role's and are none: Ansible takes any name and ignores it.

What a role takes stands in its argument_specs. Values are checked in `role_variables`, when the roles run.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import Finding

#: A list of names that only roles of the site's own read.
OWN = "railyard_own_variables"
# Those of an installed collection, and those of a checkout.
_FOLDERS = (Path(__file__).parents[3] / "roles", Path(__file__).parents[7] / "roles")
# So alike that nobody means two different things by them; behind a role's prefix less will do.
_ALIKE, _ALIKE_AFTER_PREFIX = 0.88, 0.6


class _Wrong(NamedTuple):
    message: str
    meant: str | None
    readme: str


def check(host: str, names: Collection[str], own: Any = None) -> Iterator[Finding]:
    """Yield the names that begin as a role's variables do, or nearly so, and that no role reads.

    Args:
        host: who has these variables.
        names: all of them.
        own: the value of `railyard_own_variables`.
    """
    allowed = {str(one) for one in own} if isinstance(own, (list, tuple)) else set()
    for name in sorted(set(names) - allowed):
        wrong = _wrong(name)
        if wrong is not None:
            hint = f"did you mean {wrong.meant}? If not, see" if wrong.meant else "see"
            fix = f"{hint} {wrong.readme}; names that only roles of your own read go into the list {OWN}"
            yield Finding(name, wrong.message, fix, host, None, wrong.meant)


@cache
def _wrong(name: str) -> _Wrong | None:
    known = _known()
    if any(name in variables for variables in known.values()):
        return None
    text = name.lower().replace("-", "_")
    role = next((one for one in known if text.startswith(f"{one}_")), None)
    if role is not None:
        start = len(role) + 1
        rests = [one[start:] for one in known[role]]
        near = difflib.get_close_matches(text[start:], rests, n=1, cutoff=_ALIKE_AFTER_PREFIX)
        meant = f"{role}_{near[0]}" if near else None
        return _Wrong(f"role {role} has no variable of this name", meant, f"roles/{role}/README.md")
    of_role = {variable: one for one, variables in known.items() for variable in variables}
    near = difflib.get_close_matches(text, of_role, n=1, cutoff=_ALIKE)
    if not near:
        return None
    return _Wrong("nothing reads a variable of this name", near[0], f"roles/{of_role[near[0]]}/README.md")


@cache
def _known() -> dict[str, frozenset[str]]:
    """Return role → the variables that it takes, from the first folder of roles that is there."""
    folder = next((one for one in _FOLDERS if one.is_dir()), _FOLDERS[-1])
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = {}
    for specs in sorted(folder.glob("*/meta/argument_specs.yml")):
        entries = yaml.load(specs.read_bytes(), loader)["argument_specs"]  # noqa: S506 - a safe loader
        found[specs.parts[-3]] = frozenset(
            name for entry in entries.values() for name in entry.get("options") or ()
        )
    return found
