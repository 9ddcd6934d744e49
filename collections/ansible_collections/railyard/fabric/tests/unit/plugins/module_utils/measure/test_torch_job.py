# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""This node's part in a test of all nodes: the program's arguments, and how its output is read."""

from __future__ import annotations

import io
import json
import os
import zipfile
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import rdma_counters
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import Place
from ansible_collections.railyard.fabric.plugins.module_utils.measure import torch_job
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import Finished
from ansible_collections.railyard.fabric.plugins.module_utils.measure.node_tool import (
    Company,
    NodeReading,
    NodeToolSession,
)
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import policy_keys
from support.nodes.tool_session import refusal

BEGAN = {"t": "began", "torch": "1.13.0", "ranks": 2, "processes": 1}
SIZE = {
    "t": "size", "size_bytes": 1000, "iterations": 8, "time_us": 5.0, "time_min_us": 4.0,
    "algbw_GBps": 0.2, "busbw_GBps": 0.2, "wrong": 0,
}  # fmt: skip
SWEPT = {"t": "swept", "call": "all_reduce", "moved_bytes": 10_000, "left_out_bytes": [4000]}
TRAINED = {
    "t": "trained", "steps": 9, "gradient_bytes": 100, "moved_bytes": 10_000, "samples_per_s": 15.0,
    "alone_samples_per_s": 10.0, "efficiency_percent": 75.0, "communication_percent": 20.0,
    "loss_first": 2.0, "loss_last": 1.0, "ranks_differ": False,
}  # fmt: skip


class Play(NodeToolSession):
    """A node with two rails, of which each carries what a test says."""

    def __init__(self, said: list[dict[str, Any]], subject: str = "rail0", **policy: Any) -> None:
        keys = {name: key.default for name, key in policy_keys.KEYS.items()}
        self.policy = {**keys, "collectives": "torch", "idle_bytes_per_s": 10, **policy}
        self.own = Place("gpu2", "", "", "")
        self.subject = subject
        self.said = said
        self.noise = "[W socket.cpp] a warning\n"
        self.orders: dict[str, Any] = {}
        self.argv: list[str] = []
        self.carried = {"eth0": 10_500, "eth1": 0}
        self.seen = dict.fromkeys(self.carried, 7)
        self.everybody = Company(
            ["gpu1", "gpu2"],
            set(),
            {
                "rail0": Place("gpu2", "rail0", "eth0", "10.0.0.2"),
                "rail1": Place("gpu2", "rail1", "eth1", "10.1.0.2"),
            },
            {"rail0": "mlx5_0:1"},
            {},
            ["10.0.0.1", "10.1.0.1"],
            18601,
            "s" * 32,
            65.0,
        )  # fmt: skip

    def company(self) -> Company:
        return self.everybody

    def run_with(self, argv: list[str], limit_s: float, stdin: int = -1) -> Finished:
        self.argv, self.limit_s = argv, limit_s
        with zipfile.ZipFile(io.BytesIO(os.pread(stdin, 1 << 24, 0))) as packed:
            self.orders = json.loads(packed.read("job.json"))
        for netdev, grown in self.carried.items():
            self.seen[netdev] += grown
        text = self.noise + "".join(f"railyard: {json.dumps(line)}\n" for line in self.said)
        return Finished(0, text, 1.0, 1.0, 9.0)


def measured(play: Play, monkeypatch: pytest.MonkeyPatch, check: str = "collective_allreduce") -> NodeReading:
    def read(netdev: str) -> dict[str, int]:
        return dict.fromkeys(("tx_bytes", "rx_bytes", "tx_packets", "rx_packets"), play.seen[netdev])

    monkeypatch.setattr(torch_job.counters, "read", read)
    return torch_job.TorchJob().measure(play, check)


def test_the_program_gets_one_rail_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play([BEGAN, SIZE, SWEPT])
    reading = measured(play, monkeypatch)
    assert play.argv == ["/usr/bin/python3", "-I", "/proc/self/fd/0"]
    wanted = {
        "task": "allreduce", "backend": "gloo", "node": "gpu2", "nodes": ["gpu1", "gpu2"],
        "netdevs": ["eth0"], "meet": [["10.0.0.1", "10.1.0.1"], 18601], "processes": 1,
    }  # fmt: skip
    assert {key: play.orders[key] for key in wanted} == wanted
    assert play.limit_s > play.orders["wait_s"] + play.orders["limit_s"] + play.orders["duration_s"]
    assert reading.metrics == {"busbw_GBps": 0.2, "algbw_GBps": 0.2, "size_bytes": 1000}
    assert (reading.doubt, reading.window_s) == (None, [1.0, 9.0])
    assert reading.counters["rail0.tx_bytes"] == [7, 10_507]
    assert reading.extra["collective"]["left_out_bytes"] == [4000]


