# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the corpus' index says of captures in which something was measured: by (file, tool, …) as data."""

from __future__ import annotations

from collections import ChainMap
from typing import Any

MILLI = 1000.0  # the index gives ping's times in ms


def pings(
    sent: int, received: int, rtt_ms: tuple[float, float, float], mdev_us: int | None, **more: int
) -> dict[str, Any]:
    """Expect counts, and the shortest, mean and longest time as the index gives them."""
    times = zip(("rtt_min_us", "rtt_average_us", "rtt_max_us"), rtt_ms, strict=True)
    told = {"transmitted": sent, "received": received, "rtt_mdev_us": mdev_us, **more}
    return told | {name: ms * MILLI for name, ms in times}


def forward(**row: Any) -> dict[str, Any]:
    return {f"directions.0.{key}": value for key, value in {"direction": "forward", **row}.items()}


Case = tuple[str, str, bool, str | None, dict[str, Any]]


def case(file: str, valid: bool, kind: str | None, expected: tuple[dict[str, Any], ...]) -> Case:
    """Return (file, tool, valid, error class, expected values of the first output by dotted path)."""
    return file, file.split("/")[0].replace("_", "-"), valid, kind, dict(ChainMap(*expected))


def valid(file: str, *expected: dict[str, Any]) -> Case:
    return case(file, True, None, expected)


def spoilt(file: str, kind: str | None, *expected: dict[str, Any]) -> Case:
    return case(file, False, kind, expected)


