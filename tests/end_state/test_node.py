"""The node is tuned, has its tools and its NCCL profile, and nothing of a run is left on it."""

from __future__ import annotations

import pytest

from end_state import expect
from end_state.fixtures import agree


def test_cpu_governor(node):
    if not node.governor:
        pytest.skip("the inventory leaves the governor alone (node_tuning_governor is empty)")
    if not node.state["governors"]:
        pytest.skip("the node has no cpufreq: nothing sets a governor there")
    agree(expect.governor(node.governor, node.state))


def test_memory_can_be_locked(node):
    if not node.memlock_unlimited:
        pytest.skip("the inventory leaves the limit alone (node_tuning_memlock_unlimited is false)")
    agree(expect.memlock(node.node_class, node.state))


def test_nccl_profile(node):
    agree(expect.nccl(node.plan, node.state))


def test_tools_are_installed(node):
    agree(expect.tools(node.plan, node.state))


def test_nothing_of_a_run_is_left(node):
    agree(expect.leftovers(node.state))
