"""Rows of a sweep have the verdicts by the column that they have one by one, whatever is wrong with them."""

from __future__ import annotations

import importlib
import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.runner import short_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import rejudge, verdict
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.columns import plain
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks" / "judge"))
sound_run = importlib.import_module("sound_run")

WORDS = (
    None,
    True,
    "x",
    "",
    [],
    {},
    0,
    -1,
    1.5,
    2**31,
    2**32 - 1,
    2**62,
    2**63,
    2**70,
    float("nan"),
    "gpu0002",
    "10.1.0.2",
)
TIMES = (
    0.0,
    0.1,
    0.5,
    0.9,
    0.94,
    0.949,
    0.96,
    0.99,
    0.9999,
    1.0001,
    1.01,
    1.04,
    1.051,
    1.1,
    1.2,
    2,
    19,
    20,
    22.9,
    23.1,
    60,
)


@pytest.fixture(scope="module", params=["roce", "tcp"])
def sweep(request: Any, tmp_path_factory: Any) -> RunFolder:
    """Return a sweep of three nodes with two rails in which all is well."""
    place = tmp_path_factory.mktemp(request.param) / "made" / sound_run.RUN
    made = sound_run.build(place, 3, 2, rules={"questions": "together"}, transport=request.param)
    return RunFolder(made)


def spoil(lines: list[dict[str, Any]], draw: random.Random) -> None:
    """Change one short row or frame, or where two of them stand; mostly its peer was told of the change."""
    frames = short_rows.Frames()
    short = [place for place, line in enumerate(lines) if "as" in line]
    for line in lines:
        if "frame" in line:
            frames.add(line)
    one, other = draw.sample(short, 2)
    line, way = lines[one], draw.random()
    if way < 0.05:
        line["id"], lines[other]["id"] = lines[other]["id"], line["id"]
    elif way < 0.1:
        lines[one] = dict(lines[other])
    elif way < 0.13:
        del lines[one]
    elif way < 0.16:
        line["as"] = lines[other]["as"]
    elif way < 0.3:
        frame = draw.choice([line for line in lines if "frame" in line])["row"]
        key = draw.choice(sorted(frame))
        at: Any = frame
        while isinstance(at[key], (dict, list)) and at[key] and draw.random() < 0.8:
            at = at[key]
            key = draw.choice(sorted(at) if isinstance(at, dict) else range(len(at)))
        at[key] = draw.choice([*WORDS, at[key]])
    else:
        values = line["v"]
        place = draw.randrange(len(values))
        old = values[place]
        number = isinstance(old, (int, float)) and not isinstance(old, bool)
        near = number and draw.random() < 0.8
        new = type(old)(old * draw.choice(TIMES)) if near else draw.choice(WORDS)
        values[place] = old + draw.choice((-1, 1, 1000)) if number and draw.random() < 0.2 else new
        if draw.random() < 0.3:
            place = draw.randrange(len(values))
            values[place] = lines[other]["v"][min(place, len(lines[other]["v"]) - 1)]
    # Else the digest alone would tell.
    made = frames.whole(line) if draw.random() < 0.85 else None
    if made is not None:
        for its in lines:
            if "v" in its and its["id"] == line["id"] and its is not line and isinstance(its["v"][5], str):
                its["v"][5] = f"{its['v'][5].partition('.')[0]}.{short_rows._digest(made)}"


def said(folder: RunFolder) -> tuple[list[str], rejudge.Judged]:
    judged = rejudge.judge_folder(folder.path)
    return [run_folder.line(one) for one in judged.verdicts], judged


def spoilt(folder: RunFolder, path: Path, seed: int, times: int) -> RunFolder:
    shutil.copytree(folder.path, path / "made" / folder.name)
    copy, draw = RunFolder(path / "made" / folder.name), random.Random(seed)
    lines = [json.loads(line) for line in (folder.path / run_folder.RESULTS).open(encoding="utf-8")]
    for _time in range(times):
        spoil(lines, draw)
    copy.write(
        run_folder.RESULTS,
        "".join(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n" for line in lines),
    )
    return copy


@pytest.mark.parametrize("seed", range(30))
def test_by_the_column_and_one_by_one_the_verdicts_are_the_same(
    seed: int, sweep: RunFolder, tmp_path: Path, monkeypatch: Any
) -> None:
    folder = spoilt(sweep, tmp_path, seed, times=seed // 3)
    by_column = said(folder)
    assert by_column[1].exit_status == 0 or seed >= 3
    monkeypatch.setattr(plain, "CHECKED", ())
    assert said(folder) == by_column


def test_all_of_a_sound_sweep_is_plain(sweep: RunFolder, monkeypatch: Any) -> None:
    found: list[plain.Plain] = []
    find = plain.find

    def seen(*given: Any) -> plain.Plain:
        found.append(find(*given))
        return found[-1]

    monkeypatch.setattr(verdict.plain, "find", seen)
    judged = rejudge.judge_folder(sweep.path)
    tests = [one["id"] for one in judged.verdicts if one["check"] in plain.CHECKED]
    assert tests
    assert all(identity in found[0] for identity in tests)
