"""tools/nccl_catalogue.py: names out of a source and out of a library, and which release reads which."""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path

import nccl_catalogue as tool
import pytest

ROW = {"name": "NCCL_IB_HCA", "use": "system", "values": "<hcas>", "why": "which ports"}


def catalogue(*rows, releases=("2.30.7",)):
    return {"about": "x", "nccl": {"releases": list(releases)}, "variables": list(rows)}


def library(version, *names):
    return tool.Release(version, frozenset(names), None)


def spans(result):
    return {row["name"]: (row.get("since", ""), row.get("until", "")) for row in result["variables"]}


def elf(path: Path, constants: bytes, debug: bytes) -> Path:
    """Write a 64-bit ELF file of two sections: read-only data, and strings of the debug information."""
    names = b"\0.rodata\0.debug_str\0.shstrtab\0"
    parts = [constants, debug, names]
    at, headers = 64, [struct.pack("<IIQQQQIIQQ", *[0] * 10)]
    for name, part in zip((b".rodata", b".debug_str", b".shstrtab"), parts, strict=True):
        headers.append(struct.pack("<IIQQQQIIQQ", names.index(name), 1, 0, 0, at, len(part), 0, 0, 1, 0))
        at += len(part)
    head = b"\x7fELF\x02".ljust(0x28, b"\0") + struct.pack("<Q", at)
    head += b"\0" * 10 + struct.pack("<HHH", 64, len(headers), 3)
    path.write_bytes(b"".join([head.ljust(64, b"\0"), *parts, *headers]))
    return path


def test_names_in_each_form_of_a_source():
    printed = (
        'NCCL_PARAM(IbTc, "IB_TC"\n'
        "DEFINE_NCCL_PARAM(ncclParamDebugLevel, ncclDebugLogLevel, NCCL_DEBUG\n"
        '"NCCL_SOCKET_IFNAME"\n'
        '"NCCL_USE_CMAKE"\n'
        'RCCL_PARAM(MscclEnabled, "MSCCL_ENABLE"\n'
    )
    assert tool.names_in(printed) == {"NCCL_IB_TC", "NCCL_DEBUG", "NCCL_SOCKET_IFNAME", "RCCL_MSCCL_ENABLE"}


def test_names_of_a_library_are_those_of_its_constants(tmp_path):
    constants = (
        b"NCCL_IB_TC\0x\0NCCL_DEBUG\0"
        # Behind numbers and behind characters that have no end of their own.
        b"\x00\x00\x80\xbfNCCL_PAT_ENABLE\0" + b"00000000:00:00.0NCCL_SOCKET_MAGIC\0"
        # The end of a message, and a message that begins with a name.
        b"not initialized via NCCL_CONFIG_INITIALIZER\0NCCL_IB_SL invalid value\0"
    )
    path = elf(tmp_path / "libnccl.so.2", constants, b"NCCL_LOG_WARN\0NCCL_INIT\0")
    names = {"NCCL_IB_TC", "NCCL_DEBUG", "NCCL_PAT_ENABLE", "NCCL_SOCKET_MAGIC"}
    assert tool.library_release("2.40.1", path) == tool.Release("2.40.1", frozenset(names), None)


def test_releases_of_a_source_are_its_tags(tmp_path):
    def git(*argv):
        config = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", "-C", tmp_path, *config, *argv], check=True, capture_output=True)

    git("init")
    for tag, param in (("v2.9.9-1", "IB_TC"), ("v2.10.3-1", "IB_SL"), ("v1.3.4-1", "OLD"), ("preview", "X")):
        for folder, text in (("src", f'NCCL_PARAM(X, "{param}", 0);'), ("plugins", 'getenv("NCCL_DUMP");')):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / "x.cc").write_text(f"{text} // {tag}\n")
        git("add", ".")
        git("commit", "-m", tag)
        git("tag", tag)
    found = tool.source_releases(tmp_path)
    assert [(one.version, one.names, one.plugins) for one in found] == [
        ("2.9.9", {"NCCL_IB_TC"}, {"NCCL_DUMP"}),
        ("2.10.3", {"NCCL_IB_SL"}, {"NCCL_DUMP"}),
    ]


def test_first_and_last_release_of_each_name():
    releases = [
        tool.Release("2.3.5", frozenset({"A", "B"}), frozenset()),
        tool.Release("2.10.3", frozenset({"A", "C"}), frozenset({"P", "Q"})),
        tool.Release("2.11.4", frozenset({"A", "C"}), frozenset({"P"})),
        library("2.12.7", "A"),
    ]
    assert tool.spans(releases) == {
        "A": ("", "", False),
        "B": ("", "2.10.3", False),
        "C": ("2.10.3", "2.12.7", False),
        # A library does not hold the plugins, so that it does not end their names.
        "P": ("2.10.3", "", True),
        "Q": ("2.10.3", "2.11.4", True),
    }


