# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The distribution's node_exporter beside the writer: what it makes of Soft-RoCE, and of the written file.

Run unpacked on the loopback, not installed, with a tree of files for its sysfs.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.metrics import main
from support.metrics.exposition_reader import values
from support.nodes.sysfs_tree import Tree

REPO = Path(__file__).parents[9]


@pytest.fixture
def exporter(tmp_path):
    """Return a function that starts node_exporter on a tree, and gives a scrape."""
    program = REPO / ".cache/prometheus/tree/usr/bin/prometheus-node-exporter"
    if not program.exists():
        pytest.skip("node_exporter is not here: `tools/setup --check` fetches it where apt-get is there")
    with contextlib.ExitStack() as running:

        def scrape(sysfs: Path, textfiles: Path) -> str:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            argv = [
                program, f"--path.sysfs={sysfs}", "--collector.disable-defaults", "--collector.infiniband",
                "--collector.textfile", f"--collector.textfile.directory={textfiles}",
                f"--web.listen-address=127.0.0.1:{port}",
            ]  # fmt: skip
            process = running.enter_context(
                subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
            running.callback(process.kill)
            deadline = time.monotonic() + 60
            while True:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                        return answer.read().decode()
                except OSError:
                    assert process.poll() is None
                    assert time.monotonic() < deadline
                    time.sleep(0.1)

        yield scrape


def make_node(root: Path, soft_roce: bool) -> tuple[Path, Path]:
    """Make a node with a rail of mlx5, and with one of Soft-RoCE where requested; write its metrics."""
    tree = Tree(root)
    card = tree.pci("0000:05:00.0", "mlx5_core")
    tree.netdev("ens6", card, speed=40000)
    port = tree.port("mlx5_0", 1, card)
    for name, text in (("fw_ver", "20.35.2000"), ("board_id", "MT_0000000223"), ("hca_type", "MT4123")):
        tree.write(f"sys/class/infiniband/mlx5_0/{name}", text)
    for name in ("port_rcv_data", "link_downed", "symbol_error"):
        tree.write(f"{port}/counters/{name}", 7)
    rails = [{"name": "rail0", "netdev": "ens6", "hca": "mlx5_0:1", "mtu": 9000}]
    if soft_roce:
        # As rdma_rxe shows it: no folder counters/ (drivers/infiniband/sw/rxe has no process_mad), and no
        # firmware, board or type.
        tree.netdev("eth1", None)
        for name, text in (("state", "4: ACTIVE"), ("phys_state", "5: LinkUp"), ("link_layer", "Ethernet")):
            tree.write(f"sys/class/infiniband/rxe0/ports/1/{name}", text)
        tree.write("sys/class/infiniband/rxe0/ports/1/rate", "2.5 Gb/sec (1X SDR)")
        tree.write("sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts", 9)
        tree.write("sys/class/infiniband/rxe0/parent", "eth1")
        rails.append({"name": "rail1", "netdev": "eth1", "hca": "rxe0:1", "mtu": 9000})
    wanted = {"schema": 1, "node": "gpu001", "transport": "roce", "node_class": "virtual", "rails": rails}
    (root / "metrics.json").write_text(json.dumps({**wanted, "governor": "", "gpus": None}))
    textfiles = root / "textfiles"
    textfiles.mkdir()
    argv = ["--expect", str(root / "metrics.json"), "--out", str(textfiles / "railyard_node.prom")]
    assert main.main([*argv, "--kept", str(root / "kept"), "--quick", str(root), "--root", str(root)]) == 0
    return root / "sys", textfiles


def test_without_soft_roce_node_exporter_reads_the_ports(exporter, tmp_path):
    text = exporter(*make_node(tmp_path / "node", soft_roce=False))
    assert values(text, "node_infiniband_link_downed_total") == {("mlx5_0", "1"): 7}
    # Bytes are four times the file's words.
    assert values(text, "node_infiniband_port_data_received_bytes_total") == {("mlx5_0", "1"): 28}


def test_soft_roce_is_in_node_exporters_metrics_and_not_in_railyards(exporter, tmp_path):
    """Users report it of bnxt_re and irdma without counters/ as well (procfs #687, node_exporter #2846)."""
    text = exporter(*make_node(tmp_path / "node", soft_roce=True))
    assert values(text, "node_infiniband_link_downed_total") == {}
    assert values(text, "railyard_rail_info") == {
        ("mlx5_0", "ens6", "1", "rail0"): 1,
        ("rxe0", "eth1", "1", "rail1"): 1,
    }
    assert values(text, "railyard_rail_rdma_port_active") == {("rail0",): 1, ("rail1",): 1}
    assert len(values(text, "railyard_rail_errors_total")) == 10
    assert values(text, "node_textfile_scrape_error") == {(): 0}
