"""Case 12 of the design: adapters and switches with all kinds of names are distinguished by their GUIDs."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet.capture import parse
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import judge
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Expected, Judgement
from railyard.lab.subnet.net import Net
from support import simulated
from support.net_faults import describe
from support.simulated import Cluster

SWITCHES = ("su1-leaf1", "su1-leaf2")
GUIDS = {name: {"guid": f"0x7cfe9003002000{16 * place:02x}"} for place, name in enumerate(SWITCHES)}
CLUSTER = Cluster(nodes=4, rails=2, more=(("leaves", GUIDS),))


def judged(net: Net, expected: Expected, tmp_path: Path) -> Judgement:
    with simulated.simulate(net, tmp_path / "sim") as subnet:
        return judge(parse(simulated.read(subnet)), expected)


def with_guids(expected: Expected, net: Net) -> Expected:
    """Return what is expected with the port GUIDs that the nodes' facts have."""
    ports = []
    for port in expected.ports:
        device = net.devices[f"{port.node} mlx5_{port.rail.removeprefix('rail')}"]
        guids = {"port_guid": f"0x{device.guid + 1:016x}", "node_guid": f"0x{device.guid:016x}"}
        ports.append(port._replace(**guids))
    return expected._replace(ports=tuple(ports))


def test_names_of_all_kinds_are_healthy_where_guids_are_known(tmp_path: Path) -> None:
    net = CLUSTER.net()
    names = {
        # Without rdma-ndd; UTF-8; quotes; another node's name; a managed switch; what separates names.
        "gpu001 mlx5_1": "MT4129 ConnectX7   Mellanox Technologies",
        "gpu002 mlx5_0": "MT4129 ConnectX7   Mellanox Technologies",
        "gpu002 mlx5_1": "knoten-zwölf mlx5_1",
        "gpu003 mlx5_0": 'it\'s a "node" mlx5_0',
        "gpu003 mlx5_1": "gpu004 mlx5_1",
        "su1-leaf1": "MF0;leaf1:QM9700/U1",
        "su1-leaf2": "Quantum Mellanox Technologies ( 'a' - 'b' )",
    }
    for device, description in names.items():
        net = describe(net, device, description)
    judgement = judged(net, with_guids(CLUSTER.expected(), net), tmp_path)
    assert [one.text for one in judgement.findings if one.severity == "fail"] == []
    assert (judgement.coverage.expected_ports, judgement.coverage.found_ports) == (8, 8)
    # gpu003's second adapter has another node's name.
    assert ("host_misnamed", "gpu003") in {(one.cause, one.node) for one in judgement.findings}


def test_without_guids_an_adapter_without_a_name_is_unknown_and_named_by_its_guid(tmp_path: Path) -> None:
    net = describe(CLUSTER.net(), "gpu002 mlx5_0", "MT4129 ConnectX7   Mellanox Technologies")
    judgement = judged(net, CLUSTER.expected(), tmp_path)
    text = " ".join(one.text for one in judgement.findings)
    assert f"0x{net.devices['gpu002 mlx5_0'].guid:016x}" in text
    assert "gpu002" in text


def test_two_nodes_with_one_name_are_named_and_no_crash(tmp_path: Path) -> None:
    net = CLUSTER.net()
    for rail in (0, 1):
        net = describe(net, f"gpu003 mlx5_{rail}", f"gpu002 mlx5_{rail}")
    judgement = judged(net, CLUSTER.expected(), tmp_path)
    assert "name_not_unique" in {one.cause for one in judgement.findings}
    assert judgement.status != 0
