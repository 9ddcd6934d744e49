# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse a tool's captured output: remove terminal escapes and launchers' labels, then run its parser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from . import unwrap
from .common import NotThisTool, error, is_binary, result

Parser = Callable[[str], dict[str, Any]]

# Ends of lines after which a tool prints nothing more: such a line is complete without a line end. The first
# are of JSON, which shows its end itself.
_WHOLE_LINE = re.compile(
    r"\}\s*\Z|^\s*(?:\[\s*\{.*)?\]\s*\Z"
    r"|[0-9] (?:GB/s|ms)\s*\Z|Link layer:\s+(?:InfiniBand|Ethernet)\s*\Z|Avg bus bandwidth +: [0-9.]+ \Z"
    r"|^SUM \w+ [0-9]+\.[0-9]{2}\s*\Z"
)
_PROMPT = re.compile(r"[#$%] ?\Z")
# `railyard parse` accepts captures of 16 MiB; no tool prints shorter lines.
_MOST_LINES = 500000
# NCCL's work on no GPU, datagrams that came late or twice, and how far a GPU is from its limit.
_OF_EITHER_SIGN = ("gpu", "lost_packets", "lost_percent", "temperature.gpu.tlimit")
# The output of these has no end mark: a line without values may be truncated.
_WITHOUT_END = ("nccl-log",)


def read(parser: Parser, text: str) -> dict[str, Any]:
    """Parse what a tool printed, as it was captured.

    Args:
        parser: That of the tool.
        text: The capture.

    Returns:
        The parser's object; not valid where it rests on a last line that has no line end and may be cut.

    Raises:
        NotThisTool: The text is binary, or not this tool's.
    """
    lines = text.count("\n") + text.count("\r")
    if lines > _MOST_LINES:
        raise NotThisTool(f"this text of {lines} lines is no capture", f"line {_MOST_LINES}")
    # Parts of a file that never reached the disk are NULs; the rest is text.
    text = unwrap.without_overstrikes(text.strip("\0"))
    if is_binary(text):
        raise NotThisTool("this is binary data and no output of a tool")
    text = unwrap.clean(text)
    found = _bare(parser, text)
    hole, negative = text.find("\0"), _below_zero(found["outputs"], found["tool"])
    if found["valid"] and (hole >= 0 or negative):
        where = f"line {text.count(chr(10), 0, hole) + 1}"
        reported = negative or f"{where}: a part of the text is missing (NULs)"
        return result(found["tool"], found["outputs"], error("garbled", reported), found["warnings"])
    return _without_cut_line(parser, text, found) if found["valid"] else found


def _below_zero(value: Any, name: str) -> str | None:
    """Return the name of the first negative number; counts, rates, sizes and times are never negative."""
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, list):
        parts = [(name, inner) for inner in value]
    else:
        is_number = isinstance(value, (int, float)) and name not in _OF_EITHER_SIGN
        return f"{name} is {value:g}, below 0" if is_number and value < 0 else None
    return next(filter(None, (_below_zero(inner, str(key)) for key, inner in parts)), None)


def _without_cut_line(parser: Parser, text: str, found: dict[str, Any]) -> dict[str, Any]:
    """Drop a last line without a line end, unless it is complete or nothing was read from it."""
    before, _end, last = text.rpartition("\n")
    if not last.strip() or _WHOLE_LINE.search(last):
        return found
    try:
        earlier = _bare(parser, before + "\n")["outputs"]
    except NotThisTool:
        earlier = []
    open_ended = found["tool"] in _WITHOUT_END and not _PROMPT.search(last[-2:])
    if earlier == found["outputs"] and not open_ended:
        return found
    where = f"line {text.count(chr(10)) + 1}, {last.strip()[:60]!a}"
    problem = error("truncated", f"{where}: the last line has no line end, may be cut and is not read")
    return result(found["tool"], earlier, problem, found["warnings"])


def _bare(parser: Parser, text: str) -> dict[str, Any]:
    """Parse; if that fails, parse again without a launcher's or a comment's prefix on each line."""
    found: dict[str, Any] | None = None
    refusal: NotThisTool | None = None
    try:
        found = parser(text)
    except NotThisTool as problem:
        refusal = problem
    if found is not None and found["valid"]:
        return found
    # Tools print comment marks too: a text without them must be complete, or the only one that can be parsed.
    others = ((unwrap.without_labels(text), False), (unwrap.without_comment_marks(text), found is not None))
    for bare, must_be_whole in others:
        try:
            again = parser(bare) if bare is not None else None
        except NotThisTool:
            continue
        if again is not None and (again["valid"] or not must_be_whole):
            return again
    if found is None:
        raise refusal or NotThisTool("nothing could be read")
    return found
