"""A sweep's rows are packed; who reads them sees them in full, and judges them no other way."""

from __future__ import annotations

import base64
import copy
import errno
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.runner import (
    control,
    packed_rows,
    record,
    row_packer,
)
from ansible_collections.railyard.fabric.plugins.module_utils.runner.eta import Pace
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import result_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import archive, archive_limits
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder
from railyard.bundle import command, files
from support.runs import packed_lines
from support.runs.sweeps import build_sweep, lines_of, sound_run
from tools.report.test_light_rows import WORDS, spoil
from tools.report.test_plain import apart


def sweep(path: Path, packed: bool, seed: int = 0) -> RunFolder:
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

    return build_sweep(path, change=change, packed=packed)


def sorted_rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["host"], row["sequence"]))


def written(folder: RunFolder, lines: list[dict[str, Any]]) -> None:
    """Write rows that tests have changed."""
    made = packed_lines.pack(lines)
    text = (json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n" for line in made)
    folder.write(run_folder.RESULTS, "".join(text))


def heard(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with as much of the other end's part as a packed one keeps in the clear."""
    said = row["other_end"]
    return {**row, "other_end": said and {"host": said["host"], "boot_id": said["boot_id"][:8]}}


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    packed, full = sweep(tmp_path / "packed", True), sweep(tmp_path / "full", False)
    lines = [line for line in lines_of(packed) if "packed" in line]
    rows, torn = packed.rows(run_folder.RESULTS)
    whole = full.rows(run_folder.RESULTS)[0]
    assert not torn
    of_tests = [row for row in whole if row["id"].startswith("m")]
    assert sum(line["count"] for line in lines) == len(of_tests) == 48
    assert sorted_rows(map(heard, rows)) == sorted_rows(map(heard, whole))
    wanted = of_tests[0]["id"]
    asked = list(packed.each_row(run_folder.RESULTS, {wanted}))
    assert asked == [row for row in rows if row["id"] == wanted]
    before = sum(len(run_folder.line(row)) for row in of_tests)
    assert sum(len(run_folder.line(line)) for line in lines) < before / 6


def test_a_line_holds_no_more_rows_than_are_read_at_once(tmp_path: Path) -> None:
    rows = [row for row in sweep(tmp_path, False).rows(run_folder.RESULTS)[0] if "iterations" in row]
    alike = {**rows[0], "raw": None}
    many = [{**alike, "id": f"m{number:05d}", "group": f"g{number:05d}"} for number in range(70)]
    lines = list(row_packer.Packer().lines(many))
    assert [line.get("count") for line in lines] == [None, 32, 32, 6]
    frames = packed_rows.Frames()
    assert frames.add(lines[0])
    found = [row for line in lines[1:] for row in frames.rows(line)]
    assert [heard(row) for row in found if row] == [heard(row) for row in many]


def test_rows_that_are_no_clear_measurement_are_written_in_full(tmp_path: Path) -> None:
    row = next(row for row in sweep(tmp_path, False).rows(run_folder.RESULTS)[0] if "iterations" in row)
    error = {"class": "tool_failed", "message": "none came back"}
    for changes in ({"proof": "unproven"}, {"status": "failed"}, {"error": error}, {"group": None}):
        other = {**row, **changes}
        assert list(row_packer.Packer().lines([other])) == [other]


def test_rows_with_very_many_counters_are_no_columns_and_are_judged(tmp_path: Path) -> None:
    def change(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] != "m00042":
            return row
        more = {f"counter{number}": [0, 0] for number in range(300)}
        made = {**row, "counters": {**row["counters"], **more}}
        its = row["other_end"]
        return {**made, "other_end": {**its, "counters": {**its["counters"], **more}}}

    folder = build_sweep(tmp_path, change=change, packed=True)
    rows = result_rows.ResultRows(folder, lambda _id: None)
    assert all(len(table.kind.columns) < 256 for table in rows.tables)
    assert [row["id"] for _at, row in rows.others if row["id"] == "m00042"] == ["m00042"] * 2
    judged = rejudge.judge_folder(folder.path)
    assert {one["outcome"] for one in judged.verdicts if one["id"] == "m00042"} == {"pass"}


def test_a_line_that_is_not_whole_has_no_rows(tmp_path: Path) -> None:
    frames = packed_rows.Frames()
    lines = lines_of(sweep(tmp_path, True))
    assert all(frames.add(line) for line in lines if "frame" in line)
    line = next(line for line in lines if "packed" in line)
    rows = list(frames.rows(line))
    assert len(rows) == line["count"] == 2
    data = base64.b64decode(line["packed"])
    size = len(data) // 2

    def coded(changed: bytes) -> str:
        return base64.b64encode(changed).decode()

    # A frame of rows with the same size and other columns.
    first = frames.frame_of(line["host"], data)
    renamed = {**first.row["counters"], "zz_bytes": "I"}
    del renamed[min(name for name, kind in renamed.items() if kind == "I")]
    assert frames.add({"frame": f"{line['host']}/00000007", "row": {**first.row, "counters": renamed}})
    other = (7).to_bytes(4, "little")

    for changes in (
        {"count": 1},
        {"count": 3},
        {"count": "2"},
        {"count": None},
        {"packed": coded(data[:-1])},
        {"packed": coded(data + b"\0")},
        {"packed": coded(data[:size])},
        {"packed": coded(data[:size] + b"\xff" * 4 + data[size + 4 :])},
        {"packed": coded(data[:size] + other + data[size + 4 :])},
        {"packed": line["packed"][:-4] + "!" + line["packed"][-3:]},
        {"packed": ""},
        {"packed": 7},
        {"words": line["words"][:1]},
        {"words": [1, *line["words"][1:]]},
        {"words": "gpu0002"},
        {"host": "gpu0009"},
        {"host": None},
    ):
        assert list(frames.rows({**line, **changes})) == [None], changes
    half = {**line, "count": 1, "packed": coded(data[:size])}
    assert list(frames.rows(half)) == rows[:1]
    for key in line:
        assert list(frames.rows({name: one for name, one in line.items() if name != key})) == [None]


def test_a_number_that_is_none_is_missing(tmp_path: Path) -> None:
    folder = sweep(tmp_path, True)
    lines = packed_lines.unpack(lines_of(folder))
    frames = {line["frame"]: line["row"] for line in lines if "frame" in line}
    line = next(line for line in lines if "as" in line and frames[line["as"]]["metrics"][1])
    for value in (float("nan"), float("inf"), -float("inf")):
        line["v"][packed_lines.FIRST] = value
        written(folder, lines)
        host, sequence = line["as"].partition("/")[0], line["v"][packed_lines.SEQUENCE]
        both = [row for row in folder.each_row(run_folder.RESULTS, {line["id"]}) if row]
        row = next(row for row in both if (row["host"], row["sequence"]) == (host, sequence))
        assert row["metrics"]["bandwidth_gbps"] is None
        judged = {one["id"]: one for one in rejudge.judge_folder(folder.path).verdicts}[line["id"]]
        assert (judged["outcome"], judged["cause_class"]) == ("unmeasured", "row_garbled")


@pytest.mark.parametrize("seed", [0, 2, 6, 12, 24, 36])
def test_both_forms_have_the_same_verdicts(seed: int, tmp_path: Path) -> None:
    packed, full = (sweep(tmp_path / str(form), form, seed) for form in (True, False))
    judged = [rejudge.judge_folder(folder.path) for folder in (packed, full)]
    assert judged[0].exit_status == (0 if seed == 0 else judged[1].exit_status)
    assert list(judged[0].verdicts) == list(judged[1].verdicts)


@pytest.mark.parametrize("key", ["status", "proof", "metrics", "counters", "boot_id"])
def test_an_end_that_wrote_other_results_than_it_sent_is_found(key: str, tmp_path: Path) -> None:
    folder = sweep(tmp_path, True)
    lines = packed_lines.unpack(lines_of(folder))
    place = next(place for place, line in enumerate(lines) if "as" in line)
    before, mark, after = lines[place]["v"][packed_lines.HEARD].partition(".")
    received = {"boot_id": ("00000000", after)}.get(key, (before, "0" * len(after)))
    lines[place]["v"][packed_lines.HEARD] = mark.join(received)
    written(folder, lines)
    judged = rejudge.judge_folder(folder.path)
    wrong = {one["cause_class"] for one in judged.verdicts if one["id"] == lines[place]["id"]}
    assert wrong == {"node_rebooted" if key == "boot_id" else "ends_disagree"}


def test_each_number_that_an_end_sends_changes_the_digest(tmp_path: Path) -> None:
    rows = sweep(tmp_path, False).rows(run_folder.RESULTS)[0]
    row = next(row for row in rows if "iterations" in row)
    digests = {packed_rows.digest_of_row(row)}
    changed = 0
    for key in ("metrics", "counters"):
        for name, value in row[key].items():
            for new in [value + 1, -value, None] if key == "metrics" else [
                [value[0], value[1] + 1], [value[0] + 1, value[1]], value[::-1]
            ]:  # fmt: skip
                digests.add(packed_rows.digest_of_row({**row, key: {**row[key], name: new}}))
                changed += 1
        left = dict(list(row[key].items())[1:])
        digests.add(packed_rows.digest_of_row({**row, key: left}))
        digests.add(packed_rows.digest_of_row({**row, key: {**left, "other": next(iter(row[key].values()))}}))
    digests.add(packed_rows.digest_of_row({**row, "status": "failed"}))
    digests.add(packed_rows.digest_of_row({**row, "proof": "unproven"}))
    assert changed > 30
    assert len(digests) == changed + 7
    # An end counts in whole numbers, and the other one may read them as others.
    floats = {name: float(value) for name, value in row["metrics"].items()}
    assert packed_rows.digest_of_row({**row, "metrics": floats}) == packed_rows.digest_of_row(row)


@pytest.mark.parametrize("column", ["metric bandwidth_gbps", "before rx_bytes", "growth tx_packets"])
def test_a_row_with_another_number_than_was_sent_is_refused(column: str, tmp_path: Path) -> None:
    folder = build_sweep(tmp_path, change=apart, packed=True)
    lines = packed_lines.unpack(lines_of(folder))
    frames = {line["frame"]: line["row"] for line in lines if "frame" in line}
    line = next(line for line in lines if "as" in line and frames[line["as"]]["metrics"][1])
    line["v"][packed_lines.places_of(frames[line["as"]])[column]] += 0.5 if "metric" in column else 1
    written(folder, lines)
    wrong = [one for one in rejudge.judge_folder(folder.path).verdicts if one["outcome"] == "unmeasured"]
    # The sum of its pair has no such part.
    assert {(one["id"], one["cause_class"]) for one in wrong if one["rail"]} == {
        (line["id"], "ends_disagree")
    }
    assert len(wrong) == 2


def test_what_is_no_packed_row_raises_nothing(tmp_path: Path) -> None:
    lines = [line for line in lines_of(sweep(tmp_path, True)) if "packed" in line or "frame" in line]
    for seed in range(80):
        draw, frames = random.Random(seed), packed_rows.Frames()
        for line in copy.deepcopy(lines):
            for _time in range(seed % 4):
                at: Any = line
                key = draw.choice(sorted(line))
                while isinstance(at[key], (dict, list)) and at[key] and draw.random() < 0.9:
                    at = at[key]
                    key = draw.choice(sorted(at) if isinstance(at, dict) else range(len(at)))
                at[key] = draw.choice([*WORDS, 10**400, "gpu0001/zzzzz", [[]] * 9])
            packed = line.get("packed")
            if draw.random() < 0.3 and isinstance(packed, str) and len(packed) > 99:
                data = bytearray(base64.b64decode(packed))
                for _time in range(min(seed, len(data))):
                    data[draw.randrange(len(data))] = draw.randrange(256)
                line["packed"] = base64.b64encode(data).decode()
            if "frame" in line:
                assert frames.add(line) or seed % 4
            else:
                for row in frames.rows(line):
                    assert run_folder.line(row) if row else seed


def test_without_its_frame_a_row_is_lost_and_reported(tmp_path: Path) -> None:
    folder = sweep(tmp_path, True)
    lines = [line for line in lines_of(folder) if "frame" not in line]
    folder.write(run_folder.RESULTS, "".join(run_folder.line(line) + "\n" for line in lines))
    judged = rejudge.judge_folder(folder.path)
    assert judged.torn == [run_folder.RESULTS]
    assert {one["outcome"] for one in judged.verdicts if one["id"].startswith("m")} == {"unmeasured"}


def test_a_node_hands_over_its_own_packed_rows_alone(tmp_path: Path) -> None:
    folder, node = sweep(tmp_path, True), "gpu0001"
    lines = lines_of(folder)

    def lines_by(host: str) -> list[dict[str, Any]]:
        return [line for line in lines if (line.get("frame") or f"{line['host']}/").startswith(f"{host}/")
                and ("frame" in line or "packed" in line)]  # fmt: skip

    mine, foreign = lines_by(node), lines_by("gpu0002")
    frame = next(line for line in foreign if "frame" in line)
    renamed = {"frame": f"{node}/ffffffff", "row": frame["row"]}
    other_run = {"frame": f"{node}/fffffffe", "row": {**mine[0]["row"], "run": "20200101T000000Z-0000"}}
    rows = sum(line["count"] for line in mine if "packed" in line)
    packed = tmp_path / "packed"
    (packed / "raw").mkdir(parents=True)
    order = folder.document(run_folder.WORK_ORDER)
    most = archive_limits.of_node([order], node)
    left_out = "%d rows were left out: they are not this node's rows of this run's tests"
    lost = [line for line in foreign if "packed" in line][:2]
    for more, notes in (
        ([], []),
        (lost, ["a torn line was dropped"]),
        ([renamed], ["a torn line was dropped"]),
        ([frame], [left_out % 1]),
        ([frame, *foreign], [left_out % (sum("frame" in one for one in foreign) + 1 + 16)]),
        ([other_run], [left_out % 1]),
    ):
        text = "".join(run_folder.line(line) + "\n" for line in [*mine, *more])
        (packed / run_folder.RESULTS).write_text(text)
        control._pack(str(packed), str(tmp_path / "node.tar.gz"))
        found = archive.read(tmp_path / "node.tar.gz", sound_run.RUN, node, None, most)
        assert [json.loads(line) for line in found.rows] == mine
        assert found.notes == notes
        assert found.lines == rows + sum(line["count"] for line in more if "packed" in line)
        assert control._count_rows(str(packed / run_folder.RESULTS)) == found.lines


@pytest.mark.parametrize("count", [None, 0, 999_999_999, 10**12])
def test_more_packed_rows_than_were_planned_are_refused(count: int | None, tmp_path: Path) -> None:
    folder, node = sweep(tmp_path, True), "gpu0001"
    most = archive_limits.of_node([folder.document(run_folder.WORK_ORDER)], node)
    count = len(most.raw) + 1 if count is None else count
    lines: list[dict[str, Any]] = [{"count": count, "host": node, "packed": "", "words": []}]
    if count == 0:
        lines = [{"frame": f"{node}/{number:08x}", "row": {}} for number in range(2 * len(most.raw) + 1)]
    (tmp_path / "packed" / "raw").mkdir(parents=True)
    (tmp_path / "packed" / run_folder.RESULTS).write_text(
        "".join(run_folder.line(line) + "\n" for line in lines * (1 if count < 10**10 else 200))
    )
    control._pack(str(tmp_path / "packed"), str(tmp_path / "node.tar.gz"))
    too_many = "lines" if count == 0 else "rows"
    with pytest.raises(archive.ArchiveError, match=f"results.jsonl: it has more {too_many} than"):
        archive.read(tmp_path / "node.tar.gz", sound_run.RUN, node, None, most)


def test_a_runner_writes_packed_rows_that_can_be_read_whatever_is_lost(
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
    packed = sum(line["count"] for line in lines if "packed" in line)
    assert packed == sum(row["id"].startswith("m") for row in rows[lost:])


def test_a_bundle_holds_a_sweeps_rows_in_full(tmp_path: Path) -> None:
    folder = sweep(tmp_path, True)
    command.run(folder.path, tmp_path / "bundle.tar.gz", None)
    bundle = RunFolder(files.unpack(tmp_path / "bundle.tar.gz", tmp_path / "unpacked"))
    lines = lines_of(bundle)
    assert [line.keys() for line in lines] == [row.keys() for row in folder.rows(run_folder.RESULTS)[0]]
    assert not any(line["host"].startswith("gpu") for line in lines)
    assert rejudge.judge_folder(bundle.path).exit_status == 0


def test_a_frame_is_of_the_host_that_its_name_names_and_stays_what_it_is() -> None:
    row = {"host": "gpu01", "started": "2026-11-24T10:00:00.000Z", "metrics": [{}, {}], "counters": {},
           "window_s": False, "argv": [], "iterations": False, "samples": None}  # fmt: skip
    frames = packed_rows.Frames()
    assert frames.add({"frame": "gpu01/00000000", "row": row})
    assert frames.add({"frame": "gpu01/00000000", "row": dict(row)})
    assert not frames.add({"frame": "gpu01/00000000", "row": {**row, "proof": "proven"}})
    for name in ("gpu02/00000000", "gpu01/0000000", "gpu01/0000000A", "gpu01/000000000", "gpu01/-0000001"):
        assert not frames.add({"frame": name, "row": row})
    for changes in (
        {"metrics": [{}, {"bandwidth_gbps": "s"}]},
        {"metrics": [{}, ["bandwidth_gbps"]]},
        {"counters": {"rx_bytes": "d"}},
        {"counters": ["rx_bytes"]},
        {"samples": [0, "q"]},
        {"samples": [1 << 16, "q"]},
        {"samples": [2, "d"]},
        {"samples": ["2", "q"]},
        {"samples": True},
        {"argv": [None]},
    ):
        assert not frames.add({"frame": "gpu01/00000001", "row": {**row, **changes}}), changes
