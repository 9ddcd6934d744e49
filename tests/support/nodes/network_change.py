# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node whose network is a value, for the tests of the transaction."""

from __future__ import annotations

import copy

OLD = "network: {version: 2}\n"
NEW = "network:\n  version: 2\n"
STATE = {
    "links": {"ens6": {"mtu_bytes": 1500, "admin_up": False, "carrier": False, "master": None}},
    "addresses": {"ens6": []},
    "routes": [],
    "rules": [],
    "sysctls": {},
}


class Node:
    """A node whose network is a value, and whose commands are remembered."""

    def __init__(self):
        self.state = copy.deepcopy(STATE)
        self.commands = []
        self.apply_status = 0

    def run(self, argv):
        self.commands.append(list(argv))
        if argv[:2] == ["netplan", "apply"]:
            self.state["links"]["ens6"]["mtu_bytes"] = 9000
            return self.apply_status, "", "bang" if self.apply_status else ""
        if argv[:4] == ["ip", "link", "set", "dev"] and argv[5] == "mtu":
            self.state["links"][argv[4]]["mtu_bytes"] = int(argv[6])
        return 0, "", ""

    def snapshot(self, _netdevs, _sysctls=()):
        return copy.deepcopy(self.state)
