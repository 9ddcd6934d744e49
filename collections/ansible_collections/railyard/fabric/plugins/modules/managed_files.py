#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: what is compared, written and removed is decided in module_utils/state/managed_files.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: managed_files
short_description: Write and remove all files of a role in one request to the node
version_added: "0.3.0"
description:
  - Renders the templates on the controller with Ansible's own template lookup and sends the contents to the
    node in one request, which compares them with what is there, writes what differs and removes what is no
    longer wanted.
  - All new files are on the node's disk before the first one is put in place by a rename. A full disk changes
    nothing.
  - Files belong to root, and to its group unless O(files[].group) names another one. Folders that are missing
    are made with mode V(0755); those that are there stay as they are. A symbolic link at the path of a file
    is replaced by the file, and is never removed.
  - The diff does not show the content of a file that not everyone may read.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
  - railyard.fabric.attributes.full
options:
  files:
    description: The wanted files, in the order in which they are written.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The absolute path on the node.
        type: str
        required: true
      template:
        description:
          - The template, searched for as M(ansible.builtin.template) does.
          - Without it and O(files[].content) it is the file's path and C(.j2), such as
            C(etc/sysctl.d/60-railyard.conf.j2).
        type: str
      content:
        description: The text itself.
        type: str
      mode:
        description: The file's mode, in octal digits.
        type: str
        default: "0644"
      group:
        description:
          - The file's group, for a secret that only a daemon reads.
          - In check mode it need not exist yet.
        type: str
        default: root
  unwanted:
    description:
      - Paths of files that are not to be there, in the order in which they are removed.
      - A path that is also in O(files) stays, so that this may be all files that a role ever writes.
    type: list
    elements: str
    default: []
  own_folders:
    description:
      - Absolute paths of folders that hold files of the role alone. What is below them and not in O(files) is
        removed, such as a rule file of an earlier version. The folders themselves stay.
    type: list
    elements: str
    default: []
  role:
    description: >-
      Whose record of originals the files are added to before the first of them is written, as
      M(railyard.fabric.baseline) does it. Without it nothing is recorded.
    type: str
  units:
    description: >-
      Names of systemd units whose state is returned in RV(units). A unit whose file is removed by this call
      is disabled and stopped before.
    type: list
    elements: str
    default: []
  checks:
    description:
      - Programs that check files together, such as C(promtool check config). Each runs in a copy of a folder
        as that will be, before the first file is replaced, also in check mode. One that fails changes
        nothing.
      - Nothing runs where no file of the folder changes. A program that the node does not have is passed over
        and named in RV(unchecked).
    type: list
    elements: dict
    default: []
    suboptions:
      folder:
        description: The absolute path of the folder. The program runs in its copy.
        type: str
        required: true
      argv:
        description: The program and its arguments. Names of files are relative to the folder.
        type: list
        elements: str
        required: true
  reload_systemd:
    description: >-
      Whether systemd reads its configuration again where a file below C(/etc/systemd) was written or removed.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Write the files of a role and remove those that are no longer wanted
  railyard.fabric.managed_files:
    role: node_tuning
    files:
      - path: /etc/sysctl.d/60-railyard.conf
      - path: /usr/local/bin/railyard-bind
        mode: "0755"
      - path: /etc/railyard/nccl.env
        template: etc/nccl.conf.j2
    unwanted: "{{ __node_tuning_all_paths }}"
    units: [railyard-cpu-governor.service]
    reload_systemd: true
  register: __node_tuning_files
"""

RETURN = r"""
changed_files:
  description: Paths of the files that were written or removed, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [/etc/sysctl.d/60-railyard.conf]
written:
  description: Those of RV(changed_files) that were written.
  returned: success
  type: list
  elements: str
  sample: [/etc/sysctl.d/60-railyard.conf]
removed:
  description: Those of RV(changed_files) that were removed.
  returned: success
  type: list
  elements: str
  sample: []
unchecked:
  description: Programs of O(checks) that the node does not have, so that these files were not checked.
  returned: success
  type: list
  elements: str
  sample: []
units:
  description: >-
    For each of O(units) its C(unit_file_state) and C(active_state) after this call, as in systemd; empty
    and C(inactive) for a unit that does not exist.
  returned: success
  type: dict
  sample: {"railyard-cpu-governor.service": {"unit_file_state": "enabled", "active_state": "active"}}
