# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a shell assigns and declares: NAME=VALUE, export, local, unset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import shell_values
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.launchers import ASSIGNED
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.settings import ALWAYS, HOLE, IS_OURS
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.shell_tree import named_children, text_of

if TYPE_CHECKING:
    from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.shell import Script
    from tree_sitter import Node

_DECLARES = {"export": True, "readonly": None, "declare": None, "typeset": None, "local": None}
TOO_MANY = "a text that holds settings has too many values here, or too long ones, to be followed"
#: What it costs to find that out.
FAILURE_STEPS = 500


class Assignments:
    """Reads the assignments of a script."""

    def __init__(self, script: Script) -> None:
        self._script, self._record, self._words = script, script.record, script.words
        #: For each function that is being read, what its own variables hide.
        self.locals: list[dict[str, tuple[shell_values.Option, ...]]] = []

    def make_local(self, name: str, scope: shell_values.Variables) -> bool:
        """Keep the value that a function's variable hides; return whether this is a function."""
        if self.locals:
            self.locals[-1].setdefault(name, scope.get(name))
        return bool(self.locals)

    def assign(
        self, node: Node, scope: shell_values.Variables, *, exported: bool | None = None, local: bool = False
    ) -> None:
        """Read NAME=VALUE; `exported` says whether it is marked for programs, None leaves that as it is."""
        target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if target is None:
            return
        name = text_of(target).partition("[")[0]
        raw = text_of(value) if value is not None else ""
        try:
            texts = self._words.expand(value, scope) if value is not None else [(ALWAYS, "")]
        except shell_values.TooManyValuesError:
            self._record.step(FAILURE_STEPS)
            self._record.report_unread(self._script.line(node), TOO_MANY)
            texts = [(ALWAYS, HOLE)]
        if target.type == "subscript":
            texts = [(ALWAYS, shell_values.ITEM + HOLE)]
        adds = any(one.type == "+=" for one in node.children)
        is_exported = scope.is_exported(name) if exported is None else exported
        options = []
        for when, text in texts:
            for old in scope.get(name) if adds else (None,):
                before = (
                    "" if old is None else (old.text if old.text is not None else ("" if old.line else HOLE))
                )
                both = when if old is None else when | old.when
                options.append(
                    shell_values.Option(
                        before + shell_values.as_value(text),
                        is_exported,
                        both,
                        self._script.line(node),
                        raw,
                        scope.started,
                        local=local,
                    )
                )
        self.put(name, options, scope)

    def seen(self, scope: shell_values.Variables) -> None:
        """Keep what programs saw of a subshell's variables."""
        if any(IS_OURS.match(name) and scope.was_seen(name) for name in scope.names()):
            self._record.record_program(scope)

    def put(self, name: str, options: Sequence[shell_values.Option], scope: shell_values.Variables) -> None:
        """Set a variable, and keep what programs saw of it before."""
        for prefix in ("SINGULARITYENV_", "APPTAINERENV_"):
            if name.startswith(prefix):
                name = name[len(prefix) :]
        if IS_OURS.match(name):
            if not scope.is_programs and scope.was_seen(name):
                self._record.record_program(scope)
            if any(one.exported for one in options):
                self._record.mark_exported(name)
            elif not options[-1].local and options[-1].text is not None:
                self._record.keep_private(name, options[-1])
        else:
            for one in options:
                self._record.track_text(name, one.text or "", one.line)
        scope.put(name, options)

    def declare(self, node: Node, scope: shell_values.Variables) -> None:
        """Read export, declare, local, readonly and typeset."""
        keyword = text_of(node.children[0])
        options = "".join(
            text_of(one)[1:] for one in named_children(node, "word") if text_of(one)[:1] in "-+"
        )
        exported = _DECLARES.get(keyword)
        if "x" in options:
            exported = True
        if keyword == "export" and "n" in options:
            exported = False
        local = keyword in ("local", "declare", "typeset") and "g" not in options
        children = node.children
        for before, one, behind in zip(children, children[1:], [*children[2:], None], strict=False):
            if _is_part(one, before, behind):
                continue
            if one.type == "variable_assignment":
                target = one.child_by_field_name("name")
                name = text_of(target).partition("[")[0] if target is not None else ""
                is_local = local and self.make_local(name, scope)
                self.assign(one, scope, exported=exported, local=is_local or keyword == "local")
            elif one.type == "variable_name":
                self.mark(text_of(one), exported, local, scope)
            elif one.is_named and one.type != "comment" and not text_of(one).startswith(("-", "+")):
                self._declare_word(one, exported, keyword, scope)

    def mark(self, name: str, exported: bool | None, local: bool, scope: shell_values.Variables) -> None:
        """Export a name that is set already, or make it a function's own."""
        if local and exported is None:
            self.make_local(name, scope)
            return
        if exported is not None:
            options = [one._replace(exported=exported) for one in scope.get(name)]
            self.put(name, options, scope)

    def _declare_word(
        self, node: Node, exported: bool | None, keyword: str, scope: shell_values.Variables
    ) -> None:
        """Read a word that the shell makes NAME=VALUE of."""
        line = self._script.line(node)
        texts = self._words.expand(node, scope)
        before = node.prev_sibling
        if before is not None and before.type == "variable_name" and before.end_byte == node.start_byte:
            texts = [(when, text_of(before) + text) for when, text in texts]
        behind = node.next_sibling
        if behind is not None and behind.type == "number" and behind.start_byte == node.end_byte:
            # In $A=$1 it takes the 1 for a word of its own.
            options = scope.get(text_of(behind))
            value = HOLE if len(options) > 1 or options[0].text is None else options[0].text
            texts = [(when, text.removesuffix("$") + value) for when, text in texts]
        for _when, text in texts:
            for part in shell_values.split_fields(text):
                assigned = ASSIGNED.fullmatch(part)
                if assigned and (exported or IS_OURS.match(assigned[1])):
                    option = shell_values.Option(
                        assigned[2], bool(exported), ALWAYS, line, text_of(node), scope.started
                    )
                    self.put(assigned[1], [option], scope)
                elif HOLE in part:
                    raw = text_of(node)
                    why = f"{keyword} is given {raw.splitlines()[0][:60]}, which the file alone does not tell"
                    self._record.report_unread(line, why, harmless="nccl" not in raw.lower())
                elif part.isidentifier():
                    self.mark(part, exported, False, scope)
                elif "NCCL" in part:
                    why = f"{keyword} is given {part[:60]}, which is not read here"
                    self._record.report_unread(line, why)

    def unset(self, node: Node, scope: shell_values.Variables) -> None:
        """Read unset."""
        for one in named_children(node):
            for name in shell_values.split_fields(self._words.expand(one, scope)[0][1]):
                if name[:1] != "-":
                    self.put(name, [shell_values.Option(None, line=self._script.line(node))], scope)


def _is_part(node: Node, before: Node, behind: Node | None) -> bool:
    """Tell whether tree-sitter made two nodes of a word, of which the other one is read with this one.

    It ends NCCL_$A=1 behind the name, and $A=$1 before the number.
    """
    if node.type == "variable_name":
        return behind is not None and behind.start_byte == node.end_byte
    return node.type == "number" and before.end_byte == node.start_byte
