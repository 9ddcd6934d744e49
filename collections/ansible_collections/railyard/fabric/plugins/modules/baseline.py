#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: what is kept is decided in module_utils/state/baseline.py, how to restore it in restore_plan.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: baseline
short_description: Record what a node had before a role changed it, and plan how to restore it
version_added: "0.3.0"
description:
  - A role calls it once before its first change. Packages, files and whatever else it names are recorded on
    the node in C(/var/lib/railyard/originals/ROLE.json), with the contents of files in the same folder.
  - What is in a record is never changed; what a later call names and the record does not have is added.
  - A file whose text says that Railyard manages it is not an original, and is recorded as absent.
  - V(read) plans how to restore it for all roles; playbooks/uninstall.yml does it.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
  - railyard.fabric.attributes.full
options:
  state:
    description:
      - V(present) records what is not recorded yet.
      - V(read) changes nothing, and returns RV(plan).
      - V(absent) removes the records, of O(role) or of all.
    type: str
    choices: [present, read, absent]
    default: present
  role:
    description: Whose record it is. Required with O(state=present).
    type: str
  packages:
    description: Debian packages; recorded with version and hold, or as absent.
    type: list
    elements: str
    default: []
  files:
    description: Files, by absolute path; recorded with a copy, or as absent with missing folders.
    type: list
    elements: path
    default: []
  record:
    description:
      - Anything else, section to name to what was there. Restoring knows section C(units), unit to a
        dictionary of C(enabled) and C(active) as systemd names them, and C(package) if it comes from one; and
        section C(users), system user to a dictionary of C(there) and C(home).
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Remember what was there before the role
  railyard.fabric.baseline:
    role: nccl_profile
    files: [/etc/nccl.conf]

- name: Remember packages and a unit
  railyard.fabric.baseline:
    role: benchmark_tools
    packages: [iperf3, sockperf]
    record:
      units:
        iperf3.service: {package: iperf3, enabled: enabled, active: active}

- name: Plan the uninstall
  railyard.fabric.baseline:
    state: read
"""

RETURN = r"""
roles:
  description: The roles that have a record.
  returned: success
  type: list
  elements: str
  sample: [benchmark_tools, nccl_profile]
record:
  description: With O(state=present), the role's record, without its list of all packages.
  returned: O(state=present)
  type: dict
  sample: {"packages": {"iperf3": null}}
plan:
  description: >-
    With O(state=read), what returning to the originals does: C(remove_packages), C(keep_packages), C(unhold),
    C(moved_packages), C(gone_packages), C(remove_files), C(restore_files), C(keep_files),
    C(remove_folders), C(units), C(remove_users), C(by_roles), and what that C(needs) afterwards.
  returned: O(state=read)
  type: dict
  sample: {"remove_packages": [iperf3, libiperf0], "remove_files": [/etc/nccl.conf]}
empty:
  description: Whether the plan changes nothing.
  returned: O(state=read)
  type: bool
  sample: false
ansible_facts:
  description: The plan as fact C(railyard_uninstall_plan).
  returned: O(state=read)
  type: dict
  sample: {"railyard_uninstall_plan": {}}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils import module_end
from ansible_collections.railyard.fabric.plugins.module_utils.apt import driver_plan
from ansible_collections.railyard.fabric.plugins.module_utils.state import baseline, restore_plan

ROOT = "/"
_ENGLISH = {"LC_ALL": "C", "LANGUAGE": "C"}


def run(module: AnsibleModule, program: str, *words: str) -> str:
    """Run a read-only program in the C locale, since its output is parsed."""
    argv = [module.get_bin_path(program, required=True), *words]
    code, out, error = module.run_command(argv, environ_update=_ENGLISH)
    if code != 0:
        raise baseline.OriginalsError(
            f"{' '.join(argv[:3])} failed: {error.strip() or out.strip() or code}. "
            f"Fix: run `{' '.join(argv)}` on the node; fix what it reports first"
        )
    return str(out)


def installed(module: AnsibleModule) -> dict[str, dict[str, t.Any]]:
    """Return the packages of the node."""
    return baseline.parse_packages(run(module, "dpkg-query", "--show", "--showformat", baseline.SHOW))


