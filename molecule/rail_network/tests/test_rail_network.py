"""What rail_network leaves on a node, read with ip and systemctl rather than with the role's own code."""

from __future__ import annotations

import json

import pytest

testinfra_hosts = ["ansible://gpu_nodes"]

# By hand from the addressing of the notes' cluster: port 1 is 10.0.1.0/24, port 2 is 10.0.0.0/24.
RAILS = {
    "gpuserver1": {"ens6": "10.0.1.1", "ens6d1": "10.0.0.1"},
    "gpuserver2": {"ens6": "10.0.1.2", "ens6d1": "10.0.0.2"},
}
FILE = "/etc/netplan/60-railyard-rails.yaml"


def node_name(host):
    return host.backend.get_pytest_id().split("://")[-1]


def ip(host, *arguments):
    done = host.run("ip -j " + " ".join(arguments))
    assert done.rc == 0, done.stderr
    return json.loads(done.stdout or "[]")


@pytest.mark.parametrize("netdev", ["ens6", "ens6d1"])
def test_rail_is_up_with_its_address_and_mtu(host, netdev):
    link = ip(host, "address", "show", "dev", netdev)[0]
    journal = host.run("journalctl -n 40 --no-pager -u 'railyard-rail-network-*' -u systemd-networkd").stdout
    assert "UP" in link["flags"], journal
    assert link["mtu"] == 9000, journal
    found = [(info["local"], info["prefixlen"]) for info in link["addr_info"] if info["scope"] == "global"]
    planned = [(RAILS[node_name(host)][netdev], 24)]
    if netdev == "ens6":
        planned.append((f"fd00:1::{node_name(host)[-1]}", 64))
    assert found == planned, journal


def test_file_belongs_to_root_alone_and_names_only_the_rails(host):
    file = host.file(FILE)
    assert (file.mode, file.user, file.group) == (0o600, "root", "root")
    assert "enp5s0" not in file.content_string


def test_no_default_route_leaves_by_a_rail(host):
    assert not [row for row in ip(host, "route", "show", "default") if row.get("dev") != "enp5s0"]


def test_boot_does_not_wait_for_a_rail(host):
    # netplan says it of the netdev; since 1.1 it names those that are waited for instead.
    waits = host.run("systemctl cat systemd-networkd-wait-online.service").stdout
    for netdev in ("ens6", "ens6d1"):
        text = host.file(f"/run/systemd/network/10-netplan-{netdev}.network").content_string
        named = " -i " in waits and f" -i {netdev}" not in waits
        assert "RequiredForOnline=no" in text or named, waits


def test_jumbo_frame_crosses_each_rail(host):
    peer = "gpuserver2" if node_name(host) == "gpuserver1" else "gpuserver1"
    for netdev, address in RAILS[peer].items():
        done = host.run(f"ping -c 2 -W 2 -M do -s 8972 -I {netdev} {address}")
        assert done.rc == 0, done.stdout


def test_nothing_is_pending_and_no_timer_is_left(host):
    assert not host.file("/var/lib/railyard/rail_network/pending.json").exists
    timers = host.run("systemctl list-timers --all --no-legend 'railyard-rail-network-*'")
    assert timers.stdout.strip() == ""
