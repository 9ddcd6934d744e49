#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: what a run does on its node is decided in module_utils/runner/control.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_run
short_description: Stage, start, stop and collect a measuring run on a node
version_added: "0.1.0"
description:
  - Starts Railyard's runner on the node as a transient systemd unit, and does what else a run needs there.
  - The runner measures with its partners without the controller; this module does not wait for it.
  - A lease on the node refuses a second controller. M(railyard.fabric.fabric_watch) renews it; when it is not
    renewed, the runner stops itself, ends its tools and keeps what it has measured.
  - Use M(railyard.fabric.fabric_stage) for O(state=staged), since it uploads the runner.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  state:
    description:
      - V(staged) takes the lease and stages test schedule and runner.
      - V(started) starts the runner unless it runs or has finished.
      - V(stopped) ends the runner and its tools; the rows of tests that are left say C(interrupted).
      - V(collected) ends everything of the run, packs the results, deletes the secret, gives the lease back.
      - V(absent) does the same without packing, and removes the run's folders.
    type: str
    required: true
    choices: [staged, started, stopped, collected, absent]
  run:
    description: Id of the run, as C(20261121T101500Z-3f2a).
    type: str
    required: true
  node:
    description: The node's name in the inventory, for messages and the name of the archive.
    type: str
    required: true
  controller:
    description: Who runs this; shown to others who find the node leased.
    type: str
    default: an unnamed controller
  lease_s:
    description: Seconds without a M(railyard.fabric.fabric_watch) after which the runner stops itself.
    type: int
    default: 90
  deadline_s:
    description:
      - Seconds after which the run is certainly over, as fabric_stage returns them, with O(state=started).
      - A minute later systemd ends what is left.
    type: int
  launcher:
    description: How runner and tools are started; V(direct) is for machines without systemd.
    type: str
    choices: [systemd, direct]
    default: systemd
  work_order:
    description:
      - This node's test schedule, with O(state=staged), packed as M(railyard.fabric.fabric_stage) packs it.
      - It holds the run's secret.
    type: str
  program_sha256:
    description: The runner's hash, with O(state=staged) and O(state=started).
    type: str
  program_source:
    description: A file on the node with the runner, with O(state=staged), when it is not there yet.
    type: path
"""

EXAMPLES = r"""
- name: Start what fabric_stage has staged
  railyard.fabric.fabric_run:
    state: started
    run: "{{ opened.run }}"
    node: "{{ inventory_hostname }}"
    controller: "{{ opened.controller }}"
    program_sha256: "{{ staged.program_sha256 }}"
    deadline_s: "{{ staged.deadline_s }}"

- name: Pack the results
  railyard.fabric.fabric_run:
    state: collected
    run: "{{ opened.run }}"
    node: "{{ inventory_hostname }}"
  register: collected
"""

RETURN = r"""
program_needed:
  description: Whether the runner has to be uploaded first.
  returned: with O(state=staged)
  type: bool
  sample: false
program_path:
  description: Where the runner is kept.
  returned: with O(state=staged)
  type: str
  sample: /var/lib/railyard/bin/runner-0123456789abcdef.pyz
unit:
  description: The runner's systemd unit.
  returned: with O(state=started)
  type: str
  sample: railyard-runner-20261121T101500Z-3f2a
leftovers:
  description: Other runs on the node whose results were not fetched.
  returned: with O(state=started)
  type: list
  elements: str
  sample: []
archive:
  description: The packed results on the node; null when there is nothing to pack.
  returned: with O(state=collected)
  type: str
  sample: /var/lib/railyard/runs/20261121T101500Z-3f2a/gpuserver1.tar.gz
sha256:
  description: The archive's hash.
  returned: with O(state=collected)
  type: str
  sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
size_bytes:
  description: The archive's size.
  returned: with O(state=collected)
  type: int
  sample: 18231
rows:
  description: Result rows in the archive.
  returned: with O(state=collected)
  type: int
  sample: 24
lease_left_s:
  description: How long another run's lease on the node lasts if it is not renewed.
  returned: when the node is leased to another run
  type: float
  sample: 21.5
error:
  description: What blocks the run, in the form that result rows carry.
  returned: on failure
  type: dict
  sample: {class: lease, message: gpuserver1 is measuring for another run, host: gpuserver1, fix: wait for it}
"""

import errno
import sys
from collections.abc import Sequence
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.runner.control import Control
from ansible_collections.railyard.fabric.plugins.module_utils.runner.lease import Lease

ARGUMENTS: dict[str, Any] = {
    "state": {
        "type": "str",
        "required": True,
        "choices": ["staged", "started", "stopped", "collected", "absent"],
    },
    "run": {"type": "str", "required": True},
    "node": {"type": "str", "required": True},
    "controller": {"type": "str", "default": "an unnamed controller"},
    "lease_s": {"type": "int", "default": 90},
    "deadline_s": {"type": "int"},
    "launcher": {"type": "str", "choices": ["systemd", "direct"], "default": "systemd"},
    "work_order": {"type": "str", "no_log": True},
    "program_sha256": {"type": "str"},
    "program_source": {"type": "path"},
}


def act(control: Control, params: dict[str, Any], python: str, check: bool) -> dict[str, Any]:
    """Bring the run on this node to the wanted state and return the module's result."""
    state, lease_s = params["state"], float(params["lease_s"])
    sha256, controller = params["program_sha256"], params["controller"]
    if state == "staged":
        return control.stage(
            params["work_order"], sha256, params["program_source"], controller, lease_s, check
        )
    if state == "started":
        return control.start(python, sha256, controller, lease_s, float(params["deadline_s"]), check)
    if state == "stopped":
        return {"changed": control.stop(check)}
    if state == "collected":
        return control.collect(check)
    return {"changed": control.remove(check)}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        required_if=[
            ("state", "staged", ("work_order", "program_sha256")),
            ("state", "started", ("program_sha256", "deadline_s")),
        ],
        supports_check_mode=True,
    )

    def run_command(argv: Sequence[str]) -> tuple[int, str, str]:
        status, output, error = module.run_command(list(argv))
        return status, output, error

    params = module.params
    try:
        control = Control(params["run"], params["node"], run_command, params["launcher"])
        result = act(control, params, sys.executable, module.check_mode)
    except MeasurementError as obstacle:
        where = "" if obstacle.host in obstacle.message else f"{obstacle.host}: "
        error = obstacle.as_error()
        left = {"lease_left_s": Lease().left_s()} if error["class"] == "lease" else {}
        module.fail_json(msg=f"{where}{obstacle.message}. Fix: {obstacle.fix}", error=error, **left)
    except OSError as error:
        # A full disk names no path.
        full = error.errno == errno.ENOSPC and not error.filename
        where = " in /var/lib/railyard or /run/railyard: make room there" if full else ""
        module.fail_json(msg=f"{params['node']}: {error}{where}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
