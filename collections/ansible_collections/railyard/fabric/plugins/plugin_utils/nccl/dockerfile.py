# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a Dockerfile's instructions set: ENV for the image's programs, and what RUN writes or starts.

PyPI's dockerfile-parse is not used: it takes the lines below a comment inside a continued ENV, and those of a
here-document, for instructions, and does not know ${NAME:-value}.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import shell
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.settings import DOCKER, Settings
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.shell_record import Record, TooLongError
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.shell_values import Variables

_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)(?:\s+|\Z)")
# Docker refuses one ONBUILD in another.
_ON_BUILD = re.compile(rf"(?!\s*ONBUILD\b){_INSTRUCTION.pattern}", re.IGNORECASE)
_HEREDOC = re.compile(r"<<-?(['\"]?)(\w+)\1")
_ESCAPE = re.compile(r"\A#\s*escape\s*=\s*(\S)", re.IGNORECASE)
# To Docker these are text, outside of quotes too.
_SHELLS_OWN = frozenset(";&|()<>`#*?[]!~")


class _Instruction(NamedTuple):
    """An instruction of a Dockerfile.

    Attributes:
        line: its first one.
        name: in capitals.
        text: what follows; lines are continued as a shell has it.
        heredocs: first line and text of each.
    """

    line: int
    name: str
    text: str
    heredocs: tuple[tuple[int, str], ...]


def read(text: str, read_file: Callable[[str, str], Settings]) -> Settings:
    """Return what a Dockerfile sets; `read_file` reads the text of a file that it writes, by its name."""
    record = Record(read_file)
    stage = _Stage(record)
    at = 1
    try:
        for one in _instructions(text):
            at = one.line
            stage.take(one)
        stage.end()
    except TooLongError:
        record.stop(at, "the Dockerfile takes too many steps to read: its rest was not read")
    return record.result(DOCKER)


def _instructions(text: str) -> Iterator[_Instruction]:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    found = _ESCAPE.match(text)
    escape = found[1] if found else "\\"
    at = 0
    while at < len(lines):
        first = at
        if not lines[at].strip() or lines[at].lstrip().startswith("#"):
            at += 1
            continue
        taken: list[str] = []
        while at < len(lines):
            line = lines[at]
            at += 1
            if at - 1 > first and (not line.strip() or line.lstrip().startswith("#")):
                taken.append("\\")
                continue
            if not line.rstrip().endswith(escape):
                taken.append(line)
                break
            taken.append(f"{line.rstrip()[:-1]}\\")
        joined = "\n".join(taken).removesuffix("\\")
        name = _INSTRUCTION.match(joined)
        heredocs = []
        if name and name[1].upper() in ("RUN", "COPY", "ADD"):
            for _quote, end in _HEREDOC.findall(joined):
                start = at
                while at < len(lines) and lines[at].lstrip("\t") != end:
                    at += 1
                heredocs.append((start + 1, "\n".join(lines[start:at])))
                at += 1
        if name:
            yield _Instruction(first + 1, name[1].upper(), joined[name.end() :], tuple(heredocs))
        else:
            yield _Instruction(first + 1, "a line without an instruction", joined, ())


class _Stage:
    """The stage that is being read, from FROM to the next one."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._scope = self._global = Variables()
        self._stages: dict[str, Variables] = {}

    def take(self, one: _Instruction) -> None:
        """Take an instruction."""
        if one.name == "FROM":
            self._from(one)
        elif one.name == "ENV":
            self._run(f"export {_as_shell(_as_pairs(one.text))}", self._scope, one.line)
        elif one.name == "ARG":
            self._run(_as_shell(one.text) if "=" in one.text else "", self._scope, one.line)
        elif one.name in ("RUN", "CMD", "ENTRYPOINT"):
            self._command(one)
        elif one.name in ("COPY", "ADD") and one.heredocs:
            target = one.text.split()[-1]
            for start, text in one.heredocs:
                self._record.write(target, list(enumerate(text.split("\n"), start)), self._scope.path)
        elif one.name == "ONBUILD" and (name := _ON_BUILD.match(one.text)):
            self.take(_Instruction(one.line, name[1].upper(), one.text[name.end() :], one.heredocs))
        elif one.name != "LABEL":
            why = f"{{name}} is in {one.name}, which is not read"
            self._record.report_unread_text(one.text, one.line, why)

    def end(self) -> None:
        """Keep what the image's programs see."""
        self._record.record_program(self._scope)

    def _from(self, one: _Instruction) -> None:
        self.end()
        words = [word for word in one.text.split() if not word.startswith("--")]
        self._scope = (
            self._stages.get(words[0].lower(), self._global).copy() if words else self._global.copy()
        )
        if len(words) > 2 and words[1].upper() == "AS":  # FROM image AS name
            self._stages[words[2].lower()] = self._scope

    def _command(self, one: _Instruction) -> None:
        text = re.sub(
            r"\A(?:--\w+=\S+[ \t]*(?:\\\n\s*)*)+", lambda found: "\\\n" * found[0].count("\n"), one.text
        )
        scope = self._scope.copy()
        if text.lstrip().startswith("["):
            try:
                words = json.loads(text.replace("\\\n", "\n"))
                text = shlex.join([str(word) for word in words])
            except (ValueError, TypeError):
                pass  # Docker gives such a text to the shell
        if one.heredocs and not _HEREDOC.sub("", text).strip():
            for start, body in one.heredocs:
                self._run(body, scope, start)
            return
        if first := _HEREDOC.match(text.lstrip()):
            text = f"{_HEREDOC.sub('', text, count=1).strip()} {first[0]}"
        for (_start, body), (_quote, end) in zip(one.heredocs, _HEREDOC.findall(text), strict=False):
            text += f"\n{body}\n{end}"
        self._run(f"{text}\n", scope, one.line)

    def _run(self, text: str, scope: Variables, line: int) -> None:
        before = scope.copy()
        shell.run(text, self._record, scope, line, inside=True)
        if any(scope.was_seen(name) and scope.get(name) is not before.get(name) for name in scope.names()):
            self._record.record_program(scope)


def _as_pairs(text: str) -> str:
    """Return ENV's old form, NAME VALUE, in the new one."""
    first = text.split(None, 1)
    if not first or "=" in first[0]:
        return text
    value = first[1] if len(first) > 1 else ""
    if not re.search(r"['\"]", value):
        value = re.sub(r"[ \t]+", r"\\ ", value)
    return f"{first[0]}={value}"


def _as_shell(text: str) -> str:
    """Return words as a shell reads them that Docker reads with fewer signs of its own."""
    found, quote, at = [], "", 0
    while at < len(text):
        char = text[at]
        if char == "\\" and quote != "'":
            found.append(text[at : at + 2])
            at += 2
            continue
        if char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote = char
        elif char == "$" and text[at + 1 : at + 2] == "(" and quote != "'":
            char = "\\$"
        elif char == "$" and text[at + 1 : at + 2] == "{":
            end = text.find("}", at)
            char = text[at : end + 1] if end > 0 else "\\$"
            at += len(char) - 1 if end > 0 else 0
        elif (not quote and char in _SHELLS_OWN) or (quote == '"' and char == "`"):
            char = f"\\{char}"
        found.append(char)
        at += 1
    return "".join(found)
