# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node's facts answer: binding, link, address, MTU; a fault is named with node and rail."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import one_machine
from support.runs import fake_rdma
from support.runs.fake_run import FakeRun

GPU2_RAIL1 = {"node": "gpuserver2", "rail": "rail1"}


def spoilt(check: str, driver: str = "software", rate: float | None = 1.0, **changes: Any) -> Any:
    """Return the verdict of gpuserver2 rail1 after its netdev's facts were changed."""
    run = FakeRun(rate, driver)
    run.facts[1]["netdevs"][1].update(changes)
    return run.verdict(run.ids(check, **GPU2_RAIL1)[0])


@pytest.mark.parametrize(
    ("check", "changes", "outcome", "cause"),
    [
        ("link", {"carrier": False}, "fail", "link_down"),
        ("link", {"admin_up": False, "carrier": None}, "fail", "link_down"),
        ("link", {"operstate": "down"}, "fail", "link_down"),
        ("link", {"operstate": "lowerlayerdown"}, "fail", "link_down"),
        ("link", {"operstate": "unknown"}, "pass", None),
        ("link", {"carrier": None}, "unmeasured", "link_unknown"),
        ("link", {"carrier": 1}, "unmeasured", "facts_garbled"),
        ("link", {"admin_up": "yes"}, "unmeasured", "facts_garbled"),
        ("link", {"driver_class": None}, "unmeasured", "facts_garbled"),
        ("link", {"speed_mbps": 10}, "pass", None),  # a veth's speed means nothing
        ("link", {"master": "bond0"}, "fail", "netdev_enslaved"),
        ("link", {"netdev": "ens7"}, "fail", "netdev_missing"),
        ("mtu", {"netdev": "ens7"}, "fail", "netdev_missing"),
        ("address", {"netdev": "ens7"}, "fail", "netdev_missing"),
        ("mtu", {"mtu_bytes": 1500}, "fail", "mtu_differs"),
        ("mtu", {"mtu_bytes": 9001}, "fail", "mtu_differs"),
        ("mtu", {"mtu_bytes": "9000"}, "unmeasured", "facts_garbled"),
        ("mtu", {"mtu_bytes": None}, "unmeasured", "facts_garbled"),
        ("mtu", {"mtu_bytes": float("nan")}, "unmeasured", "facts_garbled"),
        ("address", {"addresses": []}, "fail", "address_missing"),
        ("address", {"addresses": ["10.0.0.9/24"]}, "fail", "address_wrong"),
        ("address", {"addresses": ["10.0.0.2/16"]}, "fail", "address_wrong"),
        ("address", {"addresses": ["10.0.0.2/24", "10.9.9.9/24"]}, "fail", "address_extra"),
        ("address", {"addresses6": ["2001:db8::1/64"]}, "fail", "address_extra"),
        ("address", {"addresses": ["10.0.0.2/24"], "addresses6": []}, "pass", None),
        ("address", {"addresses": None}, "unmeasured", "facts_garbled"),
        ("address", {"addresses": ["10.0.0.2"]}, "unmeasured", "facts_garbled"),
        ("address", {"addresses": ["10.0.0.300/24"]}, "unmeasured", "facts_garbled"),
        ("address", {"addresses": ["10.0.0.2/24", "10.0.0.2/24"]}, "unmeasured", "facts_garbled"),
        ("address", {"addresses": ["10.0.0.2/24", "10.0.0.1/24"]}, "fail", "address_extra"),
    ],
)
def test_each_fact_is_judged(check: str, changes: dict[str, Any], outcome: str, cause: str | None) -> None:
    one = spoilt(check, **changes)
    assert (one["outcome"], one["cause_class"]) == (outcome, cause)
    if cause:
        assert "gpuserver2" in one["cause"]
        assert "rail1" in one["cause"] or cause == "facts_garbled"
        assert one["next"]


def test_an_address_on_two_nodes_fails_for_both() -> None:
    run = FakeRun()
    run.facts[1]["netdevs"][1]["addresses"] = ["10.0.0.1/24"]
    failed = [(one["node"], one["cause_class"]) for one in run.judge() if one["outcome"] == "fail"]
    assert failed == [("gpuserver1", "address_duplicate"), ("gpuserver2", "address_wrong")]


