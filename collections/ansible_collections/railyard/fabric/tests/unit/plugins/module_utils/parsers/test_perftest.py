# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The perftest parser: units, roles, what is not measured, both JSON forms, and ends that are missing."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from support import captures

read, parse_valid, one, failed = captures.for_tool("perftest")
# 2000 MiB/s = 2000 x 2^20 x 8 bit/s
GBPS_OF_2000_MIB = 16.777216


def parse(name: str) -> dict[str, Any]:
    return registry.parse("perftest", read(name))


def test_header_and_binary_megabytes():
    output = one(read("write_bw_mib_client.txt"))
    assert {key: value for key, value in output.items() if key != "rows"} == {
        "test": "ib_write_bw",
        "kind": "bandwidth",
        "role": "client",
        "bidirectional": False,
        "connection": "RC",
        "device": "rxe0",
        "link_layer": "Ethernet",
        "mtu_bytes": 4096,
        "gid_index": 1,
        "qps": 1,
        "rdma_cm": False,
        "gpu": None,
        "reported_unit": "MiB/s",
        "latency_is": None,
    }
    (row,) = output["rows"]
    assert (row["message_bytes"], row["iterations"], row["message_rate_mpps"]) == (65536, 5000, 0.032)
    assert row["bandwidth_average_gbps"] == pytest.approx(GBPS_OF_2000_MIB)


def test_decimal_gigabits_and_several_rows():
    rows = parse("write_bw_gbps_client.txt")["outputs"][0]["rows"]
    assert [(row["message_bytes"], row["bandwidth_average_gbps"]) for row in rows] == [
        (32768, 99.0),
        (65536, 100.0),
    ]


def test_unmeasured_peak_is_null():
    outputs = parse_valid(read("send_bw_server.txt"))
    assert outputs[0]["role"] == "server"
    assert outputs[0]["rows"][0]["bandwidth_peak_gbps"] is None


def test_read_server_is_silent_by_nature():
    found = parse("read_bw_server.txt")
    assert (found["valid"], found["error"]) == (False, None)
    assert found["warnings"]
    assert found["outputs"][0]["rows"] == []


def test_read_server_beside_its_client_is_valid():
    client = read("write_bw_gbps_client.txt").replace("RDMA_Write", "RDMA_Read")
    outputs = parse_valid(read("read_bw_server.txt") + client)
    assert [one["role"] for one in outputs] == ["server", "client"]


def test_bidirectional_is_reported():
    assert parse("write_bw_bidirectional.txt")["outputs"][0]["bidirectional"] is True


def test_latency_and_what_it_is():
    (output,) = parse("write_lat_client.txt")["outputs"]
    assert (output["kind"], output["latency_is"], output["reported_unit"]) == ("latency", "one_way", "us")
    assert output["rows"] == [
        {
            "message_bytes": 2,
            "iterations": 1000,
            "min_us": 4.1,
            "max_us": 9.0,
            "typical_us": 4.3,
            "average_us": 4.35,
            "stdev_us": 0.2,
            "p99_us": 5.1,
            "p999_us": 8.9,
            "transactions_per_s": None,
            "cpu_percent": None,
            "latency_is": "one_way",
        }
    ]
    reading = registry.parse("perftest", read("write_lat_client.txt").replace("RDMA_Write", "RDMA_Read"))
    assert reading["outputs"][0]["latency_is"] == "round_trip"


def test_latency_in_duration_mode():
    (row,) = parse("write_lat_duration.txt")["outputs"][0]["rows"]
    assert (row["average_us"], row["transactions_per_s"], row["min_us"]) == (4.35, 229885.06, None)


def test_cycles_are_no_time():
    found = registry.parse("perftest", read("write_lat_client.txt").replace("[usec]", "[cycles]"))
    assert found["valid"] is False
    assert found["outputs"][0]["rows"][0]["average_us"] is None


@pytest.mark.parametrize("name", ["write_bw_new.json", "write_bw_old.json"])
def test_both_json_forms_say_what_the_text_says(name):
    assert parse_valid(read(name)) == parse("write_bw_mib_client.txt")["outputs"]


def test_json_latency():
    assert parse("write_lat_old.json")["outputs"][0]["rows"] == one(read("write_lat_client.txt"))["rows"]


@pytest.mark.parametrize("name", ["write_bw_old.json", "write_bw_new.json", "write_lat_old.json"])
def test_json_in_one_line(name):
    one_line = " ".join(read(name).split())
    assert registry.parse("perftest", one_line)["outputs"] == parse(name)["outputs"]


