# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parsers on captures of other people's systems, which lie beside the checkout and are never committed.

The expectations are those of the corpus' own index, written down here as data: (path in an output, value).
A rate is compared to the digits that the index gives.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import parsers

_HERE = Path(__file__).resolve()
CORPUS = Path(os.environ.get("RAILYARD_CORPUS", _HERE.parents[9] / "shared" / "corpus"))
pytestmark = pytest.mark.skipif(
    not (CORPUS / "INDEX.tsv").is_file(), reason=f"no corpus at {CORPUS}: set RAILYARD_CORPUS to test with it"
)

MILLI = 1000.0  # the index gives ping's times in ms


def rtt(minimum: float, average: float, maximum: float) -> dict[str, Any]:
    names = ("rtt_min_us", "rtt_average_us", "rtt_max_us")
    return {name: ms * MILLI for name, ms in zip(names, (minimum, average, maximum), strict=True)}


def forward(**row: Any) -> dict[str, Any]:
    return {f"directions.0.{key}": value for key, value in {"direction": "forward", **row}.items()}


# (file, tool, valid, error class, expected values of the first output by dotted path)
CASES: list[tuple[str, str, bool, str | None, dict[str, Any]]] = [
    (
        "ping/01-linux-100.txt",
        "ping",
        True,
        None,
        {
            "transmitted": 100,
            "received": 100,
            "loss_percent": 0,
            **rtt(0.280, 0.352, 0.602),
            "rtt_mdev_us": 56,
        },
    ),
    (
        "ping/02-missing-host.txt",
        "ping",
        True,
        None,
        {"transmitted": 1, "received": 1, "loss_percent": 0, **rtt(0.040, 0.040, 0.040), "rtt_mdev_us": 0},
    ),
    (
        "ping/03-ip-dup.txt",
        "ping",
        True,
        None,
        {
            "transmitted": 2,
            "received": 2,
            "duplicates": 19,
            **rtt(0.586, 504.260, 1276.448),
            "rtt_mdev_us": 417208,
        },
    ),
    (
        "ping/04-O-D-timeouts.txt",
        "ping",
        True,
        None,
        {"transmitted": 20, "received": 20, "loss_percent": 0, **rtt(0.041, 0.048, 0.081), "rtt_mdev_us": 9},
    ),
    (
        "ping/05-alpine-busybox.txt",
        "ping",
        True,
        None,
        {"transmitted": 1, "received": 1, "loss_percent": 0, **rtt(1.637, 1.637, 1.637), "rtt_mdev_us": None},
    ),
    (
        "ping/06-osx-unreachable.txt",
        "ping",
        False,
        "unreachable",
        {"transmitted": 8, "received": 0, "loss_percent": 100, "rtt_average_us": None},
    ),
    (
        "ping/07-ping6.txt",
        "ping",
        True,
        None,
        {
            "transmitted": 20,
            "received": 17,
            "loss_percent": 15,
            **rtt(26.566, 33.623, 43.945),
            "rtt_mdev_us": 5029,
        },
    ),
    (
        "iperf3/01-tcp-3.0.11-public.json",
        "iperf3",
        True,
        None,
        {"version": "3.0.11", "protocol": "TCP", "streams": 1, "duration_s": 13}
        | forward(sent_gbps=0.935992, received_gbps=0.934268, retransmits=0),
    ),
    (
        "iperf3/02-tcp-P4-3.6-public.json",
        "iperf3",
        True,
        None,
        {"version": "3.6", "streams": 4, "duration_s": 60}
        | forward(sent_gbps=17.545, received_gbps=17.536, retransmits=2),
    ),
    (
        "iperf3/03-tcp-P10-3.7-public.json",
        "iperf3",
        True,
        None,
        {"version": "3.7", "streams": 10}
        | forward(sent_gbps=0.957031, received_gbps=0.919555, retransmits=2),
    ),
    (
        "iperf3/04-tcp-P10-reverse-3.7-public.json",
        "iperf3",
        True,
        None,
        {"version": "3.7", "streams": 10}
        | forward(direction="reverse", sent_gbps=0.360924, received_gbps=0.344359, retransmits=1714),
    ),
    (
        "iperf3/08-bidir-duplicate-keys-3.9.json",
        "iperf3",
        True,
        None,
        {"version": "3.9", "directions.1.sent_gbps": 2.034, "directions.1.received_gbps": 1.979}
        | forward(sent_gbps=19.899, received_gbps=19.516),
    ),
    (
        "iperf3/10-refused-rc0-3.12.json",
        "iperf3",
        False,
        "connection_refused",
        {"version": "3.12", "directions": [], "duration_s": None},
    ),
    (
        "sockperf/07-pp-udp-3.7-ansi.txt",
        "sockperf",
        True,
        None,
        {"version": "3.7", "mode": "ping-pong", "metric": "one_way", "average_us": 25.077, "stdev_us": 19.427}
        | {"p50_us": 31.237, "p99_us": 55.913, "p999_us": 182.718, "max_us": 892.286, "min_us": 1.954},
    ),
]


