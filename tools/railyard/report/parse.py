"""`railyard parse TOOL FILE`: print what a tool's output says as one JSON object."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry

UNDERSTOOD = 0
NOT_UNDERSTOOD = 2

# A capture is kilobytes; reading a device or a disk image to its end would take the memory with it.
_LARGEST_BYTES = 256 * 2**20

_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")


def decode(data: bytes) -> str:
    """Turn a file's bytes into text; bytes that are no UTF-8 become U+FFFD and never an error.

    UTF-16 with a byte order mark is what PowerShell's redirection writes.
    """
    if data.startswith(_BYTE_ORDER_MARKS):
        return data.decode("utf-16", errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read(_LARGEST_BYTES + 1)
    with Path(file).open("rb") as handle:
        return handle.read(_LARGEST_BYTES + 1)


def run(tool: str, file: str) -> int:
    """Parse a file and print one JSON object on standard output.

    Args:
        tool: One of the names in `registry.TOOLS`.
        file: Path, or `-` for standard input.

    Returns:
        0 when the text is this tool's (its faithfully reported failure included), 2 otherwise, with a message
        on standard error and nothing on standard output.
    """
    name = "standard input" if file == "-" else file
    try:
        data = _read(file)
    except OSError as problem:
        print(f"railyard parse: {name}: {problem.strerror or problem}", file=sys.stderr)
        return NOT_UNDERSTOOD
    if len(data) > _LARGEST_BYTES:
        print(f"railyard parse: {name}: larger than {_LARGEST_BYTES} bytes, no capture", file=sys.stderr)
        return NOT_UNDERSTOOD
    try:
        found = registry.parse(tool, decode(data))
    except registry.NotThisTool as problem:
        print(f"railyard parse: {name}: {problem.position}: {problem.message}", file=sys.stderr)
        return NOT_UNDERSTOOD
    # ASCII escapes: what a tool printed may hold lone surrogates, which standard output could refuse.
    print(json.dumps(found, indent=2, allow_nan=False))
    return UNDERSTOOD