@pytest.mark.parametrize(
    ("name", "key", "line"),
    [
        ("write_bw_old.json", "BW_average", 26),
        ("write_bw_new.json", "MsgRate", 27),
        ("write_lat_old.json", "percentile_99", 29),
    ],
)
def test_decimal_comma_in_json(name, key, line):
    """The lines are counted in the files."""
    text = re.sub(rf"({key}\"?: *[0-9]+)\.", r"\1,", read(name))
    assert text != read(name)
    for form, at in ((text, line), (text.replace("\n", " ") + "\n", 1)):
        found = captures.parse_failed("perftest", form, "garbled")
        assert found["error"]["message"].startswith(f"line {at}: {key} is ")


def test_json_behind_the_table_is_reported():
    text = read("write_bw_mib_client.txt")
    found = registry.parse("perftest", text + read("write_bw_old.json"))
    assert (found["valid"], found["outputs"]) == (True, [one(text)])
    assert "JSON" in found["warnings"][0]


def test_json_unit_is_inferred_or_null():
    gigabits = read("write_bw_new.json").replace("2000.00", "16.78").replace("2100.00", "17.00")
    (output,) = registry.parse("perftest", gigabits)["outputs"]
    assert output["reported_unit"] == "Gbit/s"
    assert output["rows"][0]["bandwidth_average_gbps"] == 16.78
    neither = registry.parse("perftest", read("write_bw_new.json").replace("2000.00", "500.00"))
    assert neither["valid"] is False
    assert neither["outputs"][0]["reported_unit"] is None
    assert neither["outputs"][0]["rows"][0]["bandwidth_average_gbps"] is None


def test_failed_completion_names_its_status():
    found = captures.parse_failed("perftest", read("peer_lost.txt"), "retry_exceeded")
    assert "syndrom 0x81" in found["error"]["message"]


def test_limit_not_reached_is_an_error():
    assert failed(read("write_bw_mib_client.txt") + " Error: BW result is below bw limit\n") == "below_limit"


def test_cpu_frequency_is_a_warning():
    text = read("write_bw_mib_client.txt").replace(
        " #bytes", "Conflicting CPU frequency values detected: 800.0 != 3600.0\n #bytes"
    )
    found = registry.parse("perftest", text)
    assert found["valid"] is True
    assert "Conflicting" in found["warnings"][0]


def with_cell(name: str, place: int, cell: str) -> dict[str, Any]:
    """Parse a capture after writing another word into its first row."""
    lines = read(name).split("\n")
    at = next(number for number, line in enumerate(lines) if line.strip()[:1].isdecimal())
    words = lines[at].split()
    words[place] = cell
    lines[at] = " " + "   ".join(words)
    return registry.parse("perftest", "\n".join(lines))


@pytest.mark.parametrize(("name", "cells"), [("write_bw_mib_client.txt", 5), ("write_lat_client.txt", 9)])
def test_a_row_that_lost_a_number_is_no_row_of_others(name, cells):
    # The numbers behind the gap would be under wrong heads: a rate as a bandwidth, a maximum as a median.
    for place in range(2, cells):
        found = with_cell(name, place, "")
        assert (found["valid"], found["error"]["class"]) == (False, "garbled"), place


@pytest.mark.parametrize(
    ("name", "place", "cell", "kind"),
    [
        ("write_bw_mib_client.txt", 3, "-2000.00", "garbled"),
        ("write_bw_mib_client.txt", 4, "-0.032", "garbled"),
        ("write_bw_mib_client.txt", 1, "0", "no_data"),  # -D with nothing counted
        ("write_lat_client.txt", 5, "-0.85", "garbled"),
        ("write_lat_client.txt", 2, "-0.85", "garbled"),
        ("write_lat_client.txt", 1, "0", "no_data"),
    ],
)
def test_what_cannot_be_counted_is_no_number(name, place, cell, kind):
    found = with_cell(name, place, cell)
    assert (found["valid"], (found["error"] or {}).get("class")) == (False, kind)


def test_second_runs_header_does_not_end_the_first():
    cut = read("write_bw_gbps_client.txt").rstrip("\n-") + "\n"
    found = registry.parse("perftest", cut + read("write_bw_mib_client.txt"))
    assert found["valid"] is False
    assert len(found["outputs"]) == 2


def test_two_sides_mixed_line_by_line():
    """Each line of the server's header, table and end behind the client's."""
    client = read("write_bw_gbps_client.txt").splitlines()
    server = [line for line in client if "TX depth" not in line and not line.startswith(" 32768")]
    mixed = ["* Waiting for client to connect... *"]
    for line in client:
        mixed.append(line)
        if line in server:
            mixed.append(line)
    outputs = parse_valid("\n".join(mixed) + "\n")
    assert [(one["role"], len(one["rows"])) for one in outputs] == [("client", 2), ("server", 1)]


def test_waiting_server_is_a_truncated_run():
    assert failed("* Waiting for client to connect... *\n") == "truncated"