@pytest.mark.parametrize(
    ("speed", "outcome", "cause"),
    [
        (1000, "pass", None),
        (999, "fail", "link_speed"),
        (1001, "fail", "link_speed"),
        (None, "unmeasured", "link_unknown"),
        (-1, "unmeasured", "facts_garbled"),
        ("1000", "unmeasured", "facts_garbled"),
        (True, "unmeasured", "facts_garbled"),
    ],
)
def test_a_hardware_link_runs_at_its_declared_rate(speed: Any, outcome: str, cause: str | None) -> None:
    one = spoilt("link", "hardware", 1.0, speed_mbps=speed)
    assert (one["outcome"], one["cause_class"]) == (outcome, cause)


def test_a_slow_link_fails_by_itself_and_lowers_no_floor() -> None:
    run = FakeRun(40.0, "hardware")
    floors = {one["id"]: one["floor"] for one in run.judge() if one["check"] == "tcp_bandwidth"}
    for facts in run.facts:
        for device in facts["netdevs"]:
            device["speed_mbps"] = 10
    after = run.judge()
    assert {one["id"]: one["floor"] for one in after if one["id"] in floors} == floors
    assert {one["outcome"] for one in after if one["check"] == "link"} == {"fail"}


@pytest.mark.parametrize(
    ("link", "cause"),
    [
        ({"speed_gts": 16.0, "width": 16.0}, None),
        ({"speed_gts": 8.0, "width": 16.0}, "slot_slow"),
        ({"speed_gts": 16.0, "width": 8.0}, "slot_slow"),
        ({"speed_gts": None, "width": None}, None),
    ],
)
def test_a_card_is_trained_to_what_its_slot_can_do(link: dict[str, Any], cause: str | None) -> None:
    most = {"max_speed_gts": 16.0, "max_width": 16.0}
    one = spoilt("link", "hardware", speed_mbps=1000, pci_link={**link, **most})
    assert (one["outcome"], one["cause_class"]) == ("fail" if cause else "pass", cause)
    assert spoilt("link", "hardware", speed_mbps=1000, pci_link=None)["outcome"] == "pass"


@pytest.mark.parametrize(
    ("classes", "is_one"),
    [
        (("hardware", "hardware"), True),
        (("virtual", "virtual"), True),
        (("container", "hardware"), True),
        # Containers of one host share its kernel, and so its boot.
        (("container", "container"), False),
    ],
)
def test_two_names_of_one_machine_are_no_two_nodes(classes: tuple[str, str], is_one: bool) -> None:
    run = FakeRun()
    for node_class, node, row in zip(classes, run.plan["nodes"].values(), run.facts, strict=True):
        node["node_class"] = node_class
        row["boot_id"] = "boot-1"
    links = [one for one in run.judge() if one["check"] == "link"]
    assert {one["outcome"] for one in links} == ({"unmeasured"} if is_one else {"pass"})
    if is_one:
        assert "gpuserver1 and gpuserver2 are one machine" in links[0]["cause"]
        assert "Correct ansible_host of one of them" in links[0]["cause"]


def test_one_machine_is_found_by_boot_and_by_nothing_else() -> None:
    nodes: dict[str, dict[str, str]] = {f"gpu{number}": {"node_class": "hardware"} for number in range(1, 6)}
    boots = {"gpu1": "a", "gpu2": "b", "gpu3": "a", "gpu4": None, "gpu5": None, "stranger": "b"}
    facts = [{"node": node, "boot_id": boot} for node, boot in boots.items()]
    assert one_machine.find(nodes, facts) == {"gpu1": "gpu3", "gpu3": "gpu1"}
    # The same row twice, as a torn folder may have it, is no second machine.
    assert one_machine.find(nodes, [facts[1], facts[1]]) == {}


def test_two_rows_of_facts_that_differ_are_none() -> None:
    run = FakeRun()
    run.facts.append({**run.facts[1], "boot_id": "another boot"})
    assert {one["outcome"] for one in run.judge() if one["node"] == "gpuserver2"} == {"unmeasured"}
    run = FakeRun()
    run.facts.append(dict(run.facts[1]))
    assert run.status() == 0


def rail(**selectors: Any) -> dict[str, Any]:
    unknown = dict.fromkeys(("netdev", "mac", "pci", "hca", "vlan", "mtu"))
    return {**unknown, "name": "rail0", **selectors}


