# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""iperf3: its command lines, what it claims, and whose result is taken."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.measure.iperf3 import (
    Iperf3,
    count_streams,
    moved_bytes,
)
from ansible_collections.railyard.fabric.plugins.module_utils.measure.proof import Claim
from ansible_collections.railyard.fabric.plugins.module_utils.measure.sockperf import Sockperf
from support.nodes.tool_session import FakeSession, refusal


def test_iperf3_is_bound_to_the_rail_on_both_sides() -> None:
    play = FakeSession()
    server = "iperf3 -s -1 -J -B 10.0.1.1 -p 18617"
    assert Iperf3().server_argv(play) == server.split()
    client = "iperf3 -c 10.0.1.2 -B 10.0.1.1 -p 18617 -J -t 4 -O 1 -P 4 -l 131072"
    assert Iperf3().client_argv(play) == client.split()


def test_iperf3_claims_the_omitted_start_too() -> None:
    # Written by hand to the format: one omitted second, two measured ones.
    text = json.dumps(
        {
            "intervals": [
                {"sum": {"bytes": 100, "omitted": True}},
                {"sum": {"bytes": 20}},
                {"sum": {"bytes": 3}},
            ]
        }
    )
    assert moved_bytes("warning: something\n" + text) == 123.0
    assert moved_bytes("garbage") is None
    assert moved_bytes('{"intervals": []}') is None
    assert moved_bytes('{"error": "refused"}') is None


def test_the_receivers_count_is_what_iperf3_claims() -> None:
    sent, received = Claim("bytes", 110, 110), Claim("bytes", 100, 100)
    # What lay in buffers at the end crossed the rail for the most part, and was not read any more.
    assert Iperf3().claim(sent, received) == Claim("bytes", 100, 110)
    assert Iperf3().claim(sent, None) == sent
    # For the others the client's values count.
    assert Sockperf().claim(sent, received) == sent


def iperf3_text(streams: Any, protocol: str = "TCP") -> str:
    """Return what the client of iperf3 3.12 prints, by hand to its format, with these streams in its end."""
    sums = {"bytes": 475000000, "bits_per_second": 0.95e9, "seconds": 4.0, "packets": 9, "lost_packets": 0}
    end = {"sum": sums, "sum_sent": sums, "sum_received": sums}
    return json.dumps(
        {
            "start": {
                "version": "iperf 3.12",
                "test_start": {"protocol": protocol, "duration": 4, "num_streams": 4, "reverse": 0},
            },
            "intervals": [{"sum": {"bytes": 475000000}}],
            "end": end if streams is None else {**end, "streams": streams},
        }
    )


def streams_of(*moved: int, sender: bool | None = True) -> list[dict[str, Any]]:
    """Return streams that moved so many bytes; older versions do not tell which end was the sender."""
    flag = {} if sender is None else {"sender": sender}
    return [{"sender": {"bytes": one, **flag}, "receiver": {"bytes": one, **flag}} for one in moved]


def test_only_tcp_is_taken_for_tcp() -> None:
    # What a wrapper that adds -u would print, but for the losses.
    with pytest.raises(MeasurementError, match="instead of TCP"):
        Iperf3().client(FakeSession(iperf3_text(streams_of(1, 1, 1, 1), "UDP")))


@pytest.mark.parametrize("sender", [True, None])
def test_a_result_of_all_streams_is_taken(sender: bool | None) -> None:
    reading = Iperf3().client(FakeSession(iperf3_text(streams_of(1, 1, 1, 1, sender=sender))))
    assert reading.extra == {"streams": 4}
    assert reading.metrics["bandwidth_gbps"] == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("streams", "said"),
    [
        (streams_of(1, 1, 0, 1), "3 of its streams moved data, 4 were configured"),
        (streams_of(1, 1, 1, 1, 1), "5 of its streams"),
        (streams_of(0, 0, 0, 0), "0 of its streams"),
        (None, "does not show its streams"),
        ("four", "does not show its streams"),
        ([1, 2, 3, 4], "does not show its streams"),
    ],
)
def test_a_result_of_fewer_streams_than_requested_is_none(streams: Any, said: str) -> None:
    error = refusal(Iperf3().client, FakeSession(iperf3_text(streams)), match=said)
    assert (error.error_class, error.host) == ("tool_failed", "gpu001")
    assert error.fix


@pytest.mark.parametrize("status", [1, 139, -9])
def test_a_result_of_an_iperf3_that_failed_is_none(status: int) -> None:
    with pytest.raises(MeasurementError, match=f"ended with status {status}"):
        Iperf3().client(FakeSession(iperf3_text(streams_of(1, 1, 1, 1)), status=status))


def test_both_ways_have_all_their_streams_each() -> None:
    ways = streams_of(1, 1, 1, 1) + streams_of(1, 1, 1, 1, sender=False)
    assert count_streams(json.dumps({"end": {"streams": ways}}), 2) == 4
    assert count_streams(json.dumps({"end": {"streams": ways[:-1]}}), 2) == 3
    assert count_streams(json.dumps({"end": {"streams": ways[:4]}}), 2) == 0
    # A server of one direction has zeros in place of the client's half.
    half = [{"sender": {"bytes": 0, "sender": False}, "receiver": {"bytes": 7, "sender": False}}] * 4
    assert count_streams(json.dumps({"end": {"streams": half}}), 1) == 4
    assert count_streams("garbage", 1) is None
