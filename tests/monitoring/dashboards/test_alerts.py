# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules on a real Prometheus: each fault of the stand-in cluster fires its alert, and nothing else."""

from __future__ import annotations

from support.monitoring.server import Prometheus, delivered_rules

#: Node and rail of what fires, worked out from the faults by hand; a node or rail of "" has none.
WANTED = {
    "RailDown": {("gpu0002", "rail1"), ("gpu0002", "rail5")},
    "RailRdmaPortDown": {("gpu0002", "rail1"), ("gpu0002", "rail5"), ("gpu0003", "rail2")},
    "RailBelowRate": {("gpu0004", "rail3")},
    "RailMtuWrong": {("gpu0005", "rail0")},
    "RailGidWrong": {("gpu0005", "rail1")},
    "RailGidMoved": {("gpu0005", "rail2")},
    "RailPcieDowntrained": {("gpu0006", "rail4")},
    "RailPhysicalErrors": {("gpu0007", "rail0")},
    "RailSymbolErrors": {("gpu0007", "rail1")},
    "RailLosslessDrops": {("gpu0007", "rail2")},
    "RailFlapping": {("gpu0007", "rail4")},
    "RailPauseStorm": {("gpu0008", "rail6")},
    "GovernorWrong": {("gpu0009", "")},
    "NodeMetricsGone": {("gpu0010", "")},
    "NodeMetricsStale": {("gpu0011", "")},
    "CollectorFailed": {("gpu0011", "")},
    "NodeMetricsMissing": {("gpu0012", "")},
    "QuickCheckWrong": {("gpu0003", "")},
    "QuickCheckOld": {("gpu0009", "")},
    "QuickCheckUnknown": {("gpu0013", "")},
    "GpuXidFatal": {("gpu0013", "")},
    "GpuXidNeedsReset": {("gpu0013", "")},
    "GpuMissing": {("gpu0013", "")},
    "GpuEccUncorrected": {("gpu0014", "")},
    "GpuRowRemap": {("gpu0014", "")},
    "GpuHardwareSlowdown": {("gpu0014", "")},
    "GpuNvlinkDown": {("gpu0014", "")},
    "GpuMetricsGone": {("gpu0010", ""), ("gpu0015", "")},
    "ValidationFailed": {("", "")},
    "NodeNotProven": {("gpu0016", "")},
}
#: Alerts without a fault here; promtool fires them.
ELSEWHERE = {
    "RailCongestion": "compares with the last day",
    "ValidationIncomplete": "the newest run failed, and it is one run",
    "ValidationTooOld": "the newest run is of yesterday",
}


def test_each_fault_fires_its_alert_and_nothing_else(watched: Prometheus) -> None:
    found: dict[str, set[tuple[str, str]]] = {}
    for one in watched.query('ALERTS{alertstate="firing",cluster="fake"}'):
        labels = one["metric"]
        found.setdefault(labels["alertname"], set()).add((labels.get("node", ""), labels.get("rail", "")))
    assert found == WANTED


def test_every_alert_of_the_rules_has_a_fault_or_a_reason() -> None:
    groups = [group for text in delivered_rules().values() for group in text["groups"]]
    alerts = {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule}
    assert alerts == {*WANTED, *ELSEWHERE}


def test_a_cluster_without_a_fault_fires_nothing(watched: Prometheus) -> None:
    assert watched.query('ALERTS{cluster="folded"}') == []
