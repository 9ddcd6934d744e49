"""Adapters are recognized by the GUIDs of the newest run's facts, whatever they call themselves."""

from __future__ import annotations

import json

from railyard.fabric import facts
from support.runs import fake_rdma
from support.runs.fake_run import FakeRun
from support.small_fabric import HOST, NODES, RAILS, make_net, write_capture

OLD, NEW = "20260901T100000Z-0001", "20260902T100000Z-0001"


def colons(guid: int) -> str:
    digits = f"{guid:016x}"
    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))


def row(index: int, port: int = 1):
    """Return the facts of a node of the small fabric, whose adapters' ports have GUIDs after their own."""
    hcas = []
    for rail in range(RAILS):
        guid = HOST + 16 * (index - 1) + 2 * rail
        own = {"link_layer": "InfiniBand", "node_guid": colons(guid), "port_guid": colons(guid + port)}
        hcas.append({**fake_rdma.port(f"mlx5_{rail}:1", f"ib{rail}", f"198.18.{rail}.1", "hardware"), **own})
    return {**FakeRun()._facts(1), "node": f"gpu{index:02}", "hcas": hcas}


def write_run(tmp_path, name, rows):
    folder = tmp_path / "reports" / "mine" / name
    folder.mkdir(parents=True)
    (folder / "facts.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))


def test_the_newest_run_with_facts_counts_and_damaged_rows_are_passed_over(tmp_path):
    write_run(tmp_path, OLD, [row(1)])
    write_run(tmp_path, NEW, [row(2), {"schema": 1, "node": "gpu03"}])
    write_run(tmp_path, "20260903T100000Z-0001", [])
    assert list(facts.load_facts(tmp_path / "reports" / "mine")) == ["gpu02"]
    assert facts.load_facts(tmp_path / "nothing") == {}


def test_adapters_without_a_name_are_known_by_their_guids(read, tmp_path, capsys):
    net = make_net(name="MT4129 ConnectX7   Mellanox Technologies")
    capture = write_capture(tmp_path / "capture", net)
    assert read(capture) != 0
    assert capsys.readouterr().out.splitlines()[0].endswith("0 of 8 adapters, 2 leaves, 2 spines read.")
    write_run(tmp_path, NEW, [row(index) for index in range(1, NODES + 1)])
    assert read(capture) == 0
    assert capsys.readouterr().out.startswith("No fault found. 8 of 8 adapters")