MIB = 2**20 * 8 / 1e9  # Gbit/s per MiB/s


def bandwidth(
    test: str, role: str | None, device: str | None, last: tuple[int, int, float, float], **more: Any
) -> dict[str, Any]:
    """Expect a bandwidth run whose last row is (bytes, iterations, average, message rate)."""
    size, iterations, average, rate = last
    return {
        "test": test,
        "kind": "bandwidth",
        "role": role,
        "device": device,
        "rows.-1.message_bytes": size,
        "rows.-1.iterations": iterations,
        "rows.-1.bandwidth_average_gbps": average,
        "rows.-1.message_rate_mpps": rate,
        **more,
    }


ROCE = {"link_layer": "Ethernet", "mtu_bytes": 4096, "gid_index": 3, "rdma_cm": True, "bidirectional": False}
CASES += [
    (
        "perftest/01-write-roce-cm-8qp-all-client.txt",
        "perftest",
        True,
        None,
        bandwidth("ib_write_bw", "client", "mlx5_2", (8388608, 40000, 230.91, 0.003441), qps=8, **ROCE)
        | {
            "rows.0.message_bytes": 2,
            "rows.0.bandwidth_average_gbps": 0.055073,
            "rows.22.bandwidth_peak_gbps": 230.91,
        },
    ),
    (
        "perftest/02-write-roce-cm-8qp-all-server.txt",
        "perftest",
        True,
        None,
        bandwidth("ib_write_bw", "server", "mlx5_2", (8388608, 40000, 230.91, 0.003441), qps=8, **ROCE),
    ),
    (
        "perftest/03-read-cuda-dmabuf-all-client.txt",
        "perftest",
        True,
        None,
        bandwidth("ib_read_bw", "client", "mlx5_2", (8388608, 1000, 197.82, 0.002948), qps=1, **ROCE)
        | {
            "gpu": "NVIDIA H100 80GB HBM3",
            "rows.15.message_bytes": 65536,
            "rows.15.bandwidth_average_gbps": 186.18,
        },
    ),
    (
        "perftest/04-read-lat-cuda-all-client.txt",
        "perftest",
        True,
        None,
        {
            "test": "ib_read_lat",
            "role": "client",
            "device": "mlx5_2",
            "latency_is": "round_trip",
            "gid_index": 3,
        }
        | {
            "rows.0.min_us": 6.19,
            "rows.0.max_us": 16.00,
            "rows.0.typical_us": 6.22,
            "rows.0.average_us": 6.26,
        }
        | {"rows.0.stdev_us": 0.37, "rows.0.p99_us": 6.67, "rows.0.p999_us": 16.00}
        | {"rows.22.average_us": 349.17, "rows.22.p99_us": 363.03},
    ),
    (
        "perftest/05-read-lat-server-no-rows.txt",
        "perftest",
        False,
        None,
        {
            "test": "ib_read_lat",
            "role": "server",
            "rows": [],
            "device": "mlx5_2",
            "gid_index": 3,
            "rdma_cm": True,
        },
    ),
    ("perftest/06-err-rdma-cm-rejected.txt", "perftest", False, "rdma_cm", {}),
    (
        "perftest/07-write-roce-cm-8qp-dynamic-cqe.txt",
        "perftest",
        True,
        None,
        bandwidth("ib_write_bw", "client", "mlx5_2", (8388608, 40000, 229.53, 0.003420), qps=8)
        | {"rows.13.message_bytes": 16384, "rows.13.bandwidth_average_gbps": 159.13},
    ),
    (
        "perftest/08-loopback-8M-client-and-server-interleaved.txt",
        "perftest",
        True,
        None,
        bandwidth("ib_write_bw", "client", "ib0", (8388608, 20000, 24056.72 * MIB, 0.003007))
        | {
            "link_layer": "InfiniBand",
            "mtu_bytes": 4096,
            "reported_unit": "MiB/s",
            "rows.0.bandwidth_peak_gbps": 201.802,
        },
    ),
    (
        "perftest/09-loopback-all-sizes-interleaved.txt",
        "perftest",
        True,
        None,
        bandwidth("ib_write_bw", "client", "ib0", (8388608, 2000, 194.957, 0.002905))
        | {
            "rows.0.bandwidth_average_gbps": 5.30 * MIB,
            "rows.0.message_rate_mpps": 2.778732,
            "gid_index": None,
        },
    ),
    (
        "perftest/28-send-bw-dpu-tail-concatenated.txt",
        "perftest",
        False,
        "truncated",
        {
            "test": None,
            "rows.0.message_bytes": 1,
            "rows.0.bandwidth_peak_gbps": None,
            "reported_unit": "MiB/s",
        }
        | {"rows.0.bandwidth_average_gbps": 3.16 * MIB, "rows.0.message_rate_mpps": 3.312819},
    ),
    ("perftest/40-err-no-rdma-device.txt", "perftest", False, "no_device", {}),
]
# (file, tool, valid, error class, number of devices, {device: (CA type, state, physical state, rate, layer)})
Ports = "dict[str, tuple[str | None, str, str, float, str]]"
ACTIVE_400: Any = ("MT4129", "Active", "LinkUp", 400.0)
HCA_CASES: list[tuple[str, str, bool, str | None, int, Ports]] = [
    (
        "ibstat/01-a100-9ca-mixed-layers.txt",
        "ibstat",
        True,
        None,
        9,
        {"mlx5_0": ("MT4126", "Active", "LinkUp", 200.0, "Ethernet")}
        | {f"mlx5_{n}": ("MT4126", "Active", "LinkUp", 200.0, "InfiniBand") for n in range(1, 9)},
    ),
    (
        "ibstat/02-h100-12ca-roce.txt",
        "ibstat",
        True,
        None,
        12,
        {f"mlx5_{n}": (*ACTIVE_400, "Ethernet") for n in (0, 3, 4, 5, 6, 9, 10, 11)}
        | {f"mlx5_{n}": ("MT4125", "Active", "LinkUp", 100.0, "Ethernet") for n in (1, 2, 7, 8)},
    ),
    (
        "ibstat/03-h100-8ib-plus-bluefield-bond.txt",
        "ibstat",
        True,
        None,
        9,
        {f"mlx5_{n}": (*ACTIVE_400, "InfiniBand") for n in (0, 1, 4, 5, 6, 7, 8, 9)}
        | {"mlx5_bond_0": ("MT41692", "Active", "LinkUp", 200.0, "Ethernet")},
    ),
    (
        "ibstat/04-h100-some-disabled.txt",
        "ibstat",
        True,
        None,
        12,
        {f"mlx5_{n}": ("MT4125", "Down", "Disabled", 40.0, "Ethernet") for n in (2, 7, 8)}
        | {f"mlx5_{n}": (*ACTIVE_400, "InfiniBand") for n in (0, 3, 4, 5, 6, 9, 10, 11)},
    ),
    (
        "ibstat/05-h100-roce-2-disabled.txt",
        "ibstat",
        True,
        None,
        12,
        {f"mlx5_{n}": ("MT4129", "Down", "Disabled", 40.0, "Ethernet") for n in (5, 11)}
        | {f"mlx5_{n}": (*ACTIVE_400, "Ethernet") for n in (0, 3, 4, 6, 9, 10)}
        | {f"mlx5_{n}": ("MT4125", "Active", "LinkUp", 100.0, "Ethernet") for n in (1, 2, 7, 8)},
    ),
    (
        "ibstat/06-h100-polling-and-disabled.txt",
        "ibstat",
        True,
        None,
        12,
        {
            "mlx5_11": ("MT4129", "Down", "Polling", 40.0, "Ethernet"),
            "mlx5_5": ("MT4129", "Down", "Disabled", 40.0, "Ethernet"),
        },
    ),
    (
        "ibstat/07-a100-ibpanic-partial-exit255.txt",
        "ibstat",
        False,
        "tool_error",
        8,
        {f"mlx5_{n}": ("MT4124", "Active", "LinkUp", 200.0, "InfiniBand") for n in range(8)},
    ),
    (
        "ibstat/08-ibstatus-a100-8ib.txt",
        "ibstatus",
        True,
        None,
        9,  # the index says 8: it leaves out mlx5_8, which is Ethernet
        {
            "mlx5_0": (None, "ACTIVE", "LinkUp", 200.0, "InfiniBand"),
            "mlx5_8": (None, "ACTIVE", "LinkUp", 40.0, "Ethernet"),
        },
    ),
]


