# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tool's output as it was captured: a terminal's marks and a launcher's labels off, then its parser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.parsers import unwrap
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.common import (
    NotThisTool,
    error,
    is_binary,
    result,
)

Parser = Callable[[str], dict[str, Any]]

# What a tool prints nothing more behind in the same line: such a line is whole without its end. The first
# are JSON's, which of itself shows where it ends.
_WHOLE_LINE = re.compile(
    r"\}\s*\Z|^\s*(?:\[\s*\{.*)?\]\s*\Z"
    r"|[0-9] (?:GB/s|ms)\s*\Z|Link layer:\s+(?:InfiniBand|Ethernet)\s*\Z|Avg bus bandwidth +: [0-9.]+ \Z"
    r"|^SUM \w+ [0-9]+\.[0-9]{2}\s*\Z"
)
_PROMPT = re.compile(r"[#$%] ?\Z")
# A capture that `railyard parse` takes has 16 MiB; shorter lines no tool prints.
_MOST_LINES = 500000
# NCCL's work on no GPU, datagrams that came late or twice, and how far a GPU is from its limit.
_OF_EITHER_SIGN = ("gpu", "lost_packets", "lost_percent", "temperature.gpu.tlimit")
# What these print has no end of its own: that a line says nothing may be the cut's doing.
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
    # What of a file's beginning or end never reached the disk is NULs; the rest is text all the same.
    text = unwrap.without_overstrikes(text.strip("\0"))
    if is_binary(text):
        raise NotThisTool("this is binary data and no output of a tool")
    text = unwrap.clean(text)
    found = _bare(parser, text)
    hole, negative = text.find("\0"), _below_zero(found["outputs"], found["tool"])
    if found["valid"] and (hole >= 0 or negative):
        where = f"line {text.count(chr(10), 0, hole) + 1}"
        said = negative or f"{where}: NULs stand where a part of the text is missing"
        return result(found["tool"], found["outputs"], error("garbled", said), found["warnings"])
    return _without_cut_line(parser, text, found) if found["valid"] else found


def _below_zero(value: Any, name: str) -> str | None:
    """Name the first number that is below 0 as no count, rate, size or time is."""
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, list):
        parts = [(name, inner) for inner in value]
    else:
        is_number = isinstance(value, (int, float)) and name not in _OF_EITHER_SIGN
        return f"{name} is {value:g}, below 0" if is_number and value < 0 else None
    return next(filter(None, (_below_zero(inner, str(key)) for key, inner in parts)), None)


def _without_cut_line(parser: Parser, text: str, found: dict[str, Any]) -> dict[str, Any]:
    """Believe no last line without a line end, unless it is whole or nothing that was read comes from it."""
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
    """Parse; where that fails, parse once more without what a launcher or a comment put before each line."""
    found: dict[str, Any] | None = None
    refusal: NotThisTool | None = None
    try:
        found = parser(text)
    except NotThisTool as problem:
        refusal = problem
    if found is not None and found["valid"]:
        return found
    # A comment mark is a tool's own sign, too: without it a text must be whole, or no other reading is left.
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
