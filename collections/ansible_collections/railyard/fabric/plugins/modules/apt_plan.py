#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: outputs are read in module_utils/parsers/apt_get.py, refusals are in module_utils/apt_plan.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: apt_plan
short_description: Tell what a transaction of apt would do, and what of it is refused
version_added: "0.3.0"
description:
  - Compares the packages that are asked for with what dpkg has, and with O(simulate) asks apt-get what it
    would do for them. Changes nothing.
  - With O(undo_plan) it tells instead how to come back from a transaction that failed.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
options:
  names:
    description: Packages that are to be there.
    type: list
    elements: str
    default: []
  pins:
    description: Packages that are to be there in exactly this version.
    type: dict
    default: {}
  hold:
    description: Packages that are to be on hold.
    type: list
    elements: str
    default: []
  unhold:
    description: Packages that are to be on hold no longer.
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
  spare_mib:
    description: Space in MiB that has to be left on the filesystem of C(/usr).
    type: int
    default: 64
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
    support: none
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Look what the driver would bring
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
  description: Packages that are asked for and not there.
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
  description: Whether anything is to be done.
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
    The transaction (V(moves), each with V(name), V(before) and V(after)), what apt-get is told to install
    (V(specs), with the held parts that a pinned package needs in one version), whether it could plan it
    (V(possible)), whether it moves a held package (V(moves_held)), what is fetched and unpacked, and the
    packages' states before.
  returned: with O(simulate), where something is to be done
  type: dict
  sample:
    specs: ["doca-ofed=3.2.0-046000"]
    moves: [{"name": "doca-ofed", "before": null, "after": "3.2.0-046000"}]
    possible: true
    moves_held: false
    download_bytes: 1024
    unpacked_bytes: 4096
    before: {}
undo:
  description: >-
    Names to purge, to remove and to hold, and specs to install (V(purge), V(remove), V(hold), V(restore)).
  returned: with O(undo_plan)
  type: dict
  sample: {"purge": ["doca-ofed"], "remove": [], "restore": [], "hold": []}
failure:
  description: What O(failure_text) says went wrong, with what to do about it.
  returned: with O(undo_plan)
  type: str
  sample: "Sub-process /usr/bin/dpkg returned an error code (1). Fix: run the same apt-get on the node"
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils import apt_plan
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import apt_get

DPKG_UPDATES = "/var/lib/dpkg/updates"
ENVIRONMENT = {"LC_ALL": "C", "LANGUAGE": "C", "DEBIAN_FRONTEND": "noninteractive"}
# Allowed in the simulation so that it shows them; what of it is refused is decided afterwards.
SIMULATE = [
    "--simulate",
    "--quiet",
    "--allow-downgrades",
    "--allow-change-held-packages",
    "--ignore-hold",
    "-oAPT::Install-Recommends=no",
]


def run(module: AnsibleModule, *argv: str) -> tuple[int, str, str]:
    """Run a program in the C locale."""
    code, out, error = module.run_command(list(argv), environ_update=ENVIRONMENT)
    return int(code), str(out), str(error)


def read_packages(module: AnsibleModule) -> dict[str, apt_get.Package]:
    """Ask dpkg for all packages."""
    if module.get_bin_path("dpkg-query") is None:
        module.fail_json(msg="there is no dpkg-query here. Fix: use this role on Debian or Ubuntu only")
    native = run(module, "dpkg", "--print-architecture")[1].strip()
    code, out, error = run(module, "dpkg-query", "--show", f"--showformat={apt_get.DPKG_QUERY_FORMAT}")
    if code not in (0, 1):
        module.fail_json(
            msg=f"dpkg-query failed: {error.strip()}. Fix: look at /var/lib/dpkg/status on the node"
        )
    return apt_get.parse_packages(out, native)


def is_interrupted() -> bool:
    """Tell whether dpkg left updates that it did not bring into its list, which apt looks at as well."""
    return os.path.isdir(DPKG_UPDATES) and any(name.isdigit() for name in os.listdir(DPKG_UPDATES))


def place(path: str) -> tuple[str, int, int]:
    """Return the path, its device and what is free there; of the nearest folder that exists."""
    while not os.path.isdir(path):
        path = os.path.dirname(path.rstrip("/")) or "/"
    state = os.statvfs(path)
    return path, os.stat(path).st_dev, state.f_bavail * state.f_frsize