def collective(
    last: int, out: float, inside: float, average: float, gpus: int = 8, nodes: int = 1
) -> dict[str, Any]:
    return {
        "gpus": gpus,
        "nodes": nodes,
        "rows.-1.bytes": last,
        "rows.-1.out_of_place.busbw_GBps": out,
        "rows.-1.in_place.busbw_GBps": inside,
        "rows.-1.in_place.wrong": None,
        "average_busbw_GBps": average,
        "out_of_bounds": None,
    }


CASES += [
    (
        "nccl_tests/01-allreduce-8xa100-error-column-zero-sizes.txt",
        "nccl-tests",
        True,
        None,
        collective(8589934592, 235.26, 235.03, 68.4048) | {"rows.0.bytes": 0, "rows.0.redop": "sum"},
    ),
    (
        "nccl_tests/02-alltoall-8xa100-blank-redop.txt",
        "nccl-tests",
        True,
        None,
        collective(8589934592, 224.31, 226.16, 58.6481)
        | {"rows.-1.redop": None, "rows.-1.out_of_place.algbw_GBps": 256.36},
    ),
    (
        "nccl_tests/03-broadcast-8xa100-root-column.txt",
        "nccl-tests",
        True,
        None,
        collective(8589934592, 232.81, 234.70, 64.8653) | {"rows.-1.redop": None},
    ),
    (
        "nccl_tests/04-allreduce-2xk80-wrong-na.txt",
        "nccl-tests",
        True,
        None,
        collective(1073741824, 0.61, 0.61, 0.565546, gpus=2, nodes=2)
        | {"rows.-1.out_of_place.time_us": 1752724},
    ),
    (
        "fio/01-randrw-libaio-3.26.json",
        "fio",
        True,
        None,
        {
            "name": "fio_randrw_1GB_4k_d1_th1_direct",
            "rw": "read",
            "bandwidth_bytes_per_s": 7876980,
            "iops": 2160.56,
        },
    ),
    (
        "fio/02-readwrite-3.26-19.json",
        "fio",
        True,
        None,
        {"name": "disk_fill", "bandwidth_bytes_per_s": 149343283, "iops": 569.70, "errors": 0},
    ),
    (
        "fio/03-windowsaio-3.26.json",
        "fio",
        True,
        None,
        {"rw": "write", "bandwidth_bytes_per_s": 8876980, "iops": 2167.23},
    ),
    (
        "fio/04-pkb-multi-job.json",
        "fio",
        True,
        None,
        {"name": "sequential_write", "bandwidth_bytes_per_s": 68118 * 1024, "iops": 133},
    ),
    (
        "fio/05-superbench-disk-log.txt",
        "fio",
        True,
        None,
        {"name": "rand_read_write", "bandwidth_bytes_per_s": 348743777, "iops": 85138.89},
    ),
    (
        "fio/06-seq-write-1M.json",
        "fio",
        True,
        None,
        {"rw": "write", "bandwidth_bytes_per_s": 310689185, "iops": 296.296, "block_bytes": 2**20},
    ),
    ("fio/12-err-verify-interrupted.txt", "fio", False, "io_error", {}),
]
ROCE_LOG = {
    "nccl_version": "2.26.2+cuda12.2",
    "transport": "RoCE",
    "hcas": ["mlx5_2:1", "mlx5_3:1", "mlx5_4:1", "mlx5_5:1"],
    "socket_fallback": False,
}
# (file, tool, valid, expected values of the first output)
OTHER_TOOLS: list[tuple[str, str, bool, dict[str, Any]]] = [
    (
        "nccl_log/01-tcp-socket-2.26.2.txt",
        "nccl-log",
        True,
        {"nccl_version": "2.26.2+cuda12.2", "transport": "Socket", "hcas": [], "gdr": False},
    ),
    ("nccl_log/02-rdma-roce-4nic-2.26.2.txt", "nccl-log", True, ROCE_LOG),
    ("nccl_log/03-gdrdma-roce-4nic-2.26.2.txt", "nccl-log", True, {**ROCE_LOG, "gdr": True}),
    ("nvidia_smi/02-q-535.129-a10.txt", "nvidia-smi-query", True, {"driver_version": "535.129.03"}),
    ("nvidia_smi/03-q-535.154-8gpu.txt", "nvidia-smi-query", True, {"driver_version": "535.154.05"}),
    ("nvidia_smi/04-q-535.183-invalid.txt", "nvidia-smi-query", False, {"driver_version": "535.183.01"}),
    ("nvidia_smi/05-q-560.35-1gpu.txt", "nvidia-smi-query", True, {"driver_version": "560.35.03"}),
    ("nvidia_smi/06-table-550.90.txt", "nvidia-smi-query", True, {"driver_version": "550.90.07"}),
    ("nvidia_smi/07-nvlink-status-a100.txt", "nvidia-smi-nvlink", True, {"gpu": 0}),
    ("dcgmi/02-health.json", "dcgmi", True, {"health": "Healthy", "tests": []}),
    ("dcgmi/03-diag-r1.json", "dcgmi", True, {"tests.0.category": "Deployment", "tests.8.result": "Pass"}),
    ("dcgmi/04-diag-r3.json", "dcgmi", True, {"tests.15.result": "Pass", "tests.12.result": "Skip"}),
]
GPUS = {"02-q-535.129-a10.txt": 1, "03-q-535.154-8gpu.txt": 8, "05-q-560.35-1gpu.txt": 1}
# Not what the tool's parser reads: a list of devices, a matrix of peer access.
REFUSED = [
    ("dcgmi/01-discovery-t4.txt", "dcgmi"),
    ("nvidia_smi_topo/10-k80-p2p-status-matrix.txt", "nvidia-smi-topo"),
]
OUTPUTS_AND_ROWS = {
    "perftest/01-write-roce-cm-8qp-all-client.txt": [23],
    "perftest/08-loopback-8M-client-and-server-interleaved.txt": [1, 1],
    "perftest/09-loopback-all-sizes-interleaved.txt": [23, 1],
    "perftest/28-send-bw-dpu-tail-concatenated.txt": [16, 15],
}


