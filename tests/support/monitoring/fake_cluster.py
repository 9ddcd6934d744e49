# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster that does not exist, as its exporters would report it, with one fault of each kind.

Railyard's own series go through the node's renderer (`exposition.render`), which refuses a name or label that
the catalogue lacks. Names and labels of other exporters are those of node_exporter 1.5 (its fixture
`collector/fixtures/e2e-output.txt`) and of dcgm-exporter (`etc/default-counters.csv` and its README).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.metrics import exposition
from ansible_collections.railyard.fabric.plugins.module_utils.metrics.catalogue import ERROR_KINDS
from ansible_collections.railyard.fabric.plugins.module_utils.metrics.exposition import Sample

RATE_BYTES_PER_SECOND = 5e10  # 400 Gbit/s
UNIT_NODES = 32
GPUS = 8
NVLINKS = 18
DAY_S = 86400


class Place(NamedTuple):
    """Where a fault is: the number of a node, and a rail or GPU of it."""

    node: int
    item: int = 0


#: One fault of each kind. The small cluster of the tests has 16 nodes.
FAULTS = {
    "no_link": Place(1, 1),
    "netdev_gone": Place(1, 5),
    "rdma_port_down": Place(2, 2),
    "quick_wrong": Place(2),
    "below_rate": Place(3, 3),
    "mtu": Place(4, 0),
    "gid_missing": Place(4, 1),
    "gid_moved": Place(4, 2),
    "pcie_lanes": Place(5, 4),
    "physical": Place(6, 0),
    "symbol": Place(6, 1),
    "loss": Place(6, 2),
    "transport": Place(6, 3),
    "flap": Place(6, 4),
    "paused": Place(7, 6),
    "congested": Place(7, 7),
    "governor": Place(8),
    "quick_old": Place(8),
    "node_gone": Place(9),
    "metrics_stale": Place(10),
    "textfile_broken": Place(10),
    "metrics_missing": Place(11),
    "xid_fatal": Place(12, 3),
    "xid_needs_reset": Place(12, 4),
    "gpu_missing": Place(12, 7),
    "quick_unknown": Place(12),
    "ecc": Place(13, 0),
    "row_remap": Place(13, 1),
    "clock_lowered": Place(13, 2),
    "nvlink": Place(13, 5),
    "dcgm_gone": Place(14),
    "drained_by_railyard": Place(1),
    "drained_by_other": Place(14),
    "not_proven": Place(15),
}


def _line(name: str, value: float, **labels: object) -> str:
    listed = ",".join(f'{key}="{exposition.escape_label(str(text))}"' for key, text in labels.items())
    return f"{name}{{{listed}}} {value!r}\n" if listed else f"{name} {value!r}\n"


