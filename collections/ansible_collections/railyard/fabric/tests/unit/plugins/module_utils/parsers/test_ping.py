# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ping parser on our own captures, and on each way in which one can be cut, interrupted or noisy."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from support import captures

read, parse_valid, one, failed = captures.for_tool("ping")


def parse(name: str) -> dict[str, Any]:
    return registry.parse("ping", read(name))


def test_complete_run_gives_every_number_in_microseconds():
    found = parse("ok.txt")
    assert found["valid"] is True
    assert found["error"] is None
    assert found["outputs"] == [
        {
            "transmitted": 10,
            "received": 10,
            "duplicates": None,
            "loss_percent": 0.0,
            "rtt_min_us": 32.0,
            "rtt_average_us": 106.0,
            "rtt_max_us": 614.0,
            "rtt_mdev_us": 169.0,
        }
    ]


@pytest.mark.parametrize(
    ("sent", "received", "said", "percent"),
    [
        (4, 2, "50", 50.0),
        (1000, 999, "0,1", 0.1),
        (1000, 999, "0.1", 0.1),
        (10**7, 10**7 - 1, "1e-05", 1e-05),
    ],
)
def test_partial_loss_is_a_complete_result(sent, received, said, percent):
    counts = f"{sent} packets transmitted, {received} received, +1 errors, {said}%"
    found = registry.parse("ping", re.sub("4 packets .*50%", counts, read("loss.txt")))
    assert (found["valid"], found["outputs"][0]["transmitted"]) == (True, sent)
    assert found["outputs"][0]["loss_percent"] == percent
    assert found["warnings"] == ["1 error replies"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("too_long.txt", "no_reply"),
        ("unreachable.txt", "no_reply"),
        ("no_route.txt", "unreachable"),
        ("nodev.txt", "no_device"),
        ("killed.txt", "truncated"),
    ],
)
def test_a_run_without_an_answer_is_not_valid(name, kind):
    found = captures.parse_failed("ping", read(name), kind)
    assert all(one["rtt_average_us"] is None for one in found["outputs"])


def test_standard_error_names_the_reason():
    found = captures.parse_failed(
        "ping", "ping: local error: message too long, mtu=1500\n" + read("too_long.txt"), "message_too_long"
    )
    assert found["outputs"][0]["received"] == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("busybox.txt", {"rtt_average_us": 100.0, "rtt_mdev_us": None}),
        ("macos.txt", {"loss_percent": 33.3, "rtt_mdev_us": 12.0}),
    ],
)
def test_pings_of_other_systems(name, expected):
    output = one(read(name))
    assert {key: output[key] for key in expected} == expected


def test_small_payload_has_no_times_and_says_so():
    found = parse("untimed.txt")
    assert found["valid"] is True
    assert found["outputs"][0]["rtt_min_us"] is None
    assert "time stamp" in found["warnings"][0]


def test_duplicates_are_counted_and_warned_of():
    found = registry.parse("ping", read("ok.txt").replace("received, ", "received, +3 duplicates, "))
    assert found["outputs"][0]["duplicates"] == 3
    assert "another host" in found["warnings"][0]


def test_two_runs_in_one_file_are_two_outputs_and_one_bad_run_spoils_the_file():
    outputs = parse_valid(read("ok.txt") + read("jumbo.txt"))
    assert [one["received"] for one in outputs] == [10, 5]
    spoilt = registry.parse("ping", read("ok.txt") + read("killed.txt"))
    assert spoilt["valid"] is False
    assert len(spoilt["outputs"]) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("10 received", "11 received"),
        ("0% packet loss", "40% packet loss"),
        ("0.032/0.106/0.614", "0.614/0.106/0.032"),
        ("10 packets transmitted", "9" * 5000 + " packets transmitted"),
    ],
)
def test_numbers_that_contradict_each_other_are_not_valid(old, new):
    assert old in read("ok.txt")
    assert registry.parse("ping", read("ok.txt").replace(old, new))["valid"] is False


@pytest.mark.parametrize(
    "text", ["", "\n\n", "root:x:0:0:root\n", '{"start": {}}', "\x00\x01\x02", "pinging\n"]
)
def test_other_text_is_refused_with_a_position(text):
    with pytest.raises(registry.NotThisTool) as caught:
        registry.parse("ping", text)
    assert caught.value.position == "line 1"
    assert caught.value.message


def test_unknown_and_unwritten_tools_say_so():
    with pytest.raises(registry.NotThisTool, match="there is no tool"):
        registry.parse("netperf", "")


@pytest.mark.parametrize(
    ("right", "wrong", "kind"),
    [
        (" received, ", " received, +1 corrupted, ", "corrupted"),
        ("\n\n---", "\nwrong data byte #20 should be 0x14 but was 0x0\n---", "corrupted"),
        ("\n\n---", "\n^C\n---", "interrupted"),
    ],
)
def test_replies_with_other_data_and_an_interrupt_shown_by_the_terminal(right, wrong, kind):
    text = read("ok.txt")
    assert right in text
    assert failed(text.replace(right, wrong)) == kind
