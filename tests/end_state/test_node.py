"""The node is tuned, has its tools and its NCCL profile, and nothing of a run is left on it."""

from __future__ import annotations

import pytest

from end_state import expect, expect_nccl
from end_state.fixtures import UnknownError, agree


def test_cpu_governor(node):
    if not node.governor:
        pytest.skip(
            "the inventory leaves the governor alone (node_tuning_governor is empty, or profile none)"
        )
    if not node.state["governors"]:
        if node.node_class != "hardware":
            pytest.skip(f"the inventory declares node_class {node.node_class}: the clock is its host's")
        raise UnknownError(expect.no_cpufreq(node.name, node.governor))
    agree(expect.governor(node.governor, node.state))


def test_memory_can_be_locked(node):
    if not node.memlock_unlimited:
        pytest.skip(
            "the inventory leaves the limit alone (node_tuning_memlock_unlimited is false, or profile none)"
        )
    agree(expect.memlock(node.node_class, node.state))


def test_nccl_profile(node):
    agree(expect_nccl.nccl(node.plan, node.options, node.state))


def test_tools_are_installed(node):
    agree(expect.tools(node.plan, node.options, node.state))


def test_nothing_of_a_run_is_left(node):
    agree(expect.leftovers(node.state))
