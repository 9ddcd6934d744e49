"""RDMA is there, on the rails it belongs to, and will be after a reboot."""

from __future__ import annotations

import pytest

from end_state import expect_rdma
from end_state.fixtures import agree


@pytest.fixture
def rdma(node):
    """A node with RDMA in its inventory."""
    if not expect_rdma.is_asked(node.plan, node.options):
        pytest.skip("the inventory asks no RDMA of this node, or it is a container")
    return node


def test_rdma_modules_are_loaded_now_and_at_boot(rdma):
    if not rdma.options.get("rdma_stack_load_modules", True):
        pytest.skip("the inventory leaves the modules alone (rdma_stack_load_modules is false)")
    agree(expect_rdma.modules(rdma.state))


def test_rdma_port_is_active_on_the_netdev_of_the_rail(rdma, rail):
    agree(expect_rdma.port(rail, rdma.state))


def test_gid_of_the_address_of_the_rail_is_there(rdma, rail):
    if rdma.plan["transport"] != "roce":
        pytest.skip("InfiniBand's GIDs are not made of addresses")
    agree(expect_rdma.gid(rail, rdma.state))


def test_software_device_is_made_again_at_boot(rdma, rail):
    agree(expect_rdma.at_boot(rail, rdma.state))
