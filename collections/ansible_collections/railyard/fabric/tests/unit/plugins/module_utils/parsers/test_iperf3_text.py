# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""iperf3's table for people: what is in the sums, whose half is known, and ends that are missing."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from support import captures

_read, parse_valid, one, failed = captures.for_tool("iperf3")
EMPTY = dict.fromkeys(("retransmits", "lost_packets", "packets", "lost_percent", "jitter_ms"))

LOSS = {"lost_packets": 0, "packets": 140, "lost_percent": 0.0, "jitter_ms": 0.969}


def read(name: str) -> str:
    return captures.read("iperf3", f"text_{name}.txt")


def parse(text: str) -> dict[str, Any]:
    return registry.parse("iperf3", text)


def row(direction: str, sent: float | None, received: float | None, **more: Any) -> dict[str, Any]:
    return {"direction": direction, "sent_gbps": sent, "received_gbps": received, **EMPTY, **more}


@pytest.mark.parametrize(
    ("name", "valid", "streams", "seconds", "directions"),
    [
        ("2_streams_client", True, 2, 2.11, [row("forward", 0.303, 0.300, retransmits=0)]),
        ("2_streams_server", True, 2, 2.12, [row("forward", None, 0.300)]),
        (
            "bidir_client",
            True,
            1,
            2.11,
            [row("forward", 0.070, 0.0636, retransmits=0), row("reverse", 0.0953, 0.0632, retransmits=2)],
        ),
        (
            "bidir_server",
            False,
            1,
            2.15,
            [row("forward", None, 0.0636), row("reverse", 0.0936, None, retransmits=2)],
        ),
        (
            "udp_client",
            True,
            1,
            2.0,
            [row("forward", 0.00501, 0.00484, **LOSS)],
        ),
        ("reverse_client", True, 1, 2.08, [row("reverse", 0.184, 0.181, retransmits=1)]),
    ],
)
def test_sums(name, valid, streams, seconds, directions):
    found = parse(read(name))
    (output,) = found["outputs"]
    assert (found["valid"], found["error"]) == (valid, None)
    assert (output["streams"], output["duration_s"]) == (streams, seconds)
    assert output["directions"] == directions


def test_protocol_and_version_are_what_the_text_says():
    assert parse(read("udp_client"))["outputs"][0]["protocol"] == "UDP"
    verbose = parse(read("reverse_client"))["outputs"][0]
    assert (verbose["version"], verbose["protocol"]) == ("3.12", "TCP")
    assert parse(read("2_streams_client"))["outputs"][0]["version"] is None


@pytest.mark.parametrize(
    ("rate", "gbps"),
    [("500 Kbits/sec", 0.0005), ("1.5 Tbits/sec", 1500.0), ("100 MBytes/sec", 100 * 2**20 * 8 / 1e9)],
)
def test_bits_have_decimal_and_bytes_binary_prefixes(rate, gbps):
    text = read("2_streams_client").replace("300 Mbits/sec", rate)
    assert parse(text)["outputs"][0]["directions"][0]["received_gbps"] == pytest.approx(gbps)


def test_cpu_of_both_ends():
    line = "CPU Utilization: local/sender 3.4% (0.1%u/3.3%s), remote/receiver 25.0% (1.0%u/24.0%s)\n"
    (output,) = parse(read("2_streams_client").replace("\niperf Done", line + "\niperf Done"))["outputs"]
    assert (output["cpu_host_percent"], output["cpu_remote_percent"]) == (3.4, 25.0)


def test_interrupted_client_keeps_its_numbers_and_is_not_valid():
    text = read("2_streams_client").replace("\niperf Done.", "iperf3: interrupt - the client has terminated")
    found = captures.parse_failed("iperf3", "^C" + text, "interrupted")
    assert found["outputs"][0]["directions"][0]["sent_gbps"] == 0.303


def test_zeros_of_the_other_end_are_not_measured():
    text = read("2_streams_client").replace("76.0 MBytes   300 Mbits/sec", "0.00 Bytes  0.00 bits/sec")
    found = captures.parse_failed("iperf3", text, "incomplete")
    assert found["outputs"][0]["directions"][0]["received_gbps"] is None


def test_server_stopped_while_it_waits_keeps_its_complete_run():
    end = "-" * 59 + "\nServer listening on 5201\n" + "-" * 59 + "\n"
    found = parse(read("2_streams_server") + end + "^Ciperf3: interrupt - the server has terminated\n")
    assert (found["valid"], found["error"]) == (True, None)


def test_refused_connection_and_time_stamps():
    refused = "iperf3: error - unable to connect to server: Connection refused\n"
    assert failed("Connecting to host 10.0.1.2, port 5201\n" + refused) == "connection_refused"
    stamped = "".join(f"Sat Nov 21 15:03:34 2026 {line}\n" for line in read("udp_client").split("\n"))
    assert parse(stamped)["outputs"] == parse(read("udp_client"))["outputs"]


def test_udp_client_before_3_7_names_no_end():
    text = read("udp_client").replace("  sender", "  ").replace("Bitrate  ", "Bandwidth")
    text = "\n".join(line for line in text.split("\n") if "receiver" not in line)
    outputs = parse_valid(text)
    assert outputs[0]["directions"][0]["sent_gbps"] == 0.00501


def test_table_without_its_beginning_has_no_direction():
    table = read("2_streams_client").split("- - -\n")[-1]
    found = captures.parse_failed("iperf3", table, "truncated")
    assert found["outputs"][0]["directions"][0]["direction"] is None


EXCERPT = """[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-10.00  sec  31.9 GBytes  27.4 Gbits/sec    0
"""


@pytest.mark.parametrize(("lines", "gbps"), [(1, 27.4), (2, None)])
def test_an_excerpt_of_one_line_is_its_sum_and_of_two_is_none(lines, gbps):
    found = captures.parse_failed("iperf3", EXCERPT + EXCERPT.splitlines(True)[1] * (lines - 1), "truncated")
    assert [way["sent_gbps"] for way in found["outputs"][0]["directions"]] == [gbps] * (gbps is not None)


def test_iperf2_is_another_tool():
    text = "Client connecting to 10.0.0.2, TCP port 5001\n[  3]  0.0-10.0 sec  1.10 GBytes   941 Mbits/sec\n"
    with pytest.raises(registry.NotThisTool):
        parse(text)


@pytest.mark.parametrize("unit", [" bits/sec", " Gbits/sec", " MBytes/sec"])
def test_a_rate_that_is_not_that_of_its_bytes(unit):
    text = read("reverse_client")
    assert failed(text.replace(" Mbits/sec", unit)) == "inconsistent"


def test_run_without_its_last_line_says_what_is_missing():
    found = captures.parse_failed("iperf3", read("2_streams_client").replace("iperf Done.", ""), "truncated")
    assert "iperf Done." in found["error"]["message"]
    assert found["outputs"] == parse(read("2_streams_client"))["outputs"]
