# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names and formats of outcomes, checks, units and numbers for page, Markdown and terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import catalogue
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import oversubscription


@dataclass(frozen=True)
class Outcome:
    """How an outcome is shown: never by colour alone, always with symbol and word."""

    name: str
    word: str
    symbol: str
    meaning: str


OUTCOMES = {
    outcome.name: outcome
    for outcome in (
        Outcome(
            "pass",
            "pass",
            "✓",
            "measured at both ends, confirmed by the port counters, and within a limit from a cited source",
        ),
        Outcome("fail", "fail", "✗", "measured, and not what it should be"),
        Outcome("unmeasured", "unmeasured", "?", "planned, but not measured or not confirmed"),
        Outcome(
            "recorded",
            "recorded",
            "○",
            "measured, but there is no published limit for it, or nothing confirms it: not a pass",
        ),
        Outcome(
            "not_applicable",
            "not planned",
            "\N{EN DASH}",
            "the inventory or the site policy turns it off",
        ),
    )
}
#: States of a node's rail: an outcome, or one of the two further states.
STATES = {
    **OUTCOMES,
    "met_suspect": Outcome(
        "met_suspect",
        "met a suspect",
        "△",
        "bad only in tests with a suspect: a rail with which no test of that kind is good, while its "
        "partners are good with others",
    ),
    "absent": Outcome(
        "absent", "no such rail", "\N{MIDDLE DOT}", "the inventory says that the node does not have this rail"
    ),
}
_UNKNOWN = Outcome("unmeasured", "unknown", "?", "an outcome that this version does not know")

# The main number of a check is the first of these that it has.
_MAIN_METRICS = (
    "bandwidth_gbps",
    "bandwidth_bytes_per_s",
    "latency_average_us",
    "rtt_average_us",
    "busbw_GBps",
    "host_to_gpu_GBps",
    "peer_GBps",
    "samples_per_s",
    "path_mtu_bytes",
    "mtu_bytes",
    "errors",
)
# Labels of counts whose name does not say what is counted.
_COUNTS = {
    "counters": "error counters read",
    "effective_ber": "bit error ratio after FEC",
    "errors": "errors counted",
    "foreign": "beacons of another rail",
    "gpus": "GPUs used",
    "heard": "ports of the rail heard",
    "hops": "switches on the way",
    "neighbours": "neighbours heard",
    "observations": "samples",
    "questions": "questions asked",
    "raw_ber": "bit error ratio before FEC",
    "received": "probes received",
    "replies": "replies received",
    "replies_elsewhere": "replies on other netdevs",
    "retransmits": "TCP segments retransmitted",
    "sent": "probes sent",
    "sm_lid": "LID of the subnet manager",
}
_CAPITALS = re.compile(r"\b(?:bmc|cpu|gid|gids|gpu|hca|iops|ip|lid|lldp|mtu|rdma|rtt|tcp)\b")
_UNITS = (
    ("_bytes_per_s", "B/s"),
    ("_per_s", "per s"),
    ("_gbps", "Gbit/s"),
    ("_mbps", "Mbit/s"),
    ("_GBps", "GB/s"),
    ("_mpps", "million messages/s"),
    ("_percent", "%"),
    ("_bytes", "bytes"),
    ("_us", "µs"),
    ("_ms", "ms"),
    ("_s", "s"),
    ("_w", "W"),
    ("_c", "°C"),
    ("_dbm", "dBm"),
)
# Rates of drives get a fitting prefix.
_RATES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def outcome(name: object) -> Outcome:
    """Return how to show an outcome or state; one of a newer schema is shown as unknown, never as good."""
    return STATES.get(str(name), _UNKNOWN)


def check_title(name: str) -> str:
    """Return the title of a check."""
    check = catalogue.CHECKS.get(name)
    return check.title if check else name.replace("_", " ")


def heading(name: str) -> str:
    """Return a check's title as a heading."""
    title = check_title(name)
    return title[:1].upper() + title[1:]


def check_order(name: str) -> tuple[int, str]:
    """Return the sort key of a check: the order of the catalogue, unknown ones last."""
    known = list(catalogue.CHECKS)
    return (known.index(name), name) if name in known else (len(known), name)


