"""What ends a command with a message instead of a traceback."""

from __future__ import annotations

from collections.abc import Sequence

BAD_INPUT = 2


class UserError(Exception):
    """Something the person at the keyboard can put right.

    Attributes:
        exit_status: what `railyard` ends with; 2 means bad input, and that no node was touched.
    """

    def __init__(self, message: str, fix: str = "", exit_status: int = BAD_INPUT):
        super().__init__(f"{message}\n  fix: {fix}" if fix else message)
        self.exit_status = exit_status


def numbered(where: str, texts: Sequence[str]) -> str:
    """Write problems as lines: how many there are and where, then each with its number."""
    count = "1 problem" if len(texts) == 1 else f"{len(texts)} problems"
    return "\n".join([f"{count} {where}:", *(f"  {number}. {text}" for number, text in enumerate(texts, 1))])
