"""`railyard plan`: what a person and a program see, and the exit status."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import struct
import subprocess
import sys
import termios

import pytest
from railyard.base import output, paths
from railyard.plan import table, view
from support.inventories.on_disk import FABRIC, write_groups
from support.programs import BIN, railyard, run

# An en dash, as in the drawing.
TO = "\u2013"


@pytest.fixture
def inventory(tmp_path):
    def make(fabric=FABRIC, nodes=2, **hosts):
        names = {f"gpu{number}": hosts.get(f"gpu{number}") for number in range(1, nodes + 1)}
        return [str(write_groups(tmp_path, names, fabric=fabric) / "hosts.yml")]

    return make


def test_json_is_the_plan_and_nothing_else(inventory, capsys):
    assert view.run(inventory(), True) == 0
    said = capsys.readouterr()
    rails = json.loads(said.out)["nodes"]["gpu2"]["rails"]
    assert [(rail["name"], rail["address"]) for rail in rails] == [("rail0", "10.0.0.2/16")]
    assert said.err == ""


def test_the_table_has_a_row_for_each_rail(inventory, capsys):
    assert view.run(inventory(), False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["gpu2", "2", "rail0", "ens6", "10.0.0.2/16", "9000"] for line in lines)
    assert lines[-1].startswith("Measuring takes about ")


def test_rdma_that_is_measured_in_another_class_than_roce_qos_gives_is_reported(inventory, capsys):
    rails = [{"name": "rail0", "netdev": "ens6", "subnet": "10.0.0.0/16", "leaf": "leaf1"}]
    fabric = {"transport": "roce", "cabling": "switched", "mtu": 9000, "rails": rails}
    assert view.run(inventory(fabric), False) == 0
    assert "default class" not in capsys.readouterr().out
    assert view.run(inventory(fabric, gpu2={"roce_qos_dscp": 24}), False) == 0
    assert "default class, not in that of role roce_qos (roce_qos_dscp differs" in capsys.readouterr().out


def test_of_many_nodes_it_says_what_each_way_to_measure_takes(inventory, capsys):
    rails = [{"name": f"rail{k}", "netdev": f"ens{k}", "subnet": f"10.{k}.0.0/16"} for k in range(8)]
    assert view.run(inventory({**FABRIC, "rails": rails}, nodes=32), False) == 0
    said = capsys.readouterr().out
    assert "Measuring takes about 15 min" in said
    ways = {line.split()[0]: line.split()[1:5] for line in said.splitlines() if " of 496 " in line[:60]}
    assert ways["all_pairs"] == ["31", "496", "of", "496"]
    assert ways["sweep"] == ["31", "496", "of", "496"]
    assert int(ways["auto"][1]) == 16 * int(ways["auto"][0])
    # Each of 496 pairs, in both directions on 8 rails: two checks, and both ends write a row.
    assert " 31744 " in said


def test_many_nodes_show_the_ends_of_each_rail(inventory, capsys):
    assert view.run(inventory(nodes=600), False) == 0
    said = capsys.readouterr().out
    assert "600 nodes" in said
    [row] = [line.split() for line in said.splitlines() if "rail0" in line]
    # Node 600 is 2 * 256 + 88.
    folded = ["gpu[1-600]", f"1{TO}600", "rail0", "ens6", "10.0.0.1", TO, "10.0.2.88/16", "9000"]
    assert row == folded
    assert "10.0.1.44" not in said
    assert len(said.splitlines()) < 20


def rails_of(text):
    return [line.split() for line in text.splitlines() if re.search(r"\brail\d+ ", line)]


EIGHT = [
    {
        "name": f"rail{k}",
        "netdev": f"ens{k}np0",
        "hca": f"mlx5_{k}:1",
        "subnet": f"10.{k}.0.0/24",
        "rate_gbps": 400,
    }
    for k in range(8)
]


def test_thirty_two_nodes_of_eight_rails_are_a_row_for_each_rail(inventory, capsys, monkeypatch):
    monkeypatch.setattr(table, "console", lambda: output.console(width=80))
    assert view.run(inventory({**FABRIC, "transport": "roce", "rails": EIGHT}, nodes=32), False) == 0
    said = capsys.readouterr().out
    rows = rails_of(said)
    assert rows[0] == ["gpu[1-32]", f"1{TO}32", "rail0", "ens0np0", "mlx5_0:1", "10.0.0.1", TO, ".32/24"]
    assert rows[1:] == [
        [f"rail{k}", f"ens{k}np0", f"mlx5_{k}:1", f"10.{k}.0.1", TO, ".32/24"] for k in range(1, 8)
    ]
    assert "In all rows: MTU 9000 bytes, 400 Gbit/s" in said
    assert "--all prints a row for each rail of each node" in said
    assert len(said.splitlines()) < 30
    # Sentences are broken by the terminal; tables fit.
    assert not [line for line in said.splitlines() if "rail" in line and "  " in line and len(line) > 80]


def test_all_prints_every_row(inventory):
    [source] = inventory({**FABRIC, "rails": EIGHT}, nodes=32)
    done = railyard("plan", "-i", source, "--all")
    assert done.returncode == 0, done.stderr
    expected = {f"10.{rail}.0.{node}/24" for rail in range(8) for node in range(1, 33)}
    assert expected <= set(done.stdout.split())
    assert len(rails_of(done.stdout)) == 256
    assert "folded" not in done.stdout


def test_nodes_that_differ_are_not_folded_with_the_others(inventory, capsys):
    odd = {"rail_overrides": {"rail3": {"netdev": "enp9s0"}}}
    other = {"rail_overrides": {"rail3": {"address": "10.3.0.200/24"}}}
    assert view.run(inventory({**FABRIC, "rails": EIGHT}, nodes=9, gpu5=odd, gpu7=other), False) == 0
    rows = rails_of(capsys.readouterr().out)
    assert [row[0] for row in rows if not row[0].startswith("rail")] == ["gpu[1-4,6-9]", "gpu5"]
    assert len(rows) == 16
    assert rows[3] == ["rail3", "ens3np0", "mlx5_3:1", "10.3.0.1", "…", ".200/24", "9000", "400"]
    assert rows[11] == ["rail3", "enp9s0", "mlx5_3:1", "10.3.0.5/24", "9000", "400"]


def test_what_differs_between_folded_nodes_beside_addresses_is_not_shown_as_one(inventory, capsys):
    rails = [{"name": "rail0", "mac": "02:00:00:00:00:00", "subnet": "10.0.0.0/16"}]
    macs = {
        f"gpu{k}": {"rail_overrides": {"rail0": {"mac": f"02:00:00:00:00:{k:02x}"}}} for k in range(1, 41)
    }
    assert view.run(inventory({**FABRIC, "rails": rails}, nodes=40, **macs), False) == 0
    said = capsys.readouterr().out
    assert rails_of(said)[0][:4] == ["gpu[1-40]", f"1{TO}40", "rail0", "differs"]
    assert "02:00" not in said


def test_nodes_that_all_differ_are_cut_and_it_says_so(inventory, capsys):
    odd = {f"gpu{k}": {"rail_overrides": {"rail0": {"netdev": f"ens{k}x"}}} for k in range(1, 201)}
    source = inventory(nodes=200, **odd)
    assert view.run(source, False) == 0
    said = capsys.readouterr().out
    assert "The first 128 of 200 rows; --all prints all of them." in said
    assert len(rails_of(said)) == 128
    assert view.run(source, False, every_row=True) == 0
    assert len(rails_of(capsys.readouterr().out)) == 200


def test_rails_that_two_nodes_list_in_another_order_keep_their_addresses(inventory, capsys):
    assert view.run(inventory({**FABRIC, "rails": EIGHT}, nodes=4), True) == 0
    plan = json.loads(capsys.readouterr().out)
    plan["nodes"]["gpu2"]["rails"].reverse()
    table.print_plan(plan, every_row=False)
    assert rails_of(capsys.readouterr().out)[2][1:5] == ["ens2np0", "mlx5_2:1", "10.2.0.1", TO]


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 100])
@pytest.mark.parametrize("every_row", [True, False])
@pytest.mark.parametrize("nodes", [2, 30])
def test_no_name_and_no_address_is_ever_cut(inventory, capsys, monkeypatch, columns, every_row, nodes):
    monkeypatch.setattr(table, "console", lambda: output.console(width=columns))
    rails = [
        {
            "name": f"rail{k}", "netdev": f"enp{k}s0f0np0", "pci": f"0000:1{k}:00.0",
            "hca": f"rocep2{k}s0f0:1", "subnet": f"10.{k}.0.0/16", "subnet6": f"fd00:aaaa:bbbb:{k}::/64",
            "rate_gbps": 400,
        }
        for k in range(2)
    ]  # fmt: skip
    networks = [
        {
            "name": "a-long-name",
            "netdev": "enp9s0np0",
            "vlan": 4001,
            "subnet": "10.9.0.0/16",
            "manage": True,
        }
    ]
    # No two nodes fold: each has a netdev of its own.
    hosts = {
        f"gpu{k}": {"rail_overrides": {"rail0": {"netdev": f"enp7s{k}np0"}}} for k in range(1, nodes + 1)
    }
    source = inventory(
        {**FABRIC, "transport": "roce", "rails": rails, "networks": networks}, nodes=nodes, **hosts
    )
    assert view.run(source, True) == 0
    plan = json.loads(capsys.readouterr().out)
    assert view.run(source, False, every_row=every_row) == 0
    said = capsys.readouterr().out
    for name, node in plan["nodes"].items():
        assert re.search(rf"\b{name}\b", said)
        for rail in node["rails"]:
            words = [rail[key] for key in ("netdev", "pci", "hca", "address", "address6")]
            assert any(set(words) <= set(line.split()) for line in said.splitlines()), (columns, words, said)
        assert any(
            {"enp9s0np0.4001", node["networks"][0]["address"]} <= set(line.split())
            for line in said.splitlines()
        )


def test_a_real_terminal_of_eighty_columns(inventory):
    [source] = inventory(
        {**FABRIC, "rails": [{**one, "hca": "rocep148s0f0:1"} for one in EIGHT[:1]]}, nodes=2
    )
    main, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    env = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    with subprocess.Popen([BIN / "railyard", "plan", "-i", source], stdout=terminal, env=env) as process:
        os.close(terminal)
        said = b""
        with contextlib.suppress(OSError):  # how the end of a terminal shows
            while piece := os.read(main, 1 << 16):
                said += piece
    os.close(main)
    text = re.sub(r"\x1b\[[0-9;]*m", "", said.decode())
    assert process.returncode == 0
    for words in (
        ["gpu1", "1", "rail0", "ens0np0", "rocep148s0f0:1", "10.0.0.1/24"],
        ["In", "all", "rows:", "MTU"],
    ):
        assert any(line.split()[: len(words)] == words for line in text.splitlines()), text


def test_the_table_shows_the_addresses_beside_the_rails(inventory, capsys):
    networks = [
        {"name": "fs", "netdev": "ens9", "vlan": 90, "mtu": 9000, "subnet": "10.9.0.0/24", "manage": True},
        {"name": "bmc", "purpose": "out_of_band", "subnet": "10.8.0.0/24", "bmc": True},
        {"name": "others", "netdev": "ens8", "subnet": "10.7.0.0/24"},
    ]
    hosts = {"gpu1": {"bmc_address": "10.8.0.201"}, "gpu2": {"bmc_address": "10.8.0.202"}}
    assert view.run(inventory({**FABRIC, "networks": networks}, **hosts), False) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["gpu2", "fs", "ens9.90", "10.9.0.2/24", "9000", "Railyard"] in lines
    assert ["bmc", "-", "10.8.0.202", "-", "others"] in lines
    # An address that was not given is not made up.
    assert not any("10.7." in word for line in lines for word in line)


def test_a_bmc_without_a_network_of_its_own_is_shown(inventory, capsys):
    assert view.run(inventory(gpu1={"bmc_address": "192.168.1.72"}), False) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["gpu1", "bmc", "-", "192.168.1.72", "-", "others"] in lines


def test_many_nodes_show_the_ends_of_the_other_networks_too(inventory, capsys):
    storage = {"name": "storage", "netdev": "ens9", "subnet": "10.9.0.0/16", "manage": True}
    assert view.run(inventory({**FABRIC, "networks": [storage]}, nodes=600), False) == 0
    said = capsys.readouterr().out
    [row] = [line.split() for line in said.splitlines() if "storage" in line]
    assert row == ["gpu[1-600]", "storage", "ens9", "10.9.0.1", TO, "10.9.2.88/16", "-", "Railyard"]


def test_all_problems_go_to_standard_error_and_the_status_is_2(inventory, capsys):
    bad = {**FABRIC, "transport": "iwarp", "mtu": 20}
    assert view.run(inventory(bad, gpu1={"node_index": -1}), True) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "3 problems" in said.err
    for part in ("fabric.transport", "fabric.mtu", "node_index", "host gpu1", "Fix: "):
        assert part in said.err


def test_a_limit_selects(inventory, capsys):
    assert view.run(inventory(), True, "gpu1") == 0
    assert list(json.loads(capsys.readouterr().out)["nodes"]) == ["gpu1"]


@pytest.mark.parametrize("source", ["/nowhere/inventory", "nowhere"])
def test_a_missing_inventory_is_status_2(source, capsys):
    assert view.run([source], False) == 2
    assert "no such inventory" in capsys.readouterr().err


def test_it_does_not_depend_on_the_current_folder(tmp_path):
    program = "import sys; from railyard.plan import view; sys.exit(view.run([sys.argv[1]], True))"
    env = {key: value for key, value in os.environ.items() if key != "ANSIBLE_CONFIG"}
    env["PYTHONPATH"] = str(paths.repo_root() / "tools")
    source = str(paths.repo_root() / "inventories" / "v100-pair")
    argv = [sys.executable, "-c", program, source]
    done = run(argv, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cluster"] == "v100-pair"
    assert done.stderr == ""


SPARKS = {
    "transport": "roce",
    "mtu": 9000,
    "rails": [
        {"name": f"rail{number}", "netdev": netdev, "subnet": f"10.0.{number}.0/24", "rate_gbps": 200,
         **({"shares_wire_with": "rail1"} if number == 0 else {})}
        for number, netdev in enumerate(("enp1s0f0np0", "enP2p1s0f0np0", "enP7s7"))
    ],
}  # fmt: skip


def test_one_wire_and_the_nvlink_domains_are_in_the_plan_and_the_table(inventory, capsys):
    """DGX Spark's port is two functions; one of the two says it, and both have it in the plan."""
    mine = inventory(
        SPARKS, 3, gpu1={"nvlink_domain": "rack1"}, gpu2={"nvlink_domain": "rack1"}, gpu3={"nvlink_domain": 2}
    )
    assert view.run(mine, True) == 0
    nodes = json.loads(capsys.readouterr().out)["nodes"]
    assert [rail.get("shares_wire_with") for rail in nodes["gpu2"]["rails"]] == ["rail1", "rail0", None]
    assert [node["nvlink_domain"] for node in nodes.values()] == ["rack1", "rack1", "2"]
    assert view.run(mine, False) == 0
    told = capsys.readouterr().out
    assert "one wire with" in told
    assert "NVLink domain rack1: 2 nodes, gpu[1-2]" in told
    assert "NVLink domain 2: 1 nodes, gpu3" in told


def test_one_wire_and_the_nvlink_domains_are_drawn(inventory, tmp_path, capsys):
    mine = inventory(SPARKS, 2, gpu1={"nvlink_domain": "rack1"}, gpu2={"nvlink_domain": "rack2"})
    assert view.run(mine, False, svg=str(tmp_path / "plan.svg")) == 0
    drawn = (tmp_path / "plan.svg").read_text()
    assert ">one wire with rail1<" in drawn
    assert ">one wire with rail0<" in drawn
    assert "NVLink domains rack[1-2]" in drawn
