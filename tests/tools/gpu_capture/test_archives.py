"""tests/gpu/check reads archives from anybody: what is no such archive is one sentence and status 2."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
from pathlib import Path

import pytest
from gpu.capture import archive_file, main, names
from gpu.checking import main as checking
from support.nodes.gpu_machine import GpuMachine

ARCHIVES = sorted((Path(__file__).parents[2] / "gpu/archives").glob("*.tar.gz"))


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Return the members of a healthy machine's archive."""
    machine = GpuMachine(tmp_path_factory.mktemp("machine"))
    path = machine.bin / "capture.tar.gz"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{machine.bin}:/usr/bin:/bin")
        assert main.main([str(path), "--root", str(machine.root), "--python", machine.programs()]) == 0
    with tarfile.open(path) as archive:
        return {one.name: archive.extractfile(one).read() for one in archive.getmembers()}


def packed(folder: Path, members: list[tuple[str, bytes]], kind: bytes = tarfile.REGTYPE) -> Path:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.linkname = (
                kind,
                len(data),
                "/etc/passwd" if kind != tarfile.REGTYPE else "",
            )
            archive.addfile(info, io.BytesIO(data))
    path = folder / "x.tar.gz"
    path.write_bytes(gzip.compress(buffer.getvalue()))
    return path


def refused(path: Path, capsys) -> str:
    status = checking.main([str(path)])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


def test_the_good_one_is_good(good, tmp_path):
    assert checking.main([str(packed(tmp_path, list(good.items())))]) == 0


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([("../../etc/x", b"")], "which no run writes"),
        ([("manifest.json", b"{}"), ("manifest.json", b"{}")], "twice"),
        ([("manifest.json", b"{}")], "the schema is another one"),
        ([("nccl.env", b"")], "manifest.json is missing"),
        ([("manifest.json", b"[" * 100000)], "not JSON"),
        (
            [("manifest.json", b'{"schema": 1, "steps": [{"name": 5}], "gpu": true}')],
            "steps are missing or odd",
        ),
        ([("nccl.log", b"x" * ((1 << 20) + 1))], "1048576 are the most"),
    ],
)
def test_what_no_run_writes_is_refused(tmp_path, capsys, members, said):
    assert said in refused(packed(tmp_path, members), capsys)


def test_links_bombs_and_other_files_are_refused(tmp_path, capsys, good):
    assert "no plain file" in refused(packed(tmp_path, [("manifest.json", b"")], tarfile.SYMTYPE), capsys)
    bomb = tmp_path / "bomb.tar.gz"
    bomb.write_bytes(gzip.compress(bytes(200 << 20)))
    refused(bomb, capsys)
    (tmp_path / "text").write_text("hello")
    refused(tmp_path / "text", capsys)
    refused(tmp_path / "nowhere", capsys)
    refused(tmp_path, capsys)
    whole = packed(tmp_path, list(good.items())).read_bytes()
    (tmp_path / "torn").write_bytes(whole[: len(whole) // 2])
    refused(tmp_path / "torn", capsys)


@pytest.mark.parametrize("address", ["../../../../tmp/evil", "0000:53:00.0/../../x", "", 7])
def test_an_address_never_becomes_another_path(tmp_path, capsys, good, address):
    node = json.loads(good["node.json"])
    node["functions"][0]["pci"] = address
    said = refused(packed(tmp_path, list({**good, "node.json": json.dumps(node).encode()}.items())), capsys)
    assert "functions are missing or odd" in said


def test_a_terminal_sequence_is_not_printed(tmp_path, capsys, good):
    quick = json.dumps({"exit_status": 1, "line": "\x1b[2J\x1b]0;all good\x07 bad"}).encode()
    assert checking.main([str(packed(tmp_path, list({**good, "quick.json": quick}.items())))]) == 1
    assert "\x1b" not in capsys.readouterr().out


def _odd_values(value, rng):
    """Return a document with one of its values replaced by one of another type."""
    places = []

    def walk(one, set_):
        places.append(set_)
        for key in one if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ():
            walk(one[key], lambda new, one=one, key=key: one.__setitem__(key, new))

    document = json.loads(json.dumps(value))
    for key in document:
        walk(document[key], lambda new, key=key: document.__setitem__(key, new))
    rng.choice(places)(rng.choice([5, "x", [], {}, None, -1, 1e300, [[]], {"a": {}}, True, "9" * 400]))
    return document


def test_no_odd_value_is_a_traceback(tmp_path, capsys, good):
    rng = random.Random(33)
    documents = [name for name in good if name.endswith(".json")]
    for _turn in range(60):
        name = rng.choice(documents)
        odd = json.dumps(
            _odd_values(json.loads(good[name]), rng) if json.loads(good[name]) else {"x": 1}
        ).encode()
        path = packed(tmp_path, list({**good, name: odd}.items()))
        assert checking.main([str(path)]) in (0, 1, 2, 3), (name, odd[:400])
    capsys.readouterr()


def test_a_capture_that_is_too_large_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(archive_file, "MOST_PACKED_BYTES", 100)
    with pytest.raises(archive_file.ArchiveError):
        archive_file.write(
            str(tmp_path / "x"), {"steps": []}, {"nccl.log": "x" * 1000}, names.Names((), (), ())
        )
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("path", ARCHIVES, ids=lambda path: path.stem)
def test_a_committed_archive_of_hardware_is_read(path):
    """Of these four machines nothing was broken, and every step gave a result."""
    lines = checking.check(path)
    assert [line for line in lines if line.outcome != "good"] == []
    said = {line.what: line.detail for line in lines}
    assert f"NVIDIA {path.name[:4].upper()}" in said["gpu_info"]
    xid = said["rule gpu_xid"]
    if "xids" in path.name:
        assert "XID 31 1 times, XID 43 1 times" in xid
    else:
        assert xid == "critical_xids 0"


def test_archives_of_hardware_are_committed():
    assert len(ARCHIVES) == 4
