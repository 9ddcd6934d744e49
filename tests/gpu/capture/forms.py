"""Find and run the forms of nvidia-smi and dcgmi that Railyard reads, and keep what each printed.

The forms come from the product: what its node code runs is recorded while it runs, and what its sources
have as a plain list of words is found there. Only forms that people paste are listed here.
"""

from __future__ import annotations

import ast
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils import bounded
from ansible_collections.railyard.fabric.plugins.module_utils.bounded import Ended, ToolError

PROGRAMS = ("nvidia-smi", "dcgmi")
#: Forms that parsers read and no node runs: people paste them (`railyard parse`). `diag -r 1` puts no load on
#: a GPU; it and `health` need DCGM's service (docs.nvidia.com/datacenter/dcgm, "dcgmi diag").
PASTED = (
    ("nvidia-smi",),
    ("nvidia-smi", "-q"),
    ("dcgmi", "nvlink", "--link-status"),
    ("dcgmi", "health", "-c", "-j"),
    ("dcgmi", "diag", "-r", "1", "-j"),
)
_EACH_S = 10.0
_LONG_S = {"diag": 45.0}


def in_sources(folder: str) -> list[list[str]]:
    """Return each list of plain words in the sources below a folder that is a command line of PROGRAMS."""
    found: list[list[str]] = []
    for path in _sources(folder):
        with open(path, encoding="utf-8") as handle:
            tree = ast.parse(handle.read())
        for node in ast.walk(tree):
            words = _find_argv(node)
            if words is not None and words not in found:
                found.append(words)
    return found


def _sources(folder: str) -> Iterator[str]:
    for where, folders, names in os.walk(folder):
        folders.sort()
        yield from (os.path.join(where, name) for name in sorted(names) if name.endswith(".py"))


def _find_argv(node: ast.AST) -> list[str] | None:
    """Return a list of plain words that begins with one of PROGRAMS, None of anything else."""
    if not isinstance(node, ast.List):
        return None
    words = [one.value for one in node.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return words if len(words) == len(node.elts) and words[:1] and words[0] in PROGRAMS else None


class Recorder:
    """Runs programs for the node code, and appends what PROGRAMS printed to a file of JSON lines."""

    def __init__(self, path: str) -> None:
        self._path = path

    def ask(self, argv: Sequence[str]) -> Ended:
        """Run a program to its end, for a bounded time, as `facts.gpus.Ask` demands.

        Raises:
            ToolError: there is no such program, or it did not end in time.
        """
        begun = time.monotonic()
        limit_s = next((_LONG_S[word] for word in argv if word in _LONG_S), _EACH_S)
        try:
            ended = bounded.ask(argv, limit_s)
        except ToolError as error:
            self._keep(argv, begun, {"status": None, "error": str(error), "absent": error.absent, "text": ""})
            raise
        self._keep(argv, begun, {"status": ended.status, "error": None, "absent": False, "text": ended.text})
        return ended

    def run(self, argv: Sequence[str]) -> str | None:
        """Run a program as `facts.tools.Run` demands: None where there is none, no text where it hangs."""
        try:
            return self.ask(argv).text
        except ToolError as error:
            return None if error.absent else ""

    def ask_the_rest(self, argvs: Sequence[Sequence[str]]) -> None:
        """Run each form that was not run yet; a program that hung or is absent is not run again."""
        known = read(self._path)
        asked = {tuple(one["argv"]) for one in known}
        gone = {one["argv"][0] for one in known if one["error"]}
        for argv in argvs:
            if tuple(argv) in asked or argv[0] in gone:
                continue
            try:
                self.ask(argv)
            except ToolError as error:
                # `diag` alone may be slow where all other forms of dcgmi answer; it comes last.
                gone |= {argv[0]} if error.absent or argv[0] == PROGRAMS[0] else set()

    def _keep(self, argv: Sequence[str], begun: float, found: Mapping[str, Any]) -> None:
        if argv[0] not in PROGRAMS:
            return
        line = {"argv": list(argv), "seconds": round(time.monotonic() - begun, 3), **found}
        with open(self._path, "a", encoding="utf-8") as handle:
            handle.write(json.dumps(line) + "\n")


def read(path: str) -> list[dict[str, Any]]:
    """Return the recorded forms, each command line once; a last line that was cut is left out."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    try:
        with open(path, encoding="utf-8") as handle:
            lines = handle.read().split("\n")
    except FileNotFoundError:
        return []
    for line in lines[:-1]:
        one = json.loads(line)
        found.setdefault(tuple(one["argv"]), one)
    return list(found.values())