def device(netdev: str, mac: str, pci: Any = None, kind: str = "physical", **more: Any) -> dict[str, Any]:
    whole = {"netdev": netdev, "mac": f"02:00:00:00:00:{mac}", "permanent_mac": None, "pci": pci}
    return {**whole, "kind": kind, "master": None, **more}


DEVICES = [
    device("ens6", "01", "0000:81:00.0", permanent_mac="0c:42:a1:00:00:01"),
    device("ens6d1", "02", "0000:81:00.0", master="bond0"),
    device("bond0", "02", kind="bond"),
    device("ens8", "08", "0000:C1:00.0", mtu_max_bytes=1500),
    device("ens8.100", "08", kind="vlan"),
]
FACTS = {
    "netdevs": DEVICES,
    "hcas": [
        {"hca": "mlx4_0:1", "netdev": "ens6", "state": "ACTIVE"},
        {"hca": "mlx4_0:2", "netdev": "ens6d1", "state": "DOWN"},
    ],
}


@pytest.mark.parametrize(
    ("selectors", "netdev", "causes"),
    [
        ({"netdev": "ens6"}, "ens6", []),
        ({"netdev": "eth0"}, None, ["netdev_missing"]),
        ({"mac": "0C:42:A1:00:00:01"}, "ens6", []),
        ({"mac": "02:00:00:00:00:02"}, "ens6d1", ["lag_member"]),
        ({"mac": "02:00:00:00:00:99"}, None, ["netdev_missing"]),
        ({"pci": "0000:c1:00.0"}, "ens8", []),
        ({"pci": "0000:81:00.0"}, None, ["netdev_ambiguous"]),
        ({"hca": "mlx4_0:1"}, "ens6", []),
        ({"hca": "mlx4_0:2"}, "ens6d1", ["lag_member"]),
        ({"hca": "mlx5_0:1"}, None, ["hca_missing"]),
        ({}, None, ["netdev_missing"]),
        ({"netdev": "ens6", "hca": "mlx4_0:2"}, "ens6", ["netdev_differs"]),
        ({"netdev": "ens6", "hca": "mlx5_0:1"}, "ens6", ["hca_missing"]),
        ({"netdev": "ens6", "mac": "02:00:00:00:00:02"}, "ens6", ["netdev_differs"]),
        ({"netdev": "ens6", "pci": "0000:c1:00.0"}, "ens6", ["netdev_differs"]),
        ({"netdev": "ens6d1"}, "ens6d1", ["lag_member"]),
        ({"netdev": "bond0"}, "bond0", ["lag_member"]),
        ({"netdev": "ens8", "mtu": 9000}, "ens8", ["mtu_too_large"]),
        ({"netdev": "ens8", "mtu": 1500}, "ens8", []),
        ({"netdev": "ens8", "vlan": 100}, "ens8.100", []),
        ({"netdev": "ens6", "vlan": 100}, None, ["netdev_missing"]),
    ],
)
def test_binding_follows_the_selectors(
    selectors: dict[str, Any], netdev: str | None, causes: list[str]
) -> None:
    bound = bind.bind([rail(**selectors)], FACTS)["rail0"]
    assert (bound.netdev["netdev"] if bound.netdev else None) == netdev
    assert [finding.cause for finding in bound.findings] == causes
    assert bind.netdevs([rail(**selectors)], FACTS) == ({"rail0": netdev} if netdev else {})


def test_a_port_whose_name_has_changed_is_found_by_its_mac() -> None:
    bound = bind.bind([rail(netdev="eth0", mac="0C:42:A1:00:00:01")], FACTS)["rail0"]
    (finding,) = bound.findings
    assert finding.cause == "netdev_missing"
    assert finding.detail == "no netdev eth0; the port with MAC 0C:42:A1:00:00:01 is called ens6"


def test_two_rails_on_one_netdev_are_found_on_both() -> None:
    rails = [rail(netdev="ens6"), {**rail(mac="02:00:00:00:00:01"), "name": "rail1"}]
    bound = bind.bind(rails, FACTS)
    assert [[finding.cause for finding in one.findings] for one in bound.values()] == [["netdev_shared"]] * 2