CASES = [
    valid("ping/01-linux-100.txt", pings(100, 100, (0.280, 0.352, 0.602), 56, loss_percent=0)),
    valid("ping/02-missing-host.txt", pings(1, 1, (0.040, 0.040, 0.040), 0, loss_percent=0)),
    valid("ping/03-ip-dup.txt", pings(2, 2, (0.586, 504.260, 1276.448), 417208, duplicates=19)),
    valid("ping/04-O-D-timeouts.txt", pings(20, 20, (0.041, 0.048, 0.081), 9, loss_percent=0)),
    valid("ping/05-alpine-busybox.txt", pings(1, 1, (1.637, 1.637, 1.637), None, loss_percent=0)),
    spoilt(
        "ping/06-osx-unreachable.txt",
        "unreachable",
        {"transmitted": 8, "received": 0, "loss_percent": 100, "rtt_average_us": None},
    ),
    valid("ping/07-ping6.txt", pings(20, 17, (26.566, 33.623, 43.945), 5029, loss_percent=15)),
    valid(
        "iperf3/01-tcp-3.0.11-public.json",
        {"version": "3.0.11", "protocol": "TCP", "streams": 1, "duration_s": 13},
        forward(sent_gbps=0.935992, received_gbps=0.934268, retransmits=0),
    ),
    valid(
        "iperf3/02-tcp-P4-3.6-public.json",
        {"version": "3.6", "streams": 4, "duration_s": 60},
        forward(sent_gbps=17.545, received_gbps=17.536, retransmits=2),
    ),
    valid(
        "iperf3/03-tcp-P10-3.7-public.json",
        {"version": "3.7", "streams": 10},
        forward(sent_gbps=0.957031, received_gbps=0.919555, retransmits=2),
    ),
    valid(
        "iperf3/04-tcp-P10-reverse-3.7-public.json",
        {"version": "3.7", "streams": 10},
        forward(direction="reverse", sent_gbps=0.360924, received_gbps=0.344359, retransmits=1714),
    ),
    valid(
        "iperf3/08-bidir-duplicate-keys-3.9.json",
        {"version": "3.9", "directions.1.sent_gbps": 2.034, "directions.1.received_gbps": 1.979},
        forward(sent_gbps=19.899, received_gbps=19.516),
    ),
    spoilt(
        "iperf3/10-refused-rc0-3.12.json",
        "connection_refused",
        {"version": "3.12", "directions": [], "duration_s": None},
    ),
    valid(
        "sockperf/07-pp-udp-3.7-ansi.txt",
        {
            "version": "3.7",
            "mode": "ping-pong",
            "metric": "one_way",
            "average_us": 25.077,
            "stdev_us": 19.427,
        },
        {"p50_us": 31.237, "p99_us": 55.913, "p999_us": 182.718, "max_us": 892.286, "min_us": 1.954},
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
    valid(
        "perftest/01-write-roce-cm-8qp-all-client.txt",
        bandwidth("ib_write_bw", "client", "mlx5_2", (8388608, 40000, 230.91, 0.003441), qps=8, **ROCE),
        {
            "rows.0.message_bytes": 2,
            "rows.0.bandwidth_average_gbps": 0.055073,
            "rows.22.bandwidth_peak_gbps": 230.91,
        },
    ),
    valid(
        "perftest/02-write-roce-cm-8qp-all-server.txt",
        bandwidth("ib_write_bw", "server", "mlx5_2", (8388608, 40000, 230.91, 0.003441), qps=8, **ROCE),
    ),
    valid(
        "perftest/03-read-cuda-dmabuf-all-client.txt",
        bandwidth("ib_read_bw", "client", "mlx5_2", (8388608, 1000, 197.82, 0.002948), qps=1, **ROCE),
        {
            "gpu": "NVIDIA H100 80GB HBM3",
            "rows.15.message_bytes": 65536,
            "rows.15.bandwidth_average_gbps": 186.18,
        },
    ),
    valid(
        "perftest/04-read-lat-cuda-all-client.txt",
        {
            "test": "ib_read_lat",
            "role": "client",
            "device": "mlx5_2",
            "latency_is": "round_trip",
            "gid_index": 3,
        },
        {"rows.0.min_us": 6.19, "rows.0.max_us": 16.00, "rows.0.typical_us": 6.22, "rows.0.average_us": 6.26},
        {"rows.0.stdev_us": 0.37, "rows.0.p99_us": 6.67, "rows.0.p999_us": 16.00},
        {"rows.22.average_us": 349.17, "rows.22.p99_us": 363.03},
    ),
    spoilt(
        "perftest/05-read-lat-server-no-rows.txt",
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
    spoilt("perftest/06-err-rdma-cm-rejected.txt", "rdma_cm"),
    valid(
        "perftest/07-write-roce-cm-8qp-dynamic-cqe.txt",
        bandwidth("ib_write_bw", "client", "mlx5_2", (8388608, 40000, 229.53, 0.003420), qps=8),
        {"rows.13.message_bytes": 16384, "rows.13.bandwidth_average_gbps": 159.13},
    ),
    valid(
        "perftest/08-loopback-8M-client-and-server-interleaved.txt",
        bandwidth("ib_write_bw", "client", "ib0", (8388608, 20000, 24056.72 * MIB, 0.003007)),
        {
            "link_layer": "InfiniBand",
            "mtu_bytes": 4096,
            "reported_unit": "MiB/s",
            "rows.0.bandwidth_peak_gbps": 201.802,
        },
    ),
    valid(
        "perftest/09-loopback-all-sizes-interleaved.txt",
        bandwidth("ib_write_bw", "client", "ib0", (8388608, 2000, 194.957, 0.002905)),
        {
            "rows.0.bandwidth_average_gbps": 5.30 * MIB,
            "rows.0.message_rate_mpps": 2.778732,
            "gid_index": None,
        },
    ),
    spoilt(
        "perftest/28-send-bw-dpu-tail-concatenated.txt",
        "truncated",
        {
            "test": None,
            "rows.0.message_bytes": 1,
            "rows.0.bandwidth_peak_gbps": None,
            "reported_unit": "MiB/s",
        },
        {"rows.0.bandwidth_average_gbps": 3.16 * MIB, "rows.0.message_rate_mpps": 3.312819},
    ),
    spoilt("perftest/40-err-no-rdma-device.txt", "no_device"),
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


def disk(bytes_per_s: int, iops: float, **more: Any) -> dict[str, Any]:
    return {"bandwidth_bytes_per_s": bytes_per_s, "iops": iops, **more}


CASES += [
    valid(
        "nccl_tests/01-allreduce-8xa100-error-column-zero-sizes.txt",
        collective(8589934592, 235.26, 235.03, 68.4048),
        {"rows.0.bytes": 0, "rows.0.redop": "sum"},
    ),
    valid(
        "nccl_tests/02-alltoall-8xa100-blank-redop.txt",
        collective(8589934592, 224.31, 226.16, 58.6481),
        {"rows.-1.redop": None, "rows.-1.out_of_place.algbw_GBps": 256.36},
    ),
    valid(
        "nccl_tests/03-broadcast-8xa100-root-column.txt",
        collective(8589934592, 232.81, 234.70, 64.8653),
        {"rows.-1.redop": None},
    ),
    valid(
        "nccl_tests/04-allreduce-2xk80-wrong-na.txt",
        collective(1073741824, 0.61, 0.61, 0.565546, gpus=2, nodes=2),
        {"rows.-1.out_of_place.time_us": 1752724},
    ),
    valid(
        "fio/01-randrw-libaio-3.26.json",
        disk(7876980, 2160.56, name="fio_randrw_1GB_4k_d1_th1_direct", rw="read"),
    ),
    valid("fio/02-readwrite-3.26-19.json", disk(149343283, 569.70, name="disk_fill", errors=0)),
    valid("fio/03-windowsaio-3.26.json", disk(8876980, 2167.23, rw="write")),
    valid("fio/04-pkb-multi-job.json", disk(68118 * 1024, 133, name="sequential_write")),
    valid("fio/05-superbench-disk-log.txt", disk(348743777, 85138.89, name="rand_read_write")),
    valid("fio/06-seq-write-1M.json", disk(310689185, 296.296, rw="write", block_bytes=2**20)),
    spoilt("fio/12-err-verify-interrupted.txt", "io_error"),
]
OUTPUTS_AND_ROWS = {
    "perftest/01-write-roce-cm-8qp-all-client.txt": [23],
    "perftest/08-loopback-8M-client-and-server-interleaved.txt": [1, 1],
    "perftest/09-loopback-all-sizes-interleaved.txt": [23, 1],
    "perftest/28-send-bw-dpu-tail-concatenated.txt": [16, 15],
}
