#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stage, apply and confirm a change of a node's rails."""

from __future__ import annotations

DOCUMENTATION = r"""
module: netplan_stage
short_description: Stage, apply and confirm a change of a node's rails
description:
  - The node's half of M(railyard.fabric.netplan_apply), which is what roles call.
  - With O(state=staged), compares the rails with the netplan file and with the running network. When both
    agree, nothing happens. Otherwise, the candidate is tried with C(netplan generate --root-dir); then what
    an undo needs is kept under C(/var/lib/railyard/rail_network), a timer and a unit of the next boot are
    armed that undo the change, and it is applied in a systemd unit of its own.
  - With O(state=applied), waits until netplan is done. Only a connection that is opened after that can prove
    that one can still be opened.
  - With O(state=confirmed), waits until the rails are as planned and nothing else of the node's network was
    lost, and disarms the timer; when the proof fails, the change is undone at once.
  - With O(revert=true), the change leads back to what the last confirmed one replaced, or the first one.
  - Refuses, writing nothing, when a rail's netdev is missing, is a port of a bond or bridge, carries a
    default route, or is configured by somebody else's file; and, unless O(accept_drift=true), when applying
    would sweep away routing rules that no file declares, or apply edits of other netplan files that never
    were.
version_added: 0.1.0
author:
  - Railyard contributors (@railyard)
options:
  state:
    description: Which part of the change to do.
    type: str
    choices: [staged, applied, confirmed]
    default: staged
  node:
    description: Name of the node in the inventory, for messages.
    type: str
    required: true
  rails:
    description:
      - The node's rails, as the filter P(railyard.fabric.node_rails#filter) returns them.
      - Rails without an address are left alone.
    type: list
    elements: dict
    default: []
  networks:
    description:
      - The node's other networks, as the filter P(railyard.fabric.node_networks#filter) returns them.
      - Those with C(manage) are written to C(/etc/netplan/60-railyard-networks.yaml); others are left alone.
    type: list
    elements: dict
    default: []
  frontend:
    description: The inventory's C(fabric.frontend); written to the same file where it has C(manage).
    type: dict
  path:
    description: The netplan file that belongs only to Railyard.
    type: path
    default: /etc/netplan/60-railyard-rails.yaml
  rp_filter:
    description:
      - The rails' reverse path filter, 2 (loose) unless declared otherwise.
      - The strict one looks in the main table alone, and drops what a rail's own table would answer.
    type: int
    choices: [0, 1, 2]
    default: 2
  take_over:
    description:
      - Whether netplan and networkd files of others that configure these netdevs are moved aside
        (C(.railyard-disabled)), and cloud-init's network configuration is disabled.
      - Of a netplan file that holds more, the stanzas of others stay, and what netplan generates of them.
      - Without it such a file is refused.
    type: bool
    default: false
  rollback_after_s:
    description: Seconds within which a change that is not confirmed has been undone; at least 10.
    type: int
    default: 120
  accept_drift:
    description: >-
      Go on although files and running network differ before the change. Edits of other netplan files are then
      applied with it, and rules that no file declares are put back after it.
    type: bool
    default: false
  revert:
    description: With O(state=staged), restore the state that O(revert_to) names; apply no rails.
    type: bool
    default: false
  revert_to:
    description: >-
      With O(revert=true), which state is restored: V(last_change), that before the last confirmed change, or
      V(original), that before the first one.
    type: str
    choices: [last_change, original]
    default: last_change
  peers:
    description: >-
      With O(state=confirmed), nodes that this run has changed, pinged over the rails; full packets that get
      nowhere while small ones do undo the change.
    type: list
    elements: dict
    default: []
  token:
    description: The token that O(state=staged) returned; required with the other states.
    type: str
attributes:
  check_mode:
    support: full
    description: Reports what would change, and changes nothing.
  diff_mode:
    support: full
    description: Shows the file before and after, and what of the running network differs.
"""

EXAMPLES = r"""
- name: Stage the rails' netplan file (roles call railyard.fabric.netplan_apply, which also confirms)
  railyard.fabric.netplan_stage:
    node: "{{ inventory_hostname }}"
    rails: "{{ rail_network_rails }}"
    rollback_after_s: 120
  register: staged

- name: Confirm the change over a connection that was made after it
  railyard.fabric.netplan_stage:
    state: confirmed
    node: "{{ inventory_hostname }}"
    token: "{{ staged.token }}"
  when: staged is changed
"""

