#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: apt's words are read in module_utils/driver_plan.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_plan
short_description: Say what installing drivers would do to a node, before anything is changed
version_added: "0.3.0"
description:
  - Asks dpkg what is missing of the packages of all driver roles and, only where something is, apt by a
    simulation what would come, move and go.
  - Says what the transaction needs afterwards (a reboot, a restart of modules), and what waits already.
  - Changes nothing, fetches nothing, and takes no lock. What apt cannot plan yet (a repository that is still
    to be added, lists that were never fetched) is said in RV(plan.problem), and is no failure.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
options:
  packages:
    description: Packages that have to be there.
    type: list
    elements: str
    default: []
  pins:
    description: Package to the version that it has to have.
    type: dict
    default: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Plan
  railyard.fabric.driver_plan:
    packages: [rdma-core, ibverbs-utils]
"""

RETURN = r"""
plan:
  description: What would be done.
  returned: success
  type: dict
  contains:
    missing:
      description: What apt is asked for.
      type: list
      elements: str
    install:
      description: Packages that come or move, C(name), C(from) (null where it is not there) and C(to).
      type: list
      elements: dict
    remove:
      description: Packages that go.
      type: list
      elements: str
    problem:
      description: Why apt cannot plan it, in its own words; null when it can.
      type: str
    needs:
      description: What the transaction needs afterwards.
      type: list
      elements: str
  sample:
    missing: [rdma-core]
    install: [{"name": "rdma-core", "from": null, "to": "44.0-2"}]
    remove: []
    problem: null
    needs: []
waits:
  description: What waits on this node, as RV(railyard.fabric.waits#module:waits).
  returned: success
  type: list
  elements: dict
  sample: []
ansible_facts:
  description: Both, as facts C(railyard_driver_plan) and C(railyard_waits).
  returned: success
  type: dict
  sample: {"railyard_driver_plan": {}, "railyard_waits": []}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils import driver_plan, module_end, originals, waits

ROOT = "/"
_ENGLISH = {"LC_ALL": "C", "LANGUAGE": "C"}
_SIMULATE = ["--simulate", "--no-install-recommends", "--allow-change-held-packages", "--allow-downgrades"]


def simulate(module: AnsibleModule, asked: list[str]) -> tuple[driver_plan.Simulated, str | None]:
    """Ask apt what it would do for `name` and `name=version`."""
    argv = [
        module.get_bin_path("apt-get", required=True),
        *_SIMULATE,
        "-o",
        "Debug::NoLocking=1",
        "install",
        *asked,
    ]
    code, out, error = module.run_command(argv, environ_update=_ENGLISH)
    return driver_plan.parse_simulation(out), driver_plan.problem(code, error or out)


def look(module: AnsibleModule) -> dict[str, t.Any]:
    """Return the result."""
    wanted: dict[str, t.Any] = module.params
    asked: list[str] = []
    simulated, problem = driver_plan.Simulated([], []), None
    if wanted["packages"] or wanted["pins"]:
        argv = [module.get_bin_path("dpkg-query", required=True), "--show", "--showformat", originals.SHOW]
        code, out, error = module.run_command(argv, environ_update=_ENGLISH)
        if code != 0:
            raise originals.OriginalsError(f"dpkg-query failed: {error.strip() or code}. Fix: `dpkg --audit`")
        pins = {name: str(version) for name, version in wanted["pins"].items()}
        asked = driver_plan.missing(wanted["packages"], pins, originals.parse_packages(out))
        if asked:
            simulated, problem = simulate(module, asked)
    now = waits.read_now(ROOT)
    waiting = waits.listed(waits.unanswered(waits.load(ROOT), now))
    plan = {
        "missing": asked,
        "install": simulated.install,
        "remove": simulated.remove,
        "problem": problem,
        "needs": driver_plan.needs(simulated),
    }
    return {
        "changed": False,
        "plan": plan,
        "waits": waiting,
        "ansible_facts": {"railyard_driver_plan": plan, "railyard_waits": waiting},
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "list", "elements": "str", "default": []},
            "pins": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    module_end.end(module, look, originals.OriginalsError, waits.WaitsError)


if __name__ == "__main__":
    main()
