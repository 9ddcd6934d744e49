# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was edited or garbled in a run's folder: it never makes a zero, and never a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import summary
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder
from ansible_collections.railyard.fabric.tests.unit.plugins.plugin_utils.judge.test_folder import (
    write,
)
from support.runs.fake_run import RUN, FakeRun


def edit(folder: RunFolder, name: str, *keys: str | int, value: Any) -> None:
    document = folder.document(name)
    part: Any = document
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = value
    folder.write(name, run_folder.pretty(document))


@pytest.mark.parametrize(
    ("name", "keys", "value"),
    [
        ("plan.json", ("nodes", "gpuserver1", "rails", 0, "rate_gbps"), 0.97),
        ("manifest.json", ("policy", "floors"), {"tcp_bandwidth": {"bandwidth_gbps": [0.1, 1]}}),
        ("manifest.json", ("policy", "idle_bytes_per_s"), 10**9),
    ],
)
def test_an_edited_plan_or_policy_proves_nothing(
    tmp_path: Path, name: str, keys: tuple[str | int, ...], value: Any
) -> None:
    folder = write(FakeRun(), tmp_path)
    assert rejudge.rejudge(folder.path) == 0
    edit(folder, name, *keys, value=value)
    said = summary.summarise(folder.path)
    assert said["exit_status"] == 3
    assert "edited" in said["headline"]
    assert "proven" not in said["headline"]
    assert sum("edited" in note for note in said["notes"]) == 1


@pytest.mark.parametrize("word", ["NaN", "-Infinity", "1e999"])
def test_a_number_that_json_cannot_say_is_missing(tmp_path: Path, word: str) -> None:
    folder = write(FakeRun(), tmp_path)
    path = folder.path / "results.jsonl"
    text = path.read_text(encoding="utf-8")
    assert '"sent_gbps":0.951' in text
    path.write_text(text.replace('"sent_gbps":0.951', f'"sent_gbps":{word}', 1), encoding="utf-8")
    assert rejudge.rejudge(folder.path) == 3
    rows, torn = folder.rows("results.jsonl")
    assert not torn
    # What a node sent can be kept: collecting writes its rows again.
    assert folder.append_new("copy.jsonl", rows) == len(rows)


def test_a_row_that_says_a_key_twice_is_dropped_and_reported(tmp_path: Path) -> None:
    folder = write(FakeRun(), tmp_path)
    path = folder.path / "results.jsonl"
    both = '"status":"failed","status":"measured"'
    path.write_text(path.read_text().replace('"status":"measured"', both, 1))
    assert rejudge.rejudge(folder.path) == 3
    assert folder.rows("results.jsonl")[1] is True


@pytest.mark.parametrize("name", ["facts.jsonl", "results.jsonl", "obstacles.jsonl"])
def test_half_a_character_stops_nothing(tmp_path: Path, name: str) -> None:
    folder = write(FakeRun(), tmp_path)
    path = folder.path / name
    if name == "obstacles.jsonl":
        path.write_text(f'{{"run":"{RUN}","node":"gpuserver1","error":{{"message":"\\ud83d"}}}}\n')
        (folder.path / "facts.jsonl").unlink()
    elif name == "facts.jsonl":
        path.write_text(path.read_text().replace('"operstate":"up"', '"carrier":"\\ud83d"', 1))
    else:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        rows[0].update(status="failed", error={"class": "tool_failed", "message": "\ud83d", "host": "x"})
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert rejudge.rejudge(folder.path) in (1, 3)
    assert folder.rows("verdicts.jsonl")[1] is False


def test_a_document_nested_beyond_sense_is_named(tmp_path: Path) -> None:
    folder = write(FakeRun(), tmp_path)
    (folder.path / "plan.json").write_text('{"nodes":' * 200000)
    with pytest.raises(run_folder.RunFolderError, match=r"plan\.json is not JSON"):
        rejudge.rejudge(folder.path)


@pytest.mark.parametrize("third", ["gpuserver3", "controller", None, ["gpuserver1"]])
def test_a_third_nodes_rows_change_no_verdict_and_name_it(tmp_path: Path, third: object) -> None:
    run = FakeRun()
    healthy = write(run, tmp_path / "healthy")
    assert rejudge.rejudge(healthy.path) == 0
    folder = write(FakeRun(), tmp_path / "forged")
    # Of each end a second row, one that failed, and one that heard somebody else at a node's address.
    told = [
        {"class": name, "message": "it is mine", "host": "gpuserver1"} for name in ("tool_failed", "stranger")
    ]
    forged = [{**row, "host": third} for row in run.results]
    forged += [
        {**row, "host": third, "status": "failed", "error": one} for row in run.results for one in told
    ]
    folder.append("results.jsonl", forged)
    assert rejudge.rejudge(folder.path) == 0
    assert (folder.path / "verdicts.jsonl").read_bytes() == (healthy.path / "verdicts.jsonl").read_bytes()
    notes = [note for note in summary.summarise(folder.path)["notes"] if repr(third) in note]
    assert len(notes) == 1
    assert notes[0].startswith(f"not planned, ignored: {len(forged)} rows by")
