# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tool's output as it was captured: a terminal's marks and a launcher's labels off, then its parser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.parsers import unwrap
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.common import NotThisTool, is_binary

Parser = Callable[[str], dict[str, Any]]


def read(parser: Parser, text: str) -> dict[str, Any]:
    """Parse what a tool printed, as it was captured.

    Args:
        parser: That of the tool.
        text: The capture.

    Returns:
        The parser's object.

    Raises:
        NotThisTool: The text is binary, or not this tool's.
    """
    # A file whose end never reached the disk ends in NULs; what stands before them is text all the same.
    text = unwrap.without_overstrikes(text.rstrip("\0"))
    if is_binary(text):
        raise NotThisTool("this is binary data and no output of a tool")
    return _bare(parser, unwrap.clean(text))


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
