# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of collectives by size: of what was accepted, once for each job, and the same bytes each time."""

from __future__ import annotations

from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.present import size_curve_chart, size_curves
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.measurement import Measurement


def measurement(
    number: int, subject: str, outcome: str = "recorded", check: str = "collective_allreduce"
) -> Measurement:
    return Measurement(
        check=check, node="gpuserver1", peer="", rail="", direction="local", outcome=outcome,
        observed={}, floor={}, ceiling={}, basis="", tool="torch_gloo", cpu="", id=f"j{number:05d}",
        subject=subject,
    )  # fmt: skip


def row(number: int, *points: tuple[float, Any]) -> dict[str, Any]:
    sizes = [{"size_bytes": size, "busbw_GBps": busbw} for size, busbw in points]
    return {"id": f"j{number:05d}", "collective": {"sizes": sizes}}


def test_each_job_that_was_accepted_is_one_line() -> None:
    asked = [
        measurement(0, "rail0", "unmeasured"), measurement(1, "rail1", "fail"),
        measurement(2, "rail0"), measurement(3, "rail1"), measurement(4, "all rails"),
        measurement(5, "all rails", check="collective_alltoall"),
        measurement(6, "all rails", check="collective_training"),
    ]  # fmt: skip
    wanted = size_curves.ids(asked)
    one, other = "collective_allreduce", "collective_alltoall"
    assert wanted == {
        "j00001": (one, "rail1"),
        "j00002": (one, "rail0"),
        "j00004": (one, "all rails"),
        "j00005": (other, "all rails"),
    }
    rows = [
        row(1, (4096, 0.5), (16384, 1.5)),
        row(2, (4096, "fast")),
        None,
        row(4, (4096, 1.0), (16384, 3.0)),
        row(5, (8192, 0.5), (65536, 2.0)),
    ]
    curves = size_curves.build_curves(rows, wanted)
    assert curves == (
        size_curves.Curve(one, "rail1", ((4096, 0.5), (16384, 1.5))),
        size_curves.Curve(one, "all rails", ((4096, 1.0), (16384, 3.0))),
        size_curves.Curve(other, "all rails", ((8192, 0.5), (65536, 2.0))),
    )
    chart = size_curve_chart.draw(curves)
    assert chart is not None
    assert chart == size_curve_chart.draw(curves)
    titles = ("All-reduce of all nodes", "All-to-all of all nodes")
    assert all(f">{text}<" in chart.svg for text in (*titles, "rail1", "all rails", "4 KiB", "64 KiB"))


def test_without_such_a_job_nothing_is_drawn() -> None:
    assert size_curves.ids([measurement(0, "rail0", "unmeasured")]) == {}
    assert size_curve_chart.draw(()) is None