@dataclass
class Cluster:
    """What the exporters of a cluster report at a moment.

    Attributes:
        size: number of nodes.
        rails: rails of each node.
        name: value of label `cluster`.
        faults: what is wrong, and where.
        names: names of the first nodes, where they are not to be gpu0001 and so on.
        folded_run: export the run as a large one is: by rail, not by test.
    """

    size: int = 16
    rails: int = 8
    name: str = "fake"
    faults: dict[str, Place] = field(default_factory=lambda: dict(FAULTS))
    names: Sequence[str] = ()
    folded_run: bool = False

    def node_name(self, number: int) -> str:
        """Return the name of a node by its number from 0."""
        return self.names[number] if number < len(self.names) else f"gpu{number + 1:04d}"

    def unit(self, number: int) -> str:
        """Return the scalable unit of a node."""
        return f"su{number // UNIT_NODES + 1:02d}"

    def targets(self, number: int) -> dict[str, str]:
        """Return the labels that a scrape target of a node has."""
        return {"cluster": self.name, "node": self.node_name(number), "scalable_unit": self.unit(number)}

    def has(self, fault: str, number: int, item: int | None = None) -> bool:
        """Return whether a node, or a rail or GPU of it, has a fault."""
        place = self.faults.get(fault)
        return place is not None and place.node == number and item in (None, place.item)

    def is_silent(self, kind: str, number: int) -> bool:
        """Return whether an exporter of a node does not answer."""
        return self.has("node_gone" if kind == "node" else "dcgm_gone", number) or self.has(
            "node_gone", number
        )

    def node_text(self, number: int, now_s: float, since_s: float) -> str:
        """Return what node_exporter of a node reports, with Railyard's textfile."""
        text = list(self._machine(number, now_s, since_s))
        if not self.has("metrics_missing", number):
            text.append(exposition.render(self._railyard(number, now_s, since_s)))
            age_s = 3600 if self.has("metrics_stale", number) else 20
            text.append(_line("node_textfile_mtime_seconds", now_s - age_s, file="/x/railyard_node.prom"))
        return "".join(text)

    def gpu_text(self, number: int, now_s: float, since_s: float) -> str:
        """Return what dcgm-exporter of a node reports."""
        return "".join(self._dcgm(number, now_s, since_s))

    def run_text(self, now_s: float) -> str:
        """Return what the controller reports of the newest run and of Slurm."""
        return exposition.render(self._runs(now_s)) + "".join(self._numbers())

    def _machine(self, number: int, now_s: float, since_s: float) -> Iterator[str]:
        grown_s = now_s - since_s
        yield _line("node_time_seconds", now_s)
        yield _line("node_boot_time_seconds", since_s - 9 * DAY_S)
        yield _line("node_load1", 12.5 + number % 7)
        yield _line("node_memory_MemTotal_bytes", 2.16e12)
        yield _line("node_memory_MemAvailable_bytes", 1.9e12)
        for what in ("cpu", "io", "memory"):
            yield _line(f"node_pressure_{what}_waiting_seconds_total", 10 + 0.01 * grown_s)
        for chip in ("0000:17:00_0", "0000:3d:00_0"):
            yield _line("node_hwmon_temp_celsius", 61 + number % 5, chip=chip, sensor="temp1")
        yield _line("node_edac_correctable_errors_total", 2, controller="0")
        yield _line("node_edac_uncorrectable_errors_total", 0, controller="0")
        yield _line("node_textfile_scrape_error", int(self.has("textfile_broken", number)))
        yield _line("node_scrape_collector_success", 1, collector="netclass")
        yield _line("node_network_carrier", 1, device="eno1")
        for rail in range(self.rails):
            if self.has("netdev_gone", number, rail):
                continue
            device, link = f"ens{rail + 6}np0", not self.has("no_link", number, rail)
            bytes_per_s = self._load(number, rail) * link
            changes = 7 + grown_s if self.has("flap", number, rail) else 2
            yield _line("node_network_carrier", int(link), device=device)
            yield _line("node_network_carrier_changes_total", changes, device=device)
            for way in ("receive", "transmit"):
                yield _line(f"node_network_{way}_bytes_total", 1e9 + 2e6 * grown_s * link, device=device)
            for way in ("received", "transmitted"):
                yield _line(
                    f"node_infiniband_port_data_{way}_bytes_total",
                    1e12 + bytes_per_s * grown_s,
                    device=f"mlx5_{rail}",
                    port="1",
                )

    def _load(self, number: int, rail: int) -> float:
        """Return the bytes per second of a rail: like its peers, a little different on each node."""
        return RATE_BYTES_PER_SECOND * (0.6 + 0.02 * (number % 9) + 0.01 * (rail % 3))

    def _railyard(self, number: int, now_s: float, since_s: float) -> Iterator[Sample]:
        for rail in range(self.rails):
            yield from self._rail(number, rail, now_s - since_s)
        wrong = {"quick_wrong": 1, "quick_unknown": 3}
        status = next((value for fault, value in wrong.items() if self.has(fault, number)), 0)
        yield Sample("railyard_cpus_with_wrong_governor", {}, 128 if self.has("governor", number) else 0)
        yield Sample("railyard_expected_gpus", {}, GPUS)
        yield Sample("railyard_gpus", {}, GPUS - self.has("gpu_missing", number))
        for gpu in range(GPUS):
            pci = {"pci": f"0000:{gpu * 16 + 27:02x}:00.0"}
            yield Sample("railyard_gpu_nvlinks_expected", pci, NVLINKS)
            yield Sample("railyard_gpu_nvlinks_active", pci, NVLINKS - 2 * self.has("nvlink", number, gpu))
            for fault, xid in (("xid_fatal", "79"), ("xid_needs_reset", "48")):
                if self.has(fault, number, gpu):
                    yield Sample("railyard_gpu_xid_since_reset", {**pci, "xid": xid}, 1)
                    yield Sample("railyard_gpu_xid_total", {**pci, "xid": xid}, 3)
        yield Sample("railyard_quick_status", {}, status)
        if status:
            cause = "rdma_port_down" if status == 1 else "gpu_count_unknown"
            rail = {"rail": f"rail{self.faults['rdma_port_down'].item}"} if status == 1 else {}
            yield Sample("railyard_quick_finding", {"cause": cause, **rail}, 1)
        age_s = 7200 if self.has("quick_old", number) else 90
        yield Sample("railyard_quick_timestamp_seconds", {}, now_s - age_s)
        yield Sample("railyard_quick_duration_seconds", {}, 1.4)
        yield Sample("railyard_node_metrics_info", {"version": "0.1.0"}, 1)
        yield Sample("railyard_node_metrics_cpu_seconds", {}, 0.16)

    def _rail(self, number: int, rail: int, grown_s: float) -> Iterator[Sample]:
        def has(fault: str) -> bool:
            return self.has(fault, number, rail)

        name = {"rail": f"rail{rail}"}
        port = {"device": f"mlx5_{rail}", "port": "1"}
        link = not (has("no_link") or has("netdev_gone"))
        yield Sample("railyard_rail_info", {**name, "netdev": f"ens{rail + 6}np0", **port}, 1)
        yield Sample("railyard_rail_netdev_info", {**name, "device": f"ens{rail + 6}np0"}, 1)
        rate = RATE_BYTES_PER_SECOND * (0.5 if has("below_rate") else 1) * link
        yield Sample("railyard_rail_expected_rate_bytes_per_second", name, RATE_BYTES_PER_SECOND)
        yield Sample("railyard_rail_rate_bytes_per_second", name, rate)
        for layer, mtu in (("netdev", 9000), ("rdma", 4096)):
            planned = {**name, "layer": layer}
            yield Sample("railyard_rail_expected_mtu_bytes", planned, mtu)
            small = has("mtu") and layer == "netdev"
            yield Sample("railyard_rail_mtu_bytes", planned, 1500 if small else mtu)
        yield Sample("railyard_rail_rdma_port_active", name, int(link and not has("rdma_port_down")))
        yield Sample("railyard_rail_gid_present", name, int(not has("gid_missing")))
        # It moves with each scrape of the tests.
        moved = has("gid_moved") and grown_s // 10 % 2
        yield Sample("railyard_rail_gid_index", name, 5 if moved else 3)
        yield Sample("railyard_rail_pcie_lanes", name, 8 if has("pcie_lanes") else 16)
        yield Sample("railyard_rail_pcie_lanes_max", name, 16)
        counters = {"physical": "rx_crc_errors_phy", "symbol": "symbol_error", "loss": "rx_discards_phy",
                    "transport": "local_ack_timeout_err", "flap": "link_down_events_phy"}  # fmt: skip
        for kind in ERROR_KINDS:
            grown = math.floor(2 * grown_s) if has(kind) else 0
            yield Sample("railyard_rail_errors_total", {**name, "kind": kind}, grown)
            if grown:
                labels = {**name, "kind": kind, "counter": counters[kind]}
                yield Sample("railyard_rail_error_counter_total", labels, grown)
        yield Sample("railyard_rail_symbol_errors_allowed_per_hour", name, 10)
        per_s = {"np_cnp_sent": 2500 if has("congested") else 25, "np_ecn_marked_roce_packets": 40,
                 "rp_cnp_handled": 20, "rp_cnp_ignored": 0}  # fmt: skip
        for counter, packets in per_s.items():
            yield Sample("railyard_rail_congestion_total", {**name, "counter": counter}, packets * grown_s)
        for direction in ("rx", "tx"):
            share = 0.9 if has("paused") and direction == "rx" else 0.001
            labels = {**name, "direction": direction, "priority": "3"}
            yield Sample("railyard_rail_pause_seconds_total", labels, share * grown_s)
            yield Sample("railyard_rail_pause_frames_total", labels, math.floor(900 * share * grown_s))

    def _dcgm(self, number: int, now_s: float, since_s: float) -> Iterator[str]:
        for gpu in range(GPUS - self.has("gpu_missing", number)):
            labels = {
                "gpu": gpu,
                "UUID": f"GPU-{number:08d}-{gpu:04d}",
                "pci_bus_id": f"00000000:{gpu * 16 + 27:02X}:00.0",
                "device": f"nvidia{gpu}",
                "modelName": "NVIDIA H100 80GB HBM3",
                "Hostname": f"host{number}",
            }

            def one(name: str, value: float, labels: dict[str, object] = labels, **more: object) -> str:
                return _line(name, value, **labels, **more)

            hot = self.has("clock_lowered", number, gpu)
            yield one("DCGM_FI_DEV_GPU_TEMP", 88 if hot else 55 + gpu)
            yield one("DCGM_FI_DEV_MEMORY_TEMP", 92 if hot else 63 + gpu)
            yield one("DCGM_FI_DEV_POWER_USAGE", 620.0 + gpu)
            yield one("DCGM_FI_DEV_SM_CLOCK", 1200 if hot else 1980)
            yield one("DCGM_FI_DEV_GPU_UTIL", 97)
            yield one("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 4 if self.has("row_remap", number, gpu) else 0)
            yield one("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", 3 if self.has("ecc", number, gpu) else 0)
            yield one("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", int(self.has("ecc", number, gpu)))
            remap = int(self.has("row_remap", number, gpu))
            yield one("DCGM_FI_DEV_ROW_REMAP_PENDING", remap)
            yield one("DCGM_FI_DEV_ROW_REMAP_FAILURE", remap)
            yield one("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", remap)
            yield one("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", remap)
            event = "hw_thermal" if hot else "power_cap"
            yield one(
                "DCGM_EXP_CLOCK_EVENTS_COUNT", 40 if hot else 3, clock_event=event, window_size_in_ms="300000"
            )

    def _runs(self, now_s: float) -> Iterator[Sample]:
        cluster = {"cluster": self.name}
        yield Sample("railyard_run_info", {**cluster, "run": "2026-11-26_030000"}, 1)
        yield Sample("railyard_run_complete", cluster, 1)
        yield Sample("railyard_run_exit_status", cluster, int(bool(self.faults)))
        yield Sample("railyard_run_timestamp_seconds", cluster, now_s - DAY_S)
        yield Sample("railyard_run_end_timestamp_seconds", cluster, now_s - DAY_S + 1500)
        for check in ("tcp_bandwidth", "rdma_bandwidth", "link_errors"):
            for outcome in ("pass", "fail", "unmeasured", "not_applicable", "recorded"):
                count = {"pass": 2 * self.size * self.rails, "fail": 2, "unmeasured": 1}.get(outcome, 0)
                yield Sample("railyard_verdicts", {**cluster, "check": check, "outcome": outcome}, count)
        for number in range(self.size):
            node = {**cluster, "node": self.node_name(number)}
            days = 20 if self.has("not_proven", number) else 1 + 0.1 * (number % 7)
            yield Sample("railyard_node_proven_timestamp_seconds", node, now_s - days * DAY_S)
            for by in ("railyard", "other"):
                drained = int(self.has(f"drained_by_{by}", number))
                yield Sample("railyard_slurm_node_drained", {**node, "by": by}, drained)
        for fault, outcome, cause in (
            ("no_link", "fail", "link_down"),
            ("below_rate", "fail", "rail_slow"),
            ("node_gone", "unmeasured", "node_unreachable"),
        ):
            if place := self.faults.get(fault):
                labels = {"node": self.node_name(place.node), "rail": f"rail{place.item}"}
                labels |= {"outcome": outcome, "cause": cause}
                yield Sample("railyard_rail_not_good", {**cluster, **labels}, 1)

    def _numbers(self) -> Iterator[str]:
        for rail in range(self.rails):
            labels = {
                "cluster": self.name,
                "check": "rdma_bandwidth",
                "rail": f"rail{rail}",
                "direction": "one_way",
            }
            if self.folded_run:
                for stat, value in (("min", 190.0), ("median", 391.0), ("max", 394.0)):
                    yield _line("railyard_bandwidth_gbps", value, **labels, stat=stat)
                continue
            for number in range(self.size):
                slow = self.has("below_rate", number, rail)
                ends = {"node": self.node_name(number), "peer": self.node_name((number + 1) % self.size)}
                value = 190.0 if slow else 390.0 + number % 5
                yield _line("railyard_bandwidth_gbps", value, **labels, **ends)
