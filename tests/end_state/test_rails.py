"""The rails are as planned, on the node itself."""

from __future__ import annotations

from end_state import expect
from end_state.fixtures import agree


def test_link_is_up(node, rail):
    agree(expect.link(rail, node.state))


def test_mtu_is_as_planned(node, rail):
    agree(expect.mtu(rail, node.state))


def test_addresses_are_as_planned_and_no_other(node, rail):
    agree(expect.addresses(rail, node.state))


def test_what_comes_from_its_address_leaves_by_the_rail(node, rail):
    agree(expect.own_table(rail, node.state))


def test_arp_is_answered_for_its_own_address_alone(node, rail):
    agree(expect.arp(rail, node.state))


def test_one_netplan_file_names_the_rail_and_root_alone_reads_it(node, rail):
    agree(expect.netplan_file(rail, node.state))


def test_the_way_in_is_where_it_was(node):
    agree(expect.management(node.plan, node.state))
