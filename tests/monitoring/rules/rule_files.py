"""The rule files as data, and what the design asks of each alert."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from railyard.base import paths

FILES = paths.repo_root() / "roles/monitoring/files"
RULES = FILES / "rules"


class Wanted(NamedTuple):
    """Severity and scope of an alert, its file, how long it is pending, and the label `remedy` of some."""

    severity: str
    scope: str
    file: str
    hold: str | None = None
    remedy: str | None = None


#: Written by hand, after the table of the design; the rule files are compared with it.
ALERTS = {
    "RailDown": Wanted("critical", "rail", "rails", "30s"),
    "RailRdmaPortDown": Wanted("critical", "rail", "rails", "1m"),
    "RailBelowRate": Wanted("critical", "rail", "rails", "2m"),
    "RailFlapping": Wanted("warning", "rail", "rails"),
    "RailSymbolErrors": Wanted("warning", "rail", "rails", "5m"),
    "RailPhysicalErrors": Wanted("warning", "rail", "rails"),
    "RailLosslessDrops": Wanted("warning", "rail", "rails"),
    "RailPauseStorm": Wanted("warning", "rail", "rails", "3m"),
    "RailCongestion": Wanted("info", "rail", "rails", "10m"),
    "RailGidWrong": Wanted("critical", "rail", "rails", "1m"),
    "RailGidMoved": Wanted("warning", "rail", "rails"),
    "RailMtuWrong": Wanted("critical", "rail", "rails", "1m"),
    "RailPcieDowntrained": Wanted("critical", "rail", "rails", "1m"),
    "GovernorWrong": Wanted("warning", "node", "nodes", "5m"),
    "NodeMetricsGone": Wanted("critical", "node", "nodes", "1m"),
    "NodeMetricsStale": Wanted("warning", "node", "nodes"),
    "NodeMetricsMissing": Wanted("warning", "node", "nodes", "5m"),
    "CollectorFailed": Wanted("warning", "node", "nodes", "2m"),
    "QuickCheckWrong": Wanted("critical", "node", "nodes"),
    "QuickCheckUnknown": Wanted("warning", "node", "nodes", "30m"),
    "QuickCheckOld": Wanted("warning", "node", "nodes"),
    "ValidationFailed": Wanted("critical", "cluster", "runs"),
    "ValidationIncomplete": Wanted("warning", "cluster", "runs"),
    "ValidationTooOld": Wanted("warning", "cluster", "runs"),
    "NodeNotProven": Wanted("info", "node", "runs"),
    "GpuXidFatal": Wanted("critical", "gpu", "gpus", None, "restart"),
    "GpuXidNeedsReset": Wanted("critical", "gpu", "gpus", None, "reset"),
    "GpuMissing": Wanted("critical", "gpu", "gpus", "2m"),
    "GpuEccUncorrected": Wanted("critical", "gpu", "gpus", None, "reset"),
    "GpuRowRemap": Wanted("critical", "gpu", "gpus"),
    "GpuHardwareSlowdown": Wanted("warning", "gpu", "gpus", "5m"),
    "GpuNvlinkDown": Wanted("critical", "gpu", "gpus", "1m"),
    "GpuMetricsGone": Wanted("warning", "node", "gpus", "3m"),
}


@functools.cache
def load(path: Path) -> Any:
    """Read a YAML file; what is returned is not to be changed."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def rules() -> list[dict[str, Any]]:
    """Return all rules of all files, each with `file`: rails, nodes and so on."""
    return [
        {**rule, "file": path.stem.removeprefix("railyard.")}
        for path in sorted(RULES.glob("railyard.*.yml"))
        for group in load(path)["groups"]
        for rule in group["rules"]
    ]


def alerts() -> dict[str, dict[str, Any]]:
    """Return the alerts by name."""
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}
