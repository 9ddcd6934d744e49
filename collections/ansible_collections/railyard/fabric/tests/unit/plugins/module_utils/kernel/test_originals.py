from __future__ import annotations

import json

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import originals

RECORD = {"schema": 1, "governors": {"cpu0": "powersave"}, "sysctl": {"a": "1", "b": "2"}}


def values(**sections):
    return {**{section: {} for section in originals.SECTIONS}, **sections}


SEEN = values(governors={"cpu0": "performance"}, sysctl={"a": "9", "b": "9", "c": "3"})


def test_what_was_recorded_once_stays_and_what_is_requested_later_is_added():
    held = values(governors={"cpu0": "performance"}, sysctl={"a": "9", "b": "9", "c": "9"})
    kept, released = originals.split(RECORD, held, {"governors", "sysctl"}, SEEN)
    assert released == values()
    assert originals.merged(kept, held, SEEN) == {**RECORD, "sysctl": {"a": "1", "b": "2", "c": "3"}}


def test_what_is_no_longer_wanted_is_released_and_the_rest_kept():
    held = values(sysctl={"a": "9"})
    kept, released = originals.split(RECORD, held, {"sysctl"}, SEEN)
    assert released == values(governors={"cpu0": "powersave"}, sysctl={"b": "2"})
    assert originals.merged(kept, held, SEEN) == {"schema": 1, "sysctl": {"a": "1"}}


def test_a_cpu_that_is_offline_stays_on_record_while_governors_are_requested():
    seen = values(governors={}, sysctl=SEEN["sysctl"])
    assert originals.split(RECORD, values(), {"governors"}, seen)[0]["governors"] == {"cpu0": "powersave"}
    assert originals.split(RECORD, values(), set(), seen)[1]["governors"] == {"cpu0": "powersave"}


def test_when_nothing_is_held_there_is_no_record():
    assert originals.merged(originals.split(RECORD, values(), set(), SEEN)[0], values(), SEEN) is None


def test_while_values_are_written_the_record_has_both_the_held_and_the_released():
    before = {"schema": 1, "governors": {"cpu0": "powersave"}, "sysctl": {"a": "1"}}
    after = {"schema": 1, "sysctl": {"a": "9", "b": "2"}}
    assert originals.union(before, after) == {**before, "sysctl": {"a": "1", "b": "2"}}
    assert originals.union(None, after) == after
    assert originals.union(before, None) == before
    assert originals.union(None, None) is None


def test_record_survives_the_disk(tmp_path):
    path = tmp_path / "deep/originals.json"
    assert originals.load(str(path)) is None
    originals.store(str(path), RECORD)
    assert originals.load(str(path)) == RECORD
    assert [entry.name for entry in path.parent.iterdir()] == ["originals.json"]
    originals.remove(str(path))
    assert originals.load(str(path)) is None


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"schema": 2})])
def test_a_broken_record_is_no_absent_record(tmp_path, text):
    path = tmp_path / "originals.json"
    path.write_text(text)
    with pytest.raises(originals.OriginalsError, match=r"originals\.json.*repair or remove"):
        originals.load(str(path))
