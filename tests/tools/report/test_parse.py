"""`railyard parse`: one JSON object or a message with a position, exit 0 or 2, for any bytes."""

from __future__ import annotations

import io
import json
import sys

import pytest
from railyard.report import parse

PING = b"""PING 10.0.1.2 (10.0.1.2) 56(84) bytes of data.

--- 10.0.1.2 ping statistics ---
4 packets transmitted, 4 received, 0% packet loss, time 60ms
rtt min/avg/max/mdev = 0.100/0.200/0.300/0.050 ms
"""


def test_a_file_that_is_understood(tmp_path, capsys):
    file = tmp_path / "ping.txt"
    file.write_bytes(PING)
    assert parse.run("ping", str(file)) == 0
    seen = capsys.readouterr()
    assert json.loads(seen.out)["outputs"][0]["rtt_average_us"] == 200
    assert seen.err == ""


def test_a_failure_that_is_faithfully_reported_is_understood(tmp_path, capsys):
    file = tmp_path / "ping.txt"
    file.write_bytes(b"ping: nosuch.invalid: Name or service not known\n")
    assert parse.run("ping", str(file)) == 0
    assert json.loads(capsys.readouterr().out)["valid"] is False


@pytest.mark.parametrize(
    ("data", "status"),
    [(PING, 0), (b"ping: nosuch.invalid: Name or service not known\n", 3), (PING[:-20], 3), (b"junk\n", 2)],
)
def test_strict_has_an_exit_status_for_what_is_not_valid(tmp_path, capsys, data, status):
    file = tmp_path / "ping.txt"
    file.write_bytes(data)
    assert parse.run("ping", str(file), strict=True) == status
    printed = capsys.readouterr().out
    assert parse.run("ping", str(file)) == (2 if status == 2 else 0)
    # The object is the same with the option and without it.
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(
    "data", [b"\xff\xfe\x80 no ping", b"", b"\x00" * 5000, bytes(range(256)), b"\xff\xfe"]
)
def test_other_bytes_are_refused_with_a_position_and_no_object(tmp_path, capsys, data):
    file = tmp_path / "junk.bin"
    file.write_bytes(data)
    assert parse.run("ping", str(file)) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert f"{file}: line 1: " in seen.err


@pytest.mark.parametrize(
    "data", [PING + b"\xff\xc3\x28\n", b"\xef\xbb\xbf" + PING, PING.decode().encode("utf-16")]
)
def test_encodings_and_broken_bytes_around_good_text(tmp_path, data):
    file = tmp_path / "ping.txt"
    file.write_bytes(data)
    assert parse.run("ping", str(file)) == 0


def test_standard_input(monkeypatch, capsys):
    class Stdin:
        buffer = io.BytesIO(PING)

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert parse.run("ping", "-") == 0
    assert json.loads(capsys.readouterr().out)["valid"] is True


def test_missing_file_folder_and_unknown_tool(tmp_path, capsys):
    assert parse.run("ping", str(tmp_path / "absent")) == 2
    assert parse.run("ping", str(tmp_path)) == 2
    file = tmp_path / "ping.txt"
    file.write_bytes(PING)
    assert parse.run("netperf", str(file)) == 2
    assert "there is no tool 'netperf'" in capsys.readouterr().err


def test_largest_file_is_refused_before_the_memory_is_full(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(parse, "_LARGEST_BYTES", 100)
    file = tmp_path / "ping.txt"
    file.write_bytes(PING)
    assert parse.run("ping", str(file)) == 2
    assert "larger than 100 bytes" in capsys.readouterr().err


def test_too_little_memory_is_reported(tmp_path, monkeypatch, capsys):
    def full(_tool, _text):
        raise MemoryError

    monkeypatch.setattr(parse.registry, "parse", full)
    file = tmp_path / "ping.txt"
    file.write_bytes(PING)
    assert parse.run("ping", str(file)) == 2
    assert f"{file}: there is not enough memory for {len(PING)} bytes" in capsys.readouterr().err


def test_a_capture_has_sixteen_mebibytes_at_most(tmp_path, capsys):
    file = tmp_path / "newlines.txt"
    for size, said in ((16 * 2**20, "line 500000: "), (16 * 2**20 + 1, "larger than 16777216 bytes")):
        file.write_bytes(b"\n" * size)
        assert parse.run("perftest", str(file)) == 2
        assert said in capsys.readouterr().err
