#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: programs are main.py in module_utils/quick and metrics, packed by module_utils/program.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: quick_program
short_description: Install the quick check, or the writer of metrics, on a node as one program
version_added: "0.3.0"
description:
  - Packs O(program) with all that it imports into one executable file, which this node's Python runs.
    The same version of the collection makes the same file.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
  - railyard.fabric.attributes.full
options:
  path:
    description: The program's place.
    type: path
    required: true
  program:
    description: V(quick) is C(railyard-quick), V(metrics) is C(railyard-metrics).
    type: str
    choices: [quick, metrics]
    default: quick
    version_added: "0.3.0"
  role:
    description: >-
      Whose record of originals says that the program was not there, as M(railyard.fabric.baseline) does it.
      Without it nothing is recorded.
    type: str
    version_added: "0.3.0"
"""

EXAMPLES = r"""
- name: Install the quick check
  railyard.fabric.quick_program:
    path: /usr/local/sbin/railyard-quick
    role: quick_check

- name: Install the writer of the node's metrics
  railyard.fabric.quick_program:
    path: /usr/local/sbin/railyard-metrics
    program: metrics
    role: node_metrics
"""

RETURN = r"""
sha256:
  description: Digest of the program.
  returned: success
  type: str
  sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
"""

import hashlib
import os
import stat
import sys
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils import atomic_files, module_end, program
from ansible_collections.railyard.fabric.plugins.module_utils.metrics import main as metrics
from ansible_collections.railyard.fabric.plugins.module_utils.quick import main as quick
from ansible_collections.railyard.fabric.plugins.module_utils.state import baseline

ROOT = "/"
MODE = 0o755
_ENTRIES = {
    name: main.__name__[len(program.PACKAGE) + 1 :] for name, main in (("quick", quick), ("metrics", metrics))
}


def packed(interpreter: str, name: str = "quick") -> bytes:
    """Return a program: a zip behind a line that names the interpreter, which heeds nothing of a user's."""
    return f"#!{interpreter} -I\n".encode() + program.build(_ENTRIES[name], program.loaded)


def state(path: str) -> str | None:
    """Return digest, mode and owner of what is there, as text; None if nothing is."""
    try:
        with open(path, "rb") as handle:
            status = os.fstat(handle.fileno())
            return describe(handle.read(), stat.S_IMODE(status.st_mode), status.st_uid)
    except FileNotFoundError:
        return None


def describe(data: bytes, mode: int, owner: int) -> str:
    """Return digest, mode and owner as text."""
    return f"sha256 {hashlib.sha256(data).hexdigest()}, mode {mode:04o}, owner {owner}\n"


def hold(module: AnsibleModule) -> dict[str, t.Any]:
    """Do what the parameters ask; return the result."""
    path: str = module.params["path"]
    role: str | None = module.params["role"]
    data = packed(sys.executable, module.params["program"])
    before, after = state(path), describe(data, MODE, os.geteuid())
    diff = []
    if before is None and role is not None:
        diff += baseline.record_files(ROOT, role, [path], module.check_mode)
    diff.append(module_end.diff(path, before or "", after))
    if before != after and not module.check_mode:
        atomic_files.write_bytes(path, data, MODE, (os.geteuid(), os.getegid()))
    return {
        "changed": before != after,
        "sha256": hashlib.sha256(data).hexdigest(),
        "diff": diff,
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "program": {"type": "str", "choices": ["quick", "metrics"], "default": "quick"},
            "role": {"type": "str"},
        },
        supports_check_mode=True,
    )
    module_end.end(module, hold, baseline.OriginalsError)


if __name__ == "__main__":
    main()
