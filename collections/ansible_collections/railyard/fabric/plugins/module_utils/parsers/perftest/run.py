# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared by perftest's text and JSON: names, units, keys of an output, and when a run is complete."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .. import common
from ..common import error, to_float, to_int

# "MB/sec" of older and "MiB/sec" of newer versions are the same number: 2^20 bytes.
GBPS_PER_UNIT = {"MiB/s": 2**20 * 8 / 1e9, "Gbit/s": 1.0}
LINK_LAYERS = {"IB": "InfiniBand", "Ethernet": "Ethernet"}
OUTPUT_KEYS = (
    "test",
    "kind",
    "role",
    "bidirectional",
    "connection",
    "device",
    "link_layer",
    "mtu_bytes",
    "gid_index",
    "qps",
    "rdma_cm",
    "gpu",
    "reported_unit",
    "latency_is",
)
LATENCY_KEYS = (
    "min_us",
    "max_us",
    "typical_us",
    "average_us",
    "stdev_us",
    "p99_us",
    "p999_us",
    "transactions_per_s",
)
# `4096[B]`, up to 2012 `2048B`
_MTU = re.compile(r"(?:\[B\]|B)\Z")
# A sum of both directions may be listed with the rate of one of them; for a single direction both are
# calculated from the same count and time.
_MOST_APART, _ONE_WAY_APART = 2.5, 1.05
_HALF_DIGIT_MPPS, _HALF_DIGIT = 0.5e-6, 0.0051
# The passive side of these prints no row, which is not a failure.
_ONE_SIDED = ("read", "atomic")
_TITLE = re.compile(
    r"(Send imm|Send|RDMA Write imm|RDMA Write|RDMA Read|Atomic)(?: CMP AND SWAP| FETCH AND ADD)?"
    r"( Bidirectional)?(?: Post List)? (BW|Latency)(?: forwarding)?(?: Multicast)? Test\Z"
)


def read_title(text: str) -> dict[str, Any] | None:
    """Read `RDMA_Write Bidirectional BW Test` (text) or the same joined by underscores (JSON)."""
    match = _TITLE.match(" ".join(text.replace("_", " ").split()))
    if match is None:
        return None
    verb = match.group(1).replace("RDMA ", "").split()[0].lower()
    bandwidth = match.group(3) == "BW"
    return {
        "test": f"ib_{verb}_{'bw' if bandwidth else 'lat'}",
        "kind": "bandwidth" if bandwidth else "latency",
        "bidirectional": match.group(2) is not None,
        # perftest halves the round trip only for write and send, where the other side answers.
        "latency_is": None if bandwidth else "round_trip" if verb in _ONE_SIDED else "one_way",
    }


def apply_parameters(output: dict[str, Any], values: dict[str, str]) -> None:
    """Write the header's parameters into an output.

    Args:
        output: The output; keys whose parameter is absent are left alone.
        values: Parameter texts by lower-case key with blanks, as `number of qps`.
    """
    output["device"] = values.get("device")
    output["connection"] = values.get("connection type")
    output["qps"] = to_int(values.get("number of qps"))
    output["link_layer"] = LINK_LAYERS.get(values.get("link type", ""))
    # perftest prints "IB" for an unspecified link too (EFA); such a device has no InfiniBand transport.
    if values.get("transport type") == "Unknown" and output["link_layer"] == "InfiniBand":
        output["link_layer"] = None
    output["mtu_bytes"] = to_int(_MTU.sub("", values.get("mtu", "")))
    output["gid_index"] = to_int(values.get("gid index"))
    state = values.get("rdma cm qps")
    output["rdma_cm"] = {"ON": True, "OFF": False}.get(state or "")
    if output["connection"] == "RawEth" and output["test"]:
        output["test"] = output["test"].replace("ib_send", "raw_ethernet")