@pytest.mark.parametrize("text", ["", "196.20\n", "#bytes\n", '{"start": {}}', "Connection refused\n"])
def test_other_text_is_refused(text):
    with pytest.raises(registry.NotThisTool):
        registry.parse("perftest", text)


def test_report_both_gives_the_sum():
    found = parse("write_bw_report_both.txt")
    (output,) = found["outputs"]
    assert (found["valid"], output["bidirectional"]) == (True, True)
    # 16.26 MiB/s is the sum; the local 8.26 and the remote 8.00 are in tables of their own.
    (row,) = output["rows"]
    assert row["bandwidth_average_gbps"] == pytest.approx(16.26 * 2**20 * 8 / 1e9)
    assert "--report-both" in found["warnings"][0]


def test_message_glued_to_a_row_costs_no_number():
    found = captures.parse_failed("perftest", read("write_bw_below_limit.txt"), "below_limit")
    assert found["outputs"][0]["rows"][0]["message_rate_mpps"] == 0.000516


def test_histogram_is_between_two_column_lines():
    output = one(read("write_lat_histogram.txt"))
    assert [(row["iterations"], row["typical_us"]) for row in output["rows"]] == [(50, 3535.29)]


def test_cycles_under_a_header_of_microseconds():
    """4.5 writes "usec" above the cycles of -C; whole numbers in the millions are no latencies."""
    found = captures.parse_failed("perftest", read("write_lat_cycles.txt"), "garbled")
    assert found["outputs"][0]["rows"][0]["average_us"] is None


def test_four_queue_pairs_and_the_cpu_column():
    (output,) = parse("write_bw_4_qps_cpu.txt")["outputs"]
    assert output["qps"] == 4
    assert output["rows"][0] == {
        "message_bytes": 65536,
        "iterations": 1064,
        "bandwidth_peak_gbps": None,
        "bandwidth_average_gbps": pytest.approx(32.36 * 2**20 * 8 / 1e9),
        "message_rate_mpps": 0.000518,
        "cpu_percent": 100.0,
    }


def test_results_of_one_direction_beside_the_sum():
    local = ',\n"results_local": {\n"MsgSize": 1,\n"BW_average": 7.0\n}\n}'
    text = read("write_bw_new.json").rstrip().removesuffix("}").rstrip() + local
    assert registry.parse("perftest", text)["outputs"] == parse("write_bw_new.json")["outputs"]


def test_waiting_server_above_a_client_in_one_paste():
    banner = "* Waiting for client to connect... *\n\n"
    for name, command in (
        ("write_bw_mib_client.txt", ""),
        ("write_bw_bidirectional.txt", "user@gpu02:~$ ib_write_bw -b -d rxe0 gpu01\n"),
    ):
        found = registry.parse("perftest", banner + command + read(name))
        assert [one["role"] for one in found["outputs"]] == ["client"], name


def test_shortened_rulers_end_a_table_too():
    text = read("write_bw_gbps_client.txt").replace("-" * 87, "-" * 20)
    assert registry.parse("perftest", text) == parse("write_bw_gbps_client.txt")


def test_a_column_that_is_not_known_moves_no_number():
    text = read("write_bw_gbps_client.txt")
    for before in ("BW peak", "BW average", "MsgRate"):
        wider = text.replace(before, f"Retries   {before}").replace(" 5000 ", " 5000   7 ")
        found = captures.parse_failed("perftest", wider, "garbled")
        assert found["outputs"][0]["rows"][0]["bandwidth_average_gbps"] is None
    behind = text.replace("MsgRate[Mpps]", "MsgRate[Mpps]   Retries")
    behind = behind.replace("0.377655", "0.377655   7").replace("0.190735", "0.190735   7")
    assert registry.parse("perftest", behind)["outputs"] == parse("write_bw_gbps_client.txt")["outputs"]


@pytest.mark.parametrize(
    ("name", "said", "meant"),
    [
        ("write_bw_gbps_client.txt", "Gb/sec", "MB/sec"),
        ("write_bw_mib_client.txt", "MiB/sec", "Gb/sec"),
        # A digit, and the size of the row above.
        ("write_bw_gbps_client.txt", " 99.00 ", " 90.00 "),
        ("write_bw_gbps_client.txt", " 65536 ", " 32768 "),
    ],
)
def test_a_number_that_the_message_rate_contradicts_is_refused(name, said, meant):
    assert failed(read(name).replace(said, meant)) == "inconsistent"


@pytest.mark.parametrize("cell", ["32768", "5000", "99.50", "99.00", "0.377655"])
def test_a_row_with_a_number_too_many_gives_none(cell):
    text = read("write_bw_gbps_client.txt")
    found = captures.parse_failed("perftest", text.replace(f" {cell}", f" {cell} {cell}", 1), "garbled")
    assert found["outputs"][0]["rows"][0]["bandwidth_average_gbps"] is None
