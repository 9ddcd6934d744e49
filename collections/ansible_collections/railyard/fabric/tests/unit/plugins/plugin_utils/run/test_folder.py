# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The run folder: many writers, torn lines, full disks, and no second run in one folder."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import json_lines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder, RunFolderError
from hypothesis import given
from hypothesis import strategies as st

RUN = "20261121T101500Z-3f2a"


def make(tmp_path: Path) -> RunFolder:
    return run_folder.create(tmp_path / "reports", "lab", RUN, {"policy": {}})


def test_a_new_folder_has_manifest_secret_and_raw(tmp_path: Path) -> None:
    folder = make(tmp_path)
    assert folder.path == tmp_path / "reports" / "lab" / RUN
    manifest = folder.manifest()
    assert (manifest["run"], manifest["cluster"], manifest["end"], manifest["schema"]) == (
        RUN,
        "lab",
        None,
        1,
    )
    # What the nodes sent is for the owner: logs and raw outputs of root's.
    assert (folder.path / "raw").stat().st_mode & 0o777 == 0o700
    secret = folder.path / ".secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert len(folder.secret()) == 32
    assert folder.secret() == secret.read_text().strip()
    folder.forget_secret()
    folder.forget_secret()
    assert not secret.exists()


def test_a_run_folder_is_made_once(tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(RunFolderError, match="exists already"):
        make(tmp_path)


@pytest.mark.parametrize("run", ["../x", "today", RUN + "0", "", RUN + "\n"])
def test_a_run_id_cannot_be_another_path(tmp_path: Path, run: str) -> None:
    with pytest.raises(RunFolderError, match="not of the form"):
        run_folder.create(tmp_path, "lab", run, {})


@pytest.mark.parametrize("cluster", ["", ".", "..", "a/b"])
def test_a_cluster_is_one_folder(tmp_path: Path, cluster: str) -> None:
    with pytest.raises(RunFolderError, match="cluster name"):
        run_folder.create(tmp_path, cluster, RUN, {})


def test_new_ids_differ_and_are_valid(tmp_path: Path) -> None:
    one, other = (run_folder.create(tmp_path, "lab", None, {}) for _time in range(2))
    assert one.name != other.name


def test_a_place_that_cannot_be_written_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match=r"file/lab cannot be written: .*railyard_reports_dir"):
        run_folder.create(tmp_path / "file", "lab", RUN, {})


def test_rows_come_back_and_same_rows_are_same_bytes(tmp_path: Path) -> None:
    folder = make(tmp_path)
    folder.append("results.jsonl", [{"b": 1, "a": "é"}])
    folder.append("results.jsonl", [])
    folder.append("results.jsonl", [{"a": "é", "b": 1}])
    assert folder.rows("results.jsonl") == ([{"a": "é", "b": 1}] * 2, False)
    assert (folder.path / "results.jsonl").read_text() == '{"a":"é","b":1}\n' * 2
    assert folder.rows("absent.jsonl") == ([], False)


def test_every_cut_of_the_last_line_is_dropped_and_reported(tmp_path: Path) -> None:
    folder = make(tmp_path)
    whole = b'{"a":1}\n{"b":"\xc3\xa9"}\n'
    path = folder.path / "results.jsonl"
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        rows, torn = folder.rows("results.jsonl")
        assert torn == (cut not in (0, 8, len(whole))), cut
        # a line that is complete but for its newline can be read; it is still reported as torn
        expected = [{"a": 1}] * (cut >= 7) + [{"b": "é"}] * (cut >= len(whole) - 1)
        assert rows == expected, cut


def test_an_append_after_a_torn_line_does_not_join_it(tmp_path: Path) -> None:
    folder = make(tmp_path)
    (folder.path / "results.jsonl").write_bytes(b'{"a":1}\n{"b":')
    folder.append("results.jsonl", [{"c": 3}])
    assert folder.rows("results.jsonl") == ([{"a": 1}, {"c": 3}], True)


@given(st.binary(max_size=60))
def test_no_bytes_stop_the_reader(data: bytes) -> None:
    rows, _torn = json_lines.parse_lines(data)
    assert all(isinstance(row, dict) for row in rows)