RETURN = r"""
token:
  description: Names the change; confirm with it.
  returned: when a change was staged
  type: str
  sample: 3f2a9c0d5b7e4f11
reason_unchanged:
  description: Why there is nothing to return to.
  returned: with O(revert=true), when there is nothing to do
  type: str
  sample: no network change of Railyard was ever confirmed here
outcome:
  description: The state of the change.
  returned: always
  type: str
  sample: >-
    C(unchanged), C(pending), C(applied), C(confirmed), C(rolling_back), C(rolled_back), C(unknown),
    or C(in_flight): an earlier change is still open
settled_within_s:
  description: Within how many seconds the earlier change is confirmed or undone.
  returned: when RV(outcome=in_flight)
  type: float
  sample: 41.5
netdevs:
  description: The netdev of each rail, as resolved on the node.
  returned: with O(state=staged)
  type: dict
  sample: {rail0: ens6, rail1: ens6d1}
drift:
  description: What of the running network was not as planned.
  returned: with O(state=staged)
  type: list
  elements: dict
  sample: [{rail: rail0, netdev: ens6, what: mtu, is: "1500", planned: "9000"}]
proof_problems:
  description: Why the change is not proven.
  returned: with O(state=confirmed), when the proof fails
  type: list
  elements: str
  sample: ["rail0 (ens6): mtu is 1500, planned 9000"]
differences:
  description: What the undo could not restore.
  returned: when the change was undone
  type: list
  elements: str
  sample: []
reason:
  description: Why the change was undone.
  returned: when the change was undone
  type: str
  sample: not confirmed
equal:
  description: Whether the running network is again as it was before the change.
  returned: when the change was undone
  type: bool
  sample: true
findings:
  description: What a person should know and what is no failure, such as a rail without carrier.
  returned: always
  type: list
  elements: str
  sample: ["rail1 (ens6d1): no carrier; its address is set when the link comes up"]
"""

import json
import os
import secrets
import shutil
import sys
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils import program
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import (
    change,
    diff,
    drift,
    peers,
    revert,
)
from ansible_collections.railyard.fabric.plugins.module_utils.rollback import (
    restore,
    transaction,
)

#: What a change is; the action of netplan_apply takes the same.
CHANGE: dict[str, Any] = {
    "rails": {"type": "list", "elements": "dict", "default": []},
    "networks": {"type": "list", "elements": "dict", "default": []},
    "frontend": {"type": "dict"},
    "path": {"type": "path", "default": "/etc/netplan/60-railyard-rails.yaml"},
    "rp_filter": {"type": "int", "choices": [0, 1, 2], "default": 2},
    "take_over": {"type": "bool", "default": False},
    "rollback_after_s": {"type": "int", "default": 120},
    "accept_drift": {"type": "bool", "default": False},
    "revert": {"type": "bool", "default": False},
    "revert_to": {
        "type": "str",
        "choices": [revert.LAST_CHANGE, revert.ORIGINAL],
        "default": revert.LAST_CHANGE,
    },
}


def _start(module: AnsibleModule, record: dict[str, Any]) -> None:
    folder, token = transaction.STATE_DIR, record["token"]
    with transaction.locked(folder):
        transaction.begin(folder, record, program.build("rollback.transaction", program.loaded))
    pyz = [sys.executable, os.path.join(folder, "program.pyz")]
    run_unit = ["systemd-run", "--quiet", "--collect"]
    timer = [
        f"--on-active={transaction.fires_after_s(record)}s",
        "--timer-property=AccuracySec=100ms",
    ]
    expire = transaction.unit("expire", token)
    apply = transaction.unit("apply", token)
    # The timer is armed before anything is applied: from here on, the node undoes the change itself.
    for argv in (
        [*run_unit, f"--unit={expire}", *timer, *pyz, "expire", token],
        [*run_unit, f"--unit={apply}", *pyz, "apply", token],
    ):
        status, _out, err = module.run_command(argv)
        if status != 0:
            with transaction.locked(folder):
                transaction.abandon(folder, record)
            module.run_command(["systemctl", "stop", f"{expire}.timer"])
            module.fail_json(
                msg=f"{module.params['node']}: systemd does not start {argv[3]}: {err.strip()}; "
                "nothing was changed"
            )


def _finish_old(module: AnsibleModule) -> None:
    """Undo what an earlier, dead controller left unconfirmed; refuse while its timer still runs."""
    folder = transaction.STATE_DIR
    record = transaction.in_flight(folder)
    if record is None:
        return
    node, token = module.params["node"], record["token"]
    if not transaction.is_stale(record):
        module.fail_json(
            msg=f"{node}: a network change of {record['created']} is neither confirmed nor undone yet; "
            f"it undoes itself {record['rollback_after_s']} s after it began: wait, then run again",
            outcome="in_flight",
            settled_within_s=transaction.settled_within_s(record),
        )
    argv = [sys.executable, os.path.join(folder, "program.pyz"), "expire", token]
    unit = f"--unit={transaction.unit('late', token)}"
    module.warn(f"{node}: undoing the network change of {record['created']}, which was not confirmed")
    module.run_command(["systemd-run", "--quiet", "--collect", "--wait", unit, *argv], check_rc=True)


