# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The iperf3 parser on our own captures and on the known traps of other versions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from support import captures

read, parse_valid, one, failed = captures.for_tool("iperf3")


def parse(name: str) -> dict[str, Any]:
    return registry.parse("iperf3", read(name))


def edited(name: str, **end: Any) -> str:
    """Return a capture whose `end` section holds other values (None removes a key)."""
    data = json.loads(read(name))
    for key, value in end.items():
        data["end"].pop(key, None)
        if value is not None:
            data["end"][key] = value
    return json.dumps(data)


def test_client_of_two_streams():
    output = one(read("tcp_2_streams_client.json"))
    assert (output["version"], output["protocol"], output["streams"]) == ("3.12", "TCP", 2)
    assert output["duration_s"] == 2
    (row,) = output["directions"]
    assert row["direction"] == "forward"
    assert row["sent_gbps"] == pytest.approx(18.827888812864864)
    assert row["received_gbps"] == pytest.approx(18.827923119031326)
    assert row["retransmits"] == 10
    assert row["lost_packets"] is None
    assert output["cpu_host_percent"] == pytest.approx(96.5920766431392)
    assert output["cpu_remote_percent"] == pytest.approx(41.435652836386154)


def test_a_server_states_only_its_own_half():
    output = one(read("tcp_2_streams_server.json"))
    assert output["directions"][0]["sent_gbps"] is None
    assert output["directions"][0]["retransmits"] is None
    assert output["directions"][0]["received_gbps"] == pytest.approx(18.827923119031326)
    assert output["cpu_remote_percent"] is None


@pytest.mark.parametrize(
    ("name", "received_gbps"),
    [
        ("reverse_client.json", {"reverse": 21.402355334456608}),
        ("bidir_client.json", {"forward": 2.741173363986323, "reverse": 19.78394869776699}),
    ],
)
def test_reverse_is_server_to_client(name, received_gbps):
    rows = parse(name)["outputs"][0]["directions"]
    assert {row["direction"]: row["received_gbps"] for row in rows} == pytest.approx(received_gbps)


def test_a_sending_server_has_no_result_and_no_error():
    found = parse("reverse_server.json")
    assert found["valid"] is False
    assert found["error"] is None
    assert "does not learn" in found["warnings"][0]
    assert found["outputs"][0]["directions"][0]["received_gbps"] is None


def test_repeated_keys_of_3_9_keep_both_directions():
    repeated = read("bidir_client.json").replace("_bidir_reverse", "")
    assert json.loads(repeated)["end"]["sum_received"]["bytes"] == 2620391424  # what a naive reader sees
    assert registry.parse("iperf3", repeated)["outputs"] == parse("bidir_client.json")["outputs"]


def test_udp_counts_losses():
    (row,) = parse("udp_client.json")["outputs"][0]["directions"]
    assert (row["packets"], row["lost_packets"], row["lost_percent"]) == (191, 0, 0.0)
    assert row["received_gbps"] == pytest.approx(0.05005598888300159)
    assert row["jitter_ms"] == pytest.approx(0.01206973299530744)
    assert row["retransmits"] is None


def test_udp_of_3_9_has_the_senders_rate_only():
    outputs = parse_valid(edited("udp_client.json", sum_sent=None, sum_received=None))
    (row,) = outputs[0]["directions"]
    assert row["sent_gbps"] == pytest.approx(0.050061994700794876)
    assert row["received_gbps"] is None
    assert row["packets"] == 191


def test_lower_case_nan_is_unknown_and_no_crash():
    text = read("udp_client.json").replace('"lost_percent":\t0', '"lost_percent":\t-nan')
    assert "-nan" in text
    assert registry.parse("iperf3", text)["outputs"][0]["directions"][0]["lost_percent"] is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("refused.json", "connection_refused"),
        ("interrupted_client.json", "interrupted"),
        ("peer_lost.json", "peer_lost"),
    ],
)
def test_failures_that_exit_0(name, kind):
    assert failed(read(name)) == kind


def test_zero_received_of_a_lost_server_is_unknown():
    (row,) = parse("interrupted_client.json")["outputs"][0]["directions"]
    assert row["sent_gbps"] == pytest.approx(20.3609555221583)
    assert row["received_gbps"] is None


def test_3_9_fails_without_an_error_key():
    data = json.loads(read("peer_lost.json"))
    del data["error"]
    assert failed(json.dumps(data)) == "incomplete"
    assert (
        failed(json.dumps(data) + "\niperf3: error - control socket has closed unexpectedly\n") == "peer_lost"
    )


def test_half_the_time_is_no_result():
    data = json.loads(read("tcp_2_streams_client.json"))
    data["start"]["test_start"]["duration"] = 4
    assert failed(json.dumps(data)) == "interrupted"
    data["start"]["test_start"]["bytes"] = 10**9
    assert registry.parse("iperf3", json.dumps(data))["valid"] is True


