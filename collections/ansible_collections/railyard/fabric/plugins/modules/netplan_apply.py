# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of the action plugin netplan_apply, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: netplan_apply
short_description: Apply a node's rails with netplan, confirmed over a new connection or undone
description:
  - Brings the netplan file of a node's rails and the running network to the plan, in one change that must
    prove itself. It runs M(railyard.fabric.netplan_stage) on the node, then opens an SSH connection that
    shares nothing with earlier ones; over it, the node confirms that its rails are as planned and
    that nothing else was lost.
  - Nodes that were confirmed earlier in the same run are pinged over the rails with packets of the full MTU.
  - When that connection cannot be made, or the proof fails, the node restores files and running network.
  - When there is nothing to do, this costs one round trip.
version_added: 0.1.0
author:
  - Railyard contributors (@railyard)
options:
  rails:
    description: >-
      The node's rails, as the filter P(railyard.fabric.node_rails#filter) returns them.
      Not read with O(revert=true).
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
    description: >-
      Seconds within which a change that is not confirmed has been undone; at least 10. Above 120, each
      attempt to connect after the change also waits longer, in the same ratio.
    type: int
    default: 120
  accept_drift:
    description: >-
      Go on although the node has routing rules that no file declares, which are put back afterwards, or edits
      of other netplan files that were never applied, which are applied too.
    type: bool
    default: false
  revert:
    description: Restore the state that O(revert_to) names, instead of applying the rails.
    type: bool
    default: false
  revert_to:
    description:
      - >-
        With O(revert=true), which state is restored: V(last_change), that before the last confirmed change,
        or V(original), that before the first one.
      - >-
        Either also replaces what others changed in the same files since; C(--check --diff) shows it, and a
        copy stays in C(/var/lib/railyard/rail_network/backup).
      - V(original) fails on a node whose first change was made by a version that did not keep it.
    type: str
    choices: [last_change, original]
    default: last_change
attributes:
  action:
    description: Runs on the controller.
    support: full
  check_mode:
    support: full
    description: Reports what would change, and changes nothing.
  diff_mode:
    support: full
    description: Shows the file before and after, and what of the running network differs.
"""

EXAMPLES = r"""
- name: Apply the rails
  railyard.fabric.netplan_apply:
    rails: "{{ rail_network_rails }}"
    path: /etc/netplan/60-railyard-rails.yaml
    rollback_after_s: 120

- name: Return to what the last change replaced
  railyard.fabric.netplan_apply:
    revert: true

- name: Return to the network before Railyard's first change
  railyard.fabric.netplan_apply:
    revert: true
    revert_to: original
"""

RETURN = r"""
outcome:
  description: What became of the change.
  returned: always
  type: str
  sample: C(unchanged), C(confirmed), C(rolled_back) or C(unknown)
netdevs:
  description: The netdev of each rail, as resolved on the node.
  returned: success
  type: dict
  sample: {rail0: ens6, rail1: ens6d1}
drift:
  description: What of the running network was not as planned.
  returned: success
  type: list
  elements: dict
  sample: [{rail: rail0, netdev: ens6, what: mtu, is: "1500", planned: "9000"}]
findings:
  description: What a person should know and what is no failure, such as a rail without carrier.
  returned: always
  type: list
  elements: str
  sample: ["gpuserver1, rail1 (ens6d1): no carrier; its address is set when the link comes up"]
"""
