# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Error counters: which are read, where, and what a name means."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts import ethtool, link_errors, vlan
from support.nodes.files import write


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(ethtool, "stats", lambda _netdev: {"rx_crc_errors_phy": 4, "rx_bytes": 1})
    write(tmp_path, "class/net/ens6/statistics/rx_crc_errors", "7\n")
    write(tmp_path, "class/net/ens6/statistics/rx_bytes", "900\n")
    write(tmp_path, "class/net/ens6/carrier_changes", "2\n")
    write(tmp_path, "class/infiniband/mlx5_0/ports/1/counters/symbol_error", "11\n")
    write(tmp_path, "class/infiniband/mlx5_0/ports/1/counters/link_downed", "N/A\n")
    write(tmp_path, "class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", "5\n")
    return tmp_path


def test_each_counter_is_read_where_the_kernel_has_it(tree: Path) -> None:
    netdev = {"netdev.rx_crc_errors": 7, "netdev.carrier_changes": 2, "ethtool.rx_crc_errors_phy": 4}
    port = {"hca.symbol_error": 11, "hw.out_of_sequence": 5}
    assert link_errors.read("ens6", "mlx5_0:1", str(tree)) == {**netdev, **port}
    assert link_errors.read("ens6", None, str(tree)) == netdev
    assert link_errors.read("ens6", "gone0:1", str(tree)) == netdev


@pytest.mark.parametrize(
    "text",
    ["", "N/A (no PMA)\n", "-5\n", "1_000\n", "12 13\n", "\x00\xff", "7" * 10_000_000, "\0" * 10_000_000],
)
def test_a_file_that_holds_no_counter_is_left_out_and_not_read_to_its_end(tree: Path, text: str) -> None:
    file = tree / "class/infiniband/mlx5_0/ports/1/counters/symbol_error"
    file.write_text(text, encoding="latin-1")
    tracemalloc.start()
    found = link_errors.read("ens6", "mlx5_0:1", str(tree))
    _now, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "hca.symbol_error" not in found
    assert found["hw.out_of_sequence"] == 5
    assert peak_bytes < 1_000_000


def test_errors_of_a_vlan_are_its_ports(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A VLAN has no statistics of the driver: bad cables and drops of a rail on one were not seen."""
    write(tree, "class/net/ens6.100/uevent", "DEVTYPE=vlan\nINTERFACE=ens6.100\nIFINDEX=9\n")
    write(tree, "class/net/ens6.100/statistics/rx_crc_errors", "0\n")
    (tree / "class/net/ens6.100/lower_ens6").symlink_to(tree / "class/net/ens6")
    monkeypatch.setattr(ethtool, "stats", lambda netdev: {"rx_crc_errors_phy": 4} if netdev == "ens6" else {})
    assert link_errors.read("ens6.100", None, str(tree)) == link_errors.read("ens6", None, str(tree))
    # What is stacked otherwise keeps its own name.
    write(tree, "class/net/ens6.100/uevent", "INTERFACE=ens6.100\n")
    assert vlan.port_of("ens6.100", str(tree)) == "ens6.100"
    assert vlan.port_of("gone", str(tree)) == "gone"


def test_growth_and_what_went_away_are_distinguished() -> None:
    found = link_errors.spans({"hca.symbol_error": 1, "hw.out_of_sequence": 2}, {"hca.symbol_error": 3})
    assert found == {"hca.symbol_error": [1, 3], "hw.out_of_sequence": [2, None]}


def test_every_name_has_a_place_and_a_meaning() -> None:
    assert {name.partition(".")[0] for name in link_errors.KINDS} == {"hca", "hw", "netdev", "ethtool"}
    assert set(link_errors.KINDS.values()) == {"physical", "symbol", "transport", "loss", "notice"}
    # A cable shows in symbols, a full switch in packets that come out of sequence.
    assert link_errors.KINDS["hca.symbol_error"] == "symbol"
    assert link_errors.KINDS["hw.out_of_seq_request"] == "transport"


def test_drops_storms_and_congestion_control_are_read() -> None:
    # Names of the kernel's mlx5/counters.rst.
    assert {link_errors.KINDS[f"ethtool.rx_prio{priority}_discards"] for priority in range(8)} == {"loss"}
    for name in ("rx_discards_phy", "tx_pause_storm_error_events", "rx_prio3_cong_discard"):
        assert link_errors.KINDS["ethtool." + name] == "loss"
    for name in ("ethtool.tx_pause_storm_warning_events", "hw.np_cnp_sent", "hw.rp_cnp_handled"):
        assert link_errors.KINDS[name] == "notice"