@pytest.mark.parametrize(
    ("seconds", "summed_s", "valid"),
    [
        # Both seen on a busy lab, -O 1 -t 3: the omitted start took too long, or its end took effect late.
        ([1.317, 1.047, 1.003, 0.679], 2.632, True),
        ([1.020, 1.009, 1.181, 0.824], 2.632, True),
        ([1.0, 1.0, 1.0, 0.6], 2.632, False),
        ([1.3, 1.0, 1.0], 2.0, False),
    ],
)
def test_what_the_omitted_start_took_too_long_is_not_missing(seconds, summed_s, valid):
    data = json.loads(read("tcp_2_streams_client.json"))
    data["start"]["test_start"].update(duration=3, omit=1)
    data["intervals"] = [
        {"sum": {"seconds": one, "omitted": number == 0}} for number, one in enumerate(seconds)
    ]
    for name in ("sum_sent", "sum_received"):
        data["end"][name]["seconds"] = summed_s
        data["end"][name]["bits_per_second"] = data["end"][name]["bytes"] * 8 / summed_s
    assert registry.parse("iperf3", json.dumps(data))["valid"] is valid


@pytest.mark.parametrize(("moved", "rate", "kind"), [(0, 0, "incomplete"), (10**9, 4e10, "inconsistent")])
def test_nothing_received_or_a_rate_of_other_bytes_is_no_result(moved, rate, kind):
    sums = {"start": 0, "end": 2, "seconds": 2, "bytes": moved, "bits_per_second": rate}
    assert failed(edited("tcp_2_streams_client.json", sum_received=sums)) == kind


def test_several_objects_and_noise_around():
    noisy = (
        "warning: something\n" + read("tcp_2_streams_client.json") + "\x1b[0mrest\n" + read("udp_client.json")
    )
    found = registry.parse("iperf3", noisy)
    assert found["valid"] is True
    assert [one["protocol"] for one in found["outputs"]] == ["TCP", "UDP"]
    assert found["warnings"]
    assert failed(read("udp_client.json") + "Terminated\n") == "interrupted"
    spoilt = registry.parse("iperf3", read("udp_client.json") + read("udp_client.json")[:900])
    assert spoilt["valid"] is False
    assert len(spoilt["outputs"]) == 2


def test_json_stream_reads_as_the_same_run():
    data = json.loads(read("tcp_2_streams_client.json"))
    events = [{"event": "start", "data": data["start"]}]
    events += [{"event": "interval", "data": one} for one in data["intervals"]]
    unfinished = "".join(json.dumps(one) + "\n" for one in events)
    finished = unfinished + json.dumps({"event": "end", "data": data["end"]}) + "\n"
    assert parse_valid(finished) == parse("tcp_2_streams_client.json")["outputs"]
    assert registry.parse("iperf3", unfinished)["valid"] is False
    broken = unfinished + json.dumps({"event": "error", "data": "the server is busy"}) + "\n"
    assert failed(broken) == "busy"


@pytest.mark.parametrize(
    "text",
    [
        '{"start": ' + '{"a": ' * 100000,
        '{"start": {"version": "iperf 3.12"}, "x": ' + "9" * 5000 + "}",
        read("udp_client.json").replace('"bits_per_second":\t50', '"bits_per_second":\t1e999, "x":\t50'),
        '{"start": {"version": "iperf 3.12", "test_start": 7}, "end": {"sum_sent": [1], "sum_received": ""}}',
    ],
)
def test_absurd_json_is_invalid_and_no_crash(text):
    assert registry.parse("iperf3", text)["valid"] is False


@pytest.mark.parametrize(
    "text", ["", "hello", "{}", "[1]", '{"fio version": "fio-3.33", "jobs": []}', "{" * 9000]
)
def test_other_text_is_refused(text):
    with pytest.raises(registry.NotThisTool):
        registry.parse("iperf3", text)


def test_a_stream_that_has_no_result_or_moved_nothing_is_reported():
    data = json.loads(read("tcp_2_streams_client.json"))
    for half in ("sender", "receiver"):
        data["end"]["streams"][1][half]["bytes"] = 0
    found = registry.parse("iperf3", json.dumps(data))
    assert found["valid"] is True
    assert "1 of 2 streams moved nothing" in found["warnings"]
    del data["end"]["streams"][1]
    found = captures.parse_failed("iperf3", json.dumps(data), "incomplete")
    assert "1 of 2 streams" in found["error"]["message"]


def test_the_full_object_behind_its_stream_is_the_same_run():
    data = json.loads(read("tcp_2_streams_client.json"))
    data["start"]["cookie"] = "abc"
    events = [{"event": name, "data": data[name]} for name in ("start", "end")]
    stream = "".join(json.dumps(one) + "\n" for one in events)
    found = registry.parse("iperf3", stream + json.dumps(data, indent=1))
    assert (found["valid"], len(found["outputs"])) == (True, 1)
    other = json.dumps({**data, "start": {**data["start"], "cookie": "xyz"}})
    assert len(registry.parse("iperf3", stream + other)["outputs"]) == 2


def test_a_sending_udp_server_counts_no_losses():
    data = json.loads(read("reverse_server.json"))
    data["start"]["test_start"]["protocol"] = "UDP"
    nothing = {"lost_packets": 0, "packets": 0, "lost_percent": 0, "jitter_ms": 0}
    data["end"]["sum_received"] = {**nothing, "bytes": 0, "bits_per_second": 0}
    found = registry.parse("iperf3", json.dumps(data))
    assert (found["valid"], found["error"]) == (False, None)
    (row,) = found["outputs"][0]["directions"]
    assert row["sent_gbps"] > 0
    assert {row[name] for name in ("received_gbps", *nothing)} == {None}
