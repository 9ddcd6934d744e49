"""A node with eight rails behind gateways: each has its own way out, and a second run costs little.

Before, two of them are in somebody's file beside the way in, and NetworkManager has the rest of the node.
"""

from __future__ import annotations

import json
import shlex
from threading import Event

import pytest
import yaml
from e2e.support import Cluster, edited, needs_root, write_lab
from railyard.lab import wiring
from support.nodes import netplan

SUBNET = "198.18.86."
MOST_EXEC_REQUESTS = 3
NETDEVS = [f"ens{6 + number // 2}" + ("d1" if number % 2 else "") for number in range(8)]
RAILS = [
    {
        "name": f"rail{number}",
        "netdev": netdev,
        "subnet": f"10.0.{number}.0/24",
        "subnet6": f"fd00:{number}::/64",
        "gateway": "last",
        "routes": [f"10.1.{number}.0/24"],
    }
    for number, netdev in enumerate(NETDEVS)
]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory):
    """The node `gpuserver1` with its rails, bare; `apply()` runs the playbook on it."""
    needs_root()
    made = Cluster(tmp_path_factory.mktemp("eight"), "eight")
    write_lab(made, SUBNET, "container", nodes=1)
    with edited(made.topology) as topology:
        topology["rails"] = [{"name": rail["name"], "netdev": rail["netdev"]} for rail in RAILS]
    with edited(made.fabric_file) as variables:
        variables["fabric"] |= {"rails": RAILS, "cabling": "switched"}
        variables["rail_network_rollback_after_s"] = 60
    with made.up():
        yield made


def apply(node, playbook: str = "network", **variables) -> str:
    """Run a playbook; returns the line that counts what it did."""
    done = node.playbook(f"playbooks/{playbook}.yml", "-e", json.dumps(variables))
    assert done.returncode == 0, done.stdout
    return next(line for line in done.stdout.splitlines() if line.startswith("gpuserver1 "))


def ways(node, *words: str) -> list[dict]:
    return list(json.loads(node.ssh("gpuserver1", "ip", "-j", *words)))


# The notes' own file, word for word, beside NetworkManager's; the way in is networkd's.
NOTES = "# both ports of the card, and the way in\n" + netplan.NOTES
PREPARE = r"""cd /etc/netplan; cp -p 01-management.yaml /root
sed -i '/^  renderer/d; s/^    enp5s0:/&\n      renderer: networkd/' 01-management.yaml
umask 077; cat >01-network.yaml; chmod 640 01-network.yaml; chgrp daemon 01-network.yaml
printf 'network: {version: 2, renderer: NetworkManager}\n' >01-network-manager-all.yaml
# netplan starts it where a stanza is its; a stand-in, so that what netplan makes is all that is looked at
cd /etc/systemd/system; printf '[Service]\nExecStart=/bin/sleep inf\n' >NetworkManager.service
systemctl daemon-reload; netplan apply"""
BARE = "cd /etc/netplan; rm 01-network*; cp -p /root/01-management.yaml .; netplan apply"
# All that netplan made but what is of our eight netdevs; the names of files count as well.
OTHERS = (
    "cd /run; find NetworkManager systemd/network -type f ! -name '*ens[6-9]*' | sort | "
    'while read -r file; do echo "$file"; cat "$file"; done'
)


def root(node, script: str, text: str = "") -> str:
    return str(node.ssh("gpuserver1", f"sudo sh -ec {shlex.quote(script)} <<'END'\n{text}END"))


def test_rails_leave_the_notes_file_and_the_way_in_stays_through_a_boot(node):
    root(node, PREPARE, NOTES)
    before = root(node, OTHERS)
    look = "cd /etc/netplan; stat -c %a:%U:%G 01-network.yaml; cat 01-network.yaml"
    assert "conf.d/10-globally-managed-devices.conf" in before
    assert "netplan-enp6s0.nmconnection" in before
    assert "changed=1" in apply(node, rail_network_take_over=True)
    assert root(node, OTHERS) == before
    status, _line, text = root(node, look).partition("\n")
    assert status == "640:root:daemon"
    ways_in = {"enp5s0": {"dhcp4": True}, "enp6s0": {"dhcp4": True, "optional": True}}
    assert yaml.safe_load(text)["network"]["ethernets"] == ways_in

    boot = "cat /proc/sys/kernel/random/boot_id"
    booted = root(node, boot)
    lab = wiring.open_lab(file=node.topology)
    place = lab.topology.node("gpuserver1")
    lab.kind(place).kill("gpuserver1")
    wiring.start(lab, place)
    wiring.await_ready(lab, place, Event())
    assert root(node, boot) != booted
    assert root(node, OTHERS) == before
    assert "changed=0" in apply(node, rail_network_take_over=True)

    assert "changed=1" in apply(node, "rollback", railyard_allow_rollback=True)
    assert root(node, OTHERS) == before
    assert root(node, look) == f"640:root:daemon\n{NOTES}"
    root(node, BARE)


def test_each_rail_has_its_own_way_out_and_the_second_run_asks_little(node):
    # The node comes bare: all leaves by the management network.
    before = [one.get("dev") for one in ways(node, "route", "get", "10.0.0.2")]
    assert before == ["enp5s0"]
    assert "changed=1" in apply(node)
    found = [ways(node, "route", "get", "10.0.0.2", "from", f"10.0.{number}.1")[0] for number in range(8)]
    assert [one["dev"] for one in found] == NETDEVS
    assert [one["table"] for one in found] == [str(6100 + number) for number in range(8)]
    assert [one.get("gateway") for one in found] == [None, *(f"10.0.{number}.254" for number in range(1, 8))]
    # Routed to in main, for any source address: what lies behind a rail's gateway.
    assert [ways(node, "route", "get", f"10.1.{number}.2")[0]["dev"] for number in range(8)] == NETDEVS

    requests = node.exec_requests("gpuserver1")
    assert "changed=0" in apply(node)
    assert node.exec_requests("gpuserver1") - requests - 1 <= MOST_EXEC_REQUESTS
