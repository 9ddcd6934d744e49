# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove RDMA by the counters of each kernel driver, on trees of files with the names that drivers publish.

Names are those of the kernel's sources (mlx5/mad.c, bnxt_re/hw_counters.c, irdma/verbs.c, efa_verbs.c,
mana/counters.c, erdma_verbs.c), of prometheus/procfs's fixtures (mlx4_0, hfi1_0) and issues 605 and 675, and
of ROCm's reader of ionic's statistics.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import nic_drivers
from ansible_collections.railyard.fabric.plugins.module_utils.facts import link_errors
from ansible_collections.railyard.fabric.plugins.module_utils.measure import counters as measure_counters
from ansible_collections.railyard.fabric.plugins.module_utils.measure.proof import PROVEN, UNPROVEN, Claim
from ansible_collections.railyard.fabric.plugins.module_utils.runner import counters

MESSAGE, MESSAGES, MTU = 65536, 1000, 4096
MOVED = MESSAGE * MESSAGES
PACKETS = MOVED // MTU
CLAIM = Claim("bytes", MOVED, MOVED, packet_bytes=MTU)
POLICY = {"idle_bytes_per_s": 1000}

# Driver link -> folder, and what a client's files grow by: bytes sent, packets sent. The others do not move.
WORDS = {
    "port_xmit_data": MOVED // 4,
    "port_xmit_packets": PACKETS,
    "port_rcv_data": 9,
    "port_rcv_packets": 9,
}
PKTS = {"tx_bytes": MOVED, "tx_pkts": PACKETS, "rx_bytes": 99, "rx_pkts": 9}
HEALTHY: dict[str, tuple[str, dict[str, int]]] = {
    "mlx5_core": ("counters", WORDS),
    "mlx4_core": ("counters", WORDS),
    "hfi1": ("counters", WORDS),
    "bnxt_en": ("hw_counters", PKTS),
    "efa": ("hw_counters", PKTS),
    # Traffic is IPv4 for one part and IPv6 for the other.
    "ice": (
        "hw_counters",
        {
            "ip4OutOctets": MOVED - 4096,
            "ip6OutOctets": 4096,
            "ip4InOctets": 99,
            "ip6InOctets": 0,
            "ip4OutPkts": PACKETS - 1,
            "ip6OutPkts": 1,
            "ip4InPkts": 9,
            "ip6InPkts": 0,
            "Nak Sequence Error": 0,
        },
    ),
    "mana": ("hw_counters", {"tx_bytes": MOVED, "tx_packets": PACKETS, "rx_bytes": 99, "rx_packets": 9}),
    "ionic": (
        "hw_counters",
        {
            "tx_rdma_ucast_bytes": MOVED,
            "tx_rdma_ucast_pkts": PACKETS,
            "rx_rdma_ucast_bytes": 99,
            "rx_rdma_ucast_pkts": 9,
        },
    ),
    "erdma": (
        "hw_counters",
        {"tx_bytes_cnt": MOVED, "tx_packets_cnt": PACKETS, "rx_bytes_cnt": 9, "rx_packets_cnt": 9},
    ),
}


class Node:
    """A node with one RDMA port."""

    def __init__(self, root: Path, driver: str | None, files: Mapping[str, Mapping[str, object]]) -> None:
        self.root = root
        device = root / "class/infiniband/roce0"
        self.port = device / "ports/1"
        self.port.mkdir(parents=True)
        (device / "node_type").write_text("1: CA\n")
        (device / "fw_ver").write_text("1.50\n")
        (device / "device").mkdir()
        if driver:
            (device / "device/driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")
        for name in ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets"):
            self.write(f"../../../../net/ens1/statistics/{name}", 5)
        for folder, values in files.items():
            for name, value in values.items():
                self.write(f"{folder}/{name}", value)

    def write(self, path: str, value: object) -> None:
        file = (self.port / path).resolve()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")

    def watch(self) -> counters.Watch:
        context: Any = SimpleNamespace(
            places={"rail0": SimpleNamespace(netdev="ens1")},
            rails={"rail0": {"hca": "roce0:1"}},
            counts_late=set(),
            background_bytes_per_s={},
        )
        return counters.Watch(context, {"rail": "rail0"}, (), True, str(self.root))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "_COUNTERS_SETTLE_S", 0.0)


def proof_of(
    root: Path, driver: str | None, folder: str, first: Mapping[str, Any], last: Mapping[str, Any]
) -> Any:
    node = Node(
        root, driver, {folder: first, "hw_counters": {"lifespan": 12, **(first if folder[0] == "h" else {})}}
    )
    watch = node.watch()
    for name, value in last.items():
        node.write(f"{folder}/{name}", value)
    watch.finish()
    return watch.prove(CLAIM, "client", POLICY)


@pytest.mark.parametrize("driver", HEALTHY)
def test_traffic_that_crossed_the_port_is_proven(driver: str, tmp_path: Path) -> None:
    folder, grown = HEALTHY[driver]
    last = {name: 1000 + by for name, by in grown.items()}
    assert proof_of(tmp_path, driver, folder, dict.fromkeys(grown, 1000), last) == (PROVEN, None)


