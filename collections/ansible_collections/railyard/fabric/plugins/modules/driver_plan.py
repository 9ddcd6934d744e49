#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: apt is queried in module_utils/apt/query.py, put together in driver_plan.py beside it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_plan
short_description: Report what installing drivers would do to a node, before anything is changed
version_added: "0.3.0"
description:
  - Asks dpkg what is missing of the packages of all driver roles and, only where something is, apt by the
    simulation that the roles use what would come, move and go, downgrades and held parts among it.
  - Compares the files of O(requests[].files) and O(requests[].unwanted), so that a role whose packages and
    files are as wanted needs no request of its own.
  - Says what of it the role will refuse, what the transaction needs afterwards (a reboot, a restart of
    modules), and what waits already.
  - Changes nothing, fetches nothing, and takes no lock. What apt cannot plan yet (a repository that is still
    to be added, lists that were never fetched) is in RV(plan.problem), and is no failure.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
options:
  requests:
    description: What each role will ask of apt, as M(railyard.fabric.apt_plan) takes it.
    type: list
    elements: dict
    default: []
    suboptions:
      packages:
        description: Packages that have to be there.
        type: list
        elements: str
        default: []
      pins:
        description: Package to the version that it has to have.
        type: dict
        default: {}
      hold:
        description:
          - Packages that will be held. Those that a pinned package needs in one version move with it.
        type: list
        elements: str
        default: []
      unhold:
        description: Packages that will be released.
        type: list
        elements: str
        default: []
      conflicts:
        description: Packages that must not be there.
        type: list
        elements: str
        default: []
      remove_allow:
        description: Packages that may be removed.
        type: list
        elements: str
        default: []
      preferences:
        description:
          - What files of C(/etc/apt/preferences.d) will be, name to contents; empty for one that will not be
            there. apt is queried with them.
        type: dict
        default: {}
      files:
        description: >-
          Files that the role writes, as M(railyard.fabric.managed_files) takes them, without templates.
        type: list
        elements: dict
        default: []
        suboptions:
          path:
            description: The absolute path on the node.
            type: str
            required: true
          content:
            description: The text itself.
            type: str
            required: true
          mode:
            description: The file's mode, in octal digits.
            type: str
            default: "0644"
      unwanted:
        description: Paths of files that are not to be there, unless they are in O(requests[].files).
        type: list
        elements: str
        default: []
      note:
        description: What the role does not do, and why; reported with the plan.
        type: str
        default: ""
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
    requests:
      - packages: [rdma-core, ibverbs-utils]
      - pins:
          doca-ofed: 3.1.0
        hold: [doca-ofed, mlnx-ofed-kernel-dkms]
"""

RETURN = r"""
plan:
  description: What would be done.
  returned: success
  type: dict
  contains:
    missing:
      description: The request to apt.
      type: list
      elements: str
    install:
      description: Packages to install or change, C(name), C(from) (null if not installed) and C(to).
      type: list
      elements: dict
    remove:
      description: Packages that go.
      type: list
      elements: str
    problem:
      description: Why apt cannot plan it; null when it can.
      type: str
    refused:
      description: Why a role will not do it; each ends with what to do about it.
      type: list
      elements: str
    needs:
      description: What the transaction needs afterwards.
      type: list
      elements: str
    notes:
      description: The O(requests[].note) of all roles.
      type: list
      elements: str
  sample:
    missing: [rdma-core]
    install: [{"name": "rdma-core", "from": null, "to": "44.0-2"}]
    remove: []
    problem: null
    refused: []
    needs: []
    notes: []
settled:
  description: For each of O(requests), whether its packages and files are as wanted.
  returned: success
  type: list
  elements: bool
  sample: [true, false]
