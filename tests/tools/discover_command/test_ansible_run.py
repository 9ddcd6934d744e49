"""`railyard discover` by real Ansible over a stand-in for SSH: each node's answer, or why there is none."""

from __future__ import annotations

import signal
from collections import Counter

import pytest
from support.discover.nodes import made_up
from support.nodes.bare_cluster import ASKS_PASSWORD, CHANGED_KEY, TIMED_OUT, BareCluster
from support.programs import wait_until

# With the namespaces' tests, in the part `discover`: they wait more than they compute.
pytestmark = pytest.mark.lab

SUDO_ASKS = "sudo: a password is required\n"
#: How a node of this name fails, and what is printed of it.
BROKEN = {
    "down": "it does not answer. Fix: check that the node is up, and that `ssh me@192.0.2.2 true` works",
    "reinstalled": "its SSH host key changed. Fix: make sure that it was reinstalled; then "
    "`ssh-keygen -R 192.0.2.3` and log in once by hand",
    "keyless": "it asks for a password: none of your SSH keys is accepted. Fix: "
    "`ssh-copy-id me@192.0.2.4`, or name another user with -u",
    "locked": "sudo asks for a password. Fix: call the command again with -K",
    "sudoless": "sudo is not installed there. Fix: install sudo on the node, or log in as root with -u root",
    "pythonless": "there is no Python at /usr/bin/python3. Fix: install Python 3.9 or newer there, or "
    "name it with -e ansible_python_interpreter=PATH",
    "hung": "it hung at login or after it. Fix: look at its load and at hanging mounts or drivers "
    "(`ssh me@192.0.2.8 dmesg`); --limit-s waits longer",
}


@pytest.fixture
def cluster(tmp_path):
    return BareCluster(tmp_path)


def listed(cluster, names):
    """Add nodes with addresses from 192.0.2.1 on; return the file that lists them."""
    cluster.add_nodes(names)
    file = cluster.folder / "hosts.txt"
    file.write_text("".join(f"{name} 192.0.2.{number} me\n" for number, name in enumerate(names, start=1)))
    return file


@pytest.mark.minutes
def test_each_node_that_fails_is_named_with_its_fix_and_the_others_go_on(cluster):
    file = listed(cluster, ["gpu1", *BROKEN, "gpu9"])
    cluster.fail_ssh("192.0.2.2", TIMED_OUT)
    cluster.fail_ssh("192.0.2.3", CHANGED_KEY)
    cluster.fail_ssh("192.0.2.4", ASKS_PASSWORD)
    cluster.refuse_sudo("192.0.2.5", SUDO_ASKS)
    cluster.take_sudo("192.0.2.6")
    cluster.take_python("192.0.2.7")
    cluster.hang("192.0.2.8")
    folder = cluster.folder / "mine"
    done = cluster.discover("-o", folder, "--hosts-from", file, "--listen-s", "1", "--limit-s", "8")
    assert done.returncode == 3, done.stdout + done.stderr
    failed = [line for line in done.stdout.splitlines() if line.startswith("✗ ")]
    assert failed == [f"✗ {name}: {reason}" for name, reason in BROKEN.items()]
    hosts = (folder / "hosts.yml").read_text()
    assert [name in hosts for name in ("gpu1", "gpu9", *BROKEN)] == [True, True, *[False] * len(BROKEN)]
    # Nothing of the time limit is left behind.
    assert not cluster.running(), cluster.running()


@pytest.mark.minutes
def test_two_requests_a_node_however_many_there_are_and_two_silent_ones_stop_no_other(cluster):
    names = [f"gpu{number:02d}" for number in range(1, 21)]
    file = listed(cluster, names)
    cluster.fail_ssh("192.0.2.7", TIMED_OUT)
    cluster.fail_ssh("192.0.2.13", TIMED_OUT)
    folder = cluster.folder / "mine"
    done = cluster.discover("-o", folder, "--hosts-from", file, "--listen-s", "1", "--forks", "10")
    assert done.returncode == 3, done.stdout + done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines() if "✗" in line] == ["✗ gpu07", "✗ gpu13"]
    requests = Counter(cluster.requests())
    silent = {"192.0.2.7": 1, "192.0.2.13": 1}
    assert requests == {**{f"192.0.2.{number}": 2 for number in range(1, 21)}, **silent}
    assert "20 nodes" not in done.stdout
    assert "18 nodes" in done.stdout


