# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The writer railyard-metrics on a node of files: what it writes of each rail, and what spoils a write."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.module_utils import program
from ansible_collections.railyard.fabric.plugins.module_utils.facts import ethtool
from ansible_collections.railyard.fabric.plugins.module_utils.metrics import catalogue, main, rails, totals
from ansible_collections.railyard.fabric.plugins.module_utils.quick import trace, xids
from ansible_collections.railyard.fabric.plugins.module_utils.quick.found import Found
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from support.metrics.exposition_reader import parse, values
from support.nodes.gpu_node import GpuNode

REPO = Path(__file__).parents[9]
OLDEST = sorted(map(str, Path.home().glob(".pyenv/versions/3.9.*/bin/python")))
SYSTEM = [path for path in ("/usr/bin/python3",) if Path(path).exists()]
# mlx5's names, Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst; durations in us.
MLX5 = {
    "rx_prio3_pause": 12,
    "rx_prio3_pause_duration": 2_500_000,
    "tx_prio3_pause": 0,
    "tx_prio3_pause_duration": 0,
    "rx_prio0_pause": 0,
    "rx_crc_errors_phy": 4,
    "rx_prio3_discards": 2,
    "rx_symbol_err_phy": 6,
    "rx_bytes": 1,
}


class Node(GpuNode):
    """Two RoCE rails of mlx5 at 400 Gbit/s, and a GPU."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.host()
        self.rails = []
        for number, netdev in enumerate(("ens6", "ens7")):
            card = self.pci(f"0000:0{number + 5}:00.0", "mlx5_core")
            for name, value in (("current_link_width", 16), ("max_link_width", 16)):
                (card / name).write_text(f"{value}\n")
            self.netdev(netdev, card, speed=400000, address=f"02:00:00:00:00:0{number}")
            port = self.port(f"mlx5_{number}", 1, card, rate="400 Gb/sec (4X NDR)")
            self.write(f"{port}/hw_counters/np_cnp_sent", 70 + number)
            self.write(f"{port}/hw_counters/out_of_sequence", 5)
            self.gid(port, 3, f"0000:0000:0000:0000:0000:ffff:0a00:0{number}01", "RoCE v2", netdev)
            self.rails.append(
                {"name": f"rail{number}", "netdev": netdev, "hca": f"mlx5_{number}:1", "rate_gbps": 400}
                | {"address": f"10.0.{number}.1/24", "mtu": 9000}
            )
        self.function("0000:17:00.0", 0x20B2)
        self.expect, self.out = root / "metrics.json", root / "textfile/railyard_node.prom"
        self.kept, self.looks = root / "kept/totals.json", root / "quick"
        self.out.parent.mkdir()
        self.looks.mkdir()
        self.expects()

    def expects(self, **change) -> None:
        wanted = {"schema": 1, "node": "gpu001", "transport": "roce", "node_class": "hardware"}
        wanted |= {"rails": self.rails, "governor": "performance", "gpus": {"count": 2, "nvlinks": 18}}
        self.expect.write_text(json.dumps(wanted | change))

    def argv(self) -> list[str]:
        return [
            "--expect", str(self.expect), "--out", str(self.out), "--kept", str(self.kept),
            "--quick", str(self.looks), "--root", str(self.root),
        ]  # fmt: skip

    def write_metrics(self) -> str:
        assert main.main(self.argv()) == 0
        return self.out.read_text()


@pytest.fixture
def node(tmp_path, monkeypatch):
    monkeypatch.setattr(ethtool, "stats", lambda _netdev: MLX5)
    return Node(tmp_path)


def read_metric(text: str, name: str, **labels: str) -> float | None:
    family = parse(text).get(f"railyard_{name}")
    found = [value for series, value in (family.series if family else {}).items() if dict(series) == labels]
    return found[0] if found else None


def test_each_rail_has_what_the_contract_names(node):
    text = node.write_metrics()
    # 400 Gbit/s are 5e10 bytes per second.
    assert values(text, "railyard_rail_info") == {
        ("mlx5_0", "ens6", "1", "rail0"): 1,
        ("mlx5_1", "ens7", "1", "rail1"): 1,
    }
    assert values(text, "railyard_rail_netdev_info") == {("ens6", "rail0"): 1, ("ens7", "rail1"): 1}
    for name, value in {
        "expected_rate_bytes_per_second": 5e10, "rate_bytes_per_second": 5e10, "rdma_port_active": 1,
        "gid_present": 1, "gid_index": 3, "pcie_lanes": 16, "pcie_lanes_max": 16,
    }.items():  # fmt: skip
        assert read_metric(text, f"rail_{name}", rail="rail1") == value, name
    # 400 Gbit/s with an error in 10^13 bits.
    assert read_metric(text, "rail_symbol_errors_allowed_per_hour", rail="rail1") == pytest.approx(144)
    assert read_metric(text, "rail_mtu_bytes", rail="rail0", layer="netdev") == 9000
    assert read_metric(text, "rail_expected_mtu_bytes", rail="rail0", layer="netdev") == 9000
    assert read_metric(text, "rail_congestion_total", rail="rail1", counter="np_cnp_sent") == 71
    paused = {"rail": "rail0", "direction": "rx", "priority": "3"}
    assert read_metric(text, "rail_pause_seconds_total", **paused) == 2.5
    assert read_metric(text, "rail_pause_frames_total", **paused) == 12
    # Priorities that were never paused have no series.
    assert len(values(text, "railyard_rail_pause_frames_total")) == 2
    assert {key[0] for key in values(text, "railyard_rail_errors_total")} == set(catalogue.ERROR_KINDS)
    counters = {
        key[0]: value
        for key, value in values(text, "railyard_rail_error_counter_total").items()
        if key[2] == "rail0"
    }
    assert counters == {
        "ethtool.rx_crc_errors_phy": 4, "ethtool.rx_prio3_discards": 2, "ethtool.rx_symbol_err_phy": 6,
        "hw.out_of_sequence": 5,
    }  # fmt: skip
    for name, value in {"cpus_with_wrong_governor": 0, "expected_gpus": 2, "gpus": 1}.items():
        assert read_metric(text, name) == value, name
    assert read_metric(text, "gpu_nvlinks_expected", pci="0000:17:00.0") == 18
    assert read_metric(text, "node_metrics_info", version=main.VERSION) == 1
    assert 0 < read_metric(text, "node_metrics_cpu_seconds") < 60
    assert stat.S_IMODE(node.out.stat().st_mode) == 0o644
    # No node and no cluster: the scrape target has them. No quick check has looked yet.
    assert "node=" not in text
    assert "cluster=" not in text
    assert "railyard_quick" not in text


@pytest.mark.parametrize(("active", "expected"), [(4096, 4096), (2048, 2048), (1024, 2048), (256, 2048)])
def test_every_rdma_mtu_that_the_check_accepts_is_the_expected_one(active, expected):
    """A ConnectX-3 may use 2048 or 4096 below an MTU of 9000: neither is wrong, and 1024 is."""
    port = {"active_mtu_bytes": active, "max_mtu_bytes": 4096, "driver": "mlx4_core"}
    bound = Bound({"mtu": 9000}, {"mtu_bytes": 9000}, port)
    found = {(name, labels["layer"]): value for name, labels, value in rails._mtu(bound, "roce")}
    assert (found["mtu_bytes", "rdma"], found["expected_mtu_bytes", "rdma"]) == (active, expected)


# A link may have an error in 10^13 bits, up to 100 Gbit/s in 10^12: 0.36 or 3.6 an hour for each Gbit/s.
@pytest.mark.parametrize(
    ("seen", "expected", "symbols"), [(199.0, 199.0, 71.64), (200.0, 200.0, 72), (100.0, 200.0, 360)]
)
def test_an_infiniband_rate_that_the_check_accepts_is_the_expected_one(seen, expected, symbols):
    """Names of rates are rounded; half the rate is a cable or a port that trained low."""
    bound = Bound({"rate_gbps": 200}, None, {"rate_gbps": seen})
    found = {name: value for name, _labels, value in rails._rate(bound, "infiniband")}
    assert found == {
        "rate_bytes_per_second": seen * 125e6,
        "expected_rate_bytes_per_second": expected * 125e6,
        "symbol_errors_allowed_per_hour": pytest.approx(symbols),
    }


def test_a_rail_that_is_gone_still_has_its_info(node):
    (node.root / "sys/class/net/ens7").rename(node.root / "sys/class/net/renamed")
    device = node.root / "sys/class/infiniband/mlx5_1"
    device.rename(node.root / "mlx5_1")
    text = node.write_metrics()
    assert read_metric(text, "rail_info", rail="rail1", netdev="ens7", device="mlx5_1", port="1") == 1
    assert read_metric(text, "rail_netdev_info", rail="rail1", device="ens7") == 1
    assert read_metric(text, "rail_expected_rate_bytes_per_second", rail="rail1") == 5e10
    assert read_metric(text, "rail_rdma_port_active", rail="rail1") == 0
    for name in ("rail_rate_bytes_per_second", "rail_gid_present", "rail_pcie_lanes"):
        assert read_metric(text, name, rail="rail1") is None, name
    # The other rail is as it was.
    assert read_metric(text, "rail_rdma_port_active", rail="rail0") == 1


def test_what_is_wrong_shows(node):
    node.write("sys/class/net/ens6/mtu", 1500)
    node.write("sys/class/net/ens6/speed", 200000)
    node.write("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN")
    node.write("sys/class/infiniband/mlx5_0/ports/1/gids/3", "0000:0000:0000:0000:0000:ffff:0a00:0909")
    (node.root / "sys/devices/pci0000:00/0000:06:00.0/current_link_width").write_text("8\n")
    node.write("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave")
    text = node.write_metrics()
    assert read_metric(text, "rail_mtu_bytes", rail="rail0", layer="netdev") == 1500
    assert read_metric(text, "rail_rate_bytes_per_second", rail="rail0") == 2.5e10
    assert read_metric(text, "rail_gid_present", rail="rail0") == 0
    assert read_metric(text, "rail_gid_index", rail="rail0") is None
    assert read_metric(text, "rail_rdma_port_active", rail="rail1") == 0
    assert read_metric(text, "rail_pcie_lanes", rail="rail1") == 8
    assert read_metric(text, "cpus_with_wrong_governor") == 1


def test_a_port_of_soft_roce_takes_nothing_from_the_others(node):
    """It has no folder counters/, for which node_exporter gives no data of any port (1.5, 1.7 and 1.9)."""
    node.netdev("eth9", None)
    port = node.port("rxe0", 1, None)
    for file in (node.root / port / "counters").iterdir():
        file.unlink()
    (node.root / port / "counters").rmdir()
    node.write("sys/class/infiniband/rxe0/parent", "eth9")
    node.write(f"{port}/hw_counters/out_of_seq_request", 4)
    soft = {"name": "rail2", "netdev": "eth9", "address": "10.0.2.1/24", "mtu": 9000}
    node.expects(rails=[*node.rails, soft])
    text = node.write_metrics()
    assert read_metric(text, "rail_rdma_port_active", rail="rail0") == 1
    assert read_metric(text, "rail_info", rail="rail2", netdev="eth9", device="rxe0", port="1") == 1
    assert read_metric(text, "rail_rdma_port_active", rail="rail2") == 1
    assert read_metric(text, "rail_errors_total", rail="rail2", kind="physical") == 0
    counter = {"kind": "transport", "counter": "hw.out_of_seq_request"}
    assert read_metric(text, "rail_error_counter_total", rail="rail2", **counter) == 4
    # Its speed is no line rate.
    assert read_metric(text, "rail_rate_bytes_per_second", rail="rail2") is None
    assert read_metric(text, "rail_symbol_errors_allowed_per_hour", rail="rail2") is None


def test_the_sum_of_errors_never_falls(node, monkeypatch):
    def errors(kind):
        return read_metric(node.write_metrics(), "rail_errors_total", rail="rail0", kind=kind)

    assert errors("physical") == 0  # what there was before is nothing that grew
    seen = dict(MLX5)
    monkeypatch.setattr(ethtool, "stats", lambda _netdev: seen)
    seen["rx_crc_errors_phy"] = 9
    assert errors("physical") == 5
    # The driver is loaded again: first its counters are gone, then they begin anew.
    node.write("sys/class/net/ens6/statistics/rx_crc_errors", 3)
    gone, seen_before = {}, dict(seen)
    monkeypatch.setattr(ethtool, "stats", lambda _netdev: gone)
    assert errors("physical") == 5
    monkeypatch.setattr(ethtool, "stats", lambda _netdev: {**seen_before, "rx_crc_errors_phy": 1})
    assert errors("physical") == 6
    # Another port on this rail: what it counted before says nothing.
    node.rails[0]["netdev"] = "ens8"
    node.netdev("ens8", None, speed=400000)
    node.expects()
    monkeypatch.setattr(ethtool, "stats", lambda _netdev: {**seen_before, "rx_crc_errors_phy": 50})
    assert errors("physical") == 6
    node.kept.write_text("{")
    assert errors("physical") == 0


def test_a_flap_is_no_physical_error(node):
    node.write("sys/class/net/ens6/carrier_changes", 2)
    node.write_metrics()
    node.write("sys/class/net/ens6/carrier_changes", 4)
    text = node.write_metrics()
    assert read_metric(text, "rail_errors_total", rail="rail0", kind="flap") == 2
    assert read_metric(text, "rail_errors_total", rail="rail0", kind="physical") == 0
    counter = {"kind": "flap", "counter": "netdev.carrier_changes"}
    assert read_metric(text, "rail_error_counter_total", rail="rail0", **counter) == 4


def test_the_last_quick_check_is_in_it(node):
    boot = (node.root / "proc/sys/kernel/random/boot_id").read_text().strip()
    found = Found(good=["2 rails"])
    found.add_wrong("mtu_differs: rail0 has 1500", "mtu/rail0", "mtu_differs", "rail0")
    found.add_unknown("gpu_unknown: it hung", "gpus/gpu_count", "gpu_unknown")
    seen = [
        {"kind": "XID", "pci": "0000:17:00", "xid": 79, "fatal": False, "count": 1, "at_s": 5.0, "said": "x"}
    ]
    seen += [{**seen[0], "kind": "SXID", "xid": 20034, "fatal": True}]
    found.gpus = {
        "xids": xids.document(xids.Xids(seen, {("0000:17:00", "79"): 2})),
        "nvlinks": [{"pci": "0000:17:00.0", "active": 17}],
    }
    now = time.time()
    trace.end(str(node.looks), "timer", found, boot, now, 1.25)
    text = node.write_metrics()
    assert read_metric(text, "quick_status") == 1
    assert read_metric(text, "quick_duration_seconds") == 1.25
    assert read_metric(text, "quick_timestamp_seconds") == pytest.approx(now)
    assert values(text, "railyard_quick_finding") == {("mtu_differs", "rail0"): 1, ("gpu_unknown",): 1}
    assert values(text, "railyard_gpu_xid_since_reset") == {("0000:17:00.0", "79"): 1}
    assert values(text, "railyard_gpu_xid_total") == {("0000:17:00.0", "79"): 2}
    assert read_metric(text, "gpu_nvlinks_active", pci="0000:17:00.0") == 17
    # A reboot cures an XID; that a rail's MTU was wrong is known until the next look.
    node.write("proc/sys/kernel/random/boot_id", "another")
    text = node.write_metrics()
    assert read_metric(text, "quick_status") == 1
    assert values(text, "railyard_gpu_xid_since_reset") == {}


@pytest.mark.parametrize("name", ['ens"6', "ens\\6", 'e"} 1\nx', "ens\udcff", "ens 6"])
def test_a_hostile_netdev_is_a_label_and_nothing_else(node, name):
    (node.root / "sys/class/net/ens6").rename(node.root / "sys/class/net" / name)
    node.rails[0] = {**node.rails[0], "netdev": None, "mac": "02:00:00:00:00:00", "hca": None}
    node.expects()
    text = node.write_metrics()
    shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    assert read_metric(text, "rail_netdev_info", rail="rail0", device=shown) == 1


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda node: node.expect.unlink(), "No such file"),
        (lambda node: node.expect.write_text("{"), "not JSON"),
        (lambda node: node.expects(rails=[{"name": "rail0", "rate_gbps": -1}]), "rate_gbps is -1"),
        (lambda node: node.expects(transport="token-ring"), "transport is"),
        (lambda node: node.out.unlink() or node.out.parent.rmdir(), "no such folder"),
    ],
)
def test_what_cannot_be_written_leaves_the_old_file_and_says_the_fix(node, capsys, spoil, said):
    before = node.write_metrics()
    spoil(node)
    assert main.main(node.argv()) == 3
    error = capsys.readouterr().err
    assert said in error
    assert "Fix: run role node_metrics" in error
    if node.out.exists():
        assert node.out.read_text() == before


def test_a_write_that_is_cut_off_leaves_the_old_file(node, monkeypatch, capsys):
    before = node.write_metrics()

    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert main.main(node.argv()) == 3
    assert "No space left on device; the old one stays" in capsys.readouterr().err
    assert node.out.read_text() == before
    # node_exporter reads *.prom alone, so that nothing half-written is ever read.
    assert [path.name for path in node.out.parent.iterdir() if path.suffix == ".prom"] == [node.out.name]


def test_a_file_that_would_be_too_large_loses_what_no_rule_reads(node, capsys):
    # Some 23 series a rail.
    node.expects(rails=[{**node.rails[0], "name": f"rail{number}"} for number in range(220)])
    text = node.write_metrics()
    assert 4000 < sum(len(family.series) for family in parse(text).values()) <= 5000
    assert "railyard_rail_error_counter_total: 880 series are left out" in capsys.readouterr().err
    assert read_metric(text, "rail_info", rail="rail219", netdev="ens6", device="mlx5_0", port="1") == 1
    assert read_metric(text, "rail_errors_total", rail="rail219", kind="physical") == 0


@pytest.mark.parametrize("python", dict.fromkeys([sys.executable, *SYSTEM, *OLDEST]))
def test_the_packed_program_runs_on_nodes_pythons(node, tmp_path, python):
    packed = tmp_path / "metrics.pyz"
    packed.write_bytes(program.build("metrics.main", program.loaded))
    done = subprocess.run(
        [python, "-I", str(packed), *node.argv()], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    text = node.out.read_text()
    assert read_metric(text, "rail_rdma_port_active", rail="rail1") == 1
    assert set(parse(text)) <= set(catalogue.METRICS)


def test_the_version_is_the_collection_s():
    galaxy = yaml.safe_load((REPO / "collections/ansible_collections/railyard/fabric/galaxy.yml").read_text())
    assert galaxy["version"] == main.VERSION


def test_sums_of_another_schema_or_form_begin_anew(tmp_path):
    path = tmp_path / "totals.json"
    for text in ("", "[]", '{"schema": 2, "rails": {}}', '{"schema": 1, "rails": {"rail0": {"port": 1}}}'):
        path.write_text(text)
        assert totals.load(str(path)) == {}
