# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node hands over is data: a hostile archive costs that node's rows, and no other node anything."""

from __future__ import annotations

import gzip
import hashlib
import os
import resource
import shutil
import stat
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.railyard.fabric.plugins.action import fabric_collect
from ansible_collections.railyard.fabric.plugins.module_utils.runner import control, raw_names, record
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import archive_limits
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import summary
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder
from ansible_collections.railyard.fabric.tests.unit.plugins.plugin_utils.judge.test_folder import (
    write,
)
from support.runs.fake_run import NODES, RUN, FakeRun, exchanged

HONEST, HOSTILE = NODES
#: A bomb fills the memory, or a disk, with far more than this; what is honest needs a part of it.
MEMORY_BYTES = 128 * 2**20
BOMB_BYTES = 512 * 2**20


class Collect(fabric_collect.ActionModule):
    """The action with a node behind it that hands over a file."""

    def __init__(self, folder: RunFolder, archive: Path, reply: dict[str, Any] | None = None) -> None:
        self._arguments = {"folder": str(folder.path), "launcher": "systemd", "keep": False}
        self._archive = archive
        self.reply = {"archive": "/etc/shadow", **(reply or {})}
        self.commands: list[str] = []
        shell = SimpleNamespace(tmpdir="/tmp/of-the-node", join_path=lambda *parts: "/".join(parts))
        self._connection = SimpleNamespace(_shell=shell, fetch_file=self.fetch)

    def validate_argument_spec(self, *_words: Any) -> Any:
        return None, self._arguments

    def _execute_module(self, module_args: dict[str, Any], **_words: Any) -> dict[str, Any]:
        return dict(self.reply) if module_args["state"] == "collected" else {}

    def _low_level_execute_command(self, command: str, **_words: Any) -> dict[str, Any]:
        self.commands.append(command)
        return {"rc": 0}

    def _remove_tmp_path(self, *_words: Any) -> None:
        pass

    def fetch(self, _remote: str, local: str) -> None:
        try:
            with self._archive.open("rb") as source, open(local, "wb") as target:
                shutil.copyfileobj(source, target)
        except OSError as error:  # as a connection does
            raise AnsibleError(f"failed to transfer file: {error}") from error


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stand in for a controller whose memory no node may fill."""
    monkeypatch.setattr(ActionBase, "run", lambda *_args, **_kwargs: {})
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    in_use = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (in_use + MEMORY_BYTES, hard))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run that is measured, and of which nothing is fetched yet."""
    run = FakeRun()
    folder = write(run, tmp_path)
    folder.write(run_folder.WORK_ORDER, run_folder.pretty(run.order))
    (folder.path / run_folder.RESULTS).unlink()
    return folder


def rows_of(node: str) -> list[dict[str, Any]]:
    return [row for row in exchanged(FakeRun().results) if row["host"] == node]


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(run_folder.line(row) + "\n" for row in rows).encode()


def member(name: str, data: bytes = b"", **fields: Any) -> bytes:
    """Return a member's bytes, whatever it is."""
    one = tarfile.TarInfo(name)
    one.size = len(data)
    for key, value in fields.items():
        setattr(one, key, value)
    return one.tobuf(tarfile.GNU_FORMAT) + data + b"\0" * (-len(data) % 512)