@pytest.mark.minutes
def test_addresses_are_named_by_the_nodes_themselves(cluster):
    addresses = ["192.0.2.1", "2001:db8::2", "192.0.2.3", "192.0.2.4"]
    hostnames = ["spark-1.example.org", "spark-2", "spark-2", "localhost"]
    cluster.add_nodes(addresses, hostnames)
    folder = cluster.folder / "mine"
    done = cluster.discover("-o", folder, *addresses, "--listen-s", "1", "-u", "nvidia")
    assert "192.0.2.3 calls itself spark-2" in done.stdout, done.stdout + done.stderr
    hosts = (folder / "hosts.yml").read_text()
    named = ("spark-1:", "spark-2:", "node-192-0-2-3:", "node-192-0-2-4:")
    assert [name in hosts for name in named] == [True] * 4, hosts
    assert done.returncode == 0


@pytest.mark.minutes
def test_an_existing_inventory_says_how_its_nodes_are_reached(cluster):
    listed(cluster, ["gpu1", "gpu2", "gpu3"])
    source = cluster.folder / "old.ini"
    lines = [f"gpu{number} ansible_host=192.0.2.{number} ansible_port=2222\n" for number in (1, 2, 3)]
    source.write_text("".join(lines))
    folder = cluster.folder / "mine"
    done = cluster.discover("-o", folder, "--hosts-from", source, "gpu[1-2]", "--listen-s", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert Counter(cluster.requests()) == {"192.0.2.1": 2, "192.0.2.2": 2}


@pytest.mark.minutes
def test_what_the_nodes_are_given(cluster):
    file = listed(cluster, ["gpu1", "gpu2"])
    options = ("--link-up", "--listen-s", "2", "--limit-s", "20")
    done = cluster.discover("-o", cluster.folder / "mine", "--hosts-from", file, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    starts = [one for one in cluster.arguments() if one["start_beacons"]]
    collects = [one for one in cluster.arguments() if one["collect_beacons"]]
    assert sorted(one["key"] for one in starts) == sorted(one["key"] for one in collects) == ["gpu1", "gpu2"]
    assert {one["link_up"] for one in starts} == {True}
    # As long as a first node may have to wait for a last one, and no longer.
    assert {20 + 2 <= one["longest_s"] <= 120 for one in starts} == {True}
    assert len({(one["run"], one["secret"]) for one in cluster.arguments()}) == 1
    assert len(starts[0]["secret"]) == 32
    # It is on no command line and in no output.
    assert starts[0]["secret"] not in done.stdout + done.stderr


@pytest.mark.minutes
def test_what_a_node_says_is_checked_before_it_is_used(cluster):
    file = listed(cluster, ["gpu1", "gpu2", "gpu3"])
    cluster.add({**made_up("gpu2", []), "ports": "\x1b[2J"}, "gpu2")
    cluster.add(made_up("../gpu1", []), "gpu3")
    done = cluster.discover("-o", cluster.folder / "mine", "--hosts-from", file, "--listen-s", "1")
    assert done.returncode == 3, done.stdout + done.stderr
    failed = [line for line in done.stdout.splitlines() if line.startswith("✗ ")]
    assert [
        words in line for words, line in zip(("gpu2: its answer", "gpu3: it answers as"), failed, strict=True)
    ]
    assert "\x1b[2J" not in done.stdout


@pytest.mark.minutes
def test_ctrl_c_ends_the_beacons_and_writes_nothing(cluster):
    file = listed(cluster, ["gpu1", "gpu2"])
    folder = cluster.folder / "mine"
    discovery = cluster.begin("-o", folder, "--hosts-from", file, "--listen-s", "200")
    wait_until(lambda: len(cluster.arguments()) == 2, 120)
    discovery.send_signal(signal.SIGINT)
    said, _error = discovery.communicate(timeout=120)
    assert discovery.returncode == 3, said
    assert "nothing is written" in said
    assert not folder.exists()
    assert sorted(one["key"] for one in cluster.arguments() if one["collect_beacons"]) == ["gpu1", "gpu2"]


def test_a_password_prompt_without_a_terminal_is_bad_input(cluster):
    file = listed(cluster, ["gpu1"])
    done = cluster.discover("-o", cluster.folder / "mine", "--hosts-from", file, "-K")
    assert (done.returncode, cluster.requests()) == (2, []), done.stdout + done.stderr
    assert "BECOME password" in done.stderr


@pytest.mark.minutes
def test_where_no_node_answers_nothing_is_written(cluster):
    file = listed(cluster, ["gpu1"])
    cluster.fail_ssh("192.0.2.1", TIMED_OUT)
    done = cluster.discover("-o", cluster.folder / "mine", "--hosts-from", file, "--listen-s", "1")
    assert (done.returncode, (cluster.folder / "mine").exists()) == (3, False)
    assert "No node could be read; nothing is written." in done.stdout
