# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove what is added to a capture: indentation, quote marks, time stamps, labels of launchers."""

from __future__ import annotations

import re

from .common import whole_lines

# Some tools write terminal escapes into pipes too.
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}"
# No tool prints these itself: they are removed from each line, whether or not the others have them.
_STAMPS = (
    # `kubectl logs --timestamps`, `ts`, container runtimes
    re.compile(rf"\[?[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_CLOCK}(?:[.,][0-9]{{1,9}})?"
               r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?\]?(?: (?:stdout|stderr) [FP])?:?(?: |$)"),
    # iperf3 --timestamps, ctime(3)
    re.compile(rf"\[?{_DAY} {_MONTH} [ 0-9][0-9] {_CLOCK}(?: [A-Z]{{3,5}})? [0-9]{{4}}\]?(?: |$)"),
    # syslog and journalctl
    re.compile(rf"{_MONTH} [ 0-9][0-9] {_CLOCK} \S{{1,64}} [^\s:\[]{{1,64}}(?:\[[0-9]{{1,9}}\])?:(?: |$)"),
    # `ts %T`, --timestamps=%T, logs of CI systems
    re.compile(rf"\[?{_CLOCK}(?:[.,][0-9]{{1,9}})?\]?:?(?: |$)"),
    # mpirun --tag-output, `srun -l` with several digits is a label below
    re.compile(r"\[[0-9]{1,6},[0-9]{1,6}\]<std(?:out|err)>: ?"),
)  # fmt: skip
_SHARE_WITH_STAMP = 0.5
_MOST_QUOTES = 8
_QUOTE = re.compile(r"\s{0,8}>{1,8}(?: |$)")
_RANK = re.compile(r"([0-9]{1,6}): ?(?=\S| |$)")
_HOST = re.compile(r"(\[?[A-Za-z][\w.-]{0,63}\]?) {0,20}[:|](?: |$)")
# kubectl logs --prefix
_POD = re.compile(r"(\[[a-z]{1,20}(?:/[\w.-]{1,253}){1,3}\])(?: |$)")
# An example in a comment of a script or a program.
_COMMENT = re.compile(r"\s{0,8}(?:#|\*|//)(?:[ \t]|$)")
# What ping -f prints for each probe, and erases for each reply.
_OVERSTRIKE = re.compile("\\.?\x08(?: \x08)?")
# One or two lines with the same beginning are messages of a tool (`ping: ...`, `iperf3: ...`).
_FEWEST_LINES = 4
_MOST_LABELS = 64
_OWN_LABELS = ("sockperf", "iperf3", "ping", "ping6", "ibwarn", "ibpanic", "rdma", "fio", "hca_id", "link")


def _without_stamps(lines: list[str]) -> list[str]:
    for pattern in _STAMPS:
        filled = [line for line in lines if line.strip()]
        stamped = sum(pattern.match(line[:200]) is not None for line in filled)
        if stamped and stamped >= len(filled) * _SHARE_WITH_STAMP:
            found = [(line, pattern.match(line[:200])) for line in lines]
            lines = [line[match.end() :] if match else line for line, match in found]
    return lines


def _without_quotes(lines: list[str]) -> list[str]:
    for _level in range(_MOST_QUOTES):
        filled = [line for line in lines if line.strip()]
        quoted = sum(_QUOTE.match(line[:20]) is not None for line in filled)
        if not quoted or quoted < len(filled) * _SHARE_WITH_STAMP:
            break
        found = [(line, _QUOTE.match(line[:20])) for line in lines]
        lines = [line[match.end() :] if match else line for line, match in found]
    return lines


def _dedented(lines: list[str]) -> list[str]:
    margins = [len(line) - len(line.lstrip(" \t")) for line in lines if line.strip()]
    common = min(margins, default=0)
    # A tool whose every line is indented by one blank (perftest's tables) is left as it is.
    return [line[common:] for line in lines] if common > 1 else lines


def _flush(lines: list[str]) -> list[str]:
    """Unindent lines that had a label and one more blank (iperf3 -T)."""
    common = min((len(line) - len(line.lstrip(" ")) for line in lines if line.strip()), default=0)
    return [line[common:] for line in lines]


def without_overstrikes(text: str) -> str:
    """Remove the dots and backspaces of `ping -f`, which look like binary data."""
    return _OVERSTRIKE.sub("", text) if "\x08" in text else text


def without_comment_marks(text: str) -> str | None:
    """Remove `#`, `*` or `//` from the beginning of each line; None when not every line has one."""
    lines = [line for line in text.split("\n") if line.strip()]
    found = [_COMMENT.match(line[:20]) for line in lines]
    if len(lines) < _FEWEST_LINES or not all(found):
        return None
    return "\n".join(line[match.end() :] for line, match in zip(lines, found) if match)  # noqa: B905 - 3.9


def clean(text: str) -> str:
    """Remove terminal escapes, quote marks, time stamps and common indentation; the text is not changed.

    Args:
        text: A capture as it was pasted or collected.

    Returns:
        The text, with uniform line ends.
    """
    # A page that shows a capture writes its blanks as no-break spaces.
    lines = whole_lines(_ANSI.sub("", text.lstrip("\ufeff").replace("\xa0", " ")))
    return "\n".join(_dedented(_without_stamps(_dedented(_without_quotes(lines)))))


def without_labels(text: str) -> str | None:
    """Sort the lines of a launcher by its labels (`0: `, `host1: `, `host1 | `) and remove these.

    Args:
        text: What `clean` returned.

    Returns:
        The labels' texts one after the other, or None when not every line has a label.
    """
    filled = [line for line in text.split("\n") if line.strip()]
    if len(filled) < _FEWEST_LINES:
        return None
    for pattern in (_RANK, _HOST, _POD):
        streams: dict[str, list[str]] = {}
        for line in filled:
            match = pattern.match(line[:100])
            if match is None or match.group(1) in _OWN_LABELS or len(streams) > _MOST_LABELS:
                break
            streams.setdefault(match.group(1), []).append(line[match.end() :])
        else:
            return "\n".join(line for stream in streams.values() for line in _flush(stream))
    return None