def row(output: dict[str, Any], reported: Mapping[str, str]) -> dict[str, Any]:
    """Return one row of a run, bandwidths in Gbit/s, times in microseconds; a peak of 0.00 was not measured.

    Args:
        output: The run's output, for its test type and unit.
        reported: Texts by the row's keys; `peak` and `average` are bandwidths in the unit reported.
    """
    head = {name: to_int(reported.get(name)) for name in ("message_bytes", "iterations")}
    rate, cpu = to_float(reported.get("message_rate_mpps")), to_float(reported.get("cpu_percent"))
    if output["kind"] != "bandwidth":
        times = {name: to_float(reported.get(name)) for name in LATENCY_KEYS}
        return {**head, **times, "cpu_percent": cpu, "latency_is": output["latency_is"]}
    factor = GBPS_PER_UNIT.get(output["reported_unit"] or "")
    peak, average = (to_float(reported.get(name)) if factor else None for name in ("peak", "average"))
    return {
        **head,
        "bandwidth_peak_gbps": common.scaled(peak or None, factor or 1.0),
        "bandwidth_average_gbps": common.scaled(average, factor or 1.0),
        "message_rate_mpps": rate,
        "cpu_percent": cpu,
    }


def is_one_sided(test: str | None) -> bool:
    """Return whether the passive side of a test prints no row."""
    return str(test).startswith(tuple(f"ib_{verb}_" for verb in _ONE_SIDED))


def problem(output: dict[str, Any], closed: bool) -> tuple[dict[str, str] | None, str | None]:
    """Judge one run.

    Args:
        output: The finished output.
        closed: Whether the text has the end of this run.

    Returns:
        (error, warning); neither for a complete run, a warning alone for a side that prints no rows.
    """
    rows = output["rows"]
    if not rows:
        silent = output["role"] == "server" and is_one_sided(output["test"])
        if silent and closed and not output["bidirectional"]:
            return None, "the server of a one-sided test prints no result: read the client's output"
        return error("truncated", "there is no result row"), None
    if not closed:
        return error("truncated", "the end of the result table is missing"), None
    if any(row["iterations"] == 0 for row in rows):
        return error("no_data", "a result row counts 0 iterations"), None
    if any(isinstance(value, (int, float)) and value < 0 for row in rows for value in row.values()):
        return error("garbled", "a result row has a number below 0"), None
    if output["kind"] == "bandwidth":
        if output["reported_unit"] is None:
            return error("unknown_unit", "nothing in the output tells the unit of the bandwidth"), None
        if any(row["bandwidth_average_gbps"] is None or row["message_bytes"] is None for row in rows):
            return error("garbled", "a result row has no bandwidth or message size"), None
        if not any(row["bandwidth_average_gbps"] or row["message_rate_mpps"] for row in rows):
            return error("no_data", "all rows say 0"), None
        contradiction = next(filter(None, (_contradiction(row, output) for row in rows)), None)
        if contradiction:
            return error("inconsistent", contradiction), None
    elif any(not row["average_us"] and not row["typical_us"] for row in rows):
        return error("garbled", "a result row has no latency (CPU cycles of -C are no time)"), None
    elif not all(map(_in_order, rows)):
        return error("inconsistent", "the times of a result row are in the wrong order"), None
    return None, None


def _in_order(row: dict[str, Any]) -> bool:
    """Return whether a row's times are consistent: none is outside of the shortest and longest."""
    average, rate = row["average_us"], row["transactions_per_s"]
    if average and rate and not 1 / _MOST_APART <= average * rate / 1e6 <= _MOST_APART:
        return False
    for middle in (("average_us",), ("typical_us",), ("p99_us", "p999_us")):
        times = [row[name] for name in ("min_us", *middle, "max_us")]
        known = [time for time in times if time is not None]
        if known != sorted(known):
            return False
    return True


def _contradiction(row: dict[str, Any], output: dict[str, Any]) -> str | None:
    """Return how bandwidth and message rate differ: by a digit, or by unit (MiB/s and Gbit/s: 119 times)."""
    size, reported, rate = row["message_bytes"], row["bandwidth_average_gbps"], row["message_rate_mpps"]
    if not size or not reported or not rate:
        return None
    # Six decimals: for few large messages per second hardly one digit is left.
    slack = _HALF_DIGIT_MPPS * size * 8 / 1e3 + _HALF_DIGIT * GBPS_PER_UNIT[output["reported_unit"]]
    follows = rate * size * 8 / 1e3
    apart = _ONE_WAY_APART if output["bidirectional"] is False else _MOST_APART
    if (follows - slack) / apart <= reported <= (follows + slack) * apart:
        return None
    return (
        f"{reported:g} Gbit/s are not {rate:g} million messages of {size} bytes a second: a number is "
        "truncated, or not of the unit above its column"
    )