def main_metric(observed: Mapping[str, Any]) -> str | None:
    """Return the key of the main number of a check, or None where it has none."""
    numbers = [name for name in sorted(observed) if is_number(observed[name])]
    return next((name for name in _MAIN_METRICS if name in numbers), numbers[0] if numbers else None)


def unit(metric: str) -> str:
    """Return the unit that ends a metric's name, or nothing."""
    return next((text for suffix, text in _UNITS if metric.endswith(suffix)), "")


def metric_name(metric: str) -> str:
    """Return a metric's name without its unit, for people; a counter's name stays the kernel's own."""
    if metric in _COUNTS or "." in metric:
        return _COUNTS.get(metric, metric)
    suffix = next((suffix for suffix, _text in _UNITS if metric.endswith(suffix)), "")
    name = metric.removesuffix(suffix).replace("_", " ")
    return _CAPITALS.sub(lambda word: word[0].upper(), re.sub(r"\bp999\b", "p99.9", name))


def number(value: Any) -> str:
    """Return a number with three significant digits, integers in full; other values as text.

    Only 0 is shown as 0: few large messages per second are 0.000368 million.
    """
    if not is_number(value):
        return quantity_text(value)
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value)}"
    magnitude = abs(float(value))
    decimals = 0 if magnitude >= 100 else 1 if magnitude >= 10 else 2 if magnitude >= 1 else 3
    if magnitude < 0.1:
        text = f"{float(value):.3g}"
        return text if "e" in text or len(text) > len("0.000") else f"{float(value):.3f}"
    return f"{float(value):.{decimals}f}"


def quantity(metric: str, value: Any) -> str:
    """Return a value with its unit, such as `18.4 Gbit/s`."""
    suffix = unit(metric)
    if suffix == "B/s" and is_number(value):
        size, prefix = next(((size, name) for size, name in _RATES if abs(value) >= size), (1.0, ""))
        return f"{number(value / size)} {prefix}{suffix}"
    text = number(value)
    return f"{text} {suffix}" if suffix and is_number(value) else text


def count(number: int, word: str) -> str:
    """Return how many of something there are, such as `1 node` and `2 nodes`."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def quantity_text(value: Any) -> str:
    """Return a value that is not a number, for people."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(number, value)) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {quantity_text(item)}" for key, item in sorted(value.items()))
    return str(value)


def bounds_text(floor: Mapping[str, Any] | None, ceiling: Mapping[str, Any] | None) -> str:
    """Return what was expected, such as `bandwidth 0.90 to 1.02 Gbit/s`; empty where there is no bound."""
    floor, ceiling = floor or {}, ceiling or {}
    parts = []
    for metric in sorted({*floor, *ceiling}):
        low, high = floor.get(metric), ceiling.get(metric)
        name = f"{metric_name(metric)} "
        if low is not None and high is not None and low == high:
            parts.append(f"{name}{quantity(metric, low)}")
        elif low is not None and high is not None and is_number(low):
            least = quantity(metric, low) if unit(metric) == "B/s" else number(low)
            parts.append(f"{name}{least} to {quantity(metric, high)}")
        elif low is not None:
            parts.append(f"{name}{'at least ' if is_number(low) else ''}{quantity(metric, low)}")
        elif high is not None:
            parts.append(f"{name}{'at most ' if is_number(high) else ''}{quantity(metric, high)}")
    return "; ".join(parts)


def observed_text(observed: Mapping[str, Any] | None) -> str:
    """Return what was seen, the main number first; every value has its label, every number its unit."""
    if not observed:
        return ""
    main = main_metric(observed)
    keys = sorted(observed, key=lambda key: (key != main, key))
    return ", ".join(f"{metric_name(key)} {quantity(key, observed[key])}" for key in keys)


def across_leaves(crossed: oversubscription.Crossed) -> str:
    """Describe a round in which all leaves sent to other leaves at once."""
    basis = "the planned rates" if crossed.declared else "what the same ends carry within their leaves"
    carried = f"{crossed.rail} carried {100 * crossed.share:.0f} % of {basis} in round {crossed.round + 1}"
    pairs = f"each of {crossed.pairs} pairs was of two of its {crossed.leaves} leaves"
    return (
        f"recorded: {carried}, in which {pairs}; no source gives a threshold, and the pairs of a round "
        "do not start at the same moment"
    )
