#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: what scontrol says is read in module_utils/state/slurm.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_node
short_description: Drain this node in Slurm, and resume it if Railyard drained it
version_added: "0.3.0"
description:
  - Asks C(scontrol) on the node itself. Without C(scontrol), or where the cluster has no such node, there is
    nothing to do, which it reports.
  - A node that somebody else drained is left as it is, before and after.
  - Running jobs are never ended. RV(busy) is whether there are any; the caller waits for them.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
  - railyard.fabric.attributes.full
options:
  state:
    description:
      - V(read) changes nothing.
      - V(drained) lets no new job start.
      - V(resumed) ends a drain that Railyard began, and no other; with O(reason) one for that reason only.
    type: str
    choices: [read, drained, resumed]
    default: read
  name:
    description: The node's name in Slurm; by default the first part of its host name.
    type: str
  reason:
    description: Why it is drained. Slurm shows it after C(Railyard:). Required with O(state=drained).
    type: str
"""

EXAMPLES = r"""
- name: Drain the node
  railyard.fabric.slurm_node:
    state: drained
    reason: reboot
  register: slurm

- name: Wait for the jobs that run
  railyard.fabric.slurm_node:
  register: slurm
  until: not slurm.busy
  retries: 60
  delay: 30
"""

RETURN = r"""
in_cluster:
  description: Whether Slurm is here and knows the node.
  returned: success
  type: bool
  sample: true
name:
  description: The node's name in Slurm.
  returned: success
  type: str
  sample: gpu001
node_state:
  description: As Slurm prints it; empty where it does not know the node.
  returned: success
  type: str
  sample: IDLE+DRAIN
reason:
  description: Why it is drained or down.
  returned: success
  type: str
  sample: "Railyard: reboot"
drained:
  description: Whether no new job starts.
  returned: success
  type: bool
  sample: true
ours:
  description: Whether the drain is Railyard's.
  returned: success
  type: bool
  sample: true
busy:
  description: Whether a job runs, or is ending.
  returned: success
  type: bool
  sample: false
"""

import socket
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils import module_end
from ansible_collections.railyard.fabric.plugins.module_utils.state import slurm

_FIX = "Fix: see to it that `scontrol ping` answers on the node, or give -e slurm_drain_enabled=false"


def show(module: AnsibleModule, scontrol: str, name: str) -> slurm.Node | None:
    """Return the node's state in Slurm; None if Slurm does not know it."""
    code, out, error = module.run_command([scontrol, "show", "node", name])
    if slurm.is_unknown(code, out, name):
        return None
    if code != 0:
        raise slurm.SlurmError(f"scontrol show node {name}: {(error or out).strip() or code}. {_FIX}")
    return slurm.parse_node(out)


def update(module: AnsibleModule, scontrol: str, name: str, *words: str) -> slurm.Node | None:
    """Change the node, and read back what became of it."""
    code, out, error = module.run_command([scontrol, "update", f"NodeName={name}", *words])
    if code != 0:
        raise slurm.SlurmError(f"scontrol update NodeName={name}: {(error or out).strip() or code}. {_FIX}")
    return show(module, scontrol, name)


def answer(name: str, before: slurm.Node | None, after: slurm.Node | None, changed: bool) -> dict[str, t.Any]:
    """Return the module's result."""
    return {
        "changed": changed,
        "in_cluster": after is not None,
        "name": name,
        "node_state": after.state if after else "",
        "reason": after.reason if after else "",
        "drained": after is not None and after.is_drained,
        "ours": after is not None and after.is_ours,
        "busy": after is not None and after.is_busy,
        "diff": module_end.diff(
            f"Slurm, {name}",
            f"drained: {before is not None and before.is_drained}\n",
            f"drained: {after is not None and after.is_drained}\n",
        ),
    }


def hold(module: AnsibleModule) -> dict[str, t.Any]:
    """Do what the parameters ask; return the result."""
    wanted: dict[str, t.Any] = module.params
    name = wanted["name"] or socket.gethostname().split(".", maxsplit=1)[0]
    scontrol = module.get_bin_path("scontrol")
    reason = slurm.own_reason(wanted["reason"]) if wanted["reason"] else None
    before = show(module, scontrol, name) if scontrol else None
    if scontrol is None or before is None or wanted["state"] == "read":
        return answer(name, before, before, False)
    if wanted["state"] == "drained":
        if before.is_drained:
            return answer(name, before, before, False)
        if module.check_mode:
            return answer(name, before, before._replace(is_drained=True, reason=reason or ""), True)
        after = update(module, scontrol, name, "State=DRAIN", f"Reason={reason}")
        if after is None or not after.is_ours:
            message = f"Slurm took the drain of {name} and shows {after and after.state}. {_FIX}"
            raise slurm.SlurmError(message)
        return answer(name, before, after, True)
    if not before.is_ours or reason not in (None, before.reason):
        return answer(name, before, before, False)
    if module.check_mode:
        return answer(name, before, before._replace(is_drained=False), True)
    after = update(module, scontrol, name, "State=RESUME")
    if after is None or after.is_drained:
        raise slurm.SlurmError(f"Slurm took the resume of {name} and shows {after and after.state}. {_FIX}")
    return answer(name, before, after, True)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["read", "drained", "resumed"], "default": "read"},
            "name": {"type": "str"},
            "reason": {"type": "str"},
        },
        required_if=[("state", "drained", ("reason",))],
        supports_check_mode=True,
    )
    module_end.end(module, hold, slurm.SlurmError)


if __name__ == "__main__":
    main()