@pytest.mark.parametrize(
    ("state", "layer", "cause"),
    [
        ("DOWN", "Ethernet", "link_down"),
        ("INIT", "Ethernet", "link_down"),
        ("INIT", "InfiniBand", "sm_missing"),
    ],
)
@pytest.mark.parametrize("carrier", [True, False])
def test_an_hca_port_that_is_not_active_is_a_link_down_or_waits_for_a_subnet_manager(
    state: str, layer: str, cause: str, carrier: bool
) -> None:
    run = FakeRun()
    for node in run.plan["nodes"].values():
        node["rails"][0]["hca"] = "mlx5_0:1"
    for facts in run.facts:
        facts["netdevs"][0]["carrier"] = carrier
        port = fake_rdma.port("mlx5_0:1", "ens6", "10.0.1.1", "hardware")
        facts["hcas"] = [port | {"state": state, "link_layer": layer}]
    ones = [run.verdict(identity) for identity in run.ids("link", rail="rail0")]
    assert {(one["outcome"], one["cause_class"]) for one in ones} == {("fail", cause)}


@pytest.mark.parametrize(
    ("rate", "speed", "most", "outcome", "cause"),
    [
        (None, 10000, 40000, "fail", "link_slow"),  # its floors rest on 40 Gbit/s, and so does the link's
        (None, 40000, 40000, "pass", None),
        (None, 40000, 10000, "pass", None),  # a mode that this version does not know
        (None, 10000, None, "recorded", None),  # up, and nothing says how fast it could be
        (None, None, 40000, "unmeasured", "link_unknown"),
        (None, 0, 40000, "unmeasured", "facts_garbled"),
        (10.0, 10000, 40000, "pass", None),  # the lower speed is what was paid for
    ],
)
def test_without_a_declared_rate_a_link_runs_as_fast_as_its_port_can(
    rate: float | None, speed: int | None, most: int | None, outcome: str, cause: str | None
) -> None:
    one = spoilt("link", "hardware", rate, speed_mbps=speed, speed_max_mbps=most)
    assert (one["outcome"], one["cause_class"]) == (outcome, cause)
    if outcome == "fail":
        assert "runs at 10 Gbit/s, its port can do 40" in one["cause"]
        assert "rate_gbps" in one["next"]
    if outcome == "recorded":
        assert "gpuserver2 rail1 (ens6d1) is up; its speed is recorded, not judged" in one["basis"]
        assert "declare rate_gbps" in one["basis"]
        assert not one["floor"]
    assert spoilt("link", "software", None, speed_mbps=10, speed_max_mbps=40000)["outcome"] == "pass"


def ipoib(mode: str | None = "datagram", active: int | None = 4096, **more: Any) -> dict[str, Any]:
    """Return a node's facts with one IPoIB netdev, whose driver takes 65520 bytes whatever its mode."""
    netdev = device("ibp24s0", "24", kind="ipoib", ipoib_mode=mode, mtu_max_bytes=65520, **more)
    port = {"hca": "mlx5_0:1", "netdev": "ibp24s0", "active_mtu_bytes": active, "max_mtu_bytes": 4096}
    return {"netdevs": [netdev], "hcas": [port]}


@pytest.mark.parametrize(
    ("facts", "mtu", "declared", "causes"),
    [
        (ipoib(), 4092, "datagram", []),
        (ipoib(), 4093, "datagram", ["mtu_too_large"]),
        (ipoib(active=2048), 2044, "datagram", []),
        (ipoib(active=2048), 4092, "datagram", ["mtu_too_large"]),
        (ipoib(active=None), 4092, "datagram", []),  # then what the port can at most do
        (ipoib(active=None), 9000, "datagram", ["mtu_too_large"]),
        (ipoib("connected", 2048), 65520, "connected", []),
        (ipoib("connected"), 65521, "connected", ["mtu_too_large"]),
        (ipoib("datagram"), 65520, "connected", ["ipoib_mode_differs", "mtu_too_large"]),
        (ipoib("connected"), 2044, "datagram", ["ipoib_mode_differs"]),
        (ipoib(None), 65520, "datagram", []),  # a kernel without the file
        (ipoib(None), 65521, "datagram", ["mtu_too_large"]),
    ],
)
def test_what_an_ipoib_netdev_can_carry_follows_its_mode(
    facts: dict[str, Any], mtu: int, declared: str, causes: list[str]
) -> None:
    bound = bind.bind([rail(hca="mlx5_0:1", mtu=mtu, ipoib_mode=declared)], facts)["rail0"]
    assert [finding.cause for finding in bound.findings] == causes
    if causes == ["mtu_too_large"] and facts == ipoib(active=2048):
        (finding,) = bound.findings
        assert finding.detail == (
            "ibp24s0 carries an MTU of 2044 at most in datagram mode over an InfiniBand MTU of 2048, "
            "4092 is asked"
        )


