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


def test_no_parser_takes_another_tools_capture_for_a_valid_result():
    tools = {"ping": "ping", "iperf3": "iperf3", "sockperf": "sockperf"}
    for path in sorted(CORPUS.glob("*/*")):
        for folder, tool in tools.items():
            if path.parent.name == folder:
                continue
            try:
                found = parsers.parse(tool, read(str(path.relative_to(CORPUS))))
            except parsers.NotThisTool:
                continue
            assert found["valid"] is False, (tool, path.name)
