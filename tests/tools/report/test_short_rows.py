"""A sweep's rows are written short; who reads them sees them in full, and judges them no other way."""

from __future__ import annotations

import copy
import errno
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.runner import control, record, short_rows
from ansible_collections.railyard.fabric.plugins.module_utils.runner.eta import Pace
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import archive, archive_limits
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder
from railyard.bundle import command, files
from support.runs.sweeps import build_sweep, lines_of, sound_run
from tools.report.test_light_rows import WORDS, spoil


def sweep(path: Path, short: bool, seed: int = 0) -> RunFolder:
    """Return a sweep of three nodes; by the seed so many rows are spoilt before they are written."""
    spoilt = set(random.Random(seed).sample(range(48), seed))

    def change(row: dict[str, Any]) -> dict[str, Any] | None:
        changed = copy.deepcopy(row)
        if row["id"].startswith("m"):
            # The test and its end say which row it is, in either form.
            number = 2 * int(row["id"][1:]) + (row["end"] == "server")
            if number in spoilt:
                spoil(changed, random.Random(number * 1000 + seed))
        return changed

    return build_sweep(path, change=change, short=short)


def heard(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with as much of the other end's part as a short one keeps in the clear."""
    said = row["other_end"]
    return {**row, "other_end": said and {"host": said["host"], "boot_id": said["boot_id"][:8]}}


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    short, full = sweep(tmp_path / "short", True), sweep(tmp_path / "full", False)
    lines = [line for line in lines_of(short) if "as" in line]
    rows, torn = short.rows(run_folder.RESULTS)
    whole = full.rows(run_folder.RESULTS)[0]
    assert not torn
    assert len(lines) == sum(row["id"].startswith("m") for row in whole) == 48
    assert [heard(row) for row in rows] == [heard(row) for row in whole]
    wanted = next(iter(row["id"] for row in whole if row["id"].startswith("m")))
    frames = short_rows.Frames()
    assert all(frames.add(line) for line in lines_of(short) if "frame" in line)
    # What is left over belongs to nothing.
    assert frames.expand(lines[0])
    assert frames.expand({**lines[0], "v": [*lines[0]["v"], 1]}) is None
    asked = list(short.each_row(run_folder.RESULTS, {wanted}))
    assert asked == [row for row in rows if row["id"] == wanted]
    before = sum(len(run_folder.line(row)) for row in whole if row["id"].startswith("m"))
    assert sum(len(run_folder.line(line)) for line in lines) < before / 6


@pytest.mark.parametrize("seed", [0, 2, 6, 12, 24, 36])
def test_both_forms_have_the_same_verdicts(seed: int, tmp_path: Path) -> None:
    short, full = (sweep(tmp_path / str(form), form, seed) for form in (True, False))
    judged = [rejudge.judge_folder(folder.path) for folder in (short, full)]
    assert judged[0].exit_status == (0 if seed == 0 else judged[1].exit_status)
    # A digest does not show in what two ends disagree.
    alike = [re.sub(r"told (\S+) of another \w+ than", r"told \1 of another thing than", json.dumps(one))
             for one in (judged[0].verdicts, judged[1].verdicts)]  # fmt: skip
    assert json.loads(alike[0]) == json.loads(alike[1])


@pytest.mark.parametrize("key", ["status", "proof", "metrics", "counters", "boot_id"])
def test_an_end_that_wrote_other_results_than_it_sent_is_found(key: str, tmp_path: Path) -> None:
    folder = sweep(tmp_path, True)
    lines = lines_of(folder)
    place = next(place for place, line in enumerate(lines) if "as" in line)
    before, mark, after = lines[place]["v"][5].partition(".")
    told = {"boot_id": ("00000000", after)}.get(key, (before, "0" * len(after)))
    lines[place]["v"][5] = mark.join(told)
    folder.write(run_folder.RESULTS, "".join(run_folder.line(line) + "\n" for line in lines))
    judged = rejudge.judge_folder(folder.path)
    wrong = {one["cause_class"] for one in judged.verdicts if one["id"] == lines[place]["id"]}
    assert wrong == {"node_rebooted" if key == "boot_id" else "ends_disagree"}


def test_what_is_no_short_row_raises_nothing(tmp_path: Path) -> None:
    lines = [line for line in lines_of(sweep(tmp_path, True)) if "as" in line or "frame" in line]
    for seed in range(60):
        draw, frames = random.Random(seed), short_rows.Frames()
        for line in copy.deepcopy(lines):
            for _time in range(seed % 4):
                at: Any = line
                key = draw.choice(sorted(line))
                while isinstance(at[key], (dict, list)) and at[key] and draw.random() < 0.9:
                    at = at[key]
                    key = draw.choice(sorted(at) if isinstance(at, dict) else range(len(at)))
                at[key] = draw.choice([*WORDS, 10**400, "gpu0001/zzzzz", [[]] * 9])
            if "frame" in line:
                assert frames.add(line) or seed % 4
            else:
                row = frames.expand(line)
                assert run_folder.line(row) if row else (row is None and seed % 4)


def test_without_its_frame_a_row_is_lost_and_reported(tmp_path: Path) -> None:
    folder = sweep(tmp_path, True)
    lines = [line for line in lines_of(folder) if "frame" not in line]
    folder.write(run_folder.RESULTS, "".join(run_folder.line(line) + "\n" for line in lines))
    judged = rejudge.judge_folder(folder.path)
    assert judged.torn == [run_folder.RESULTS]
    assert {one["outcome"] for one in judged.verdicts if one["id"].startswith("m")} == {"unmeasured"}


def test_a_node_hands_over_its_own_short_rows_alone(tmp_path: Path) -> None:
    folder, node = sweep(tmp_path, True), "gpu0001"
    lines = lines_of(folder)
    mine = [line for line in lines if (line.get("frame") or line.get("as") or "").startswith(f"{node}/")]
    foreign = [line for line in lines if (line.get("frame") or line.get("as") or "").startswith("gpu0002/")]
    frame = next(line for line in foreign if "frame" in line)
    renamed = {"frame": f"{node}/fffff", "row": frame["row"]}
    rows = sum("as" in line for line in mine)
    packed = tmp_path / "packed"
    (packed / "raw").mkdir(parents=True)
    order = folder.document(run_folder.WORK_ORDER)
    most = archive_limits.of_node([order], node)
    for more, notes in (
        ([], []),
        ([line for line in foreign if "as" in line][:2], ["a torn line was dropped"]),
        ([renamed], ["a torn line was dropped"]),
        ([frame], ["1 rows were left out: they are not of its own ends of this run's tests"]),
    ):
        text = "".join(run_folder.line(line) + "\n" for line in [*mine, *more])
        (packed / run_folder.RESULTS).write_text(text)
        control._pack(str(packed), str(tmp_path / "node.tar.gz"))
        found = archive.read(tmp_path / "node.tar.gz", sound_run.RUN, node, None, most)
        assert [json.loads(line) for line in found.rows] == mine
        assert found.notes == notes
        assert found.lines == rows + sum("frame" not in line for line in more)
        assert control._count_rows(str(packed / run_folder.RESULTS)) == found.lines


def test_a_runner_writes_short_rows_that_can_be_read_whatever_is_lost(
    tmp_path: Path, monkeypatch: Any
) -> None:
    folder, node = sweep(tmp_path, False), "gpu0001"
    rows = [row for row in folder.rows(run_folder.RESULTS)[0] if row["host"] == node]
    order = {**folder.document(run_folder.WORK_ORDER), "node": node}
    kept = record.Record(str(tmp_path / "node"), order, len(rows), Pace({}, []))
    write = kept._write

    def full(_data: bytes) -> None:
        raise OSError(errno.ENOSPC, "no room")

    # The first of each kind is lost with its frame.
    monkeypatch.setattr(kept, "_write", full)
    lost = len(rows) * 2 // 3
    with pytest.raises(OSError, match="no room"):
        kept.add(rows[:lost])
    monkeypatch.setattr(kept, "_write", write)
    for row in rows[lost:]:
        kept.add([row])
    wanted = [{**heard(row), "sequence": number} for number, row in enumerate(rows[lost:], 1)]
    found, torn = RunFolder(tmp_path / "node").rows(run_folder.RESULTS)
    assert ([heard(row) for row in found], torn) == (wanted, False)
    lines = lines_of(RunFolder(tmp_path / "node"))
    assert sum("as" in line for line in lines) == sum(row["id"].startswith("m") for row in rows[lost:])


def test_a_bundle_holds_a_sweeps_rows_in_full(tmp_path: Path) -> None:
    folder = sweep(tmp_path, True)
    command.run(folder.path, tmp_path / "bundle.tar.gz", None)
    bundle = RunFolder(files.unpack(tmp_path / "bundle.tar.gz", tmp_path / "unpacked"))
    lines = lines_of(bundle)
    assert [line.keys() for line in lines] == [row.keys() for row in folder.rows(run_folder.RESULTS)[0]]
    assert not any(line["host"].startswith("gpu") for line in lines)
    assert rejudge.judge_folder(bundle.path).exit_status == 0


def test_a_frame_is_of_the_host_that_its_name_names_and_stays_what_it_is() -> None:
    row = {"host": "gpu01", "started": "2026-11-24T10:00:00.000Z", "metrics": [{}, []], "counters": []}
    frames = short_rows.Frames()
    assert frames.add({"frame": "gpu01/00000", "row": row})
    assert frames.add({"frame": "gpu01/00000", "row": dict(row)})
    assert not frames.add({"frame": "gpu01/00000", "row": {**row, "proof": "proven"}})
    assert not frames.add({"frame": "gpu02/00000", "row": row})
