"""The node is tuned as the inventory says, now and after a boot."""

from __future__ import annotations

import pytest

from end_state import expect_tuning
from end_state.fixtures import UnknownError, agree


@pytest.fixture
def tuned(node):
    """A node with tuning in its inventory."""
    if not node.tuning:
        pytest.skip("the inventory leaves the node alone (node_tuning_profile is none, or restored)")
    return node


def test_energy_performance_preference(tuned):
    wanted = expect_tuning.energy_preference_wanted(tuned.tuning, tuned.node_class, tuned.options)
    if not wanted:
        pytest.skip("the inventory leaves it alone (node_tuning_energy_preference is empty)")
    if not tuned.state["energy_preferences"]:
        pytest.skip(
            "no CPU has one: neither intel_pstate nor amd_pstate chooses the clock, or it is the host's"
        )
    agree(expect_tuning.energy_preference(wanted, tuned.state))


def test_idle_states_that_take_long_to_leave_are_disabled(tuned):
    limit_us = expect_tuning.idle_limit_us(tuned.options)
    if limit_us < 0:
        pytest.skip("the inventory limits no idle states (node_tuning_idle_limit_us is -1)")
    if not tuned.state["idle_states"]:
        if tuned.node_class != "hardware":
            pytest.skip(f"the inventory declares node_class {tuned.node_class}: idle states are its host's")
        raise UnknownError(
            f"{tuned.name}: whether its CPUs leave idle states within {limit_us} us is not known: it shows "
            "none (/sys/devices/system/cpu/cpu*/cpuidle). Fix: leave idle states to the operating system in "
            "its firmware settings, or limit none: node_tuning_idle_limit_us: -1"
        )
    agree(expect_tuning.idle_states(tuned.options, tuned.state))


def test_the_rank_wrapper_is_there(tuned):
    agree([] if tuned.state["rank_wrapper"] else ["/usr/local/bin/railyard-bind is missing, or does not run"])


def test_interrupts_are_served_near_the_port_of_the_rail(tuned, rail):
    if not tuned.options.get("node_tuning_irq_affinity", tuned.node_class == "hardware"):
        pytest.skip(
            "the inventory leaves interrupts alone (node_tuning_irq_affinity), or the node is no hardware"
        )
    if expect_tuning.interrupts_of(rail, tuned.state) is None:
        pytest.skip("the node has one NUMA node, or does not say on which the port is")
    agree(expect_tuning.interrupts(rail, tuned.state))


def test_rings_of_the_rail_have_the_configured_size(tuned, rail):
    if not expect_tuning.ring_sizes(tuned.options):
        pytest.skip("the inventory leaves rings alone (node_tuning_ring_sizes is empty)")
    problems = expect_tuning.rings(rail, tuned.options, tuned.state)
    if problems is None:
        raise UnknownError(
            f"{tuned.name}: how large the rings of {rail['name']} are is not known: `ethtool -g` tells "
            "nothing of its port. Fix: have ethtool on the node; where the port has no rings, leave "
            "node_tuning_ring_sizes empty for it"
        )
    agree(problems)


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


def test_the_iommu_does_not_translate(tuned):
    if not expect_tuning.is_passthrough_asked(tuned.options):
        pytest.skip("the inventory leaves the IOMMU alone (node_tuning_iommu is keep)")
    agree(expect_tuning.iommu(tuned.state))
