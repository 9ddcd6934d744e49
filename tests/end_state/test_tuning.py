"""The node is tuned as the inventory says, now and after a boot."""

from __future__ import annotations

import pytest

from end_state import expect_tuning
from end_state.fixtures import UnknownError, agree


@pytest.fixture
def tuned(node):
    """A node of which tuning is asked."""
    if not node.tuning:
        pytest.skip("the inventory leaves the node alone (node_tuning_profile is none, or restored)")
    return node


def test_sysctls_are_set_now_and_at_boot(tuned):
    agree(expect_tuning.sysctl(tuned.options, tuned.state))
    unknown = expect_tuning.unknown_sysctl(tuned.options, tuned.state)
    if unknown:
        raise UnknownError(
            f"{tuned.name}: whether it has {', '.join(unknown)} is not known: the role left it out, since "
            "this kernel does not have it, or has not run since. Fix: take it out of node_tuning_sysctl, or "
            "run playbooks/tuning.yml"
        )


def test_huge_pages_are_as_wanted_now_and_at_boot(tuned):
    agree(expect_tuning.hugepage(tuned.options, tuned.state))


def test_enough_files_can_be_open(tuned):
    if not expect_tuning.nofile_wanted(tuned.options):
        pytest.skip("the inventory leaves the limit alone (node_tuning_nofile is 0)")
    agree(expect_tuning.nofile(tuned.options, tuned.node_class, tuned.state))