def test_a_newer_library_adds_names_and_ends_others():
    before = catalogue(
        ROW,
        {"name": "NCCL_OLD", "use": "internal", "since": "2.4.2", "until": "2.5.6"},
        {"name": "NCCL_PLUGINS", "use": "internal", "since": "2.26.2", "plugin": True},
        {"name": "NCCL_GONE", "use": "debugging", "since": "2.10.3", "why": "x"},
        {"name": "NCCL_TORCH", "use": "other", "why": "read by PyTorch"},
    )
    releases = [library("2.31.2", "NCCL_IB_HCA", "NCCL_NEW"), library("2.29.2", "NCCL_TOO_OLD")]
    after = tool.update(before, sorted(releases, key=lambda one: tool.version_key(one.version)), anew=False)
    assert after["nccl"]["releases"] == ["2.30.7", "2.31.2"]
    assert spans(after) == {
        "NCCL_GONE": ("2.10.3", "2.31.2"),
        "NCCL_IB_HCA": ("", ""),
        "NCCL_NEW": ("2.31.2", ""),
        "NCCL_OLD": ("2.4.2", "2.5.6"),
        "NCCL_PLUGINS": ("2.26.2", ""),
        "NCCL_TORCH": ("", ""),
    }
    # What was written by hand stays.
    assert next(row for row in after["variables"] if row["name"] == "NCCL_IB_HCA") == ROW
    assert tool.update(after, releases, anew=False) == after


def test_a_version_by_hand_stays_where_no_tag_says_it_closer():
    releases = [
        tool.Release("2.3.7", frozenset({"NCCL_A", "NCCL_B"}), frozenset()),
        tool.Release("2.4.2", frozenset(), frozenset()),
    ]
    rows = [{"name": "NCCL_A", "use": "debugging", "until": "2.4.0", "why": "x"}]
    rows += [{"name": "NCCL_B", "use": "debugging", "until": "2.9.0", "why": "x"}]
    after = tool.update(catalogue(*rows), releases, anew=True)
    assert spans(after) == {"NCCL_A": ("", "2.4.0"), "NCCL_B": ("", "2.4.2")}


def test_names_of_rccl_are_beside_those_of_nccl(tmp_path):
    docs = tmp_path / "env-variables.rst"
    docs.write_text("    * - | ``RCCL_NEW``\n      - | see ``NCCL_NOT_HERE``\n    * - | ``NCCL_IB_HCA``\n")
    before = catalogue(ROW, {"name": "RCCL_OLD", "use": "rccl", "rccl": "5.0.0"})
    after = tool.take_rccl(before, tool.rccl_names(None, docs))
    assert after["variables"] == [
        {**ROW, "rccl": "documentation"},
        {"name": "RCCL_NEW", "use": "rccl", "rccl": "documentation"},
    ]


def test_what_is_documented_and_not_described_is_listed():
    text = "System configuration\n====\n\nNCCL_IB_HCA\n-----\nNCCL_X\nDebugging\nNCCL_Y (formerly NCCL_Z)\n"
    found = tool.documented(text)
    assert found == {"NCCL_IB_HCA": "system", "NCCL_X": "system", "NCCL_Y": "debugging"}
    assert list(tool.to_describe(catalogue(ROW, {"name": "NCCL_X", "use": "internal"}), found)) == [
        "NCCL_X: documented as system, here internal",
        "NCCL_Y: documented as debugging, here unknown",
    ]


def test_the_command_writes_the_file_and_prints_what_is_new(tmp_path, capsys):
    path = tmp_path / "variables.json"
    path.write_text(tool.render(catalogue(ROW)))
    so = elf(tmp_path / "libnccl.so.2", b"\0NCCL_IB_HCA\0NCCL_NEW\0", b"")
    assert tool.main(["--catalogue", str(path), "--library", f"2.33.1={so}"]) == 0
    assert capsys.readouterr().out == "new: NCCL_NEW (since 2.33.1)\n"
    assert spans(json.loads(path.read_text()))["NCCL_NEW"] == ("2.33.1", "")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--library", "2.33=x"], "write VERSION=FILE"),
        (["--library", "2.33.1=/nowhere/libnccl.so.2"], "name the libnccl.so.2 of the wheel"),
        (["--library", "2.33.1={here}/text"], "no 64-bit ELF file"),
        (["--library", "2.33.1={here}/empty"], "no name of NCCL is in it"),
        (["--library", "2.33.1={here}/cut"], "name the libnccl.so.2 of the wheel"),
        (["--source", "{here}"], "name a clone of the repository"),
        (["--docs", "/nowhere"], "/nowhere"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(tmp_path, capsys, argv, words):
    (tmp_path / "text").write_text("NCCL_IB_HCA\n")
    whole = elf(tmp_path / "empty", b"\0nothing\0", b"NCCL_LOG_WARN\0")
    (tmp_path / "cut").write_bytes(whole.read_bytes()[:200])
    path = tmp_path / "variables.json"
    path.write_text(tool.render(catalogue(ROW)))
    before = path.read_text()
    assert tool.main(["--catalogue", str(path), *(one.format(here=tmp_path) for one in argv)]) == 2
    assert words in capsys.readouterr().err
    assert path.read_text() == before


def test_the_committed_catalogue_is_as_the_program_writes_it():
    text = tool.CATALOGUE.read_text(encoding="utf-8")
    assert tool.render(json.loads(text)) == text
