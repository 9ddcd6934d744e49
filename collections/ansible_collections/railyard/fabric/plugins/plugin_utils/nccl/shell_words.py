# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a shell's script sets of NCCL, UCX and plugins: by export, before a command, as a launcher's option.

Read, not run: branches are all taken, what a program prints is not known, and a value that the script itself
sets earlier is put in. ${NAME:-value} counts as value, which is what it is where nothing else sets it.
NAME=value alone is the shell's own, which no program sees, unless the script exports the name too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
# NAME=VALUE, and the same behind -x, -e, --env=.
_ASSIGNED = re.compile(rf"(?:-[A-Za-z]|--[a-z-]+=)?({_NAME})=(.*)", re.DOTALL)
# Slurm's list: ALL,NAME=VALUE,NAME=VALUE.
_LISTED = re.compile(rf"(?:--export=)?((?:{_NAME},)+{_NAME}=.*|(?<=--export=){_NAME}=.*)", re.DOTALL)
_OURS = re.compile(r"(?:NCCL|UCX|OFI_NCCL|FI|RDMAV|nccl|ucx)_[A-Za-z0-9_]*\Z")
_OURS_WITHIN = re.compile(r"\b(?:NCCL|UCX|OFI_NCCL|FI|RDMAV)_\w*=")
# Name and value are two words behind these.
_APART = ("setenv", "-genv", "-env", "ENV")
_VARIABLE = re.compile(rf"\$(?:({_NAME})|\{{({_NAME})(?::?[-=]([^{{}}$]*))?\}})")
_BLANKS, _ENDS = " \t", "\n;&|()"
_HERE = re.compile(r"<<-?[ \t]*(['\"\\]?)(\w+)\1")
# What a command may stand behind.
_BEFORE = ("if", "then", "elif", "else", "while", "until", "do", "{", "!", "time")
_NESTS = {"(": 1, "{": 1, ")": -1, "}": -1}


class Assignment(NamedTuple):
    """See `env_file.Setting`."""

    line: int
    name: str
    value: str | None
    text: str
    listed: bool
    exported: bool


class _Word:
    """A word: its text with what is known put in, as it is written, and whether all of it is known.

    `begins` is whether a command begins with it, `here` whether it stands in a here-document.
    """

    def __init__(self, line: int, begins: bool) -> None:
        self.line, self.text, self.raw, self.known = line, "", "", True
        self.begins, self.here = begins, False


class _Reader:
    """Reads words off a text; `known` are the variables met so far, None where their value is not."""

    def __init__(self, text: str, line: int, known: dict[str, str | None]) -> None:
        self._text, self._at, self._line, self._known = text, 0, line, known

    def words(self) -> Iterator[_Word]:
        word: _Word | None = None
        begins, here = True, ""
        while self._at < len(self._text):
            char = self._text[self._at]
            if word is None and char == "#":
                self._comment()
            elif self._text.startswith("\\\n", self._at):
                self._at, self._line = self._at + 2, self._line + 1
            elif char in _BLANKS or char in _ENDS:
                if word:
                    yield word
                word = None
                begins = begins or char in _ENDS
                self._line += char == "\n"
                self._at += 1
                if char == "\n" and here:
                    yield from self._here(here)
                    here = ""
            elif (found := _HERE.match(self._text, self._at)) and self._text[self._at - 1] != "<":
                here, self._at = found[2], found.end()
            else:
                word = word or _Word(self._line, begins)
                begins = False
                self._add(word, char)
        if word:
            yield word

    def _here(self, end: str) -> Iterator[_Word]:
        """Read a here-document: a file that is written, or what another shell is given."""
        body = re.compile(rf"(.*?)^[ \t]*{end}[ \t]*$", re.DOTALL | re.MULTILINE).match(self._text, self._at)
        text = body[1] if body else self._text[self._at :]
        for word in _Reader(text, self._line, self._known).words():
            word.here = True
            yield word
        self._at += len(text)
        self._line += text.count("\n")

    def _comment(self) -> None:
        """Pass a comment over; Slurm's own are read as words."""
        if self._text.startswith("#SBATCH", self._at):
            self._at += len("#SBATCH")
            return
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end

    def _add(self, word: _Word, char: str) -> None:
        start = self._at
        end = self._closing(char) if char in "'\"" else 0
        if char == "\\":
            word.text += self._text[self._at + 1 : self._at + 2]
            self._at += 2
        elif char == "'" and end:
            word.text += self._text[self._at + 1 : end]
            self._at = end + 1
        elif char == '"' and end:
            self._at += 1
            while self._at < end:
                self._in_quotes(word)
            self._at = end + 1
        elif char in "$`":
            self._expand(word)
        else:
            # A quote whose other half is on another line, as of a text of many lines, is left out.
            word.text += "" if char in "'\"" else char
            self._at += 1
        word.raw += self._text[start : self._at]

    def _closing(self, quote: str) -> int:
        """Return where a quoted text ends, 0 where that is not on its line."""
        at = self._at + 1
        while at < len(self._text) and self._text[at] not in (quote, "\n"):
            at += 2 if quote == '"' and self._text[at] == "\\" else 1
        return at if self._text[at : at + 1] == quote else 0

    def _in_quotes(self, word: _Word) -> None:
        char = self._text[self._at]
        if char in "$`":
            self._expand(word)
        elif char == "\\" and self._text[self._at + 1 : self._at + 2] in ('"', "\\", "$", "`"):
            word.text += self._text[self._at + 1]
            self._at += 2
        else:
            word.text += char
            self._at += 1

    def _expand(self, word: _Word) -> None:
        found = _VARIABLE.match(self._text, self._at)
        if found is None:
            word.known = False
            self._at = self._behind_program()
            return
        self._at = found.end()
        value = self._known.get(found[1] or found[2], found[3])
        word.known = word.known and value is not None
        word.text += value or ""

    def _behind_program(self) -> int:
        """Return where $(...), ${...} or `...` ends; a $ alone ends at once."""
        if self._text[self._at] == "`":
            end = self._text.find("`", self._at + 1)
            return len(self._text) if end < 0 else end + 1
        depth, at = 0, self._at + 1
        while at < len(self._text):
            depth += _NESTS.get(self._text[at], 0)
            at += 1
            if depth <= 0:
                break
        return at


