"""The command line of tests/gpu/check: a table of what the product reads in an archive, and a status."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line
from gpu.checking import capture_archive, measured, replayed
from gpu.checking.line import FAIL, UNMEASURED, Line

GOOD_STATUS, FAIL_STATUS, BAD_INPUT_STATUS, UNMEASURED_STATUS = 0, 1, 2, 3
_EPILOG = (
    "Exit status: 0 all is read and good, 1 something fails, 2 it is no such archive, "
    "3 nothing fails and something was not measured."
)
_LONGEST = 200


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="tests/gpu/check",
        description="Read an archive of tests/gpu/run, on any machine.",
        epilog=_EPILOG,
    )
    parser.add_argument("archive", type=Path)
    path: Path = parser.parse_args(argv).archive
    try:
        lines = check(path)
    except capture_archive.BadArchiveError as error:
        sys.stderr.write(clean_line(f"{path}: {error}. Name an archive that tests/gpu/run wrote.") + "\n")
        return BAD_INPUT_STATUS
    width = max(len(line.what) for line in lines)
    for line in lines:
        sys.stdout.write(
            clean_line(f"{line.outcome:<10}  {line.what:<{width}}  {line.detail}"[:_LONGEST]) + "\n"
        )
    return status_of(lines)


def status_of(lines: Sequence[Line]) -> int:
    """Return the exit status of lines."""
    outcomes = {line.outcome for line in lines}
    if FAIL in outcomes:
        return FAIL_STATUS
    return UNMEASURED_STATUS if UNMEASURED in outcomes else GOOD_STATUS


def check(path: Path) -> list[Line]:
    """Return what the product reads in an archive.

    Raises:
        BadArchiveError: it is no such archive.
    """
    capture = capture_archive.read(path)
    lines = [
        Line(UNMEASURED, f"step {one['name']}", one["reason"] or one["status"])
        for one in capture.manifest["steps"]
        if one["status"] != "done"
    ]
    if not capture.manifest["gpu"]:
        return [*lines, Line(UNMEASURED, "machine", "no GPU")]
    with tempfile.TemporaryDirectory(prefix="railyard-gpu-check-") as folder:
        lines += replayed.lines(capture, folder)
        lines += measured.lines(capture, folder)
    return lines
