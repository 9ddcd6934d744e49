"""Rows of a sweep have the verdicts by the column that they have one by one, whatever is wrong with them."""

from __future__ import annotations

import functools
import itertools
import json
import operator
import random
import shutil
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.runner import packed_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import result_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import passing_tests
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge, verdict
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.runs import packed_lines
from support.runs.packed_lines import FIRST, HEARD
from support.runs.sweeps import build_sweep, judge_lines, lines_of, record_passing

WORDS = (None, True, "x", "", [], {}, 0, -1, 1.5, 2**31, 2**32 - 1, 2**62, 2**63, 2**70, float("nan"),
         "gpu0002", "10.1.0.2")  # fmt: skip
#: Next to the bounds of rates that both ends state, and of all others.
NEAR = (0.94, 0.949, 0.96, 0.99, 0.9999, 1.0001, 1.01, 1.04, 1.051)
FAR = (0.0, 0.1, 0.5, 0.9, 1.1, 1.2, 2, 19, 20, 22.9, 23.1, 60, 1000)
#: What a frame says that is weighed otherwise than as in a single row.
DECIDING = {
    "idle_bytes_per_s",
    "argv",
    "active_mtu_bytes",
    "tool_version",
    "qps",
    "gid_type",
    "metrics",
    "proof",
}
#: So many times as far apart as in truth a counter's spans are: one of them may grow and reach into no other.
APART = 64