def read(file: str) -> str:
    return (CORPUS / file).read_bytes().decode("utf-8", errors="replace")


def at(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


@pytest.mark.parametrize(
    ("file", "tool", "valid", "kind", "expected"), CASES, ids=[case[0] for case in CASES]
)
def test_capture_reads_as_the_index_says(file, tool, valid, kind, expected):
    found = parsers.parse(tool, read(file))
    assert found["valid"] is valid, found["error"]
    assert (found["error"] or {}).get("class") == kind
    for path, value in expected.items():
        seen = at(found["outputs"][0], path)
        if isinstance(value, float):
            assert seen == pytest.approx(value, rel=1e-3 if value > 1 else 1e-5), path
        else:
            assert seen == value, path


@pytest.mark.parametrize(("file", "tool", "valid", "kind", "count", "ports"), HCA_CASES)
def test_hca_state_reads_as_the_index_says(file, tool, valid, kind, count, ports):
    found = parsers.parse(tool, read(file))
    assert (found["valid"], (found["error"] or {}).get("class")) == (valid, kind)
    devices = {one["name"]: one for one in found["outputs"][0]["devices"]}
    assert len(devices) == count
    for name, expected in ports.items():
        (port,) = devices[name]["ports"]
        keys = ("state", "physical_state", "rate_gbps", "link_layer")
        assert (devices[name]["ca_type"], *(port[key] for key in keys)) == expected, name


@pytest.mark.parametrize(("file", "tool", "valid", "expected"), OTHER_TOOLS)
def test_other_capture_reads_as_the_index_says(file, tool, valid, expected):
    found = parsers.parse(tool, read(file))
    assert found["valid"] is valid, found["error"]
    for path, value in expected.items():
        assert at(found["outputs"][0], path) == value, path
    if Path(file).name in GPUS:
        assert len(found["outputs"][0]["gpus"]) == GPUS[Path(file).name]


@pytest.mark.parametrize(("file", "tool"), REFUSED)
def test_another_report_of_the_tool_is_never_valid(file, tool):
    try:
        found = parsers.parse(tool, read(file))
    except parsers.NotThisTool:
        return
    assert (found["valid"], found["outputs"]) == (False, [])


def test_every_file_of_a_supported_tool_has_its_expectations():
    """A capture that is added to the corpus may not be left out here without a word."""
    seen = {case[0] for cases in (CASES, HCA_CASES, OTHER_TOOLS, REFUSED) for case in cases}
    listed = {line.split("\t")[0] for line in (CORPUS / "INDEX.tsv").read_text().splitlines()[1:] if line}
    assert listed - seen == set()


def test_ibstatus_lid_is_hexadecimal():
    (output,) = parsers.parse("ibstatus", read("ibstat/08-ibstatus-a100-8ib.txt"))["outputs"]
    assert output["devices"][0]["ports"][0]["lid"] == 0x33BF


def test_nvlink_of_eight_gpus():
    found = parsers.parse("nvidia-smi-nvlink", read("nvidia_smi/07-nvlink-status-a100.txt"))
    assert found["valid"] is True
    assert [one["gpu"] for one in found["outputs"]] == list(range(8))
    assert found["outputs"][0]["links"][11] == {"link": 11, "speed_gbytes_per_s": 25.0, "active": True}


@pytest.mark.parametrize(("file", "rows"), OUTPUTS_AND_ROWS.items())
def test_number_of_runs_and_rows(file, rows):
    found = parsers.parse(file.split("/")[0], read(file))
    assert [len(output["rows"]) for output in found["outputs"]] == rows


def test_no_parser_takes_another_tools_capture_for_a_valid_result():
    tools = {
        "fio": "fio",
        "nccl_tests": "nccl-tests",
        "ping": "ping",
        "iperf3": "iperf3",
        "sockperf": "sockperf",
        "perftest": "perftest",
    }
    for path in sorted(CORPUS.glob("*/*")):
        for folder, tool in tools.items():
            if path.parent.name == folder:
                continue
            try:
                found = parsers.parse(tool, read(str(path.relative_to(CORPUS))))
            except parsers.NotThisTool:
                continue
            assert found["valid"] is False, (tool, path.name)
