"""A run too large to hold its rows has the verdicts that it has when they are held."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import result_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.asked_lines import AskedLines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder, RunFolderError
from support.runs.sweeps import judge_lines, sound_run

WORDS = (None, True, "x", "", [], {}, [1], 0, -1, 1.0, 2**64, 2**70, "failed", "gpu0002", "server")


def spoil(row: dict[str, Any], draw: random.Random) -> None:
    """Change one thing in a row, wherever it is."""
    at: Any = row
    key = draw.choice(sorted(row))
    while isinstance(at[key], (dict, list)) and at[key] and draw.random() < 0.8:
        at = at[key]
        key = draw.choice(sorted(at) if isinstance(at, dict) else range(len(at)))
    if isinstance(at[key], (int, float)) and not isinstance(at[key], bool) and draw.random() < 0.6:
        at[key] = draw.choice([at[key] + 1, at[key] - 1000, at[key] * 2, at[key] * 0.5, -at[key]])
    elif draw.random() < 0.2:
        del at[key]
    else:
        at[key] = draw.choice(WORDS)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: Any) -> RunFolder:
    """Return the folder of three nodes in which all is well."""
    return RunFolder(sound_run.build(tmp_path_factory.mktemp("sound") / "made" / sound_run.RUN, 3, 2))


def spoilt(folder: RunFolder, path: Path, seed: int) -> RunFolder:
    """Return a copy of a folder in which so many rows are spoilt, and some gone or there twice.

    By the seed a counter grows from row to row, so that their order counts; the last row has no number, and
    differs from the others by its time; or it says what only equals a count.
    """
    shutil.copytree(folder.path, path / "made" / folder.name)
    copy, draw = RunFolder(path / "made" / folder.name), random.Random(seed)
    rows = copy.rows(run_folder.RESULTS)[0]
    last = rows[-1]
    if seed % 4 == 3:
        last["link_errors"]["hca.link_downed"] = [3.0, 3]
    for row in rows if seed % 4 in (1, 2) else ():
        if row.get("link_errors"):
            row["link_errors"]["netdev.rx_crc_errors"] = [row["sequence"]] * 2
    if seed % 4 == 1:
        last |= {"sequence": None, "started": "2026-11-24T10:00:30.000Z"}
    for row in draw.sample(rows, seed):
        spoil(row, draw)
    rows += draw.sample(rows, seed // 4)
    rows = draw.sample(rows, len(rows) - seed // 8)
    copy.write(run_folder.RESULTS, "".join(json.dumps(row) + "\n" for row in rows))
    return copy


@pytest.mark.parametrize("seed", range(16))
def test_both_ways_have_the_same_verdicts(
    seed: int, sound: RunFolder, tmp_path: Path, monkeypatch: Any
) -> None:
    folder = spoilt(sound, tmp_path, seed)
    held = judge_lines(folder)
    assert (held[1].exit_status == 0) is (seed == 0)
    monkeypatch.setattr(result_rows, "TRIMMED_FROM_BYTES", 0)
    assert judge_lines(folder) == held


def test_what_is_held_of_a_good_row_is_no_more_than_others_need(sound: RunFolder, monkeypatch: Any) -> None:
    monkeypatch.setattr(result_rows, "TRIMMED_FROM_BYTES", 0)
    asked = AskedLines.read(sound)
    rows = result_rows.ResultRows(sound, asked.by_id)
    whole = sound.rows(run_folder.RESULTS)[0]
    tests = [light for light, row in zip(rows, whole, strict=True) if row["id"].startswith("m")]
    assert len(tests) == 2 * sum(line["id"].startswith("m") for line in asked)
    assert not any({"samples", "argv", "other_end", "other_rails"} & set(light) for light in tests)
    assert [rows.read_complete(light) for light in rows] == whole
    rows.close()


def test_rows_that_change_meanwhile_are_not_judged(
    sound: RunFolder, tmp_path: Path, monkeypatch: Any
) -> None:
    folder = spoilt(sound, tmp_path, 0)
    monkeypatch.setattr(result_rows, "TRIMMED_FROM_BYTES", 0)
    rows = result_rows.ResultRows(folder, AskedLines.read(folder).by_id)
    results = folder.path / run_folder.RESULTS
    results.write_bytes(results.read_bytes().replace(b'"proof": "proven"', b'"proof": "PROVEN"'))
    light = next(row for row in rows if str(row["id"]).startswith("m"))
    with pytest.raises(RunFolderError, match="changed while it was judged"):
        rows.read_complete(light)
    rows.close()
