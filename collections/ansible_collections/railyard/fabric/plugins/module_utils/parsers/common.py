# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared by all parsers: the format of a result, and functions to read numbers that never raise."""

from __future__ import annotations

import math
import re
from typing import Any

SCHEMA = 1

# Longer digit strings are no measurement; int() raises above 4300 digits.
_LONGEST_NUMBER = 40

_LONGEST_LINE = 8192
_LONGEST_MESSAGE = 400
Kinds = tuple[tuple[str, re.Pattern[str]], ...]
_SAMPLE = 65536
_MOST_UNPRINTABLE = 0.1
# Control characters and undecodable bytes; ESC, tabs and line ends do occur in text.
_UNPRINTABLE = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\ufffd]")

_LINE_END = re.compile(r"\r\n|\r|\n")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?\Z")

# What a shell, systemd or timeout prints when it ended the tool: the numbers before it are of an incomplete
# run.
_ENDED = re.compile(
    r"^(?:.{0,200}: line [0-9]+: +[0-9]+ +)?"
    r"(?:Killed|Terminated|Aborted|Segmentation fault|Hangup|Interrupt)\b"
    r"|\^C|core dumped"
)


class NotThisTool(Exception):  # noqa: N818 - the name is the contract's and says what happened
    """The text is not output of the given tool.

    Attributes:
        message: What was expected and what is there instead.
        position: Where it is, for example "line 1".
    """

    def __init__(self, message: str, position: str = "line 1") -> None:
        """Keep the message and the position apart, so that a caller can print either."""
        super().__init__(f"{position}: {message}")
        self.message = message
        self.position = position


def result(
    tool: str,
    outputs: list[dict[str, Any]],
    error: dict[str, str] | None = None,
    warnings: list[str] | None = None,
    valid: bool = True,
) -> dict[str, Any]:
    """Build the common object of every parser.

    Args:
        tool: Name as the user gives it to `railyard parse`.
        outputs: One element per run found in the text.
        error: `{"class", "message"}` or None; an error always makes the result invalid.
        warnings: Sentences for the user.
        valid: Whether each run is complete.

    Returns:
        `{"schema", "tool", "valid", "error", "warnings", "outputs"}`.
    """
    return {
        "schema": SCHEMA,
        "tool": tool,
        "valid": bool(valid and outputs and error is None),
        "error": error,
        "warnings": list(dict.fromkeys(warnings or [])),
        "outputs": outputs,
    }


def error(kind: str, message: str) -> dict[str, str]:
    """Return an error object; the message is cut to a length that fits a terminal."""
    return {"class": kind, "message": message.strip()[:_LONGEST_MESSAGE]}


def runs(found: list[dict[str, Any]], *keys: str) -> list[list[dict[str, Any]]]:
    """Split the output of several runs: a run never has the same name twice.

    Args:
        found: Devices, links, GIDs or GPUs in their order.
        keys: The keys that identify one of them.

    Returns:
        The runs; none when nothing was found.
    """
    parts: list[list[dict[str, Any]]] = []
    names: set[tuple[Any, ...]] = set()
    for one in found:
        name = tuple(one[key] for key in keys)
        if not parts or name in names:
            parts.append([])
            names = set()
        names.add(name)
        parts[-1].append(one)
    return parts


def not_read(form: str) -> str:
    """Return the warning that the text has a second form of the same output, which was skipped."""
    return f"the text also has {form}, which is not read"


def whole_lines(text: str) -> list[str]:
    """Split at line ends only; str.splitlines would also split at form feeds and Unicode separators."""
    return _LINE_END.split(text)


def split_lines(text: str) -> list[str]:
    """Split at line ends and truncate overlong lines, so that no pattern runs for minutes."""
    return [line[:_LONGEST_LINE] for line in whole_lines(text)]


def refusal(expected: str, lines: list[str]) -> NotThisTool:
    """Return the error of a text of another tool: what was expected, and how it begins."""
    return NotThisTool(f"{expected}; the text begins with {first_text(lines)}")


def trouble(kinds: Kinds, line: str, message: str | None = None) -> dict[str, str] | None:
    """Return the error of the first kind whose pattern is in the line's beginning.

    Args:
        kinds: Class and pattern, the more specific ones first.
        line: The line of the tool.
        message: What to show of it; the line itself where this is None.
    """
    for kind, pattern in kinds:
        if pattern.search(line[:_LONGEST_MESSAGE]):
            return error(kind, line if message is None else message)
    return None


def is_binary(text: str) -> bool:
    """Return whether the text begins with data that no tool prints: control characters, decoding errors."""
    sample = text[:_SAMPLE]
    return len(_UNPRINTABLE.findall(sample)) > len(sample) * _MOST_UNPRINTABLE


def to_float(text: object) -> float | None:
    """Read a finite decimal number; anything else (nan, inf, words, absurd lengths) is None."""
    if isinstance(text, bool):
        return None
    if isinstance(text, (int, float)):
        try:
            value = float(text)
        except OverflowError:
            return None
        return value if math.isfinite(value) else None
    if not isinstance(text, str):
        return None
    text = text.strip()
    if len(text) > _LONGEST_NUMBER or not _NUMBER.match(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def to_int(text: object) -> int | None:
    """Read a whole number (`1.57e+06` included); anything else is None."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text if abs(text) < 10**_LONGEST_NUMBER else None
    if (
        isinstance(text, str)
        and len(text.strip()) <= _LONGEST_NUMBER
        and re.match(r"\s*[-+]?[0-9]+\s*\Z", text)
    ):
        return int(text)
    value = to_float(text)
    return int(value) if value is not None and value == int(value) else None


def scaled(value: float | None, factor: float, digits: int = 9) -> float | None:
    """Multiply by a unit's factor and drop the noise that binary fractions add; None stays None."""
    if value is None:
        return None
    product = value * factor
    return round(product, digits) if math.isfinite(product) else None


def ended_by_signal(line: str) -> bool:
    """Return whether a line reports that the tool was killed or interrupted."""
    return bool(_ENDED.search(line[:400]))


def first_text(lines: list[str]) -> str:
    """Quote the first line that is not blank, for messages."""
    for line in lines:
        if line.strip():
            return ascii(line.strip()[:60])
    return "nothing"
