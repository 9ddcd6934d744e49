# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The healthy run of fake_run, whose nodes have BMCs."""

from __future__ import annotations

from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import bmc
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch.bmc_probe import Reply

from support.runs.fake_run import NODES, RUN, FakeRun

ADDRESSES = dict(zip(NODES, ("172.16.8.11", "172.16.8.12"), strict=True))
TAKEN = Reply("answered", 443, 812.5, 1)
REFUSED = Reply("refused", 443, 790.0, 1, message="Connection refused")
SILENT = Reply("silent", 443, None, 2)


def with_bmcs(*replies: Reply | None, **rules: Any) -> FakeRun:
    """Return a healthy run whose nodes have BMCs; a reply each, None where it was never queried."""
    run = FakeRun(**rules)
    for node, address in ADDRESSES.items():
        run.plan["nodes"][node]["bmc_address"] = address
    run.plan_again()
    for line, reply in zip(lines(run), replies or (TAKEN, TAKEN), strict=True):
        if reply is not None:
            address = ADDRESSES[line["node"]]
            run.results.append(bmc.build_row(line, address, reply, RUN, "2026-11-21T10:15:19.000Z"))
    return run


def lines(run: FakeRun) -> list[dict[str, Any]]:
    return [line for line in run.asked if line["check"] == "bmc"]