def stage(module: AnsibleModule) -> dict[str, Any]:
    """Examine the node and, unless all is well or this is check mode, start the change."""
    node = module.params["node"]
    netplan = module.get_bin_path("netplan")
    if netplan is None:
        module.fail_json(
            msg=f"{node}: netplan is not installed; install netplan.io and let systemd-networkd run, "
            "or set rail_network_install: true"
        )
    if not module.check_mode:
        _finish_old(module)
    found = _reverted(module) if module.params["revert"] else _examined(module, netplan)
    result: dict[str, Any] = {
        "changed": found["changed"],
        "outcome": "unchanged",
        "netdevs": {rail["name"]: rail["netdev"] for rail in found["rails"]},
        "drift": found["drift"],
        "findings": [f"{node}, {warning}" for warning in found["warnings"]],
    }
    if found.get("why"):
        result["reason_unchanged"] = found["why"]
    if found["changed"]:
        result["diff"] = diff.rows(found)
    if not found["changed"] or module.check_mode:
        return result
    token = secrets.token_hex(8)
    kept = ("sysctls", "rails", "netdevs", "snapshot", "foreign_rules", "own_rules", "target", "reverts")
    record = {
        "token": token,
        "files": [
            {key: entry[key] for key in ("path", "text", "mode", "owner") if key in entry}
            for entry in found["files"]
        ],
        "rollback_after_s": module.params["rollback_after_s"],
        **{key: found[key] for key in kept if key in found},
    }
    try:
        _start(module, record)
    except OSError as error:
        module.fail_json(
            msg=f"{node}: what an undo would need cannot be kept: {error}; nothing was changed. "
            f"Make room on the disk of {transaction.STATE_DIR} and of the files' folders"
        )
    return {**result, "token": token, "outcome": "pending"}


def _examined(module: AnsibleModule, netplan: str) -> dict[str, Any]:
    work = tempfile.mkdtemp(prefix="railyard-netplan-")
    params = module.params
    try:
        problems, found = change.examine(params, netplan, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if problems:
        lines = "\n".join(f"{params['node']}, {problem}" for problem in problems)
        module.fail_json(msg=f"Nothing was written.\n{lines}", problems=problems)
    return found


def _reverted(module: AnsibleModule) -> dict[str, Any]:
    why, found = revert.plan(transaction.STATE_DIR, module.params["revert_to"])
    if why:
        return {"changed": False, "why": why, "rails": [], "drift": [], "warnings": []}
    changed = any(entry["wrong"] for entry in found["files"]) or bool(found["drift"])
    return {**found, "changed": changed, "warnings": []}


def confirm(module: AnsibleModule) -> dict[str, Any]:
    """Wait for netplan, or prove and confirm the change or undo it; called again, it returns the same."""
    folder, token = transaction.STATE_DIR, module.params["token"]
    state = transaction.outcome(folder, token)
    if state["outcome"] != "pending":
        return {"changed": False, "findings": [], **state}
    record = transaction.in_flight(folder) or {}

    def applied() -> dict[str, Any] | None:
        try:
            with open(os.path.join(folder, "applied.json"), encoding="utf-8") as handle:
                return dict(json.load(handle))
        except (OSError, ValueError):
            return None

    if module.params["state"] == "applied":
        done = change.await_applied(record, applied)
        return {"changed": False, "outcome": "applied" if done else "pending", "findings": []}
    problems, away = change.await_proof(record, applied)
    if not problems:
        # Only nodes that this run has changed already: the others still have the old MTU.
        problems, silent = peers.ask(restore.run, record["rails"], module.params["peers"])
        away = away + silent
    if not problems and transaction.confirm(folder, token):
        said = drift.unexpected_lines((applied() or {}).get("stderr", ""))
        findings = [f"{module.params['node']}, {line}" for line in away + said]
        return {"changed": True, "outcome": "confirmed", "findings": findings}
    expire = transaction.unit("expire", token)
    module.run_command(["systemctl", "start", "--no-block", f"{expire}.service"])
    return {"changed": False, "outcome": "rolling_back", "proof_problems": problems, "findings": []}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["staged", "applied", "confirmed"], "default": "staged"},
            "node": {"type": "str", "required": True},
            **CHANGE,
            "peers": {"type": "list", "elements": "dict", "default": []},
            "token": {"type": "str", "no_log": False},
        },
        required_if=[("state", "applied", ("token",)), ("state", "confirmed", ("token",))],
        supports_check_mode=True,
    )
    if module.params["rollback_after_s"] < 10:
        module.fail_json(msg="rollback_after_s must be at least 10: undoing takes some seconds itself")
    try:
        result = stage(module) if module.params["state"] == "staged" else confirm(module)
    except (transaction.BusyError, RuntimeError, OSError) as error:
        module.fail_json(msg=f"{module.params['node']}: {error}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
