"""Serve node_exporter's, dcgm-exporter's and the runs' series of made-up nodes: one fault on each node."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

DAY_S = 86400
#: A series with its labels, as the text format has it, and its value.
Samples = dict[str, float]
#: Changes the series of a node, so many seconds after it began.
Fault = Callable[[Samples, float], None]
CARRIER = 'node_network_carrier{device="ens1"}'
TEXTFILE = "/var/lib/prometheus/node-exporter/railyard_node.prom"


def healthy_node(now_s: float) -> Samples:
    """Return the series of a node with two good rails."""
    found: Samples = {
        'node_network_carrier{device="lo"}': 1,
        "node_textfile_scrape_error": 0,
        'node_scrape_collector_success{collector="netclass"}': 1,
        'node_scrape_collector_success{collector="hwmon"}': 0,
        f'node_textfile_mtime_seconds{{file="{TEXTFILE}"}}': now_s - 20,
        'node_textfile_mtime_seconds{file="/var/lib/prometheus/node-exporter/apt.prom"}': now_s - DAY_S,
        "node_time_seconds": now_s,
        'railyard_node_metrics_info{version="1.0"}': 1,
        "railyard_cpus_with_wrong_governor": 0,
        "railyard_expected_gpus": 8,
        "railyard_gpus": 8,
        "railyard_quick_status": 0,
        "railyard_quick_timestamp_seconds": now_s - 200,
        'railyard_gpu_nvlinks_active{pci="0000:89:00.0"}': 18,
        'railyard_gpu_nvlinks_expected{pci="0000:89:00.0"}': 18,
        'railyard_gpu_xid_since_reset{pci="0000:89:00.0",xid="43"}': 3,
    }
    for rail in ("rail0", "rail1"):
        netdev, of_rail = f"ens{rail[-1]}", f'rail="{rail}"'
        found |= {
            f'node_network_carrier{{device="{netdev}"}}': 1,
            f'node_network_carrier_changes_total{{device="{netdev}"}}': 2,
            f'railyard_rail_info{{{of_rail},netdev="{netdev}",device="mlx5_{rail[-1]}",port="1"}}': 1,
            f'railyard_rail_netdev_info{{{of_rail},device="{netdev}"}}': 1,
            f"railyard_rail_rate_bytes_per_second{{{of_rail}}}": 50e9,
            f"railyard_rail_expected_rate_bytes_per_second{{{of_rail}}}": 50e9,
            f"railyard_rail_rdma_port_active{{{of_rail}}}": 1,
            f"railyard_rail_gid_present{{{of_rail}}}": 1,
            f"railyard_rail_gid_index{{{of_rail}}}": 3,
            f"railyard_rail_pcie_lanes{{{of_rail}}}": 16,
            f"railyard_rail_pcie_lanes_max{{{of_rail}}}": 16,
            f"railyard_rail_symbol_errors_allowed_per_hour{{{of_rail}}}": 144,
            f'railyard_rail_pause_seconds_total{{{of_rail},direction="rx",priority="3"}}': 7,
            f'railyard_rail_congestion_total{{{of_rail},counter="np_cnp_sent"}}': 900,
        }
        for layer, mtu in (("netdev", 9000), ("rdma", 4096)):
            found[f'railyard_rail_mtu_bytes{{{of_rail},layer="{layer}"}}'] = mtu
            found[f'railyard_rail_expected_mtu_bytes{{{of_rail},layer="{layer}"}}'] = mtu
        for kind in ("physical", "flap", "symbol", "transport", "loss"):
            found[f'railyard_rail_errors_total{{{of_rail},kind="{kind}"}}'] = 5
    return found


def healthy_gpus(_now_s: float) -> Samples:
    """Return the series of dcgm-exporter on a node with eight good GPUs."""
    found: Samples = {}
    for index in range(8):
        gpu = f'gpu="{index}",UUID="GPU-{index}"'
        found |= {
            f"DCGM_FI_DEV_GPU_TEMP{{{gpu}}}": 40,
            f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{gpu}}}": 0,
            f"DCGM_FI_DEV_ROW_REMAP_FAILURE{{{gpu}}}": 0,
            f"DCGM_FI_DEV_ROW_REMAP_PENDING{{{gpu}}}": 0,
            f'DCGM_EXP_CLOCK_EVENTS_COUNT{{{gpu},clock_event="power_cap"}}': 9,
        }
    return found


def sets(series: str, value: float) -> Fault:
    """Return the fault of one series that has another value."""
    return lambda samples, _after_s: samples.update({series: value})


def grows(series: str, per_second: float) -> Fault:
    """Return the fault of a counter that grows."""
    return lambda samples, after_s: samples.update({series: samples[series] + per_second * after_s})


def lacks(*parts: str) -> Fault:
    """Return the fault of series that are not there: those whose text has one of these parts."""

    def change(samples: Samples, _after_s: float) -> None:
        for series in [series for series in samples if any(part in series for part in parts)]:
            del samples[series]

    return change


def shifts_clock(by_s: float) -> Fault:
    """Return the fault of a clock that is off: every time of the node is."""

    def change(samples: Samples, _after_s: float) -> None:
        for series in samples:
            if series.startswith(("node_time", "node_textfile_mtime", "railyard_quick_timestamp")):
                samples[series] += by_s

    return change


class Nodes:
    """Nodes by name, each with its faults; `silent` ones do not answer.

    Attributes:
        node: node -> fault of its node_exporter.
        gpu: node -> fault of its dcgm-exporter.
        silent: paths, such as `/gpu/gpu001`, that answer 503.
        runs: the controller's series.
    """

    def __init__(self) -> None:
        self.node: dict[str, Fault | None] = {}
        self.gpu: dict[str, Fault | None] = {}
        self.silent: set[str] = set()
        self.runs: Callable[[float], Samples] = lambda _now_s: {}
        self._since_s = time.time()

    def text(self, path: str) -> str | None:
        """Return what an exporter answers; None where it does not."""
        now_s = time.time()
        _empty, kind, name = path.split("/")
        if path in self.silent:
            return None
        samples = {"node": healthy_node, "gpu": healthy_gpus, "runs": self.runs}[kind](now_s)
        fault = {"node": self.node, "gpu": self.gpu}.get(kind, {}).get(name)
        if fault is not None:
            fault(samples, now_s - self._since_s)
        return "".join(f"{series} {value!r}\n" for series, value in samples.items())

    @contextmanager
    def served(self) -> Iterator[int]:
        """Serve /node/NAME, /gpu/NAME and /runs/all on a port of loopback."""
        nodes = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                text = nodes.text(self.path)
                self.send_response(503 if text is None else 200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write((text or "").encode())

            def log_message(self, *_arguments: object) -> None:
                """Write nothing for each scrape."""

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            server.server_close()

    def targets(self, port: int, left: frozenset[str] = frozenset()) -> str:
        """Return the file of targets, without the nodes that left, as Prometheus reads it."""
        return json.dumps(
            [
                {
                    "targets": [f"127.0.0.1:{port}"],
                    "labels": {
                        "cluster": "c1",
                        "node": name,
                        "scalable_unit": "su1",
                        "instance": f"{name}:9100",
                        "__metrics_path__": f"/{kind}/{name}",
                        "kind": kind,
                    },
                }
                for kind, names in (("node", self.node), ("gpu", self.gpu))
                for name in names
                if name not in left
            ]
        )
