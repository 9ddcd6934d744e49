# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory says cannot be asked: the one source of `not_applicable` for tests between nodes. Pure.

Only the plan is looked at. That an address was not found on a node never excuses a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS, NOT_APPLICABLE
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.draft import Answer

Rails = Mapping[str, Mapping[str, Mapping[str, Any]]]


def without_ip(
    asked: Mapping[str, Any],
    rails: Rails,
    transports: Mapping[str, str],
    tests: Mapping[str, Mapping[str, Any]],
) -> Answer | None:
    """Return the answer to a test that needs IP on an InfiniBand rail to which the inventory gives no subnet.

    Args:
        asked: the asked line.
        rails: node -> rail -> the plan's rail.
        transports: node -> the transport that the plan declares.
        tests: id -> asked line, for the parts of a sum.

    Returns:
        `not_applicable`, or None where the test can be asked. A sum over rails is not applicable as soon as
        one of its rails has no IP: it would be the sum of fewer rails than its name says.
    """
    check = CHECKS[str(asked["check"])]
    if check.rdma or check.source in ("facts", "counters"):
        return None
    parts = [tests[part] for part in asked.get("parts") or () if part in tests] or [asked]
    for part in parts:
        for node in (str(part["node"]), str(part["peer"])):
            rail = rails.get(node, {}).get(str(part["rail"]), {})
            addressed = rail.get("address") or rail.get("address6")
            if transports.get(node) == "infiniband" and rail and not addressed:
                basis = (
                    f"the inventory declares no subnet for {part['rail']} of {node}: this test needs IP on it"
                )
                return Answer(NOT_APPLICABLE, basis=basis)
    return None