def apart(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose counters begin at APART times as much, and its samples with them."""
    if not row["counters"]:
        return row

    def later(end: dict[str, Any]) -> dict[str, Any]:
        spans = {name: [APART * at, (APART - 1) * at + to] for name, (at, to) in end["counters"].items()}
        return {**end, "counters": spans}

    made = {**later(row), "other_end": later(row["other_end"])}
    if samples := row.get("samples"):
        name, unit = ("port_rcv_data", 4) if "port_rcv_data" in row["counters"] else ("rx_bytes", 1)
        by = (APART - 1) * unit * row["counters"][name][0]
        made["samples"] = {**samples, "rx_bytes": [by + at for at in samples["rx_bytes"]]}
    return made


@pytest.fixture(scope="module", params=["roce", "tcp"])
def sweep(request: Any, tmp_path_factory: Any) -> RunFolder:
    """Return a sweep of three nodes with two rails in which all is well."""
    return build_sweep(tmp_path_factory.mktemp(request.param), change=apart, transport=request.param)


def keys_of(value: Any) -> Any:
    return sorted(value) if isinstance(value, dict) else range(len(value))


def times_as_much(old: Any, times: float) -> Any:
    return type(old)(old * times) if isinstance(old, (int, float)) else old


def other_than(old: Any, draw: random.Random) -> Any:
    way = draw.random() if isinstance(old, (int, float)) and not isinstance(old, bool) else 1.0
    if way < 0.2:
        return old + draw.choice((-1, 1, 1000))
    return (
        times_as_much(old, draw.choice(draw.choice((NEAR, FAR)))) if way < 0.8 else draw.choice((*WORDS, old))
    )


def parts_of(frame: dict[str, Any]) -> list[range]:
    """Return where its rows have metrics, counters' growth, window, iterations; and counters' begins."""
    counters = FIRST + len(frame["metrics"][1])
    window = counters + 2 * len(frame["counters"])
    words = window + 2 * bool(frame["window_s"])
    last = words + sum(word is None for argv in frame["argv"] for word in argv)
    return [range(FIRST, counters), range(counters + 1, window, 2), range(window, words),
            range(last, last + bool(frame["iterations"])), range(counters, window, 2)]  # fmt: skip


def spoil(lines: list[dict[str, Any]], draw: random.Random) -> None:
    """Change packed rows or frames, or the order of two of them; mostly a row's peer knows of the change."""
    frames = packed_rows.Frames()
    packed = [place for place, line in enumerate(lines) if "as" in line]
    framed = [line["row"] for line in lines if "frame" in line and frames.add(line)]
    one, other = draw.sample(packed, 2)
    line, way = lines[one], draw.random()
    both = [its for its in lines if "as" in its and its["id"] == line["id"]]
    sound = all(None not in expand_row(its, lines) for its in both)
    if way < 0.02:
        line["id"], lines[other]["id"] = lines[other]["id"], line["id"]
    elif way < 0.04:
        lines[one] = dict(lines[other])
    elif way < 0.05:
        del lines[one]
    elif way < 0.07:
        line["as"] = lines[other]["as"]
    elif way < 0.35:
        frame = draw.choice(framed)
        path = [draw.choice(sorted(frame.keys() & DECIDING if draw.random() < 0.5 else frame))]
        at: Any = frame
        while isinstance(at[path[-1]], (dict, list)) and at[path[-1]] and draw.random() < 0.8:
            at = at[path[-1]]
            path.append(draw.choice(keys_of(at)))
        new, alike = other_than(at[path[-1]], draw), draw.random() < 0.5
        # Both ends may say it.
        for its in [each for each in framed if alike and each.get("check") == frame.get("check")] or [frame]:
            with suppress(LookupError, TypeError):
                functools.reduce(operator.getitem, path[:-1], its)[path[-1]] = new
    elif way < 0.42 and sound:
        # A counter of one test reaches into that of another, or just does not.
        values, place = line["v"], draw.choice(parts_of(frames.frame(line["as"]).row)[-1])
        for its in [its["v"] for its in lines if its.get("as") == line["as"] and its is not line]:
            values[place] = its[place] + draw.choice((0, its[place + 1])) + draw.choice((-1, 0, 1))
        if draw.random() < 0.2:
            values[place] = 2**32 - 1 - values[place + 1]
    elif way < 0.7 and sound:
        # Both ends say more, or less, than what else they say confirms.
        times, parts = draw.choice(draw.choice((NEAR, FAR))), draw.sample(range(4), draw.randint(1, 2))
        for its in both:
            for place in itertools.chain(*(parts_of(frames.frame(its["as"]).row)[part] for part in parts)):
                its["v"][place] = times_as_much(its["v"][place], times)
    else:
        values = line["v"]
        parts = parts_of(frames.frame(line["as"]).row) if sound else []
        place = draw.choice(draw.choice([range(len(values)), *filter(len, parts)]))
        values[place] = other_than(values[place], draw)
        if draw.random() < 0.3:
            place = draw.randrange(len(values))
            values[place] = lines[other]["v"][min(place, len(lines[other]["v"]) - 1)]
    # Else the digest alone would tell.
    for its, peer in itertools.permutations(both, 2) if draw.random() < 0.85 else ():
        made = expand_row(its, lines)[0]
        if made is not None and isinstance(peer["v"][HEARD], str):
            tell(peer, made)
    if line in lines and draw.random() < 0.1:
        lines[lines.index(line)] = expand_row(line, lines)[0] or line


def expand_row(line: dict[str, Any], lines: list[dict[str, Any]]) -> list[dict[str, Any] | None]:
    """Return a packed row in full."""
    frames = [its for its in lines if its.get("frame") == line["as"]]
    return list(packed_lines.each_row([*frames, line])) or [None]


def tell(line: dict[str, Any], row: dict[str, Any]) -> None:
    """Let a packed row have heard the digest of a row."""
    with suppress(TypeError, ValueError, AttributeError, struct.error, OverflowError):  # it has no digest
        line["v"][HEARD] = f"{line['v'][HEARD].partition('.')[0]}.{packed_rows.digest_of_row(row):016x}"


def written(folder: RunFolder, path: Path, **files: list[dict[str, Any]]) -> RunFolder:
    """Return a copy of a folder with these lines, packed where they can be, for `results` and `facts`."""
    copy = RunFolder(shutil.copytree(folder.path, path / "made" / folder.name, dirs_exist_ok=True))
    for name, lines in files.items():
        made = packed_lines.pack(lines)
        text = (json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n" for line in made)
        copy.write(f"{name}.jsonl", "".join(text))
    return copy


@pytest.mark.parametrize("seed", range(80))
def test_by_the_column_and_one_by_one_the_verdicts_are_the_same(
    seed: int, sweep: RunFolder, tmp_path: Path, monkeypatch: Any
) -> None:
    lines, draw = packed_lines.unpack(lines_of(sweep)), random.Random(seed)
    for _time in range((seed + 4) // 5):
        spoil(lines, draw)
    folder = written(sweep, tmp_path, results=lines)
    monkeypatch.setattr(verdict.passing_tests, "_AT_ONCE", 1 + seed)
    by_column = judge_lines(folder)
    assert by_column[1].exit_status == 0 or seed
    # Held whole, a row is in no column.
    monkeypatch.setattr(result_rows.ResultRows, "_size", lambda _rows: (False, False))
    assert judge_lines(folder) == by_column


def test_a_counter_that_cannot_be_added_overlaps_with_others(
    sweep: RunFolder, tmp_path: Path, monkeypatch: Any
) -> None:
    lines = packed_lines.unpack(lines_of(sweep))
    frames = {line["frame"]: line["row"] for line in lines if "frame" in line}
    first = next(line for line in lines if "as" in line)
    first["v"][parts_of(frames[first["as"]])[1][0]] = 1 << 62
    folder = written(sweep, tmp_path, results=lines)
    by_column = judge_lines(folder)
    assert sum("counted_twice" in line for line in by_column[0]) > 1
    monkeypatch.setattr(result_rows.ResultRows, "_size", lambda _rows: (False, False))
    assert judge_lines(folder) == by_column


def faulty(row: dict[str, Any]) -> dict[str, Any] | None:
    """Leave out a row of a sweep, and let others say that something is not as it has to be."""
    which = row["id"], row["end"]
    if which == ("m00000", "server"):
        return None
    grown = {"link_errors": {**(row.get("link_errors") or {}), "netdev.rx_crc_errors": [3, 4]}}
    error = {"class": "tool_failed", "message": "none came back"}
    failed = {"status": "failed", "metrics": {}, "error": error}
    wrong = {"m00001": failed, "m00002": {"proof": "unproven"}, "m00003": grown}
    return {**row, **wrong.get(row["id"], {})} if which[1] == "client" else row


@pytest.fixture(scope="module", params=["roce", "tcp"])
def bad_sweep(request: Any, tmp_path_factory: Any) -> tuple[RunFolder, Path, dict[str, dict[str, Any]]]:
    """Return a sweep in which not all is well, a place for spoilt copies, and id -> verdict."""
    place = tmp_path_factory.mktemp(request.param)
    made = build_sweep(place, change=faulty, transport=request.param)
    return made, place / "spoilt", {one["id"]: one for one in rejudge.judge_folder(made.path).verdicts}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


# A folder of many fields is not made smaller: that takes minutes.
@settings(
    max_examples=25, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow]
)
@given(
    node=st.sampled_from(["gpu0001", "gpu0002", "gpu0003"]),
    garbage=st.lists(json_values, min_size=4, max_size=8),
    draw=st.integers(0, 2**32).map(random.Random),
)
def test_a_nodes_garbage_stops_no_judge_makes_nothing_good_and_is_no_matter_of_others(
    node: str, garbage: list[Any], draw: random.Random, bad_sweep: Any
) -> None:
    folder, place, before = bad_sweep
    files = {name: lines_of(folder, name) for name in ("facts", "results")}
    if draw.random() < 0.7:
        files["results"] = packed_lines.unpack(files["results"])
    for line in itertools.chain(*files.values()):
        whose = line.get("frame") or line.get("as") or line.get("host") or line["node"]
        own = whose.partition("/")[0] == node
        at: Any = (line.get("row") or line.get("v") or line) if draw.random() < 0.8 else line
        key = draw.choice(keys_of(at))
        while isinstance(at[key], (dict, list)) and at[key] and draw.random() < 0.8:
            at = at[key]
            key = draw.choice(keys_of(at))
        if own and draw.random() < 0.2:
            del at[key]
        elif own and draw.random() < 0.4:
            at[key] = draw.choice([*garbage, 10**400])
    for one in rejudge.judge_folder(written(folder, place, **files).path).verdicts:
        was, good = before[one["id"]]["outcome"], ("pass", "recorded")
        assert one["outcome"] not in good or was in good, one
        assert one["outcome"] in good or (one["cause"] and one["next"]), one
        # Who hears a node, and whom it heard, is known from both.
        others = one["peer"] is not None and node not in (one["node"], one["peer"])
        assert one["outcome"] == was or not others, one


def test_all_of_a_sound_sweep_is_plain(sweep: RunFolder, monkeypatch: Any) -> None:
    found = record_passing(monkeypatch)
    judged = rejudge.judge_folder(sweep.path)
    tests = [one["id"] for one in judged.verdicts if one["check"] in passing_tests.CHECKED]
    assert tests
    assert all(identity in found[0] for identity in tests)