@pytest.mark.parametrize("name", ["allgather", "alltoall"])
def test_blocks_are_exchanged_over_all_rails_and_the_row_says_by_which_call(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play([BEGAN, SIZE, {**SWEPT, "call": "isend, irecv"}], "all rails")
    play.carried = {"eth0": 5200, "eth1": 5200}
    reading = measured(play, monkeypatch, f"collective_{name}")
    assert (play.orders["task"], play.orders["netdevs"]) == (name, ["eth0", "eth1"])
    assert (reading.doubt, reading.metrics["busbw_GBps"]) == (None, 0.2)
    said = reading.extra["collective"]
    assert (said["call"], said["processes"]) == ("isend, irecv", 1)


def test_the_training_job_is_of_all_rails_and_takes_the_model_there_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play = Play([BEGAN, TRAINED], "all rails")
    play.carried = {"eth0": 9000, "eth1": 2800}
    reading = measured(play, monkeypatch, "collective_training")
    assert (play.orders["task"], play.orders["netdevs"]) == ("ddp", ["eth0", "eth1"])
    assert (reading.doubt, reading.metrics["efficiency_percent"]) == (None, 75.0)


def test_what_went_by_another_network_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play([BEGAN, SIZE, SWEPT])
    play.carried = {"eth0": 900, "eth1": 0}
    assert str(measured(play, monkeypatch).doubt).endswith(torch_job.ELSEWHERE)


@pytest.mark.parametrize(
    ("said", "error_class"),
    [
        (
            [{"t": "error", "kind": "absent", "message": "gpu1 did not take part", "nodes": ["gpu1"]}],
            "peer_absent",
        ),
        ([{"t": "error", "kind": "no_torch", "message": "no module"}], "tool_missing"),
        ([{"t": "error", "kind": "store", "message": "in use"}], "port_taken"),
        ([BEGAN, SIZE, {"t": "error", "kind": "failed", "message": "closed by peer"}], "collective_failed"),
        ([BEGAN, SIZE], "tool_failed"),
        ([], "tool_failed"),
        ([BEGAN, {**SIZE, "wrong": 3}, SWEPT], "collective_wrong"),
        ([BEGAN, {**TRAINED, "ranks_differ": True}], "collective_wrong"),
        ([BEGAN, {**TRAINED, "loss_last": 2.0}], "collective_wrong"),
        ([BEGAN, {**TRAINED, "loss_last": None}], "collective_wrong"),
    ],
)
def test_each_way_to_fail_has_its_class(
    said: list[dict[str, Any]], error_class: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(said)
    assert refusal(measured, play, monkeypatch).error_class == error_class
    if error_class == "peer_absent":
        # And is not waited for again.
        play.orders = {}
        with pytest.raises(MeasurementError, match="gpu1 did not take part"):
            measured(play, monkeypatch)
        assert play.orders == {}


def test_nccl_gets_exactly_one_rail_and_its_log_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_job.os, "listdir", lambda _path: ["0000:17:00.0", "0000:ca:00.0"])
    words = {"port_xmit_data": 0, "port_rcv_data": 0}
    port = SimpleNamespace(traffic=rdma_counters.PORT_WORDS, read=lambda: dict(words))
    monkeypatch.setattr(torch_job.counters, "Port", lambda _hca: port)
    play = Play([BEGAN, SIZE, SWEPT], collective_backend="nccl")
    play.noise = "gpu2:1:2 [0] NCCL INFO Using network Socket\n"
    reading = measured(play, monkeypatch)
    assert play.orders["environment"]["NCCL_IB_HCA"] == "=mlx5_0:1"
    assert play.orders["processes"] == 2
    assert reading.doubt == f"NCCL used sockets instead of RDMA: {torch_job.ELSEWHERE}"
    # Without an RDMA port its socket is named, and the netdev has to show it.
    play = Play([BEGAN, SIZE, SWEPT], "rail1", collective_backend="nccl")
    play.carried = {"eth0": 0, "eth1": 10_500}
    assert measured(play, monkeypatch).doubt is None
    assert play.orders["environment"]["NCCL_SOCKET_IFNAME"] == "=eth1"


def test_where_there_is_no_gpu_nccl_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_job, "_GPUS", "/nowhere")
    with pytest.raises(MeasurementError, match="the NVIDIA driver shows no GPU"):
        measured(Play([], collective_backend="nccl"), monkeypatch)