waits:
  description: What waits on this node, as RV(railyard.fabric.pending#module:waits).
  returned: success
  type: list
  elements: dict
  sample: []
ansible_facts:
  description: >-
    All three, as facts C(railyard_driver_plan), C(railyard_drivers_settled) and C(railyard_waits).
  returned: success
  type: dict
  sample: {"railyard_driver_plan": {}, "railyard_drivers_settled": [true], "railyard_waits": []}
"""

import contextlib
import os
import shutil
import tempfile
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils import atomic_files, module_end
from ansible_collections.railyard.fabric.plugins.module_utils.apt import driver_plan, query
from ansible_collections.railyard.fabric.plugins.module_utils.apt import plan as apt_plan
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.node import apt_get
from ansible_collections.railyard.fabric.plugins.module_utils.state import managed_files, pending

ROOT = "/"
PREFERENCES = "/etc/apt/preferences.d"
# What the roles leave free as well: apt_packages_spare_mib.
SPARE_BYTES = 64 * 1024 * 1024


@contextlib.contextmanager
def preferred(files: t.Mapping[str, str]) -> t.Iterator[list[str]]:
    """Yield the options that make apt read its preferences as they will be; it has them for this long."""
    if not files:
        yield []
        return
    folder = tempfile.mkdtemp(prefix="railyard-plan-")
    try:
        for name in os.listdir(PREFERENCES) if os.path.isdir(PREFERENCES) else ():
            path = os.path.join(PREFERENCES, name)
            if name not in files and os.path.isfile(path):
                shutil.copy(path, folder)
        for name, text in files.items():
            if text:
                with open(os.path.join(folder, os.path.basename(name)), "w", encoding="utf-8") as file:
                    file.write(text)
        yield [f"-oDir::Etc::preferencesparts={folder}"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def plan_one(
    run: query.Run, request: dict[str, t.Any], packages: dict[str, apt_get.Package]
) -> driver_plan.Planned:
    """Simulate one role's transaction with the same arguments as the role."""
    wish = driver_plan.wish_of(request)
    needed = apt_plan.need(wish, packages)
    if not (needed.specs or needed.conflicts):
        return driver_plan.Planned([], [], None, [])
    refused = apt_plan.wrong_wish(wish) + query.refuse_now(wish, packages)
    with preferred(request.get("preferences") or {}) as options:
        plan, more = query.simulate(run, wish, packages, SPARE_BYTES, options)
    moves = [apt_get.Move(**move) for move in plan["moves"]]
    if not plan["possible"]:
        return driver_plan.Planned(plan["specs"], [], " | ".join(more), refused)
    return driver_plan.Planned(plan["specs"], moves, None, refused + more)


def is_settled(request: dict[str, t.Any], packages: dict[str, apt_get.Package]) -> bool:
    """Return whether a role's packages and files are as the role needs them."""
    wish = driver_plan.wish_of(request)
    needed = apt_plan.need(wish, packages)
    if needed.specs or needed.hold or needed.unhold or needed.conflicts or apt_plan.wrong_wish(wish):
        return False
    try:
        wanted = [
            atomic_files.NewFile(
                one["path"], one["content"].encode(), managed_files.parse_mode(one["path"], one["mode"])
            )
            for one in request.get("files") or ()
        ]
        plan = managed_files.make_plan(ROOT, wanted, request.get("unwanted") or ())
    except managed_files.ManagedFilesError:
        # The role itself fails there, with what to do about it.
        return False
    return not (plan.write or plan.remove)


def look(module: AnsibleModule) -> dict[str, t.Any]:
    """Return the result."""
    requests: list[dict[str, t.Any]] = module.params["requests"]
    planned = []
    packages: dict[str, apt_get.Package] = {}
    if any(request.get(key) for request in requests for key in ("packages", "pins", "conflicts")):
        module.get_bin_path("dpkg-query", required=True)
        run = query.runner(module)
        packages = query.read_packages(run)
        planned = [plan_one(run, request, packages) for request in requests]
    plan = driver_plan.put_together(planned, [str(one.get("note") or "") for one in requests])
    settled = [is_settled(request, packages) for request in requests]
    now = pending.read_now(ROOT)
    waiting = pending.listed(pending.unanswered(pending.load(ROOT), now))
    return {
        "changed": False,
        "plan": plan,
        "settled": settled,
        "waits": waiting,
        "ansible_facts": {
            "railyard_driver_plan": plan,
            "railyard_drivers_settled": settled,
            "railyard_waits": waiting,
        },
    }


def main() -> None:
    """Run the module."""
    names: dict[str, t.Any] = {"type": "list", "elements": "str", "default": []}
    request = {
        "packages": names,
        "pins": {"type": "dict", "default": {}},
        "hold": names,
        "unhold": names,
        "conflicts": names,
        "remove_allow": names,
        "preferences": {"type": "dict", "default": {}},
        "files": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {
                "path": {"type": "str", "required": True},
                "content": {"type": "str", "required": True},
                "mode": {"type": "str", "default": "0644"},
            },
        },
        "unwanted": names,
        "note": {"type": "str", "default": ""},
    }
    module = AnsibleModule(
        argument_spec={"requests": {"type": "list", "elements": "dict", "default": [], "options": request}},
        supports_check_mode=True,
    )
    module_end.end(module, look, query.AptError, pending.WaitsError)


if __name__ == "__main__":
    main()