@given(st.binary(max_size=20).filter(lambda data: b"\n" not in data and data.strip()))
def test_garbage_between_good_lines_is_dropped_and_reported(garbage: bytes) -> None:
    try:
        json.loads(garbage)
        return  # not garbage
    except ValueError:
        pass
    rows, torn = json_lines.parse_lines(b'{"a":1}\n' + garbage + b'\n{"b":2}\n')
    assert (rows, torn) == ([{"a": 1}, {"b": 2}], True)


def _append(path: str, mark: int) -> None:
    for number in range(40):
        RunFolder(path).append("results.jsonl", [{"mark": mark, "number": number, "pad": "x" * 300}] * 3)


def test_many_writers_never_mix_their_lines(tmp_path: Path) -> None:
    folder = make(tmp_path)
    writers = [multiprocessing.Process(target=_append, args=(str(folder.path), mark)) for mark in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    rows, torn = folder.rows("results.jsonl")
    assert (len(rows), torn) == (4 * 40 * 3, False)
    # one append stays in one piece
    assert all(rows[at] == rows[at + 1] == rows[at + 2] for at in range(0, len(rows), 3))


def test_a_row_beyond_reading_is_not_written(tmp_path: Path) -> None:
    folder = make(tmp_path)
    folder.append("results.jsonl", [{"id": 1}])
    with pytest.raises(run_folder.RunFolderError, match=r"results\.jsonl takes no row of 8 MiB"):
        folder.append("results.jsonl", [{"id": 2}, {"id": "x" * (8 << 20)}])
    assert folder.rows("results.jsonl") == ([{"id": 1}], False)


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path)
    folder.append("results.jsonl", [{"a": 1}])
    real = os.write

    def full(handle: int, data: Any) -> int:
        if len(data) > 5:
            return real(handle, bytes(data)[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(run_folder.os, "write", full)
    with pytest.raises(
        RunFolderError, match=r"results.jsonl cannot be written: No space left.*free the disk"
    ):
        folder.append("results.jsonl", [{"b": "long enough"}])
    monkeypatch.undo()
    assert folder.rows("results.jsonl") == ([{"a": 1}], False)


def test_replacing_is_atomic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path)
    folder.write("report.md", "old")

    def broken(_handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(run_folder.os, "fsync", broken)
    with pytest.raises(RunFolderError, match=r"report.md cannot be written"):
        folder.write("report.md", "new")
    monkeypatch.undo()
    assert (folder.path / "report.md").read_text() == "old"
    assert sorted(path.name for path in folder.path.iterdir()) == [
        ".secret",
        "manifest.json",
        "raw",
        "report.md",
    ]


def test_collecting_twice_adds_nothing(tmp_path: Path) -> None:
    folder = make(tmp_path)
    assert folder.append_new("results.jsonl", [{"a": 1}, {"a": 2}, {"a": 1}]) == 2
    assert folder.append_new("results.jsonl", [{"a": 2}, {"a": 3}]) == 1
    assert folder.rows("results.jsonl")[0] == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_the_first_end_record_counts(tmp_path: Path) -> None:
    folder = make(tmp_path)
    folder.finish("interrupted")
    folder.finish("completed")
    assert folder.manifest()["end"]["reason"] == "interrupted"
    with pytest.raises(ValueError, match="reason"):
        folder.finish("bored")


def test_what_is_no_run_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"manifest.json is missing: this is not a run folder"):
        RunFolder(tmp_path).manifest()
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(RunFolderError, match=r"is not JSON: .*; .*validate again"):
        RunFolder(tmp_path).manifest()
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(RunFolderError, match="JSON object"):
        RunFolder(tmp_path).manifest()


def test_pieces_that_cannot_all_be_made_leave_the_file_as_it_was(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write("report.md", iter(("one\n", "two\n")))
    assert (tmp_path / "report.md").read_text() == "one\ntwo\n"

    def broken() -> Iterator[str]:
        yield "three\n"
        raise KeyError("four")

    with pytest.raises(KeyError):
        folder.write("report.md", broken())
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("report.md", "one\ntwo\n")]
