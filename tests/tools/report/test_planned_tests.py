"""Planned tests are the same in columns and as dicts, whatever the file holds; so are verdicts as counts."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import folded, rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.verdicts import Verdicts
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import documents
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.asked_lines import AskedLines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder
from support.runs.sweeps import build_sweep

VALUES = (None, True, 1, 1.5, "", "x", "gpu0002", "rail1", "m00000", "m00001", "g00001", 10**30, [], {},
          "\u00fc", "path_mtu", "link", "\ud800")  # fmt: skip


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: Any) -> RunFolder:
    """Return a sweep of three nodes with two rails in which all is well, its rows short."""
    return build_sweep(tmp_path_factory.mktemp("asked"), packed=True)


def written(sweep: RunFolder, path: Path, text: bytes) -> RunFolder:
    """Return a folder that has this text for asked.jsonl, and nothing else that is read here."""
    folder = RunFolder(path / sweep.name)
    folder.path.mkdir(parents=True)
    (folder.path / run_folder.ASKED).write_bytes(text)
    return folder


def spoilt(text: bytes, draw: random.Random) -> Iterator[bytes]:
    """Yield lines, of which some are changed, torn, repeated, or written in another form."""
    lines = text.splitlines(keepends=True)
    for line in lines:
        way = draw.random()
        said = json.loads(line)
        if way < 0.1:
            said[draw.choice([*said, "further"])] = draw.choice(VALUES)
            yield (json.dumps(said, sort_keys=True, separators=(",", ":")) + "\n").encode()
        elif way < 0.13:
            yield (json.dumps(said) + "\n").encode()
        elif way < 0.16:
            place = draw.randrange(len(line))
            yield line[:place] + draw.choice((b"", b'"', b"\\", b"\n", b"\xff", b"NaN", b"}")) + line[place:]
        elif way < 0.18:
            yield line + draw.choice(lines)
        elif way < 0.2:
            yield line[: draw.randrange(len(line))] + draw.choice((b"", b"\n"))
        else:
            yield line


@pytest.mark.parametrize("seed", range(12))
def test_some_of_the_planned_tests_have_each_check_of_each_node_and_rail(
    seed: int, sweep: RunFolder, tmp_path: Path
) -> None:
    lines = (sweep.path / run_folder.ASKED).read_bytes().splitlines(keepends=True)
    draw = random.Random(seed)
    asked = AskedLines.read(
        written(sweep, tmp_path, b"".join(draw.sample(lines, draw.randint(0, len(lines)))))
    )

    def covered(some: list[Any]) -> set[tuple[str, str, str, str]]:
        return {(line["check"], line["rail"], end, line[end]) for line in some for end in ("node", "peer")}

    some = asked.distinct()
    assert covered(some) == covered(list(asked))
    places = [list(asked).index(line) for line in some]
    assert places == sorted(set(places))


@pytest.mark.parametrize("seed", range(60))
def test_planned_tests_are_what_the_file_holds(seed: int, sweep: RunFolder, tmp_path: Path) -> None:
    text = (sweep.path / run_folder.ASKED).read_bytes()
    folder = written(sweep, tmp_path, b"".join(spoilt(text, random.Random(seed))) if seed else text)
    rows, torn = folder.rows(run_folder.ASKED)
    asked = AskedLines.read(folder)
    assert (list(asked), asked.torn, len(asked)) == (rows, torn, len(rows))
    assert [asked[at] for at in range(len(rows))] == rows
    assert asked.fingerprint == requests.fingerprint(rows)
    times = Counter(str(row.get("id")) for row in rows)
    assert all(asked.by_id(str(row.get("id"))) == row for row in rows if times[str(row.get("id"))] == 1)
    assert asked.by_id("m99999") is None
    said = sweep.manifest(), sweep.plan()
    assert documents.problem(*said, asked) == documents.problem(*said, AskedLines(rows))
    if not documents.problem(*said, asked):
        assert requests.alone(asked) == requests.alone(rows)
        assert requests.rdma_left_out(said[1], asked) == requests.rdma_left_out(said[1], rows)
    if not seed:
        assert len(asked.others) < len(asked)


def test_of_many_verdicts_the_counts_are_the_same_without_making_each(
    sweep: RunFolder, monkeypatch: Any
) -> None:
    monkeypatch.setattr(rejudge, "MOST_SINGLE", 1)
    judged = rejudge.judge_folder(sweep.path)
    verdicts = judged.verdicts
    assert isinstance(verdicts, Verdicts)
    assert len(verdicts.rest) < len(verdicts) == len(list(verdicts))
    made = [verdicts[at] for at in range(len(verdicts))]
    assert made == list(verdicts) == verdicts[:]
    assert list(folded.fold_verdicts(verdicts, 1)) == list(folded.fold_verdicts(made, 1))
    assert sum(folded.read_count(line) for line in folded.fold_verdicts(verdicts, 1)) == len(made)
    monkeypatch.setattr(rejudge, "MOST_SINGLE", len(made))
    assert rejudge.judge_folder(sweep.path).verdicts == made
