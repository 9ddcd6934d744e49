# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fio's JSON (`--output-format=json`), 2.x to 3.x."""

from __future__ import annotations

import re
from typing import Any

from .. import common, json_text
from ..common import error, to_float, to_int
from ..json_text import section

_OWN_LINE = re.compile(r"^fio: ")
_SIZE = re.compile(r"([0-9]{1,15}) *([kmgt]?)(?:i?b)?\Z", re.I)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def _block_bytes(options: dict[str, Any], direction: str) -> int | None:
    """Read `bs`, which may be one size, or `read,write` sizes; a range is no single size."""
    stated = str(options.get("bs") or options.get("blocksize") or "")[:100]
    parts = stated.split(",")
    index = 1 if direction == "write" and len(parts) > 1 and parts[1] else 0
    match = _SIZE.match(parts[index].strip())
    return int(match.group(1)) * 1024 ** _POWERS[match.group(2).lower()] if match else None


def _latency(side: dict[str, Any]) -> tuple[float | None, float | None]:
    """Return mean total latency and the 99th percentile in us: ns in 3.x, us in 2.x.

    A percentile is of the completion latency, or of the total latency where fio is configured for that.
    """
    for suffix, factor in (("_ns", 1e-3), ("", 1.0)):
        total, completion = section(side, "lat" + suffix), section(side, "clat" + suffix)
        if total or completion:
            mean = total.get("mean", completion.get("mean"))
            percentiles = section(completion, "percentile") or section(total, "percentile")
            p99 = percentiles.get("99.000000")
            return common.scaled(to_float(mean), factor, 6), common.scaled(to_float(p99), factor, 6)
    return None, None


def _outputs(job: dict[str, Any], every_job: dict[str, Any]) -> list[dict[str, Any]]:
    options = {**every_job, **section(job, "job options")}
    pattern = options.get("rw", options.get("readwrite"))
    rows = []
    for direction in ("read", "write"):
        side = section(job, direction)
        if not to_float(side.get("io_bytes")):
            continue
        rate = to_float(side.get("bw_bytes"))
        if rate is None:
            # bw is KiB/s in every version; 2.x has nothing else.
            rate = common.scaled(to_float(side.get("bw")), 1024, 3)
        mean, p99 = _latency(side)
        rows.append(
            {
                "name": str(job.get("jobname"))[:200] if "jobname" in job else None,
                "rw": direction,
                "pattern": pattern if isinstance(pattern, str) else None,
                "block_bytes": _block_bytes(options, direction),
                "bandwidth_bytes_per_s": rate,
                "iops": to_float(side.get("iops")),
                "latency_mean_us": mean,
                "latency_p99_us": p99,
                # fio 2.x, which has no bw_bytes, counts KiB under this name.
                "io_bytes": to_int(side.get("io_bytes")) if "bw_bytes" in side else None,
                # Milliseconds in every version.
                "duration_s": common.scaled(to_float(side.get("runtime")), 1e-3, 6),
                "errors": to_int(job.get("error")),
            }
        )
    return rows


def parse(text: str) -> dict[str, Any]:
    """Parse fio's JSON output.

    Args:
        text: What fio printed; text before and after the JSON is allowed.

    Returns:
        The common object; one output per job and direction with traffic.

    Raises:
        NotThisTool: There is neither fio's JSON nor a message of fio.
    """
    found = json_text.find_objects(text)
    runs = [one for one in found.objects if "fio version" in one or isinstance(one.get("jobs"), list)]
    cut = found.cut is not None and '"fio version"' in found.cut
    messages = [line for line in common.split_lines(found.around if runs else text) if _OWN_LINE.match(line)]
    if not runs and not cut and not messages:
        raise common.refusal("no JSON of fio (--output-format=json)", [text])
    problem = (
        error("truncated", "the JSON ends in the middle") if found.cut is not None and (runs or cut) else None
    )
    failed = next((line for line in messages if "err=" in line or "error" in line or not runs), None)
    if failed is not None:
        problem = error("io_error" if "err=" in failed else "tool_error", failed[len("fio: ") :])
    elif any(common.ended_by_signal(line) for line in common.split_lines(found.around)):
        problem = error("interrupted", "fio was ended from outside")
    outputs: list[dict[str, Any]] = []
    for run in runs:
        jobs = run.get("jobs")
        for job in jobs if isinstance(jobs, list) else []:
            if isinstance(job, dict):
                code = to_int(job.get("error"))
                if code:
                    problem = problem or error(
                        "job_error", f"job {str(job.get('jobname'))[:80]} ended with error {code}"
                    )
                outputs += _outputs(job, section(run, "global options"))
    if not outputs and problem is None:
        problem = error("no_data", "no job moved any data")
    return common.result("fio", outputs, problem)
