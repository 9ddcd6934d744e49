"""`railyard parse TOOL FILE`: its output as one JSON object; `parse run FOLDER`: a run folder of many."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry

from railyard.base.errors import UserError, numbered

UNDERSTOOD = 0
NOT_UNDERSTOOD = 2
NOT_VALID = 3

# A capture is kilobytes; reading a device or a disk image to its end would take the memory with it.
_LARGEST_BYTES = 16 * 2**20

_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")


def decode(data: bytes) -> str:
    """Turn a file's bytes into text; bytes that are no UTF-8 become U+FFFD and never an error.

    UTF-16 with a byte order mark is what PowerShell's redirection writes.
    """
    if data.startswith(_BYTE_ORDER_MARKS):
        return data.decode("utf-16", errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def as_run(source: str, inventory: list[str], reports_dir: Path) -> int:
    """Make a run folder of the outputs in a folder, print its path, and return 0.

    Args:
        source: the folder; its files are NODE/PEER/RAIL/TOOL.txt.
        inventory: inventory sources, which name the nodes and rails.
        reports_dir: the folder of all clusters' runs.

    Raises:
        UserError: no inventory, something wrong with it, or an output that cannot be read.
        RunFolderError, PolicyError: the run folder cannot be written, or the policy is none.
    """
    from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load
    from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import outputs

    if not inventory:
        raise UserError("outputs say no node and no rail", "name the inventory with -i")
    loaded = load.load(inventory)
    if problems := load.validate(loaded):
        raise UserError(numbered("in the inventory", [one.text() for one in problems]))
    try:
        folder = outputs.make(Path(source), loaded, reports_dir)
    except outputs.OutputError as error:
        raise UserError(numbered("in the outputs", str(error).splitlines())) from error
    print(folder.path)
    return UNDERSTOOD


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read(_LARGEST_BYTES + 1)
    with Path(file).open("rb") as handle:
        return handle.read(_LARGEST_BYTES + 1)


def read(tool: str, file: str) -> dict[str, Any]:
    """Parse a file.

    Args:
        tool: One of the names in `registry.TOOLS`.
        file: Path, or `-` for standard input.

    Raises:
        UserError: the file cannot be read, is no capture, or is not this tool's; the message begins with it.
    """
    name = "standard input" if file == "-" else file
    try:
        data = _read(file)
    except OSError as problem:
        raise UserError(f"{name}: {problem.strerror or problem}") from problem
    if len(data) > _LARGEST_BYTES:
        raise UserError(f"{name}: larger than {_LARGEST_BYTES} bytes, no capture")
    try:
        return registry.parse(tool, decode(data))
    except registry.NotThisTool as problem:
        raise UserError(f"{name}: {problem.position}: {problem.message}") from problem
    except MemoryError as problem:
        raise UserError(f"{name}: there is not enough memory for {len(data)} bytes") from problem


def run(tool: str, file: str, *, strict: bool = False) -> int:
    """Parse a file and print one JSON object on standard output.

    Args:
        tool: One of the names in `registry.TOOLS`.
        file: Path, or `-` for standard input.
        strict: Whether an object whose `valid` is false has an exit status of its own.

    Returns:
        0 when the text is this tool's (its faithfully reported failure included), or with `strict` 3 when
        `valid` is false; 2 otherwise, with a message on standard error and nothing on standard output.
    """
    try:
        found = read(tool, file)
    except UserError as problem:
        print(f"railyard parse: {problem}", file=sys.stderr)
        return NOT_UNDERSTOOD
    # ASCII escapes: what a tool printed may hold lone surrogates, which standard output could refuse.
    print(json.dumps(found, indent=2, allow_nan=False))
    return NOT_VALID if strict and not found["valid"] else UNDERSTOOD
