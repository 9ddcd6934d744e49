# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A judgement that is handed on is the one that judging again gives, or it is not used."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask.suspects import Suspect
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.oversubscription import (
    Crossed,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.slow_components import (
    Ambiguous,
    Crossing,
    Findings,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge, stored_judgement
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder
from ansible_collections.railyard.fabric.tests.unit.plugins.plugin_utils.judge.test_folder import write
from support.runs.fake_run import FakeRun
from support.runs.run_builder import scale

FOUND = Findings(
    (Suspect("leaf", rail="rail0", leaf="leaf1", share=0.8712345678901234, evidence=3),),
    (Suspect("pair", "n1", "rail0", "n2", confidence="likely"),),
    (Ambiguous("rail1", ("n1", "n2")),),
    (Crossing("rail0", "leaf0", "leaf1", 1 / 3),),
)


def kept_of(folder: RunFolder) -> tuple[rejudge.Judged, str]:
    """Return the judgement of a folder, and the digest of what was kept of it."""
    state = stored_judgement.digest_files(folder)
    judged = rejudge.judge_folder(folder.path)
    return judged, stored_judgement.store(folder, judged, state)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    run = FakeRun(transport="roce", driver_class="hardware", node_class="hardware", bidirectional=True)
    for row in run.rows(run.ids("tcp_bandwidth")[0]):
        scale(row, 0.3)
    run.results[5]["metrics"] = {"bandwidth_gbps": "fast"}
    return write(run, tmp_path)


def test_what_is_taken_is_what_was_judged_to_the_order_of_keys(folder: RunFolder) -> None:
    judged, digest = kept_of(folder)
    taken = stored_judgement.load(folder, digest)
    assert taken == judged
    assert repr(taken.verdicts) == repr(judged.verdicts)
    assert list(rejudge.list_lines(taken)) == list(rejudge.list_lines(judged))


def test_findings_and_notes_come_back_as_they_were(folder: RunFolder) -> None:
    crossed = [Crossed("rail0", 0.5, 1, 2, 2, True)]
    judged = replace(
        rejudge.judge_folder(folder.path), findings=FOUND, crossed=crossed, strangers=["a \x1b\n line\u2028"]
    )
    digest = stored_judgement.store(folder, judged, stored_judgement.digest_files(folder))
    assert repr(stored_judgement.load(folder, digest)) == repr(judged)


@pytest.mark.parametrize("name", rejudge.FILES)
@pytest.mark.parametrize("how", ["changed", "removed", "unreadable"])
def test_where_a_file_is_another_by_now_the_folder_is_judged_again(
    folder: RunFolder, name: str, how: str
) -> None:
    path = folder.path / name
    if not path.exists():
        path.write_text("{}\n")
    digest = kept_of(folder)[1]
    assert stored_judgement.load(folder, digest) is not None
    stat, content = path.stat(), path.read_bytes()
    path.unlink()
    if how == "changed":
        # One byte, of the same length and time.
        path.write_bytes(bytes([*content[:-1], content[-1] ^ 1]))
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    elif how == "unreadable":
        os.mkfifo(path)
    assert stored_judgement.load(folder, digest) is None


def test_a_file_that_was_not_there_before_counts(folder: RunFolder) -> None:
    digest = kept_of(folder)[1]
    (folder.path / "confirm_order.json").write_text("{}")
    assert stored_judgement.load(folder, digest) is None


def test_verdicts_that_somebody_wrote_in_are_not_taken(folder: RunFolder) -> None:
    judged, digest = kept_of(folder)
    good = replace(judged, verdicts=[{**one, "outcome": "pass"} for one in judged.verdicts], exit_status=0)
    forged = stored_judgement.store(folder, good, stored_judgement.digest_files(folder))
    assert stored_judgement.load(folder, forged) == good  # it is by its digest alone that it is known
    assert stored_judgement.load(folder, digest) is None
    assert stored_judgement.load(folder, "") is None
    stored_judgement.remove(folder)
    assert stored_judgement.load(folder, forged) is None


def test_a_row_that_comes_while_the_folder_is_judged_is_not_lost(folder: RunFolder) -> None:
    state = stored_judgement.digest_files(folder)
    judged = rejudge.judge_folder(folder.path)
    folder.append("results.jsonl", [{"id": "late"}])
    assert stored_judgement.load(folder, stored_judgement.store(folder, judged, state)) is None


def test_all_files_that_are_judged_are_in_the_digest(folder: RunFolder) -> None:
    opened: list[str] = []

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and watching:
            opened.append(str(arguments[0]))

    watching = True
    sys.addaudithook(note)
    rejudge.judge_folder(folder.path)
    watching = False
    mine = {Path(one).name for one in opened if one.startswith(str(folder.path))}
    assert mine >= {"manifest.json", "plan.json", "asked.jsonl", "facts.jsonl", "results.jsonl"}
    assert mine <= {*rejudge.FILES}


def test_a_link_in_its_place_is_not_written_through(folder: RunFolder, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    (folder.path / stored_judgement.FILE).symlink_to(other)
    judged, digest = kept_of(folder)
    assert other.read_text() == "mine"
    assert stored_judgement.load(folder, digest) == judged


def test_where_nothing_can_be_kept_the_folder_is_judged_again(folder: RunFolder) -> None:
    (folder.path / stored_judgement.FILE).mkdir()
    assert kept_of(folder)[1] == ""
    stored_judgement.remove(folder)
    assert stored_judgement.load(folder, "0" * 64) is None