@pytest.mark.parametrize("driver", HEALTHY)
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1000, "does not count"),
        (999, "wrapped"),
        (2**32 - 1, "saturated"),
        (2**64 - 1, "absent"),
        ("N/A (no PMA)", "absent"),
        ("", "absent"),
    ],
)
def test_a_sick_counter_proves_nothing(driver: str, value: object, words: str, tmp_path: Path) -> None:
    folder, grown = HEALTHY[driver]
    last: dict[str, Any] = {name: 1000 + by for name, by in grown.items()}
    # Each of the files that a sender's bytes are read from.
    sick = max(grown, key=lambda name: grown[name] * (4 if name == "port_xmit_data" else 1))
    first = dict.fromkeys(grown, 1000)
    if driver == "ice" and words in ("wrapped", "saturated", "does not count"):
        last, first = {**last, "ip6OutOctets": 0}, {**first, "ip6OutOctets": 0}
    verdict, reason = proof_of(tmp_path, driver, folder, first, {**last, sick: value})
    assert verdict == UNPROVEN
    assert words in reason


@pytest.mark.parametrize("driver", HEALTHY)
@pytest.mark.parametrize("text", ["N/A (no PMA)", str(2**64 - 1), "\x00\xff", "", "-1"])
def test_a_counter_without_a_number_is_named_with_its_driver(driver: str, text: str, tmp_path: Path) -> None:
    folder, grown = HEALTHY[driver]
    verdict, reason = proof_of(tmp_path, driver, folder, dict.fromkeys(grown, text), {})
    assert verdict == UNPROVEN
    assert f"driver {driver}" in reason
    assert folder in reason


def test_names_of_another_firmware_are_listed(tmp_path: Path) -> None:
    verdict, reason = proof_of(tmp_path, "ionic", "hw_counters", {"octets_out": 1, "octets_in": 1}, {})
    assert verdict == UNPROVEN
    assert "tx_rdma_ucast_bytes: ENOENT" in reason
    assert "holds lifespan, octets_in, octets_out" in reason


def test_messages_and_segments_of_irdma_prove_no_bytes(tmp_path: Path) -> None:
    names = {"InRdmaWrites": 1, "OutRdmaWrites": 1, "tcpInSegs": 1, "tcpOutSegs": 1}
    verdict, reason = proof_of(tmp_path, "ice", "hw_counters", names, {"OutRdmaWrites": 10**6})
    assert verdict == UNPROVEN
    assert "ip4OutOctets: ENOENT" in reason


@pytest.mark.parametrize("driver", ["vendor_rdma", "cxgb4", None])
def test_a_driver_that_is_not_known_proves_nothing_and_is_named(driver: str | None, tmp_path: Path) -> None:
    last = {name: 1000 + by for name, by in WORDS.items()}
    verdict, reason = proof_of(tmp_path, driver, "counters", dict.fromkeys(WORDS, 1000), last)
    assert verdict == UNPROVEN
    assert nic_drivers.PAGE in reason
    assert str(driver or "sysfs does not name") in reason


@pytest.mark.parametrize("driver", ["qede", "hns3"])
def test_a_driver_without_byte_counters_says_why(driver: str, tmp_path: Path) -> None:
    verdict, reason = proof_of(tmp_path, driver, "counters", dict.fromkeys(WORDS, 0), {})
    assert (verdict, f"driver {driver} has no counter" in reason) == (UNPROVEN, True)


@pytest.mark.parametrize(("lifespan", "least_s"), [("12", 0.012), ("200", 0.2), ("none", 0.010)])
def test_the_read_after_the_test_waits_as_long_as_a_value_is_kept(
    lifespan: str, least_s: float, tmp_path: Path
) -> None:
    node = Node(tmp_path, "efa", {"hw_counters": {**dict.fromkeys(PKTS, 1), "lifespan": lifespan}})
    watch = node.watch()
    begun = time.monotonic()
    watch.finish()
    assert time.monotonic() - begun >= least_s


def test_traffic_of_a_card_is_seen_though_no_netdev_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path, "bnxt_en", {"hw_counters": dict.fromkeys(PKTS, 1000)})

    def pass_time(_seconds: float) -> None:
        node.write("hw_counters/rx_bytes", 1000 + 5_000_000)

    monkeypatch.setattr(measure_counters.time, "sleep", pass_time)
    seen = measure_counters.rate_bytes_per_s("ens1", 0.5, "roce0:1", str(tmp_path))
    assert seen > 5_000_000  # in far less than a second


def test_error_counters_keep_one_meaning_in_all_drivers() -> None:
    seen: dict[str, str] = {}
    for driver in nic_drivers.DRIVERS:
        for field, names in driver.errors._asdict().items():
            for name in names:
                assert seen.setdefault(name, field) == field
    assert set(seen) <= set(link_errors.KINDS)
    assert link_errors.KINDS["hw.Nak Sequence Error"] == link_errors.TRANSPORT


def test_each_driver_is_found_by_its_module_and_by_its_device_link_alone() -> None:
    names = [name for row in nic_drivers.DRIVERS for name in {row.name, *row.links}]
    assert len(names) == len(set(names))
    assert all(row.source and row.quirks and row.cards for row in nic_drivers.DRIVERS)
    assert all((row.traffic is None) is bool(row.why_not) for row in nic_drivers.DRIVERS)
