"""Sums of many pairs at once are those of single rows."""

from __future__ import annotations

import base64
import copy
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import AGGREGATES
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge, sums
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolderError
from support.runs.sweeps import build_sweep, judge_lines, lines_of

#: What is done to a server's samples: (times in seconds, bytes) -> the same.
Samples = tuple[list[float], list[int]]


def shift(draw: random.Random, samples: Samples) -> Samples:
    times, counted = samples
    by = draw.choice((-0.05, 0.01, 0.2, 1.0))
    return [round(at + by, 4) for at in times], counted


def leave_out(draw: random.Random, samples: Samples) -> Samples:
    times, counted = samples
    kept = sorted(draw.sample(range(len(times)), draw.randint(1, len(times))))
    return [times[at] for at in kept], [counted[at] for at in kept]


def jitter(draw: random.Random, samples: Samples) -> Samples:
    times, counted = samples
    return [round(at + draw.uniform(-0.08, 0.08), 4) for at in times], counted


def repeat_time(draw: random.Random, samples: Samples) -> Samples:
    times, counted = samples
    at = draw.randrange(1, len(times))
    return [*times[:at], times[at - 1], *times[at + 1 :]], counted


def decrease(draw: random.Random, samples: Samples) -> Samples:
    times, counted = samples
    at = draw.randrange(1, len(counted))
    return times, [*counted[:at], counted[at - 1] - draw.choice((0, 1, 10**6)), *counted[at + 1 :]]


def scale(draw: random.Random, samples: Samples) -> Samples:
    times, counted = samples
    by = draw.choice((0.5, 0.59, 0.61, 0.89, 0.91, 1.1, 1.4, 4.2))
    return times, [counted[0] + int((one - counted[0]) * by) for one in counted]


def move_window(draw: random.Random, row: dict[str, Any]) -> None:
    begin, end = row["window_s"]
    by = draw.choice((-0.2, 0.05, 0.3, 0.41))
    row["window_s"] = [round(begin + by, 4), round(end + by, 4)]


WAYS = (shift, leave_out, jitter, repeat_time, decrease, scale)


@pytest.mark.parametrize("transport", ["roce", "tcp"])
@pytest.mark.parametrize("seed", range(12))
def test_sums_of_many_pairs_are_those_of_one_pair(
    seed: int, transport: str, tmp_path: Path, monkeypatch: Any
) -> None:
    def change(row: dict[str, Any]) -> dict[str, Any]:
        draw = random.Random(f"{seed} {row['id']}")
        if "samples" not in row or draw.random() > 0.5 or not seed:
            return row
        made = copy.deepcopy(row)
        if draw.random() < 0.3:
            move_window(draw, made)
        else:
            samples = made["samples"]["t_s"], made["samples"]["rx_bytes"]
            samples = draw.choice(WAYS)(draw, samples)
            made["samples"] = {"t_s": samples[0], "rx_bytes": samples[1]}
        return made

    at_once: dict[str, dict[str, float]] = {}
    add = sums.add_passing

    def recorded(*given: Any) -> dict[str, dict[str, float]]:
        at_once.update(add(*given))
        return at_once

    monkeypatch.setattr(sums, "add_passing", recorded)
    monkeypatch.setattr(sums, "_AT_ONCE", 1 + seed)
    packed = build_sweep(tmp_path / "packed", change=change, transport=transport, packed=True)
    verdicts, judged = judge_lines(packed)
    of_sums = [one for one in judged.verdicts if one["check"] in AGGREGATES]
    # Those that are clearly right are calculated at once, and no others.
    assert len(of_sums) == 6
    assert {one["id"] for one in of_sums if one["observed"]} >= at_once.keys()
    assert len(at_once) == 6 or seed
    assert at_once
    full = build_sweep(tmp_path / "full", change=change, transport=transport, packed=False)
    monkeypatch.setattr(sums, "add_passing", lambda *_given: {})
    assert judge_lines(full)[0] == verdicts
    assert judge_lines(packed)[0] == verdicts


def test_one_sample_is_no_rate(tmp_path: Path) -> None:
    def change(row: dict[str, Any]) -> dict[str, Any]:
        short = {name: values[:1] for name, values in row.get("samples", {}).items()}
        return {**row, "samples": short} if short else row

    found = [
        judge_lines(build_sweep(tmp_path / str(packed), change=change, packed=packed))[0]
        for packed in (True, False)
    ]
    assert found[0] == found[1]
    of_sums = [one for one in map(json.loads, found[0]) if one["check"] in AGGREGATES]
    assert {(one["outcome"], one["cause_class"]) for one in of_sums} == {("unmeasured", "row_garbled")}


@pytest.mark.parametrize("way", ["of another pair", "of another test", "of both", "unknown"])
def test_a_sum_of_other_parts_than_its_own_is_not_calculated(way: str, tmp_path: Path) -> None:
    found = []
    for packed in (True, False):
        folder = build_sweep(tmp_path / str(packed), packed=packed)
        lines = lines_of(folder, "asked")
        of_pair = {
            (line["check"], line["node"], line["peer"]): line for line in lines if line["rail"] is None
        }
        mine, other = list(of_pair.values())[:2]
        paths = [line["id"] for line in lines if line["check"] == "path_mtu"
                 and (line["node"], line["peer"]) == (mine["node"], mine["peer"])]  # fmt: skip
        mine["parts"] = {
            "of another pair": other["parts"],
            "of another test": paths,
            "of both": [mine["parts"][0], other["parts"][1]],
            "unknown": [mine["parts"][0], "m99999"],
        }[way]
        folder.write(run_folder.ASKED, "".join(run_folder.line(line) + "\n" for line in lines))
        found.append(judge_lines(folder)[0])
    assert found[0] == found[1]
    verdict = next(one for one in map(json.loads, found[0]) if one["id"] == mine["id"])
    assert (verdict["outcome"], verdict["cause_class"]) == ("unmeasured", "part_unmeasured")


def leave_out_rows(line: re.Match[bytes]) -> bytes:
    """Return a line with the first of its two rows; it is as long as before."""
    packed = base64.b64encode(base64.b64decode(line[2])[: len(base64.b64decode(line[2])) // 2])
    return line[1] + packed + b'"' + b" " * (len(line[2]) - len(packed) - 1)


@pytest.mark.parametrize(
    ("pattern", "change"),
    [
        pytest.param(rb'("packed":".{5}).{4}', rb"\1/+/+", id="the number of a test"),
        pytest.param(rb'("packed":".{12}).{4}', rb"\1/+/+", id="a sequence"),
        pytest.param(rb'("packed":".{20}).{4}', rb"\1", id="a part of a row"),
        pytest.param(rb'("packed":")([^"]+)', leave_out_rows, id="a row"),
    ],
)
def test_samples_that_changed_while_the_run_is_judged_are_noticed(
    pattern: bytes, change: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    folder = build_sweep(tmp_path, packed=True)
    add, path = sums.add_passing, folder.path / run_folder.RESULTS
    changed = re.sub(pattern, change, path.read_bytes())

    def changing(*given: Any) -> dict[str, dict[str, float]]:
        path.write_bytes(changed)
        return add(*given)

    monkeypatch.setattr(sums, "add_passing", changing)
    with pytest.raises(RunFolderError, match="was changed while it was judged"):
        rejudge.judge_folder(folder.path)
