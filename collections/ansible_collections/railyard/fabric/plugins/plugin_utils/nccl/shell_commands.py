# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a script's commands: what the shell does itself, what launchers pass on, what is written to files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import launchers, shell_output
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.launchers import Field
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.settings import ALWAYS, HOLE, IS_OURS, When
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.shell_output import SHOWN, Out
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.shell_tree import named_children, text_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.shell_values import (
    ITEM,
    Option,
    Variables,
    combine_conditions,
    split_fields,
)

if TYPE_CHECKING:
    from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.shell import Script
    from tree_sitter import Node

_MOST_COMBINATIONS = 32


class Commands:
    """Reads the commands of a script."""

    def __init__(self, script: Script) -> None:
        self._script, self._record, self._words = script, script.record, script.words
        self._assignments, self._outputs = script.assignments, script.outputs

    def command(self, node: Node, scope: Variables, out: Out = SHOWN, given: Node | None = None) -> None:
        """Read a simple command, where its output goes, and the here-document that it is given."""
        prefix = named_children(node, "variable_assignment")
        for one in named_children(node, "herestring_redirect", "file_redirect"):
            self._words.expand(one, scope)
        for one in named_children(node, "subshell"):  # setenv("NAME", "value") of Lua
            why = "{name} is in parentheses behind a command, which is no shell"
            self._record.report_unread_text(text_of(one), self._script.line(one), why)
        words = [one for one in node.children if one.is_named and one.type in _WORDS]
        if not words:
            for one in prefix:
                self._assignments.assign(one, scope)
            return
        combinations = self._combinations(words, scope)
        if len(combinations) == 1:
            self._run(combinations[0][1], scope, combinations[0][0], prefix, out, given)
        elif combinations:
            runs = [
                (when, partial(self._run, found, scope, when, prefix, out, given))
                for when, found in combinations
            ]
            self._record.merge_programs(scope.path, runs)

    def set_options(self, node: Node, scope: Variables) -> None:
        """Set what the options of a command give, for all that follows."""
        words = [one for one in node.children if one.is_named and one.type in _WORDS]
        for _when, found in self._combinations(words, scope):
            launch = launchers.read(found)
            for one in launch.given:
                self._give(one, scope)
            for word in launch.rest:
                why = "{name} is in an option that is not read here"
                self._record.report_unread_text(word.text, word.line, why)

    def _combinations(self, words: Sequence[Node], scope: Variables) -> list[tuple[When, list[Field]]]:
        """Return the words that the shell hands over, for each combination of branches."""
        found: list[tuple[When, list[Field]]] = [(ALWAYS, [])]
        self._record.step(len(words) // 8)
        for node in words:
            texts = self._words.expand(node, scope)
            line, raw = self._script.line(node), text_of(node)
            if len(texts) == 1 and not texts[0][0]:
                for _when, before in found:
                    before += [Field(part, line, raw) for part in split_fields(texts[0][1])]
                continue
            made = [
                (both, [*before, *(Field(part, line, raw) for part in split_fields(text))])
                for when, before in found
                for other, text in texts
                if (both := combine_conditions(when, other)) is not None
                and combine_conditions(both, scope.path) is not None
            ]
            if len(made) > _MOST_COMBINATIONS:
                for _when, text in texts:
                    why = "{name} is in one of too many combinations of branches"
                    self._record.report_unread_text(text, line, why)
                made = [(when, [*before, Field(HOLE, line, raw)]) for when, before in found]
            found = made
        return found

    def _run(
        self,
        words: list[Field],
        scope: Variables,
        when: When,
        prefix: Sequence[Node],
        out: Out,
        given: Node | None,
    ) -> None:
        if not words:
            for one in prefix:
                self._assignments.assign(one, scope)
            return
        name = PurePath(words[0].text).name or words[0].text
        if name == "sudo" and len(words) > 1 and (given is not None or out.file is not None):
            name = PurePath(words[1].text).name
        builtin = _BUILTINS.get(name)
        if builtin is not None:
            for one in prefix:
                self._assignments.assign(one, scope.copy())
            builtin(self, words, scope)
            return
        if name in scope.functions and words[0].text == name:
            self._call(name, words, scope, prefix)
            return
        if given is not None:
            self._outputs.heredoc(given, words, scope, out)
        self._program(name, words, scope, when, prefix, out)

    def _program(
        self, name: str, words: list[Field], scope: Variables, when: When, prefix: Sequence[Node], out: Out
    ) -> None:
        launch = launchers.read(words)
        inner = scope
        if prefix or launch.given or launch.scripts or launch.cleared:
            self._record.step(1 + len(scope) // 16)
            inner = scope.copy()
            inner.is_programs = True
        if launch.cleared:
            for one in inner.names():
                inner.put(one, [option._replace(exported=False) for option in inner.get(one)])
        for assignment in prefix:
            self._assignments.assign(assignment, inner, exported=True)
        for given in launch.given:
            self._give(given, inner)
        inner.is_programs = False
        for script in launch.scripts:
            self._script.nested(script, inner, inside=True)
        for word in launch.outside:
            why = f"the options in {word.raw} come from outside this file"
            self._record.report_unread(word.line, why, harmless="NCCL" not in word.raw.upper())
        if name in shell_output.HARMLESS:
            self._harmless(name, words, inner, out)
            return
        why = f"{{name}} is given to {shell_output.shown(words[0])}, and whether that sets it is not known"
        if name.startswith("-"):
            why = "this line with {name} is a command of its own: the one above does not end with a backslash"
        left = [self._record.report_unread_text(word.text, word.line, why) for word in launch.rest]
        if launch.rest and not any(left):
            # A text of another language, as x["NAME"] = "value".
            self._record.report_unread_text(" ".join(word.text for word in launch.rest), words[0].line, why)
        scope.started += 1
        if launch.starts or inner is not scope:
            self._record.record_program(inner, when)
            scope.kept = scope.started

    def _give(self, one: launchers.Given, scope: Variables) -> None:
        raw = one.value if HOLE not in one.value else one.field.raw.partition("=")[2] or one.field.raw
        self._assignments.put(
            one.name, [Option(one.value, True, ALWAYS, one.field.line, raw, scope.started, one.listed)], scope
        )

    def _call(self, name: str, words: list[Field], scope: Variables, prefix: Sequence[Node]) -> None:
        owner, body = scope.functions[name]
        self._record.called.add(name)
        if owner.calls >= _DEEPEST_CALL:
            return
        owner.calls += 1
        inner = scope.copy() if prefix else scope
        for one in prefix:
            self._assignments.assign(one, inner, exported=True)
        owner.call(body, inner, [word.text for word in words[1:]])
        if prefix:
            self._record.record_program(inner)
        owner.calls -= 1

    def _harmless(self, name: str, words: list[Field], scope: Variables, out: Out) -> None:
        if name == "sed" and any(word.text.startswith("-i") for word in words):
            for word in words:
                self._record.report_unread_text(word.text, word.line, "sed writes {name} into a file")
        if name in ("read", "mapfile", "readarray"):
            for one in (word.text for word in words[1:] if word.text.isidentifier()):
                scope.put(one, [Option(HOLE, scope.is_exported(one), line=words[0].line, raw=f"${one}")])
        if name == "printf" and len(words) > 2 and words[1].text == "-v":
            one = words[2].text
            option = Option(HOLE, scope.is_exported(one), line=words[0].line, raw=f"${one}")
            self._assignments.put(one, [option], scope)
            return
        if name in ("echo", "printf"):
            self._outputs.send([(words[0].line, line) for line in shell_output.printed(words)], scope, out)

    def redirected(self, node: Node, scope: Variables, program: tuple[Field, ...] | None = None) -> None:
        """Read a command whose output goes to a file, or that is given text."""
        body = node.child_by_field_name("body")
        out, heredoc = Out(None, program), None
        behind: list[Node] = []
        for redirect in node.children_by_field_name("redirect"):
            if redirect.type == "heredoc_redirect":
                heredoc = redirect
                for one in redirect.children:
                    if one.type == "file_redirect":
                        out = self._to_file(one, scope, out)
                    elif one.type == "pipeline":
                        out = Out(out.file, self._consumer(one.children, scope)) if out.file is None else out
                        behind.append(one)
                    elif one.is_named and one.type not in (
                        "heredoc_start",
                        "heredoc_body",
                        "heredoc_end",
                        *_WORDS,
                    ):
                        behind.append(one)
            else:
                out = self._to_file(redirect, scope, out)
        if body is None:
            pass
        elif body.type == "command":
            self.command(body, scope, out, heredoc)
        elif heredoc is not None and body.type == "pipeline":
            self.pipeline(body, scope, heredoc)
        elif body.type in ("compound_statement", "subshell", "list") and out.file is not None:
            self._grouped(body, scope, out)
        else:
            self._script.statement(body, scope)
            if heredoc is not None:
                text = "\n".join(line for _number, line in self._outputs.heredoc_lines(heredoc, scope))
                why = "{name} is in text that a group is given"
                self._record.report_unread_text(text, self._script.line(heredoc), why)
        for one in behind:
            self._script.statement(one, scope)

    def _grouped(self, body: Node, scope: Variables, out: Out) -> None:
        """Read a group whose commands all write to a file."""
        for one in body.children:
            if one.type == "command":
                self.command(one, scope, out)
            elif one.type == "redirected_statement" and one.child_by_field_name("body") is not None:
                inner = one.child_by_field_name("body")
                heredoc = next((part for part in one.children if part.type == "heredoc_redirect"), None)
                if heredoc is not None and inner is not None and inner.type == "command":
                    self.command(inner, scope, out, heredoc)
                else:
                    self._script.statement(one, scope)
            elif one.is_named and one.type != "comment":
                self._script.statement(one, scope)

    def _to_file(self, redirect: Node, scope: Variables, out: Out) -> Out:
        destination = redirect.child_by_field_name("destination")
        if redirect.type != "file_redirect" or destination is None or text_of(redirect)[:1] == "<":
            self._words.expand(redirect, scope)
            return out
        text = "".join(split_fields(self._words.expand(destination, scope)[0][1]))
        descriptor = redirect.child_by_field_name("descriptor")
        if (descriptor is not None and text_of(descriptor) != "1") or ">&" in text_of(redirect):
            return out
        return Out(text, out.program)

    def _consumer(self, parts: Sequence[Node], scope: Variables) -> tuple[Field, ...] | None:
        """Return the fields of the last command of a pipeline."""
        last = [one for one in parts if one.is_named][-1:]
        if last and last[0].type == "redirected_statement":
            last = [one for one in last[0].children if one.type == "command"][:1]
        if not last or last[0].type != "command":
            return None
        words = [one for one in last[0].children if one.is_named and one.type in _WORDS]
        return tuple(self._combinations(words, scope.copy())[0][1]) or None

    def pipeline(self, node: Node, scope: Variables, heredoc: Node | None = None) -> None:
        """Read a pipeline: each part runs in a shell of its own."""
        parts = [one for one in node.children if one.is_named and one.type != "comment"]
        self._record.step(len(parts))
        consumer = self._consumer(parts, scope)
        for place, part in enumerate(parts):
            self._record.step(1 + len(scope) // 16)
            inner = scope.copy()
            out = Out(None, consumer if place < len(parts) - 1 else None)
            if part.type == "command":
                self.command(part, inner, out, heredoc if place == 0 else None)
            elif part.type == "redirected_statement":
                self.redirected(part, inner, out.program)
            else:
                self._script.statement(part, inner)
                if part.type in ("compound_statement", "subshell", "while_statement", "for_statement"):
                    self._assignments.seen(inner)
            scope.take_over(inner)

    # What the shell does itself.

    def _end(self, words: list[Field], scope: Variables) -> None:
        if words[0].text != "return" and scope.started and scope.has_news():
            self._record.record_program(scope)
        scope.ended = True
        scope.exited = words[0].text != "return"

    def _exec(self, words: list[Field], scope: Variables) -> None:
        if len(words) > 1:
            self._run(words[1:], scope, ALWAYS, (), SHOWN, None)
            self._end(words, scope)

    def _eval(self, words: list[Field], scope: Variables) -> None:
        text = " ".join(word.text for word in words[1:])
        if text.strip() == HOLE or text.startswith(HOLE):
            raw = " ".join(word.raw for word in words[1:])
            why = "eval runs what the file alone does not tell"
            self._record.report_unread(
                words[0].line, why, harmless="NCCL" not in raw.upper() and "NCCL" not in text
            )
            return
        self._script.nested(Field(text, words[0].line), scope, inside=True)

    def _source(self, words: list[Field], scope: Variables) -> None:
        if len(words) > 1:
            word = words[1]
            shown = word.text if HOLE not in word.text else word.raw
            why = f"what {shown} sets is not read"
            self._record.report_unread(
                word.line, why, harmless="nccl" not in f"{word.text}{word.raw}".lower()
            )

    def _shift(self, words: list[Field], scope: Variables) -> None:
        count = words[1].text if len(words) > 1 else "1"
        arguments = scope.get("@")[-1].text
        if len(scope.get("@")) > 1 or not count.isdigit() or (arguments and arguments[0] != ITEM):
            scope.forget_arguments()
        elif arguments:
            before = arguments[1:].split(ITEM)
            self._record.step(len(before) // 8)
            behind = before[int(count) :]
            for place in range(len(before)):
                text = behind[place] if place < len(behind) else ""
                scope.put(str(place + 1), [Option(text, line=words[0].line)])
            for name in ("@", "*"):
                scope.put(name, [Option("".join(ITEM + one for one in behind), line=words[0].line)])

    def _set(self, words: list[Field], scope: Variables) -> None:
        for word in words[1:]:
            if IS_OURS.match(word.text):
                why = "{name} is given to set, which sets a variable in other shells than those of sh"
                self._record.report_unread_text(f"{word.text}=", word.line, why)
        for place, word in enumerate(words[1:], 1):
            if re.fullmatch(r"[-+][a-zA-Z]*a[a-zA-Z]*", word.text):
                scope.exports_all = word.text[0] == "-"
            if word.text == "allexport" and words[place - 1].text in ("-o", "+o"):
                scope.exports_all = words[place - 1].text == "-o"

    def _setenv(self, words: list[Field], scope: Variables) -> None:
        if len(words) > 1:
            value = words[2].text if len(words) > 2 else ""
            raw = words[2].raw if len(words) > 2 else ""
            option = Option(value, True, ALWAYS, words[1].line, raw, scope.started)
            self._assignments.put(words[1].text, [option], scope)

    def _unset_names(self, words: list[Field], scope: Variables) -> None:
        for word in words[1:]:
            self._assignments.put(word.text, [Option(None, line=word.line)], scope)


_WORDS = (
    "command_name", "word", "number", "string", "raw_string", "ansi_c_string", "translated_string",
    "concatenation", "simple_expansion", "expansion", "command_substitution", "process_substitution",
    "arithmetic_expansion", "brace_expression", "regex", "extglob_pattern", "variable_name",
)  # fmt: skip
_DEEPEST_CALL = 8
_BUILTINS: dict[str, Callable[[Commands, list[Field], Variables], None]] = {
    "exit": Commands._end,
    "return": Commands._end,
    "exec": Commands._exec,
    "eval": Commands._eval,
    "source": Commands._source,
    ".": Commands._source,
    "set": Commands._set,
    "shift": Commands._shift,
    "setenv": Commands._setenv,
    "unsetenv": Commands._unset_names,
}