def packed(path: Path, *members: bytes | int) -> Path:
    """Write an archive; a number stands for so many bytes of the text `[],`, of which memory holds few."""
    with gzip.open(path, "wb", compresslevel=1) as out:
        for one in members:
            if isinstance(one, int):
                for _piece in range(one // 2**20):
                    out.write(b"[],\n" * 2**18)
            else:
                out.write(one)
        out.write(b"\0" * 1024)
    return path


def collect(folder: RunFolder, node: str, archive: Path, reply: dict[str, Any] | None = None) -> Any:
    return Collect(folder, archive, reply).run(None, {"inventory_hostname": node})


def good(path: Path, node: str) -> Path:
    """Write an honest node's archive, as the module on the node does."""
    run = path.parent / f"run-of-{node}"
    raw = run / record.RAW
    raw.mkdir(parents=True)
    (run / record.RESULTS).write_bytes(lines(rows_of(node)))
    (run / record.STATUS).write_text("{}")
    (run / "runner.log").write_text("")
    for row in rows_of(node):
        if row["id"].startswith("m"):
            (raw / raw_names.raw_name(row["id"], row["end"])).write_text("words of a tool\n" * 1000)
    control._pack(str(run), str(path))
    return path


def test_what_honest_nodes_hand_over_is_judged(folder: RunFolder, tmp_path: Path) -> None:
    for node in NODES:
        result = collect(folder, node, good(tmp_path / "node.tar.gz", node))
        assert (result["rows"], result["notes"]) == (len(rows_of(node)), [])
        mode = (folder.path / "raw" / f"{node}.tar.gz").stat().st_mode
        assert stat.S_IMODE(mode) == 0o600
    assert rejudge.rejudge(folder.path) == 0


def test_of_a_node_that_was_collected_before_only_new_rows_are_kept(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = good(tmp_path / "node.tar.gz", HONEST)
    looked: list[str] = []
    opened = RunFolder.open
    monkeypatch.setattr(RunFolder, "open", lambda self, name: looked.append(name) or opened(self, name))
    # The first time no node reads what a thousand others measured.
    assert collect(folder, HONEST, archive)["rows"] == len(rows_of(HONEST))
    assert run_folder.RESULTS not in looked
    # The controller was killed before the last row was kept.
    results = folder.path / run_folder.RESULTS
    results.write_bytes(b"".join(results.read_bytes().splitlines(keepends=True)[:-1]))
    looked.clear()
    assert collect(folder, HONEST, archive)["rows"] == 1
    assert run_folder.RESULTS in looked
    assert results.read_bytes() == lines(rows_of(HONEST))


def test_the_file_that_is_fetched_is_not_of_the_nodes_choice(folder: RunFolder, tmp_path: Path) -> None:
    action = Collect(folder, good(tmp_path / "node.tar.gz", HONEST))
    action.run(None, {"inventory_hostname": HONEST})
    assert f"cp -- /var/lib/railyard/runs/{RUN}/{HONEST}.tar.gz /tmp" in action.commands[0]


ROWS = lines(rows_of(HOSTILE))
RESULTS = member("results.jsonl", ROWS)
FORGED = {
    "bomb of rows": (lambda: (sized("results.jsonl", BOMB_BYTES), BOMB_BYTES), r"results\.jsonl .* bytes"),
    "bomb beside the rows": (
        lambda: (RESULTS, sized("runner.log", BOMB_BYTES), BOMB_BYTES), r"runner\.log in it has \d+ bytes"
    ),
    "bombs that are only together too much": (
        lambda: (RESULTS, *(one for name in ("runner.log", "status.json")
                            for one in (sized(name, 20 * 2**20), 20 * 2**20))),
        r"status\.json: unpacked it is longer than",
    ),
    "bomb before the rows": (
        lambda: (sized("pax", BOMB_BYTES, tarfile.XHDTYPE), BOMB_BYTES, RESULTS), "'pax'"
    ),
    "name as long as a bomb": (
        lambda: (sized("././@LongLink", BOMB_BYTES, tarfile.GNUTYPE_LONGNAME), BOMB_BYTES), "LongLink"
    ),
    "line as long as a bomb": (
        lambda: (member("results.jsonl", b'{"x":"' + b"x" * 400_000 + b'"}\n'),), "a line of more than"
    ),
    "rows without end": (lambda: (member("results.jsonl", ROWS * 3),), "more rows than"),
    "link to itself": (
        lambda: (member("results.jsonl", type=tarfile.SYMTYPE, linkname="results.jsonl"),), "no plain file"
    ),
    "hard link": (
        lambda: (member("results.jsonl", type=tarfile.LNKTYPE, linkname="/etc/shadow"),), "no plain file"
    ),
    "device": (lambda: (RESULTS, member("runner.log", type=tarfile.BLKTYPE)), "no plain file"),
    "pipe": (lambda: (RESULTS, member("runner.log", type=tarfile.FIFOTYPE)), "no plain file"),
    "folder": (lambda: (member("results.jsonl", type=tarfile.DIRTYPE),), "no plain file"),
    "way out": (lambda: (RESULTS, member("../../.ssh/authorized_keys", b"key")), "authorized_keys"),
    "name that clears the screen": (lambda: (RESULTS, member("\x1b[2Jx")), "'x'|x1b"),
    "raw output of no test": (lambda: (RESULTS, member("m99999.client.txt")), r"m99999\.client\.txt"),
    "member twice": (lambda: (RESULTS, RESULTS), "twice"),
    "no rows": (lambda: (member("status.json", b"{}"),), r"no results\.jsonl"),
    "length below zero": (lambda: (member("results.jsonl", size=-512),), "no plain file"),
    "noise": (lambda: (bytes(range(256)) * 8,), "damaged"),
}  # fmt: skip


def sized(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """Return the header alone of a member."""
    return member(name, size=size, type=kind)


@pytest.mark.parametrize("name", FORGED)
def test_a_hostile_archive_is_named_and_costs_that_nodes_rows_alone(
    folder: RunFolder, tmp_path: Path, name: str
) -> None:
    members, told = FORGED[name]
    forged = packed(tmp_path / "forged.tar.gz", *members())
    collect(folder, HONEST, good(tmp_path / "node.tar.gz", HONEST))
    begun_s = time.process_time()
    with pytest.raises(AnsibleError, match=f"^{HOSTILE}: .*({told})") as refused:
        collect(folder, HOSTILE, forged)
    assert time.process_time() - begun_s < 5
    assert str(refused.value).isprintable()
    said = summary.summarise(folder.path)
    assert said["exit_status"] == 3
    causes = {one["cause_class"] for one in said["problems"] if one["peer"]}
    assert "not_collected" in causes
    assert any(HOSTILE in one["cause"] for one in said["problems"])
    judged = rejudge.judge_folder(folder.path).verdicts
    healthy = [one["outcome"] for one in judged if one["check"] in ("link", "address", "mtu")]
    assert set(healthy) == {"pass"}


def test_rows_that_are_large_as_objects_are_taken_within_little_memory(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`[],` is three bytes as text and seventy as a list; of many tests the rows may be long together."""
    monkeypatch.setattr(archive_limits, "_ROW_BYTES", 512 << 10)
    limits = archive_limits.of_node(folder.orders(), HOSTILE)
    tests = [row for row in rows_of(HOSTILE) if row["id"].startswith("m")]
    spare = limits.row_bytes - max(len(run_folder.line(row)) for row in tests) - 32
    # One list, many times: here it takes no memory.
    wide = [{**row, "x": [[]] * (spare // 3)} for row in tests]
    assert 64 * sum(len(row["x"]) for row in wide) > MEMORY_BYTES
    result = collect(folder, HOSTILE, packed(tmp_path / "x.tar.gz", member("results.jsonl", lines(wide))))
    assert (result["rows"], result["notes"]) == (len(wide), [])


def test_what_has_no_end_is_not_fetched_to_its_end(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fabric_collect.archive_limits, "_BASE_BYTES", 2**20)
    begun_s = time.process_time()
    with pytest.raises(AnsibleError, match=f"^{HOSTILE}: its archive is longer than"):
        collect(folder, HOSTILE, Path("/dev/zero"))
    assert time.process_time() - begun_s < 5
    assert os.listdir(folder.path / "raw") == []
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


@pytest.mark.parametrize(
    "forged",
    [
        # Another node's row, the other end of a test in its own name, what was never planned, an old one.
        next(row for row in rows_of(HONEST) if row["status"] == "measured"),
        {**rows_of(HOSTILE)[0], "end": "server" if rows_of(HOSTILE)[0]["end"] == "client" else "client"},
        {**rows_of(HOSTILE)[0], "id": "m99999"},
        {**rows_of(HOSTILE)[0], "id": ["m00000"], "end": {}},
        {**rows_of(HOSTILE)[0], "run": "20251121T101500Z-3f2a"},
    ],
)
def test_a_row_that_is_not_of_the_nodes_own_ends_is_dropped_and_reported(
    folder: RunFolder, tmp_path: Path, forged: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(fabric_collect.display, "warning", warned.append)
    *kept, left_out = rows_of(HOSTILE)
    rows = lines([*kept, {**forged, "status": "failed", "error": {"class": "tool_failed"}}])
    collect(folder, HONEST, good(tmp_path / "node.tar.gz", HONEST))
    result = collect(folder, HOSTILE, packed(tmp_path / "x.tar.gz", member("results.jsonl", rows)))
    assert warned == [f"{HOSTILE}: {result['notes'][0]}"]
    assert result["notes"][0].startswith("1 rows were left out")
    judged = rejudge.judge_folder(folder.path)
    assert judged.exit_status == 3
    bad = {one["id"] for one in judged.verdicts if one["outcome"] in ("fail", "unmeasured")}
    assert bad == {left_out["id"]}


def test_a_damaged_archive_is_refused(folder: RunFolder, tmp_path: Path) -> None:
    path = good(tmp_path / "node.tar.gz", HONEST)
    with pytest.raises(AnsibleError, match=f"^{HONEST}: .*SHA-256"):
        collect(folder, HONEST, path, {"sha256": "0" * 64})
    whole = path.read_bytes()
    assert collect(folder, HONEST, path, {"sha256": hashlib.sha256(whole).hexdigest()})["rows"]
    for left in (20, len(whole) // 2, len(whole) - 5, len(whole)):
        path.write_bytes(whole[:-left])
        with pytest.raises(AnsibleError, match=f"^{HONEST}: .*damaged"):
            collect(folder, HONEST, path)


def test_a_row_nested_beyond_sense_is_none(folder: RunFolder, tmp_path: Path) -> None:
    deep = b'{"run":"%s","host":"%s","x":%s1%s}\n' % (
        RUN.encode(), HOSTILE.encode(), b"[" * 4000, b"]" * 4000,
    )  # fmt: skip
    result = collect(folder, HOSTILE, packed(tmp_path / "x.tar.gz", member("results.jsonl", deep)))
    assert (result["rows"], result["notes"]) == (0, ["a torn line was dropped"])


WORDS = "\x1b[2J\x1b]0;mine\x07" + "gone\n" * 10**6


@pytest.mark.parametrize(
    "reply", [{"failed": True, "msg": WORDS, "ansible_facts": {"x": 1}}, {"sha256": WORDS}]
)
def test_what_a_node_says_is_cut_and_cleaned(
    folder: RunFolder, tmp_path: Path, reply: dict[str, Any]
) -> None:
    try:
        result = collect(folder, HOSTILE, good(tmp_path / "node.tar.gz", HOSTILE), reply)
        said = result["msg"]
    except AnsibleError as error:
        said = str(error)
    (row,) = folder.rows(run_folder.OBSTACLES)[0]
    for text in (said, row["error"]["message"]):
        assert "gone" in text
        assert text.isprintable()
        assert len(text) < 1000
