"""Runs of one cluster that follow one another, each with its own result; written, judged and reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import charts, model
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.documents import write_report

from support.runs.fake_run import RUN
from support.runs.run_builder import Change, build_run

THREE = ("gpu001", "gpu002", "gpu003")


def run_id(day: int) -> str:
    """Return the id of a run of some day of November."""
    return f"202611{day:02d}T101500Z-3f2a"


def slow(node: str, rail: str, share: float = 0.3) -> Change:
    """Return a change by which a node's TCP bandwidth on a rail is a share of what it was, both ways."""

    def change(row: dict[str, Any]) -> dict[str, Any]:
        if row["check"] == "tcp_bandwidth" and row["rail"] == rail and node in (row["node"], row["peer"]):
            row["metrics"] |= {key: value * share for key, value in row["metrics"].items() if "gbps" in key}
        return row

    return change


def add_run(reports: Path, day: int, *, cluster: str = "lab", name: str | None = None, **how: Any) -> Path:
    """Write a run of some day, judge it and write its report, which has no charts: they take nine tenths.

    Args:
        reports: the folder of all clusters' runs.
        day: of November 2026, from 10:15:00 UTC on.
        cluster: whose run.
        name: its id; None for one of the day.
        how: as `build_run` takes it.
    """
    folder = build_run(reports / cluster / RUN, **{"nodes": THREE, **how})
    name = name or run_id(day)
    for path in folder.iterdir():
        if path.is_file():
            text = (
                path.read_text(encoding="utf-8")
                .replace(RUN, name)
                .replace("2026-11-21T", f"2026-11-{day:02d}T")
            )
            path.write_text(text, encoding="utf-8")
    folder = folder.rename(folder.with_name(name))
    judged = rejudge.judge_folder(folder)
    rejudge.write(folder, judged)
    with mock.patch.object(charts, "draw", return_value=[]):
        assert write_report(folder, model.read(folder, judged)) == []
    return folder


def manifest(folder: Path) -> dict[str, Any]:
    """Return a run's manifest."""
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return found
