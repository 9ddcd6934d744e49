# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Split NCCL's log into messages per process, also where two ranks share one line."""

from __future__ import annotations

import bisect
import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Sequence

_MARK = re.compile(r"NCCL (INFO|ATTN|WARN) ?")
# "gpu01:207:267 [1] NCCL INFO", and for a warning "gpu01:207:267 [1] init.cc:943 NCCL WARN".
_HEAD = re.compile(
    r"([\w.-]{1,255}):([0-9]{1,10}):([0-9]{1,10}) \[(-?[0-9]{1,3})\] "
    r"(?:\S{1,100}:[0-9]{1,6} (?:\(\w{1,30}\) )?)?\Z"
)
_LONGEST_HEAD = 400


@dataclasses.dataclass(frozen=True)
class Message:
    """One message of one process.

    Attributes:
        host: The host of the process; None where the line's beginning is lost.
        pid: Its process number, likewise.
        gpu: Its CUDA device, likewise.
        level: `INFO`, `ATTN` (2.32 and newer: a notice) or `WARN`.
        text: The message, up to where another process interrupts it.
    """

    host: str | None
    pid: int | None
    gpu: int | None
    level: str
    text: str


@dataclasses.dataclass(frozen=True)
class _Piece:
    head: re.Match[str] | None
    head_at: int
    is_first: bool
    level: str
    text_at: int


def _pieces(line: str) -> list[_Piece]:
    found: list[_Piece] = []
    end = 0
    for mark in _MARK.finditer(line):
        begin = max(end, mark.start() - _LONGEST_HEAD)
        head = _HEAD.search(line[begin : mark.start()])
        at = begin + head.start() if head else mark.start()
        found.append(_Piece(head, at, not found, mark.group(1), mark.end()))
        end = mark.end()
    return found


class _Hosts:
    """Finds the host's name where another rank's text is attached to it (`IBgpu01`) or it is truncated."""

    def __init__(self, lines: Sequence[Sequence[_Piece]]) -> None:
        heads = [(piece.head, piece.is_first) for pieces in lines for piece in pieces if piece.head]
        self.at_line_start = {head.group(1) for head, is_first in heads if is_first}
        # By process and GPU; the names reversed and sorted, so that those with the same end are adjacent.
        self.counts: dict[str, Counter[str]] = {}
        for head, _is_first in heads:
            self.counts.setdefault(f"{head.group(2)} {head.group(4)}", Counter())[head.group(1)] += 1
        self.backwards = {
            process: sorted(name[::-1] for name in names) for process, names in self.counts.items()
        }
        self.known: dict[tuple[str, str], str] = {}

    def name(self, head: re.Match[str]) -> str:
        """Return the host of a message; a name without a better one in the log stays."""
        reported, process = head.group(1), f"{head.group(2)} {head.group(4)}"
        if (reported, process) not in self.known:
            self.known[reported, process] = self._name(reported, process)
        return self.known[reported, process]

    def _name(self, reported: str, process: str) -> str:
        # If the same process has a longer or shorter name more often, that is its name.
        names, backwards = self.counts[process], self.backwards[process]
        at = bisect.bisect_left(backwards, reported[::-1])
        others = [reported[begin:] for begin in range(1, len(reported)) if reported[begin:] in names]
        while at < len(backwards) and backwards[at].startswith(reported[::-1]):
            others.append(backwards[at][::-1])
            at += 1
        best = max(others, key=names.__getitem__)
        if names[best] > names[reported]:
            return best
        if reported in self.at_line_start:
            return reported
        return next(
            (reported[at:] for at in range(1, len(reported)) if reported[at:] in self.at_line_start), reported
        )


def messages(lines: Sequence[str]) -> Iterator[Message]:
    """Return the messages in the log's order; lines of other programs are skipped."""
    taken = [(line, _pieces(line)) for line in lines]
    hosts = _Hosts([pieces for _line, pieces in taken])
    for line, pieces in taken:
        end = len(line)
        found: list[Message] = []
        for piece in reversed(pieces):
            text = line[piece.text_at : end]
            end = piece.head_at
            if piece.head is None:
                found.append(Message(None, None, None, piece.level, text))
                continue
            reported, pid, _tid, gpu = piece.head.groups()
            host = hosts.name(piece.head)
            # The text before the host's name is the end of the previous message.
            end += max(0, len(reported) - len(host))
            found.append(Message(host, int(pid), int(gpu), piece.level, text))
        yield from reversed(found)