@pytest.mark.parametrize(
    ("active", "seen", "cause"),
    [
        (2048, 2044, "mtu_too_large"),  # no provisioning makes it larger
        (4096, 2044, "ipoib_mtu_small"),  # the partition's multicast group holds it down
        (4096, 4093, "mtu_differs"),
        (4096, 4092, None),
    ],
)
def test_an_ipoib_mtu_below_the_declared_one_says_what_holds_it_down(
    active: int, seen: int, cause: str | None
) -> None:
    run = FakeRun(100.0, "hardware", "infiniband")
    for node in run.plan["nodes"].values():
        for one in node["rails"]:
            one["mtu"] = 4092
    run.facts[1]["netdevs"][1].update(kind="ipoib", ipoib_mode="datagram", mtu_bytes=seen)
    run.facts[1]["hcas"][1]["active_mtu_bytes"] = active
    found = run.verdict(run.ids("mtu", **GPU2_RAIL1)[0])
    assert found["cause_class"] == cause
    assert found["outcome"] == ("fail" if cause else "pass")
    if cause:
        assert "gpuserver2 rail1" in found["cause"]
        assert found["next"]


@pytest.mark.parametrize(
    ("part", "key", "bad"),
    [
        ("netdevs", "operstate", "down"),
        ("netdevs", "master", "bond0"),
        ("netdevs", "pci_link", {"speed_gts": 8.0, "width": 8, "max_speed_gts": 16.0, "max_width": 16}),
        ("hcas", "dpu_mode", "dpu"),
        ("hcas", "node_type", "RNIC"),
    ],
)
def test_what_fails_does_not_pass_by_a_key_that_is_gone(part: str, key: str, bad: object) -> None:
    """J9: nothing of what the collector always writes says by its absence that all is well."""
    run = FakeRun(transport="roce", driver_class="hardware", node_class="hardware")
    assert run.status() == 0
    run.facts[0][part][0][key] = bad
    assert run.status() == 1
    del run.facts[0][part][0][key]
    assert run.status() == 3
    causes = {one["cause_class"] for one in run.judge() if one["outcome"] == "unmeasured"}
    assert "facts_garbled" in causes
    of_others = [one for one in run.judge() if run.facts[0]["node"] not in (one["node"], one["peer"])]
    assert of_others
    assert not [
        one for one in of_others if one["check"] in ("link", "rdma_port") and one["outcome"] != "pass"
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"schema": True},
        {"netdevs": None},
        {"netdevs": [1]},
        {"netdevs": [{}]},
        {"run": "other"},
        {"netdevs": [{"netdev": "ens6", "pci": []}]},
        {"netdevs": 5},
        {"hcas": [[]]},
        {"cpu": None},
        {"tools": "iperf3"},
        {"gpus": {"pci": []}},
        {"gpus": None},
        {"schema": 2},
        {"more": 1},
        {"boot_id": 7},
    ],
)
def test_one_nodes_garbage_leaves_the_others_as_they_are(change: dict[str, Any]) -> None:
    """J1: the run has all its verdicts, and those of the other node are not touched; its own are none."""
    run = FakeRun()
    before = run.judge()
    run.facts[1].update(change)
    after = run.judge()
    assert len(after) == len(before)
    other = run.facts[1]["node"]
    for was, now in zip(before, after, strict=True):
        if other in (was["node"], was["peer"]):
            # Of GPUs nothing is planned here.
            assert now["outcome"] == "unmeasured" or "gpus" in change
        elif was["check"] in ("link", "address", "mtu"):
            assert now == was
        assert now["outcome"] == was["outcome"] or now["outcome"] == "unmeasured"