def unit_states(module: AnsibleModule, units: t.Iterable[str]) -> dict[str, dict[str, bool]]:
    """Return whether units are enabled and active; without those that are not there."""
    states = {}
    systemctl = module.get_bin_path("systemctl")
    for unit in units if systemctl else ():
        enabled = module.run_command([systemctl, "is-enabled", unit])[1].strip()
        active = module.run_command([systemctl, "is-active", unit])[1].strip()
        if enabled not in ("", "not-found"):
            states[unit] = {"enabled": enabled == "enabled", "active": active == "active"}
    return states


def make_plan(module: AnsibleModule, records: dict[str, baseline.Record]) -> dict[str, t.Any]:
    """Return the plan to restore the changes of all roles."""
    packages = restore_plan.Packages([], [], [], [], [])
    present: dict[str, dict[str, t.Any]] = {}
    if any(record.get("packages") for record in records.values()):

        def simulate(names: t.Sequence[str], orphans: bool) -> list[str]:
            options = ["--simulate", "--allow-change-held-packages", "-o", "Debug::NoLocking=1"]
            options += ["--auto-remove"] if orphans else []
            return restore_plan.parse_simulation(run(module, "apt-get", *options, "purge", *names))

        automatic = set(run(module, "apt-mark", "showauto").split())
        present = installed(module)
        packages = restore_plan.plan_packages(records, present, automatic, simulate)
    stays = [name for name in present if name not in packages.remove]
    was = restore_plan.recorded_units(records)
    return {
        "remove_packages": packages.remove,
        "keep_packages": packages.keep,
        "unhold": packages.unhold,
        "moved_packages": packages.moved,
        "gone_packages": packages.gone,
        **restore_plan.plan_files(ROOT, records),
        "units": restore_plan.plan_units(was, unit_states(module, was)),
        "remove_users": restore_plan.plan_users(ROOT, records, stays),
        "by_roles": restore_plan.by_roles(ROOT),
        "needs": driver_plan.needs([], packages.remove),
    }


def keep(module: AnsibleModule, role: str) -> dict[str, t.Any]:
    """Record what is not recorded yet."""
    wanted: dict[str, t.Any] = module.params
    recorded = baseline.load(ROOT, role)
    seen: dict[str, t.Any] = dict(wanted["record"])
    if not set(wanted["packages"]) <= set((recorded or {}).get("packages", {})):
        present = installed(module)
        seen["packages"] = baseline.look_at_packages(wanted["packages"], present)
        seen["installed_before"] = sorted(present)
    looked_at = baseline.look_at_files(ROOT, recorded, wanted["files"])
    seen.update(looked_at)
    record = baseline.merged(recorded, seen)
    changed = bool(record) and record != recorded
    if changed and not module.check_mode:
        baseline.keep(ROOT, role, record, looked_at)
    return {
        "changed": changed,
        "record": baseline.short(record),
        "diff": baseline.make_diff(role, recorded, record),
    }


def hold(module: AnsibleModule) -> dict[str, t.Any]:
    """Do what the parameters ask; return the result."""
    wanted: dict[str, t.Any] = module.params
    role = baseline.check_role(wanted["role"]) if wanted["role"] is not None else None
    if wanted["state"] == "present" and role is not None:
        result = keep(module, role)
        return {**result, "roles": sorted({*baseline.load_all(ROOT), *([role] if result["record"] else [])})}
    records = baseline.load_all(ROOT)
    if role is not None:
        records = {name: record for name, record in records.items() if name == role}
    if wanted["state"] == "read":
        plan = make_plan(module, records)
        return {
            "changed": False,
            "roles": sorted(records),
            "plan": plan,
            "empty": restore_plan.is_empty(plan),
            "ansible_facts": {"railyard_uninstall_plan": plan},
        }
    if not module.check_mode:
        for name in records:
            baseline.remove(ROOT, name)
    return {
        "changed": bool(records),
        "roles": [],
        "diff": [baseline.make_diff(name, record, None) for name, record in sorted(records.items())],
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "read", "absent"], "default": "present"},
            "role": {"type": "str"},
            "packages": {"type": "list", "elements": "str", "default": []},
            "files": {"type": "list", "elements": "path", "default": []},
            "record": {"type": "dict", "default": {}},
        },
        required_if=[("state", "present", ["role"])],
        supports_check_mode=True,
    )
    module_end.end(module, hold, baseline.OriginalsError)


if __name__ == "__main__":
    main()
