# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sockperf parser: the exit status says nothing, so the text has to be complete."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from support import captures

read, parse_valid, one, failed = captures.for_tool("sockperf")


def parse(name: str) -> dict[str, Any]:
    return registry.parse("sockperf", read(name))


def test_ping_pong_over_tcp():
    outputs = parse_valid(read("pp_tcp.txt"))
    assert outputs == [
        {
            "version": "3.7",
            "mode": "ping-pong",
            "metric": "one_way",
            "average_us": 43.577,
            "stdev_us": 14.134,
            "min_us": 10.68,
            "max_us": 694.558,
            "p50_us": 42.763,
            "p99_us": 66.494,
            "p999_us": 116.769,
            "observations": 6312,
            "dropped": 0,
        }
    ]


def test_full_round_trip_is_reported():
    (output,) = parse("pp_rtt.txt")["outputs"]
    assert output["metric"] == "round_trip"
    assert output["average_us"] == 82.397


def test_under_load_ends_with_a_second_signal_and_is_complete():
    outputs = parse_valid(read("ul.txt"))
    assert outputs[0]["mode"] == "under-load"


def test_throughput_bandwidth_is_binary_megabytes():
    output = one(read("tp.txt"))
    assert output["mode"] == "throughput"
    assert output["message_rate"] == 222531
    # 222531 messages of 1400 bytes a second, computed apart from what sockperf says
    assert output["bandwidth_gbps"] == pytest.approx(222531 * 1400 * 8 / 1e9, rel=1e-4)


def test_names_of_older_and_newer_versions():
    old = read("pp_tcp.txt").replace("avg-latency=", "avg-lat= ").replace("#3.7-no.git", "#2.8-0.git")
    assert registry.parse("sockperf", old)["outputs"][0]["average_us"] == 43.577
    assert registry.parse("sockperf", old)["outputs"][0]["version"] == "2.8"
    new = read("pp_tcp.txt").replace("(std-dev=14.134)", "(std-dev=14.134, mean-ad=3.014, cv=0.324)")
    assert registry.parse("sockperf", new)["outputs"][0]["stdev_us"] == 14.134


PING_PONG = read("pp_tcp.txt")
EMPTY = PING_PONG.partition("sockperf: [Valid Duration]")[0] + "sockperf: "


@pytest.mark.parametrize(
    ("text", "kind", "average_us"),
    [
        (read("refused.txt"), "connection_refused", None),
        (read("noreply.txt"), "no_reply", None),
        (f"{EMPTY}No valid observations found. Try tune parameters: --time/--mps\n", "no_data", None),
        (f"{EMPTY}Test end before test start. Ending statistics early\n", "no_data", None),
        (PING_PONG.replace("by timer", "by signal 2"), "interrupted", 43.577),
        (PING_PONG.replace("by timer", "by user"), "interrupted", 43.577),
        (PING_PONG.replace("is 43.577", "is 4.577"), "inconsistent", 43.577),
        (PING_PONG.replace("50.000 =   42.763", "50.000 = 9999.000"), "inconsistent", 43.577),
        (PING_PONG.replace("Total 6312", "Total 0"), "no_data", 43.577),
        (PING_PONG.replace("Total 6312", "Total " + "9" * 6000), "truncated", 43.577),
    ],
)
def test_what_is_no_complete_run(text, kind, average_us):
    found = captures.parse_failed("sockperf", text, kind)
    assert found["outputs"][0]["average_us"] == average_us


def test_two_runs_and_a_server_in_one_file():
    outputs = parse_valid(read("pp_tcp.txt") + read("pp_rtt.txt"))
    assert [one["metric"] for one in outputs] == ["one_way", "round_trip"]
    server = "sockperf: == version #3.7-no.git ==\nsockperf: [SERVER] listen on:\n"
    alone = registry.parse("sockperf", server)
    assert (alone["valid"], alone["error"]) == (False, None)
    assert alone["warnings"] == ["a server prints no result"]
    assert registry.parse("sockperf", server + read("pp_tcp.txt"))["valid"] is True
