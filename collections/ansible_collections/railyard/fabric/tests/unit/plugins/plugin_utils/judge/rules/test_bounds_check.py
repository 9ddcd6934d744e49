# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers compared with bounds: what both ends report, what is beyond, what a tool missed."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import bounds as limits
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import readings
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.views import RowPair
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import bounds_check
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.pair_rules import NOTHING_LOST
from support.runs.bare_rows import BareEnd


@pytest.mark.parametrize(
    ("metric", "value", "outcome", "cause"),
    [
        ("path_mtu_bytes", 9.0, "pass", None),
        ("path_mtu_bytes", 8.0, "fail", "path_mtu_small"),
        ("path_mtu_bytes", 10.0, "fail", "above_ceiling"),
        ("bandwidth_gbps", 8.0, "fail", "below_floor"),
        ("bandwidth_gbps", 10.0, "unmeasured", "above_ceiling"),
        ("latency_p99_us", 10.0, "fail", "too_slow"),
    ],
)
def test_what_is_beyond_a_bound_has_a_name(
    metric: str, value: float, outcome: str, cause: str | None
) -> None:
    both = {metric: 9.0}
    # Each end has to keep them.
    for judged in ([{metric: value}], [{metric: 9.0}, {metric: value}]):
        one = bounds_check.check_bounds({}, judged, limits.Bounds(both, both))
        assert (one.outcome, one.cause.get("cause_class")) == (outcome, cause)
        assert one.proof == (None if outcome == "unmeasured" else "proven")
    assert bounds_check.check_bounds({}, [{metric: 9.0}], limits.Bounds(both, {})).outcome == "recorded"


def test_what_both_ends_say_is_shown_and_judged() -> None:
    mine = {"bandwidth_gbps": 9.0, "forward_gbps": 4.0, "cpu_percent": 20.0}
    theirs = {"bandwidth_gbps": 8.0, "forward_gbps": None, "cpu_percent": 60.0}
    ends = [{"check": "tcp_bandwidth", "metrics": one} for one in (mine, theirs)]
    shown = {"bandwidth_gbps": 8.0, "forward_gbps": 4.0, "cpu_percent": 20.0, "peer_cpu_percent": 60.0}
    assert readings.find_observed(*ends) == shown
    assert bounds_check.list_checked_metrics(*ends) == [mine, {"bandwidth_gbps": 8.0, "cpu_percent": 60.0}]
    assert bounds_check.list_checked_metrics(*ends, own_windows=True) == [
        {"bandwidth_gbps": 8.0, "cpu_percent": 20.0}
    ]
    ends[0]["check"] = "ping_rtt"  # its server measures nothing
    assert bounds_check.list_checked_metrics(*ends) == [mine]


@pytest.mark.parametrize(
    ("received", "own_mtu", "cause"),
    [(5, 9000, None), (4, 9000, "lost_packets"), (4, 9001, "path_mtu_small"), (0, 9000, "path_mtu_small")],
)
def test_one_probe_of_the_full_size_shows_that_the_size_is_not_the_matter(
    received: int, own_mtu: int, cause: str | None
) -> None:
    metrics = {"path_mtu_bytes": 9000, "sent": 5, "received": received}
    end = BareEnd({"check": "path_mtu", "metrics": metrics, "mtu_bytes": own_mtu}, {})
    found = next(NOTHING_LOST.problems(RowPair(end, end)), (None, ""))
    assert found[0] == cause


@pytest.mark.parametrize(
    ("packets", "moved", "came"), [(5, 45_070, True), (4, 45_070, False), (5, 45_069, False)]
)
def test_a_tool_missed_what_the_counters_show(packets: int, moved: int, came: bool) -> None:
    """Five probes of 9000 bytes, each with 14 of its frame."""
    grown = {"rx_packets": packets, "rx_bytes": moved, "tx_packets": 5, "tx_bytes": 45_070}
    client = {
        "check": "path_mtu", "host": "gpu1", "claim": {"at_most": 5},
        "counters": {name: [0, by] for name, by in grown.items()},
        "metrics": {"path_mtu_bytes": 9000, "sent": 5, "received": 4},
    }  # fmt: skip
    assert (readings.find_missed_packets(client, {}) is not None) is came