def assignments(text: str) -> list[Assignment]:
    """Return what a script sets of NCCL and UCX, in its order; what it unsets later is left out."""
    script = _Script()
    script.read(text, 1)
    everything = re.search(r"^[ \t]*set -(a|o allexport)\b", text, re.MULTILINE)
    return [
        one._replace(exported=one.exported or bool(everything) or one.name in script.handed_on)
        for one in script.found
    ]


class _Script:
    """What was read of a script so far."""

    def __init__(self) -> None:
        self.found: list[Assignment] = []
        #: Names that it exports, or hands to a launcher, apart from their values.
        self.handed_on: set[str] = set()
        self._known: dict[str, str | None] = {}

    def read(self, text: str, line: int) -> None:
        own = 0  # assignments at the end of `found` that no command has followed yet
        prefix = unsetting = False
        apart: list[_Word] | None = None
        for word in _Reader(text, line, self._known).words():
            if word.begins:
                own, prefix, unsetting, apart = 0, True, False, None
            assigned = _ASSIGNED.fullmatch(word.text)
            if prefix and assigned and word.text[0] != "-":
                before = len(self.found)
                self._keep(assigned[1], assigned[2], word, exported=word.here)
                own += len(self.found) - before
                continue
            if prefix and word.text not in _BEFORE:
                self._command_follows(own)
                own, prefix = 0, False
                unsetting = word.text == "unset"
            if unsetting and _OURS.match(word.text):
                self.found = [one for one in self.found if one.name != word.text]
                self._known.pop(word.text, None)
            elif word.text in _APART:
                apart = []
            elif listed := _LISTED.fullmatch(word.text):
                for name, value in _list(listed[1]):
                    self._keep(name, value, word, listed=True)
            elif assigned:
                self._keep(assigned[1], assigned[2], word)
            elif apart is not None:
                apart.append(word)
                if len(apart) > 1:
                    self._keep(apart[0].text, word.text, word)
                    apart = None
            elif _OURS_WITHIN.search(word.text):
                self.read(word.text, word.line)  # the script of bash -c
            elif _OURS.match(word.text):
                self.handed_on.add(word.text)

    def _command_follows(self, own: int) -> None:
        """Take the last assignments for those of the command behind them."""
        for place in range(len(self.found) - own, len(self.found)):
            self.found[place] = self.found[place]._replace(exported=True)

    def _keep(self, name: str, value: str, word: _Word, listed: bool = False, exported: bool = True) -> None:
        self._known[name] = value if word.known else None
        if _OURS.match(name):
            written = word.raw.partition("=")[2] if "=" in word.raw else word.raw
            text = value if word.known or listed else written
            self.found.append(Assignment(word.line, name, self._known[name], text, listed, exported))


def _list(text: str) -> Iterator[tuple[str, str]]:
    """Part Slurm's list as its writer meant it: a comma parts where a name and = follow."""
    for part in re.split(rf",(?={_NAME}=)", text):
        if found := re.fullmatch(rf"(?:{_NAME},)*({_NAME})=(.*)", part, re.DOTALL):
            yield found[1], found[2]
