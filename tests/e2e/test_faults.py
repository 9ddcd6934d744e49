"""Faults of the fabric, end to end: each is named with node and rail; healed, the fabric is proven again."""

from __future__ import annotations

import shlex

import pytest
from e2e.conftest import shaped_lab
from e2e.support import NODES, Cluster

RAILS = ("rail0", "rail1")


@pytest.fixture(scope="module")
def provisioned(tmp_path_factory: pytest.TempPathFactory):
    with shaped_lab(tmp_path_factory.mktemp("faults"), "faults", "198.18.12.") as made:
        # The canary that goes first by default is in test_fabric.py.
        batches = ("-e", "railyard_driver_batch=100%", "-e", "railyard_network_batch=100%")
        done = made.railyard("provision", "-i", str(made.inventory), "--", *batches, timeout=420)
        assert done.returncode == 0, done.stdout
        yield made


@pytest.mark.parametrize(
    ("kind", "target", "expected_status", "word"),
    [
        ("link_down", "gpuserver2/rail1", 1, "link"),
        ("wrong_mtu", "gpuserver1/rail0", 1, "mtu"),
        ("duplicate_address", "gpuserver2/rail0", 1, "address"),
        ("slow_rail", "gpuserver1/rail1", 1, "tcp_bandwidth"),
        ("node_gone", "gpuserver2", 3, "unreachable"),
        ("node_hung", "gpuserver1", 3, "unreachable"),
    ],
)
def test_each_fault_is_named_with_node_and_rail(
    provisioned: Cluster, kind: str, target: str, expected_status: int, word: str
) -> None:
    node, _, rail = target.partition("/")
    provisioned.lab("fault", kind, target)
    try:
        status, run, output = provisioned.validate()
    finally:
        provisioned.lab("heal", "--all")
    assert status == expected_status, output
    bad = run.not_good()
    assert bad
    blamed = [v for v in bad if node in (v["node"], v["peer"]) and (not rail or v["rail"] in (rail, None))]
    assert any(word in f"{v['check']} {v['cause']}".lower() for v in blamed), bad
    assert all(v["cause"] and v["next"] for v in bad), [v for v in bad if not (v["cause"] and v["next"])]
    if kind == "slow_rail":
        assert {v["reproduced"] for v in blamed if v["check"] == "tcp_bandwidth"} == {"2/2"}
    assert node in output
    assert not rail or rail in output
    if rail:
        # A fault on one rail says nothing of the other: its own tests are still measured and good.
        other = RAILS[1 - RAILS.index(rail)]
        good = [v for v in run.verdicts if v["rail"] == other and v["check"] == "tcp_bandwidth"]
        assert [v["outcome"] for v in good] == ["pass"] * 2, good


# What any user of a node can do: connect to the tools' ports there, say a word to the partners' rendezvous.
KNOCK = """
import socket, sys, time
own, others = (words.split(',') for words in sys.argv[1:])
while True:
    for address, port in [(one, port) for one in own for port in range(18616, 18616 + 256)]:
        try:
            socket.create_connection((address, port), 0.2).close()
        except OSError:
            pass
    for address in others:
        try:
            socket.create_connection((address, 18600), 0.2).sendall(b'x' + bytes([10]))
        except OSError:
            pass
    time.sleep(0.2)
"""


def test_healed_it_is_proven_again_with_unknown_callers(provisioned: Cluster) -> None:
    for index, node in enumerate(NODES):
        own, others = ((f"10.0.1.{number}", f"10.0.0.{number}") for number in (index + 1, 2 - index))
        words = ("python3", "-c", KNOCK, ",".join(own), ",".join(others))
        provisioned.ssh(node, "sudo", "systemd-run", "--unit=knock", "--uid=nobody", *map(shlex.quote, words))
    try:
        status, run, output = provisioned.validate()
        assert [provisioned.ssh(node, "systemctl", "is-active", "knock").strip() for node in NODES] == [
            "active"
        ] * 2
    finally:
        for node in NODES:
            provisioned.ssh(node, "sudo", "systemctl", "stop", "knock")
    assert status == 0, output
    assert run.not_good() == []
