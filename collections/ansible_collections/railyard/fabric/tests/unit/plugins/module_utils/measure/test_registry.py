# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each test has a tool, a port and a time."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import (
    GROUP_TESTS,
    NODE_TESTS,
    TESTS,
)
from ansible_collections.railyard.fabric.plugins.module_utils.measure import (
    registry,
)
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import policy_keys


def test_ports_of_checks_rails_and_neighbouring_rounds_differ() -> None:
    ports = [
        registry.tool_port(18600, round_number, rail, 8, check)
        for round_number in (6, 7)
        for rail in range(8)
        for check in registry.TOOL_OF_CHECK
    ]
    assert len(set(ports)) == len(ports)
    # The rendezvous has the base port, and nothing reaches the kernel's own ephemeral ports.
    assert min(ports) > 18600
    assert (
        max(registry.tool_port(18600, r, 15, 16, c) for r in range(8) for c in registry.TOOL_OF_CHECK) < 32768
    )


def test_every_test_has_a_tool_of_its_name() -> None:
    for tools, tests in ((registry.TOOL_OF_CHECK, TESTS), (registry.NODE_TOOLS, (*NODE_TESTS, *GROUP_TESTS))):
        assert {check: tool().name for check, tool in tools.items()} == {
            test.name: test.tool for test in tests
        }


def test_a_tool_runs_for_as_long_as_its_test_has_to_last() -> None:
    policy = {name: key.default for name, key in policy_keys.KEYS.items()}
    lasting = [test for test in (*TESTS, *NODE_TESTS) if test.lasts]
    assert lasting
    for test in lasting:
        longer = policy | {test.lasts: policy[test.lasts] + 7}
        assert registry.planned_s(test.name, longer) == registry.planned_s(test.name, policy) + 7
