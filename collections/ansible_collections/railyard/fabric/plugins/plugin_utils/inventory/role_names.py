# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find misspelt names of role and playbook variables, which Ansible accepts silently.

Roles declare their variables in argument_specs. `role_variables` checks the values when the roles run.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import Finding

#: The variable with a list of names that only the site's own roles read.
OWN = "railyard_own_variables"
# Variables of playbooks, which have no argument_specs.
PLAYBOOKS = (
    "railyard_allow_long", "railyard_allow_reboot", "railyard_allow_rollback", "railyard_allow_uninstall",
    "railyard_apt_lock_timeout_s", "railyard_confirm", "railyard_discover_limit_s", "railyard_driver_batch",
    "railyard_fabric_host", "railyard_fabric_interval_s", "railyard_fabric_into",
    "railyard_fabric_partitions", "railyard_fabric_paths", "railyard_fabric_ports",
    "railyard_inventory_checked",
    "railyard_keep_judgement", "railyard_lease_s", "railyard_measures",
    "railyard_network_batch", "railyard_own_tags", OWN, "railyard_pattern", "railyard_questions",
    "railyard_reboot_batch", "railyard_reboot_kernels", "railyard_reboot_modules_may_go",
    "railyard_reboot_only_waiting", "railyard_reboot_rails_timeout_s", "railyard_reboot_timeout_s",
    "railyard_reports_dir", "railyard_roles", "railyard_rollback_to", "railyard_run", "railyard_slurm_job",
    "railyard_slurm_part_of_node", "railyard_time_factor", "railyard_uninstall_batch",
)  # fmt: skip
# Those of an installed collection, and those of a checkout.
_FOLDERS = (Path(__file__).parents[3] / "roles", Path(__file__).parents[7] / "roles")
# Names with this similarity are taken for the same; after a role's prefix less is enough.
_ALIKE, _ALIKE_AFTER_PREFIX = 0.88, 0.6


class _Wrong(NamedTuple):
    message: str
    meant: str | None
    described_in: str


def check(host: str, names: Collection[str], own: Any = None) -> Iterator[Finding]:
    """Yield unknown names that are close to a role's or a playbook's, or begin with a role's prefix.

    Args:
        host: the host with these variables.
        names: all of them.
        own: the value of `railyard_own_variables`.
    """
    allowed = {str(one) for one in own} if isinstance(own, (list, tuple)) else set()
    for name in sorted(set(names) - allowed):
        wrong = _wrong(name)
        if wrong is not None:
            hint = f"did you mean {wrong.meant}? If not, see" if wrong.meant else "see"
            fix = f"{hint} {wrong.described_in}; list names that only your own roles read in {OWN}"
            yield Finding(name, wrong.message, fix, host, None, wrong.meant)


@cache
def _wrong(name: str) -> _Wrong | None:
    known = _known()
    if name in PLAYBOOKS or any(name in variables for variables in known.values()):
        return None
    text = name.lower().replace("-", "_")
    role = next((one for one in known if text.startswith(f"{one}_")), None)
    if role is not None:
        start = len(role) + 1
        rests = [one[start:] for one in known[role]]
        near = difflib.get_close_matches(text[start:], rests, n=1, cutoff=_ALIKE_AFTER_PREFIX)
        meant = f"{role}_{near[0]}" if near else None
        return _Wrong(f"role {role} has no variable of this name", meant, f"roles/{role}/README.md")
    described_in = {
        **dict.fromkeys(PLAYBOOKS, "the first lines of each playbook"),
        **{variable: f"roles/{one}/README.md" for one, variables in known.items() for variable in variables},
    }
    near = difflib.get_close_matches(text, described_in, n=1, cutoff=_ALIKE)
    return _Wrong("nothing reads a variable of this name", near[0], described_in[near[0]]) if near else None


@cache
def _known() -> dict[str, frozenset[str]]:
    """Return role → its variables, from the first folder of roles that exists."""
    folder = next((one for one in _FOLDERS if one.is_dir()), _FOLDERS[-1])
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = {}
    for specs in sorted(folder.glob("*/meta/argument_specs.yml")):
        entries = yaml.load(specs.read_bytes(), loader)["argument_specs"]  # noqa: S506 - a safe loader
        found[specs.parts[-3]] = frozenset(
            name for entry in entries.values() for name in entry.get("options") or ()
        )
    return found