def archives_folder(module: AnsibleModule) -> str:
    """Ask apt where it fetches packages to."""
    out = run(module, "apt-config", "shell", "FOLDER", "Dir::Cache::archives/d")[1]
    return out.strip().partition("=")[2].strip("'\"") or "/var/cache/apt/archives"


def with_parts(module: AnsibleModule, wish: apt_plan.Wish, specs: list[str]) -> list[str]:
    """Add the versions of the parts that hang on a pinned package, since apt would take the newest of each.

    A part is what the request holds and a pinned package needs in exactly one version.
    """
    specs = list(specs)
    for spec in specs:  # grows while it is walked: a part may have parts
        if "=" not in spec:
            continue
        needed = apt_get.parse_exact_depends(run(module, "apt-cache", "show", spec)[1])
        named = [one.split("=", maxsplit=1)[0] for one in specs]
        specs += [
            f"{name}={version}" for name, version in needed.items() if name in wish.hold and name not in named
        ]
    return specs


def simulate(
    module: AnsibleModule, wish: apt_plan.Wish, needed: apt_plan.Need, packages: dict[str, apt_get.Package]
) -> tuple[dict[str, t.Any], list[str]]:
    """Ask apt-get what it would do; return the plan, and why it is refused."""
    away = [f"{name}-" for name in apt_plan.to_remove(wish, needed)]
    specs = with_parts(module, wish, needed.specs)
    code, out, error = run(module, "apt-get", *SIMULATE, "install", *specs, *away)
    plan: dict[str, t.Any] = {
        "specs": specs,
        "moves": [],
        "possible": code == 0,
        "moves_held": False,
        "before": {},
    }
    if code != 0:
        offered = apt_get.parse_madison(run(module, "apt-cache", "madison", *wish.names, *wish.pins)[1])
        return plan, apt_plan.explain_failure(wish, apt_get.parse_complaints(f"{out}\n{error}"), offered)
    moves = apt_get.parse_simulation(out)
    fetched = [f"{move.name}={move.after}" for move in moves if move.after is not None]
    sizes = apt_get.Sizes(0, 0)
    if fetched:
        sizes = apt_get.parse_sizes(run(module, "apt-cache", "show", *fetched)[1])
    spare_bytes = module.params["spare_mib"] * 1024 * 1024
    rooms = apt_plan.rooms(sizes, place(archives_folder(module)), place("/usr"), spare_bytes)
    plan.update(
        moves=[move._asdict() for move in moves],
        moves_held=apt_plan.moves_held(moves, packages),
        before={move.name: packages[move.name]._asdict() for move in moves if move.name in packages},
        **sizes._asdict(),
    )
    return plan, apt_plan.refuse_moves(wish, moves, packages) + (
        apt_plan.refuse_space(rooms) if fetched else []
    )


def way_back(plan: dict[str, t.Any], packages: dict[str, apt_get.Package]) -> dict[str, t.Any]:
    """Tell how to come back from a plan that was returned before."""
    moves = [apt_get.Move(**move) for move in plan["moves"]]
    before = {name: apt_get.Package(**package) for name, package in plan["before"].items()}
    return apt_plan.undo(moves, before, packages)._asdict()


def look(module: AnsibleModule) -> dict[str, t.Any]:
    """Do what the parameters ask; return the result."""
    p = module.params
    lists = [p[key] for key in ("hold", "unhold", "conflicts", "remove_allow")]
    wish = apt_plan.Wish(p["names"], {name: str(version) for name, version in p["pins"].items()}, *lists)
    packages = read_packages(module)
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
    }
    if p["undo_plan"] is not None:
        said = p["failure_text"]
        result["undo"] = way_back(p["undo_plan"], packages)
        result["failure"] = apt_plan.explain_failed_transaction(said, apt_get.parse_complaints(said))
    elif differs:
        result["refusals"] += apt_plan.refuse_state(packages, is_interrupted())
        result["refusals"] += apt_plan.refuse_conflicts(wish, needed, packages)
        if p["simulate"] and (needed.specs or result["remove"]):
            result["plan"], refused = simulate(module, wish, needed, packages)
            result["refusals"] += refused
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
            "spare_mib": {"type": "int", "default": 64},
            "undo_plan": {"type": "dict"},
            "failure_text": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    module.exit_json(**look(module))


if __name__ == "__main__":
    main()
