"""The net of a simulated subnet: what a plan makes of it, and ibsim's form of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from railyard.base.paths import repo_root
from railyard.lab.process import LabError
from railyard.lab.subnet import faults
from railyard.lab.subnet.cli import net_of
from railyard.lab.subnet.net import Cable, End, Net, Rate, from_plan, link_rate, render
from support.net_faults import OtherRate, describe


def plan(nodes: int, leaves: list[str], rate_gbps: float = 100, prefix: str = "gpu") -> dict[str, Any]:
    rails = [
        {"name": f"rail{position}", "hca": f"mlx5_{position}:1", "leaf": leaf, "rate_gbps": rate_gbps}
        for position, leaf in enumerate(leaves)
    ]
    return {"nodes": {f"{prefix}{number:02}": {"rails": rails} for number in range(1, nodes + 1)}}


def test_each_rail_is_on_its_leaf_and_each_leaf_on_all_spines() -> None:
    net = from_plan(plan(4, ["leaf1", "leaf2"]), spines=2)
    assert [device.name for device in net.switches()] == ["leaf1", "leaf2", "spine1", "spine2"]
    assert net.cable_at(End("gpu03 mlx5_1", 1)) == Cable(
        (End("leaf2", 3), End("gpu03 mlx5_1", 1)), Rate(4, "EDR")
    )
    # As many cables up as down, half of them to each spine, and no port of a spine has two.
    uplinks = [cable.ends[1] for cable in net.cables if cable.ends[1].device.startswith("spine")]
    assert sorted(uplinks) == [End(f"spine{spine}", port) for spine in (1, 2) for port in range(1, 5)]
    ends = [end for cable in net.cables for end in cable.ends]
    assert len(ends) == len(set(ends)) == 2 * (8 + 8)
    assert all(end.port <= net.devices[end.device].ports for end in ends)


def test_scalable_units_have_leaves_of_their_own() -> None:
    both = {"nodes": {**plan(2, ["a1", "a2"])["nodes"], **plan(2, ["b1", "b2"], prefix="dgx")["nodes"]}}
    net = from_plan(both, spines=1, uplinks=1)
    assert net.cable_at(End("dgx01 mlx5_0", 1)).ends[0] == End("b1", 1)
    assert net.devices["spine1"].ports == 4


def test_guids_are_those_of_the_inventory_and_none_is_used_twice() -> None:
    net = from_plan(plan(3, ["leaf1", "leaf2"]), 2, leaf_guids={"leaf2": "0x248a0703001f0001"})
    assert net.devices["leaf2"].guid == 0x248A0703001F0001
    # An adapter's port has the GUID after the adapter's own.
    taken = [device.guid for device in net.devices.values()] + [one.guid + 1 for one in net.adapters()]
    assert len(taken) == len(set(taken))


# Four lanes: SDR 10, DDR 20, QDR 40, FDR 56, EDR 100, HDR 200 (IBTA roadmap).
@pytest.mark.parametrize(
    ("rate_gbps", "rate"), [(10, "4xSDR"), (40, "4xQDR"), (56, "4xFDR"), (100, "4xEDR"), (200, "4xHDR")]
)
def test_rates_of_inventories_are_links(rate_gbps: float, rate: str) -> None:
    assert str(link_rate(rate_gbps)) == rate


def test_a_rate_that_ibsim_does_not_know_is_refused() -> None:
    with pytest.raises(LabError, match="rate_gbps 800: the simulator has no link of this rate"):
        link_rate(800)


def test_a_rail_without_leaf_is_refused_with_node_and_rail() -> None:
    with pytest.raises(LabError, match="gpu01: rail0: it has no leaf"):
        from_plan(plan(1, [""]), 1)


def test_ibsims_form() -> None:
    # As net-examples of linux-rdma/ibsim: `Switch PORTS "NAME"`, `Hca PORTS "NAME"`, `[PORT] "NAME"[PORT]`,
    # both ends; the rate behind the last `lid`, as parse_port_link_width_and_speed of ibsim/sim_net.c has it.
    net = describe(from_plan(plan(1, ["leaf1"]), 0, uplinks=0), "leaf1", "MF0;leaf1:QM9700/U1")
    blocks = render(net).split("\n\n")
    assert blocks[0].splitlines() == [
        "caguid=0x0002c90300100000",
        'Hca 1 "gpu01 mlx5_0"',
        '[1] "leaf1"[1] # lid 0 lmc 0 "" lid 0 4xEDR',
    ]
    assert blocks[1].splitlines()[1:] == [
        'Switch 1 "leaf1" # MF0;leaf1:QM9700/U1',
        '[1] "gpu01 mlx5_0"[1] # lid 0 lmc 0 "" lid 0 4xEDR',
    ]


@pytest.mark.parametrize("description", ['"quoted" at the start', "two\nlines", "x" * 64, "a lid 4", " "])
def test_a_description_that_ibsim_would_read_differently_is_refused(description: str) -> None:
    net = describe(from_plan(plan(1, ["leaf1"]), 1), "leaf1", description)
    with pytest.raises(LabError, match="ibsim cannot read"):
        render(net)


def test_exchanged_cables_end_where_the_other_one_did() -> None:
    net = from_plan(plan(2, ["leaf1", "leaf2"]), 0, uplinks=0)
    live = faults.Exchanged(End("gpu01 mlx5_0", 1), End("gpu01 mlx5_1", 1)).commands(net)
    assert live == [
        'Unlink "gpu01 mlx5_0"[1]',
        'Unlink "gpu01 mlx5_1"[1]',
        'Link "gpu01 mlx5_0"[1] "leaf2"[1]',
        'Link "gpu01 mlx5_1"[1] "leaf1"[1]',
    ]


def test_a_fault_at_a_port_without_a_cable_is_refused() -> None:
    net: Net = from_plan(plan(1, ["leaf1"]), 1)
    with pytest.raises(LabError, match="no cable at leaf1 port 9"):
        OtherRate(End("leaf1", 9), Rate(1, "EDR")).apply_to(net)


def test_the_labs_own_inventory_is_the_net_that_the_demo_shows() -> None:
    net = net_of(repo_root() / "inventories/lab-infiniband", spines=2, uplinks=None)
    assert (len(net.adapters()), len(net.switches()), len(net.cables)) == (64, 6, 128)
    assert net.devices["leaf3"].guid == 0x7CFE900300200003
    assert net.cable_at(End("gpu16 mlx5_3", 1)).ends[0] == End("leaf4", 16)


def test_a_problem_of_an_inventory_is_reported_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(
        "gpu_nodes: {hosts: {gpu01: {fabric: {transport: infiniband, leafs: {}}}}}\n"
    )
    with pytest.raises(LabError, match=r"hosts\.yml.*unknown key 'leafs'"):
        net_of(tmp_path, spines=1, uplinks=None)


@pytest.mark.parametrize(
    ("kind", "words", "lines"),
    [
        ("link_down", ["leaf1", "5"], ['Unlink "leaf1"[5]']),
        ("device_lost", ["spine1"], ['Unlink "spine1"']),
        ("silent", ["gpu01 mlx5_0"], ['Error "gpu01 mlx5_0" 100']),
        ("node_guid", ["gpu01 mlx5_0", "0x22"], ['Guid "gpu01 mlx5_0" 0x0000000000000022']),
        (
            "counted",
            ["leaf1", "1", "SymbolErrorCounter", "9"],
            ['PerformanceSet "leaf1"[1] PortCounters.SymbolErrorCounter=9'],
        ),
    ],
)
def test_faults_on_a_command_line(kind: str, words: list[str], lines: list[str]) -> None:
    net = from_plan(plan(4, ["leaf1"]), 1)
    assert faults.parse(kind, words, net).commands(net) == lines


@pytest.mark.parametrize(
    ("kind", "words", "reason"),
    [
        ("nosuch", [], "there is no fault nosuch.*there are: link_down"),
        ("link_down", ["leaf1"], "1 words are given.*give DEVICE PORT"),
        ("link_down", ["leaf9", "1"], 'there is no device leaf9.*names are as "gpu01 mlx5_0", "leaf1"'),
        ("link_down", ["leaf1", "x"], "PORT x is no number"),
        ("link_down", ["leaf1", "99"], "no cable at leaf1 port 99"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(kind: str, words: list[str], reason: str) -> None:
    with pytest.raises(LabError, match=f"(?s){reason}"):
        faults.parse(kind, words, from_plan(plan(4, ["leaf1"]), 1))