"""

import grp
import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils import atomic_files, module_end
from ansible_collections.railyard.fabric.plugins.module_utils.state import baseline, managed_files, units

ROOT = "/"
_SYSTEMD = "/etc/systemd/"
EXPECTED = (baseline.OriginalsError, managed_files.ManagedFilesError, units.UnitsError)
ARGUMENTS: dict[str, t.Any] = {
    "files": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "path": {"type": "str", "required": True},
            "template": {"type": "str"},
            "content": {"type": "str"},
            "mode": {"type": "str", "default": "0644"},
            "group": {"type": "str", "default": "root"},
        },
    },
    "checks": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "folder": {"type": "str", "required": True},
            "argv": {"type": "list", "elements": "str", "required": True},
        },
    },
    "unwanted": {"type": "list", "elements": "str", "default": []},
    "own_folders": {"type": "list", "elements": "str", "default": []},
    "role": {"type": "str"},
    "units": {"type": "list", "elements": "str", "default": []},
    "reload_systemd": {"type": "bool", "default": False},
}


def group_id(path: str, group: str, check_mode: bool) -> int | None:
    """Return the number of a group; None for root's, which files have anyway."""
    if group == "root":
        return None
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        if check_mode:
            return -1  # its package is not there yet; no file has it
        raise managed_files.ManagedFilesError(
            f"{path}: the node has no group {group}. Fix: install the package that makes it before this file"
        ) from None


def run_checks(
    module: AnsibleModule, plan: managed_files.Plan, checks: t.Sequence[t.Mapping[str, t.Any]]
) -> list[str]:
    """Run the programs that check the new files; return those that the node does not have.

    Raises:
        ManagedFilesError: One of them refuses the files.
    """
    missing = []
    for check in checks:
        program = module.get_bin_path(check["argv"][0])
        with managed_files.copy_as_planned(ROOT, plan, check["folder"]) as copy:
            if copy is None:
                continue
            if program is None:
                missing.append(check["argv"][0])
                continue
            code, out, error = module.run_command([program, *check["argv"][1:]], cwd=copy)
            if code != 0:
                said = f"{out.strip()}\n{error.strip()}".strip().replace(copy, check["folder"])
                raise managed_files.ManagedFilesError(
                    f"{' '.join(check['argv'])} refuses the new files of {check['folder']}, and nothing was "
                    f"changed: {said or f'exit status {code}'}. "
                    "Fix: correct the variables that they are made of"
                )
    return list(dict.fromkeys(missing))


def hold(module: AnsibleModule) -> dict[str, t.Any]:
    """Do what the parameters ask; return the result."""
    asked: dict[str, t.Any] = module.params
    wanted = [
        atomic_files.NewFile(
            one["path"],
            (one["content"] or "").encode("utf-8", "surrogateescape"),
            managed_files.parse_mode(one["path"], one["mode"]),
            group_id(one["path"], one["group"], module.check_mode),
        )
        for one in asked["files"]
    ]
    below = [path for folder in asked["own_folders"] for path in managed_files.files_below(ROOT, folder)]
    plan = managed_files.make_plan(ROOT, wanted, [*asked["unwanted"], *below])
    unchecked = run_checks(module, plan, asked["checks"])
    diff = []
    if asked["role"] is not None and plan.write:
        paths = [file.path for file in wanted]
        diff += baseline.record_files(ROOT, asked["role"], paths, module.check_mode)
    diff += managed_files.make_diff(plan)
    if not module.check_mode:
        removed = {os.path.basename(path) for path in plan.remove}
        for unit in asked["units"]:
            if unit in removed:
                units.systemctl(module, "disable", "--now", "--", unit)
        managed_files.apply(ROOT, plan)
    written = [file.path for file in plan.write]
    changed_files = written + plan.remove
    reads_again = asked["reload_systemd"] and any(path.startswith(_SYSTEMD) for path in changed_files)
    if reads_again and not module.check_mode:
        units.systemctl(module, "daemon-reload")
    return {
        "changed": bool(changed_files),
        "changed_files": changed_files,
        "written": written,
        "removed": plan.remove,
        "unchecked": unchecked,
        "units": units.show(module, asked["units"]),
        "diff": diff,
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        # The contents of all files would go to the node's journal.
        no_log=True,
    )
    module_end.end(module, hold, *EXPECTED)


if __name__ == "__main__":
    main()
