"""A reply leaves by the rail that received the request, and ARP is answered by the rail that has the address.

Each is shown both ways: as the role leaves the node, and with what the role wrote taken away for a moment.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

testinfra_hosts = ["ansible://gpu_nodes"]

PROBE = (Path(__file__).parent / "probe.py").read_text(encoding="utf-8")
NUMBER = {"gpuserver1": 1, "gpuserver2": 2}
GATEWAY = "10.0.1.254"


def name_of(host):
    return host.backend.get_pytest_id().split("://")[-1]


def run(host, command, *words):
    # The peer's connection is made here, without molecule's `sudo: true`.
    with host.sudo():
        done = host.run(command, *words)
    assert done.rc == 0, f"{command}: {done.stderr}"
    return done.stdout


@pytest.fixture
def peer(host):
    (other,) = set(NUMBER) - {name_of(host)}
    return host.backend.ansible_runner.get_host(other)


@pytest.fixture
def numbers(host):
    """This node's number and its peer's: the last part of their addresses."""
    own = NUMBER[name_of(host)]
    return own, 3 - own


@pytest.fixture
def gateway(host, peer):
    """Let the peer find rail0's gateway here: the frames of its reply then come to this node."""
    mac = json.loads(run(host, "ip -j link show dev ens6"))[0]["address"]
    run(peer, f"ip neighbour replace {GATEWAY} lladdr {mac} dev ens6")
    yield
    run(peer, f"ip neighbour del {GATEWAY} dev ens6")


def answers(host, *words):
    return run(host, "python3 -c %s " + " ".join(words), PROBE).split()


@contextlib.contextmanager
def without_rule(host, number):
    rule = f"from 10.0.1.{number} lookup 6100 priority 6100"
    run(host, f"ip rule del {rule}")
    try:
        yield
    finally:
        run(host, f"ip rule add {rule} protocol static")


def test_route_of_a_reply_is_the_rails_own(host, numbers):
    own, other = numbers
    route = json.loads(run(host, f"ip -j route get 10.0.0.{other} from 10.0.1.{own}"))[0]
    assert (route["dev"], route["gateway"], route["table"]) == ("ens6", GATEWAY, "6100")
    with without_rule(host, own):
        route = json.loads(run(host, f"ip -j route get 10.0.0.{other} from 10.0.1.{own}"))[0]
    assert route["dev"] == "ens6d1"


# The question goes out by rail0 as this node's address on rail1, to the peer's address on rail0.
def test_reply_comes_back_by_the_rail_it_was_asked_on(host, numbers, gateway):
    own, other = numbers
    assert answers(host, "icmp", "ens6", f"10.0.0.{own}", f"10.0.1.{other}") == ["ens6"]


def test_without_the_rule_the_reply_comes_by_another_rail(host, peer, numbers, gateway):
    own, other = numbers
    with without_rule(peer, other):
        assert answers(host, "icmp", "ens6", f"10.0.0.{own}", f"10.0.1.{other}") == ["ens6d1"]


def test_only_the_rail_that_has_the_address_answers_arp(host, peer, numbers):
    own, other = numbers
    question = ("arp", "ens6", f"10.0.1.{own}", f"10.0.0.{other}")
    assert answers(host, *question) == []
    setting = "/proc/sys/net/ipv4/conf/ens6/arp_ignore"
    run(peer, f"sh -c 'echo 0 > {setting}'")
    try:
        assert answers(host, *question) == ["ens6"]
    finally:
        run(peer, f"sh -c 'echo 1 > {setting}'")
    assert answers(host, "arp", "ens6", f"10.0.1.{own}", f"10.0.1.{other}") == ["ens6"]


def test_route_to_the_rails_other_subnets_is_in_main(host):
    (route,) = json.loads(run(host, "ip -j route show 10.1.1.0/24 table main"))
    assert (route["dev"], route["gateway"]) == ("ens6", GATEWAY)


def test_ipv6_has_its_rule_too(host, numbers):
    rules = json.loads(run(host, "ip -6 -j rule"))
    assert [row["table"] for row in rules if row["src"] == f"fd00:1::{numbers[0]}"] == ["6100"]


@pytest.mark.parametrize("netdev", ["ens6", "ens6d1"])
def test_sysctls_are_set_now_and_at_the_next_boot(host, netdev):
    text = host.file("/etc/sysctl.d/60-railyard-rails.conf").content_string
    for name, value in (("arp_ignore", "1"), ("arp_announce", "2"), ("rp_filter", "2")):
        assert host.file(f"/proc/sys/net/ipv4/conf/{netdev}/{name}").content_string.strip() == value
        assert f"net/ipv4/conf/{netdev}/{name} = {value}\n" in text
