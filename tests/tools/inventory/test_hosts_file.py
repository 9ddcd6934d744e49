"""A list of nodes in a file: what a line may be, and what is wrong with it, with the place and the fix."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from railyard.base.errors import UserError
from railyard.new_inventory import hosts_file


@pytest.fixture
def listed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def read(text: str | bytes) -> list[tuple[str | None, str | None, str | None]]:
        Path("hosts").write_bytes(text if isinstance(text, bytes) else text.encode())
        return [(one.name, one.address, one.user) for one in hosts_file.read(Path("hosts"))]

    return read


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gpu1 192.168.1.73 ubuntu", [("gpu1", "192.168.1.73", "ubuntu")]),
        ("  gpu1\t192.168.1.73  # rack 2", [("gpu1", "192.168.1.73", None)]),
        ("gpu1 bastion-7.example.org EXAMPLE\\\\ops", [("gpu1", "bastion-7.example.org", "EXAMPLE\\\\ops")]),
        ("gpu1 FD00::0:1", [("gpu1", "fd00::1", None)]),
        ("gpu1", [("gpu1", None, None)]),
        ("gpu[01-02]", [("gpu01", None, None), ("gpu02", None, None)]),
        ("192.168.1.73", [(None, "192.168.1.73", None)]),
        ("[fd00::1]", [(None, "fd00::1", None)]),
        ("192.168.1.[71,73]", [(None, "192.168.1.71", None), (None, "192.168.1.73", None)]),
        ("12", [("12", None, None)]),
    ],
)
def test_a_line(listed, line, expected):
    assert listed(f"\n# comment\n{line}\n") == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["hosts: it names no node"]),
        ("# gpu1 10.0.0.1\n", ["it names no node"]),
        ("gpu1 10.0.0.1 a b", ["hosts:1: ", "4 words"]),
        ("\n10.0.0.1 gpu1", ["hosts:2: ", "'10.0.0.1' is an address where the node's name belongs"]),
        ("10.0.0.[1-2] gpu1", ["'10.0.0.[1-2]' is an address where the node's name belongs"]),
        ("10.0.0.[255-256]", ["'10.0.0.256' is not a valid address"]),
        ("gpu1 10.0.0.300", ["'10.0.0.300' is not a valid address"]),
        ("10.0.0.300", ["'10.0.0.300' is not a valid address"]),
        ("gpu1 10.0.0.1/24", ["'10.0.0.1/24' is not a valid address"]),
        ("gpu1 10.0.0.1 {{me}}", ["'{{me}}' is not a user name"]),
        ("gpu1,gpu2 10.0.0.1", ["is several nodes with one address"]),
        ("gpu[1-999999] ", ["more than 16384"]),
        ("gpu_nodes 10.0.0.1", ["'gpu_nodes' means something else to Ansible"]),
        ("gpu1 10.0.0.1\nGPU1 10.0.0.2", ["hosts:2: node GPU1 is named twice (first at hosts:1)"]),
        (
            "gpu1 fd00::1\ngpu2 FD00:0::1",
            ["hosts:2: address fd00::1 is named twice, of gpu1 and gpu2 (first at hosts:1)"],
        ),
        (b"gpu1 10.0.0.1\ngpu2 \xff", ["hosts:2: it is not UTF-8"]),
        ("\x1b[2J 10.0.0.1", ["hosts:1: "]),
    ],
)
def test_a_wrong_line_is_named_with_its_place_and_fix(listed, text, words):
    with pytest.raises(UserError) as refused:
        listed(text)
    for word in [*words, "ix: "]:
        assert word in str(refused.value), refused.value


def test_all_that_is_wrong_is_reported_at_once(listed):
    with pytest.raises(UserError) as refused:
        listed("gpu1 x y z w\ngpu2 10.0.0.300\ngpu3 10.0.0.3\ngpu3 10.0.0.4\n")
    for place in ("3 problems", "hosts:1", "hosts:2", "hosts:4"):
        assert place in str(refused.value)


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe"])
def test_what_is_no_file_is_refused(tmp_path, kind):
    place = tmp_path / "hosts"
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    with pytest.raises(UserError, match="--hosts-from"):
        hosts_file.read(place)
