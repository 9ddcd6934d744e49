"""`railyard discover` as a whole, on two nodes made of network namespaces: the real module, real beacons."""

from __future__ import annotations

import json

import pytest
from support.nodes.bare_cluster import BareCluster
from support.nodes.rail_namespaces import MARKS, NODES, ip, two_nodes
from support.programs import railyard

pytestmark = MARKS
# What two machines do not have in common: seen by the commands on a node alone, in their own mount namespace.
OWN = """\
mount --bind "$1" /proc/sys/kernel/random/boot_id && shift && exec "$@"
"""
ADDRESSES = ("198.51.100.1", "198.51.100.2")


@pytest.fixture
def rails():
    with two_nodes() as made:
        for node, address in zip(NODES, ADDRESSES, strict=True):
            # A port that only tells by which address SSH came in.
            name, switch = made.namespace(node), made.namespace("switch")
            ends = ["eth0", "netns", name, "type", "veth", "peer", "name", f"m{node[-1]}", "netns", switch]
            ip("link", "add", *ends)
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
        yield made


@pytest.fixture
def cluster(tmp_path, rails):
    found = BareCluster(tmp_path, real_module=True)
    (tmp_path / "own.sh").write_text(OWN)
    for number, (node, address) in enumerate(zip(NODES, ADDRESSES, strict=True), start=1):
        boot_id = tmp_path / f"boot_id.{node}"
        boot_id.write_text(f"00000000-0000-4000-8000-{number:012d}\n")
        found.put_inside(address, *rails.inside(node, "sh", str(tmp_path / "own.sh"), str(boot_id)))
    lines = [f"{node} {address}\n" for node, address in zip(NODES, ADDRESSES, strict=True)]
    (tmp_path / "hosts.txt").write_text("".join(lines))
    return found


def planned(folder):
    """Return each node's netdevs in the order of rails."""
    plan = json.loads(railyard("plan", "-i", folder, "--json").stdout)
    return {name: [rail["netdev"] for rail in node["rails"]] for name, node in plan["nodes"].items()}


def test_ports_on_one_network_are_one_rail_whatever_their_names(cluster, rails):
    rails.move(NODES[1], 0, "rail1")
    rails.move(NODES[1], 1, "rail0")
    folder = cluster.folder / "mine"
    options = ("--hosts-from", cluster.folder / "hosts.txt", "--listen-s", "3")
    done = cluster.discover("-o", folder, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert planned(folder) == {NODES[0]: ["ens6", "ens6d1"], NODES[1]: ["ens6d1", "ens6"]}
    assert sorted(cluster.requests()) == sorted(ADDRESSES * 2)
    # Nothing goes on running on the nodes.
    assert [rails.processes(node) for node in NODES] == [[], []]

    before = (folder / "hosts.yml").read_bytes()
    again = cluster.discover("-o", folder, *options, "--force")
    assert (again.returncode, (folder / "hosts.yml").read_bytes()) == (0, before)
    same = cluster.discover("--diff", "-i", folder, "--listen-s", "3")
    assert (same.returncode, same.stdout.splitlines()[-1]) == (0, "No difference."), same.stdout + same.stderr
    rails.move(NODES[1], 0, "rail0")
    rails.move(NODES[1], 1, "rail1")
    moved = cluster.discover("--diff", "-i", folder, "--listen-s", "3")
    assert moved.returncode == 1, moved.stdout + moved.stderr
    changed = [line for line in moved.stdout.splitlines() if ": cable: " in line]
    assert [line.split(":")[0].split()[1] for line in changed][:2] == ["rail0", "rail1"], moved.stdout
