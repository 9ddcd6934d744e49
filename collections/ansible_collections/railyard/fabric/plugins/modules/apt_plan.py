#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: dpkg and apt are queried in module_utils/apt/query.py, refusals are in apt_plan.py beside it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: apt_plan
short_description: Plan an apt transaction, and report what of it is refused
version_added: "0.3.0"
description:
  - Compares the requested packages with what dpkg has, and with O(simulate) gets from apt-get what it
    would do for them. Changes nothing but the record of O(role).
  - With O(undo_plan) it returns instead how to undo a transaction that failed.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
options:
  names:
    description: Packages that must be installed.
    type: list
    elements: str
    default: []
  pins:
    description: Packages that must be installed in exactly this version.
    type: dict
    default: {}
  hold:
    description: Packages that must be on hold.
    type: list
    elements: str
    default: []
  unhold:
    description: Packages that must not be on hold.
    type: list
    elements: str
    default: []
  conflicts:
    description: Packages that must not be there.
    type: list
    elements: str
    default: []
  remove_allow:
    description: Packages that may be removed. The removal of any other is a refusal.
    type: list
    elements: str
    default: []
  simulate:
    description: Whether to ask apt-get for the plan, where there is something to do.
    type: bool
    default: false
  lists_valid_s:
    description:
      - With O(simulate), the age in seconds up to which apt's lists are used.
      - With older ones, and with lists in which apt does not find all that it needs, there is no RV(plan).
        They have to be fetched first.
    type: int
  spare_mib:
    description: Space in MiB that has to be left on the filesystem of C(/usr).
    type: int
    default: 64
  role:
    description: >-
      Whose record of originals the packages are added to, as M(railyard.fabric.baseline) does it, where some
      are to be installed, moved or removed and nothing is refused. Without it nothing is recorded.
    type: str
  units:
    description: Names of systemd units whose state is returned in RV(units).
    type: list
    elements: str
    default: []
  undo_plan:
    description: An RV(plan) whose transaction failed.
    type: dict
  failure_text:
    description: With O(undo_plan), what apt-get printed when it failed.
    type: str
    default: ""
attributes:
  check_mode:
    support: full
  diff_mode:
    description: Shows the record of O(role).
    support: full
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Show what the driver would install
  railyard.fabric.apt_plan:
    pins:
      doca-ofed: 3.2.0-046000
    hold: [doca-ofed]
    conflicts: [mlnx-ofed-kernel-dkms]
    simulate: true
"""

RETURN = r"""
versions:
  description: Installed version of each package in O(names) and O(pins) that is there.
  returned: success
  type: dict
  sample: {"doca-ofed": "3.2.0-046000"}
missing:
  description: Requested packages that are not installed.
  returned: success
  type: list
  elements: str
  sample: []
other_version:
  description: Packages that are there in another version than the pinned one.
  returned: success
  type: list
  elements: dict
  sample: [{"name": "doca-ofed", "before": "2.9.0", "after": "3.2.0-046000"}]
specs:
  description: What apt-get is to install, as it takes it.
  returned: success
  type: list
  elements: str
  sample: ["doca-ofed=3.2.0-046000"]
hold:
  description: Packages that still have to be held.
  returned: success
  type: list
  elements: str
  sample: []
unhold:
  description: Packages that still have to be released.
  returned: success
  type: list
  elements: str
  sample: []
absent:
  description: Packages in O(hold) that are not there, and so cannot be held.
  returned: success
  type: list
  elements: str
  sample: []
conflicts:
  description: Packages that are there and must not be.
  returned: success
  type: list
  elements: str
  sample: []
remove:
  description: Those of RV(conflicts) that may be removed.
  returned: success
  type: list
  elements: str
  sample: []
differs:
  description: Whether there is anything to do.
  returned: success
  type: bool
  sample: false
refusals:
  description: Why it must not be done; each ends with what to do about it.
  returned: success
  type: list
  elements: str
  sample: []
unfinished:
  description: Packages that dpkg began with and did not end, and their state.
  returned: success
  type: list
  elements: str
  sample: []
plan:
  description: >-
    The transaction (V(moves), each with V(name), V(before) and V(after)), what apt-get has to install
    (V(specs), with the held parts that a pinned package needs in one version), whether it could plan it
    (V(possible)), whether it moves a held package (V(moves_held)), what is fetched and unpacked, and the
    packages' states before.
  returned: with O(simulate), where something is to be done and O(lists_valid_s) does not forbid it
  type: dict
  sample:
    specs: ["doca-ofed=3.2.0-046000"]
    moves: [{"name": "doca-ofed", "before": null, "after": "3.2.0-046000"}]
    possible: true
    moves_held: false
    download_bytes: 1024
    unpacked_bytes: 4096
    before: {}
units:
  description: >-
    For each of O(units) its C(unit_file_state) and C(active_state), as in systemd; empty and C(inactive)
    for a unit that does not exist.
  returned: success
  type: dict
  sample: {"iperf3.service": {"unit_file_state": "disabled", "active_state": "inactive"}}
undo:
  description: >-
    Names to purge, to remove and to hold, and specs to install (V(purge), V(remove), V(hold), V(restore)).
  returned: with O(undo_plan)
  type: dict
  sample: {"purge": ["doca-ofed"], "remove": [], "restore": [], "hold": []}
failure:
  description: The cause of the failure in O(failure_text), and its fix.
  returned: with O(undo_plan)
  type: str
  sample: "Sub-process /usr/bin/dpkg returned an error code (1). Fix: run the same apt-get on the node"
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils import module_end
from ansible_collections.railyard.fabric.plugins.module_utils.apt import plan as apt_plan
from ansible_collections.railyard.fabric.plugins.module_utils.apt import query
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.node import apt_get
from ansible_collections.railyard.fabric.plugins.module_utils.state import baseline, units

ROOT = "/"
# Ansible's own apt installs it where it is not there.
_PYTHON_APT = "python3-apt"
_MEBIBYTE_BYTES = 1024 * 1024


def way_back(plan: dict[str, t.Any], packages: dict[str, apt_get.Package]) -> dict[str, t.Any]:
    """Return how to undo a plan that was returned before."""
    moves = [apt_get.Move(**move) for move in plan["moves"]]
    before = {name: apt_get.Package(**package) for name, package in plan["before"].items()}
    return apt_plan.undo(moves, before, packages)._asdict()


def record(
    module: AnsibleModule, wish: apt_plan.Wish, result: dict[str, t.Any], packages: dict[str, apt_get.Package]
) -> list[dict[str, str]]:
    """Record the packages that may move as they are; return the diff of the role's record."""
    present = {
        name.split(":")[0]: {"version": package.version, "hold": package.want == "hold"}
        for name, package in packages.items()
        if package.state == "installed"
    }
    names = [*wish.names, *wish.pins, *wish.hold, _PYTHON_APT]
    names += [move["name"] for move in result.get("plan", {}).get("moves", []) if move["before"] is not None]
    return baseline.record_packages(
        ROOT, module.params["role"], dict.fromkeys(names), present, module.check_mode
    )


def look(module: AnsibleModule) -> dict[str, t.Any]:
    """Do what the parameters ask; return the result."""
    p = module.params
    lists = [p[key] for key in ("hold", "unhold", "conflicts", "remove_allow")]
    wish = apt_plan.Wish(p["names"], {name: str(version) for name, version in p["pins"].items()}, *lists)
    if module.get_bin_path("dpkg-query") is None:
        raise query.AptError("there is no dpkg-query here. Fix: use this role on Debian or Ubuntu only")
    run = query.runner(module)
    packages = query.read_packages(run)
    needed = apt_plan.need(wish, packages)
    there = apt_plan.installed(packages)
    differs = bool(needed.specs or needed.hold or needed.unhold or needed.conflicts)
    result: dict[str, t.Any] = {
        "changed": False,
        "versions": {name: there[name] for name in [*wish.names, *wish.pins] if name in there},
        **needed._asdict(),
        "other_version": [move._asdict() for move in needed.other_version],
        "remove": apt_plan.to_remove(wish, needed),
        "differs": differs,
        "unfinished": apt_plan.unfinished(packages),
        "refusals": apt_plan.wrong_wish(wish),
        "units": units.show(module, p["units"]),
    }
    if p["undo_plan"] is not None:
        said = p["failure_text"]
        result["undo"] = way_back(p["undo_plan"], packages)
        result["failure"] = apt_plan.explain_failed_transaction(said, apt_get.parse_complaints(said))
    elif differs:
        result["refusals"] += query.refuse_now(wish, packages)
        valid_s = p["lists_valid_s"]
        may_ask = valid_s is None or query.are_young(query.lists_age_s(), valid_s)
        if p["simulate"] and may_ask and (needed.specs or result["remove"]):
            spare_bytes = p["spare_mib"] * _MEBIBYTE_BYTES
            plan, refused = query.simulate(run, wish, packages, spare_bytes)
            # Young lists may be empty ones, left by an update that was cut off.
            if plan["possible"] or valid_s is None:
                result["plan"] = plan
                result["refusals"] += refused
        if p["role"] is not None and not result["refusals"] and (needed.specs or result["remove"]):
            result["diff"] = record(module, wish, result, packages)
            result["changed"] = bool(result["diff"])
    return result


def main() -> None:
    """Run the module."""
    names: dict[str, t.Any] = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "names": names,
            "pins": {"type": "dict", "default": {}},
            "hold": names,
            "unhold": names,
            "conflicts": names,
            "remove_allow": names,
            "simulate": {"type": "bool", "default": False},
            "lists_valid_s": {"type": "int"},
            "spare_mib": {"type": "int", "default": 64},
            "role": {"type": "str"},
            "units": names,
            "undo_plan": {"type": "dict"},
            "failure_text": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    module_end.end(module, look, query.AptError, baseline.OriginalsError, units.UnitsError)


if __name__ == "__main__":
    main()
