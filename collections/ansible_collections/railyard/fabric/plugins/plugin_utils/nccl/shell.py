# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a script sets, along all of its branches.

The script is read, not run. A command is taken to succeed; a condition is taken to hold and not to hold. What
`$(...)` prints is not known, and what the script does not set itself comes from outside. ${NAME:-value}
counts as the value, which is what it is where nothing else sets NAME.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import settings, shell_commands, shell_tree
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.launchers import Field
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.shell_assign import (
    FAILURE_STEPS,
    TOO_MANY,
    Assignments,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.shell_output import Outputs
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.shell_record import Record, TooLongError
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.shell_values import (
    ITEM,
    Option,
    TooManyValuesError,
    Variables,
    split_fields,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_DEEPEST = 60
_MOST_ERRORS = 20
# A loop over more words is not followed word by word.
_MOST_TURNS = 8
_DECIDES = (
    "test",
    "[",
    "grep",
    "egrep",
    "fgrep",
    "command",
    "which",
    "type",
    "cmp",
    "diff",
    "hash",
    "pgrep",
    "false",
)
# Without any of them a script sets nothing that is known here.
_MENTIONS = ("NCCL", "nccl", "UCX_", "RDMAV_", "FI_")
_TOO_LONG = "the script takes too many steps to read: its rest was not read"
_CONDITIONS = ("command", "pipeline", "list", "test_command", "redirected_statement", "negated_command")
_COMMENT_OPTIONS = ("#SBATCH", "#BSUB", "#PBS", "#FLUX:", "#flux:")
_BATCH = {"#SBATCH": "sbatch", "#BSUB": "bsub", "#PBS": "qsub", "#FLUX:": "flux", "#flux:": "flux"}


def read(text: str, read_file: Callable[[str, str], settings.Settings]) -> settings.Settings:
    """Return what a script sets; `read_file` reads the text of a file that it writes, by its name."""
    record = Record(read_file)
    if any(part in text for part in _MENTIONS):
        run(text, record, Variables())
    return record.result(settings.SHELL)


def run(text: str, record: Record, scope: Variables, first_line: int = 1, *, inside: bool = False) -> None:
    """Read a text that a shell runs; `inside` where what it sets at its end is another's to judge."""
    try:
        Script(text, record, first_line).run(scope, inside=inside)
    except (TooLongError, RecursionError):
        record.stop(first_line, _TOO_LONG)
    except shell_tree.TooLargeError as error:
        record.report_unread(first_line, f"the script is too large to be read: {error}")
    except shell_tree.ParserMissingError:
        why = "the packages tree-sitter and tree-sitter-bash are not installed: no script can be read"
        record.report_unread(first_line, why)


class Script:
    """Reads one text.

    Args:
        text: the script.
        record: takes what is found.
        first_line: the file's line of its first one.
        depth: how many scripts it is in.
    """

    def __init__(self, text: str, record: Record, first_line: int = 1, depth: int = 0) -> None:
        source = text.replace("\r\n", "\n").encode("utf-8", errors="replace")
        self.root = shell_tree.parse(source)
        self.record, self.depth = record, depth
        self.words = shell_tree.Words(source, self._substitution, record.mark_used, record.branch)
        self._source, self._first_line = source, first_line
        self._level = 0
        #: How many calls of its functions are under way.
        self.calls = 0
        #: In how many command substitutions it is read: what is printed there is a word.
        self.substitutions = 0
        self.assignments = Assignments(self)
        self.outputs = Outputs(self)

    def line(self, node: Node) -> int:
        """Return the file's line of a node."""
        return node.start_point[0] + self._first_line

    def run(self, scope: Variables, *, inside: bool = False) -> None:
        """Read all of it; see the function of this name."""
        self._errors()
        for comment in shell_tree.find_nodes(self.root, "comment"):
            self._comment(comment, scope)
        self.statements(self.root.children, scope)
        if scope.has_news() and not inside:
            self.record.record_program(scope)
        for name, (script, body) in scope.functions.items():
            if name not in self.record.called and script is self:
                self.record.called.add(name)
                inner = scope.copy((self.record.branch(), 0))
                self.call(body, inner, [])
                self.record.record_program(inner)

    def _errors(self) -> None:
        for node in shell_tree.errors(self.root, _MOST_ERRORS):
            mentions = settings.SETS_ONE.search(shell_tree.text_of(node)) is not None
            why = "the shell's syntax is not understood here"
            why += ", and settings of NCCL may not be read here" if mentions else ""
            self.record.report_unread(self.line(node), why, harmless=not mentions)

    def _comment(self, node: Node, scope: Variables) -> None:
        """Read the options of a batch system in comments."""
        text = shell_tree.text_of(node)
        for start in _COMMENT_OPTIONS:
            if text.startswith(start) and ("NCCL" in text or "UCX" in text):
                script = Script(
                    f"{_BATCH[start]} {text[len(start) :]}", self.record, self.line(node), self.depth + 1
                )
                script.batch_options(scope)

    def batch_options(self, scope: Variables) -> None:
        """Set what a batch system's options set for all of the script."""
        for node in self.root.children:
            if node.type == "command":
                shell_commands.Commands(self).set_options(node, scope)

    def nested(self, text: Field, scope: Variables, *, inside: bool = False) -> None:
        """Read text that a shell runs inside this one."""
        Script(text.text, self.record, text.line, self.depth + 1).run(scope, inside=inside)

    def statements(self, nodes: Sequence[Node], scope: Variables) -> None:
        """Read statements, one behind the other."""
        for node in nodes:
            if not node.is_named or node.type == "comment":
                continue
            if scope.ended:
                if settings.SETS_ONE.search(shell_tree.text_of(node)):
                    why = "the script or the function has ended before: this is never run"
                    # Where the syntax is not understood, the end may be a function's.
                    self.record.report_unread(self.line(node), why, harmless=not self.root.has_error)
                    return
                continue
            self.statement(node, scope)

    def statement(self, node: Node, scope: Variables) -> None:
        """Read a statement."""
        self.record.step(1 + len(scope) // 64)
        if self._level + 4 * self.depth > _DEEPEST:
            why = "{name} is nested too deep inside other statements to be read"
            self.record.report_unread_text(shell_tree.text_of(node), self.line(node), why)
            return
        self._level += 1
        try:
            self._statement(node, scope)
        except TooManyValuesError:
            self.record.step(FAILURE_STEPS)
            self.record.report_unread(self.line(node), TOO_MANY)
        finally:
            self._level -= 1

    def _statement(self, node: Node, scope: Variables) -> None:
        kind = node.type
        commands = shell_commands.Commands(self)
        if kind == "command":
            commands.command(node, scope)
        elif kind in ("variable_assignment", "variable_assignments"):
            for one in (
                [node]
                if kind == "variable_assignment"
                else shell_tree.named_children(node, "variable_assignment")
            ):
                self.assignments.assign(one, scope)
        elif kind == "declaration_command":
            self.assignments.declare(node, scope)
        elif kind == "unset_command":
            self.assignments.unset(node, scope)
        elif kind == "redirected_statement":
            commands.redirected(node, scope)
        elif kind == "pipeline":
            commands.pipeline(node, scope)
        elif kind == "list":
            self._list(node, scope)
        elif kind == "if_statement":
            self._if(node, scope)
        elif kind == "case_statement":
            self._case(node, scope)
        elif kind in ("while_statement", "c_style_for_statement"):
            self._loop(node, scope)
        elif kind == "for_statement":
            self._for(node, scope)
        elif kind == "function_definition":
            name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
            if name is not None and body is not None:
                scope.functions[shell_tree.text_of(name)] = (self, body)
        elif kind == "subshell":
            self.subshell(node, scope)
        elif kind in ("compound_statement", "do_group", "negated_command", "program", "ERROR"):
            self.statements(node.children, scope)
        elif kind in ("heredoc_body", "test_command", "herestring_redirect", "file_redirect"):
            self.words.expand(node, scope)
        else:
            for inner_node in shell_tree.find_nodes(node, "command_substitution"):
                self.subshell(inner_node, scope)
            why = "{name} is in a form that is not read here"
            self.record.report_unread_text(shell_tree.text_of(node), self.line(node), why)

    def subshell(self, node: Node, scope: Variables) -> None:
        """Read what a subshell runs; it changes nothing outside."""
        inner = scope.copy()
        self.statements(node.children, inner)
        self.assignments.seen(inner)
        scope.take_over(inner)

    def _substitution(self, node: Node, scope: Variables) -> None:
        self.substitutions += 1
        try:
            self.subshell(node, scope)
        finally:
            self.substitutions -= 1

    def _arms(self, bodies: Sequence[Callable[[Variables], None]], scope: Variables, none: bool) -> None:
        """Read the arms of a branch, `none` of which may be taken, and merge what they leave behind."""
        branch = self.record.branch()
        arms = []
        for number in range(len(bodies) + none):
            self.record.step(1 + len(scope) // 16)
            arm = scope.copy((branch, number))
            if number < len(bodies):
                bodies[number](arm)
            arms.append(arm)
        scope.merge(arms, branch)

    def _body(self, nodes: Sequence[Node]) -> Callable[[Variables], None]:
        return lambda scope: self.statements(nodes, scope)

    def _list(self, node: Node, scope: Variables) -> None:
        chain: list[tuple[str, Node]] = []
        while node.type == "list":
            left, sign, right = node.children[0], node.children[1], node.children[-1]
            chain.append((shell_tree.text_of(sign), right))
            node = left
        self.statement(node, scope)
        before = node
        for operator, right in reversed(chain):
            if operator == "&&" and not self._decides(before):
                self.statement(right, scope)
            else:
                self._arms([self._body([right])], scope, none=True)
            before = right if operator == "||" or self._decides(right) else before

    def _decides(self, node: Node) -> bool:
        """Tell whether only the exit status of a command matters."""
        if node.type in ("test_command", "negated_command"):
            return True
        if node.type in ("pipeline", "redirected_statement"):
            inner = [
                one
                for one in shell_tree.named_children(node)
                if one.type in ("command", "test_command", "pipeline", "negated_command")
            ]
            return bool(inner) and self._decides(inner[-1])
        name = node.child_by_field_name("name") if node.type == "command" else None
        return name is not None and shell_tree.text_of(name) in _DECIDES

    def _if(self, node: Node, scope: Variables) -> None:
        condition, body = _halves(node.children)
        self.statements(condition, scope)
        bodies = [self._body(body)]
        none = True
        for one in shell_tree.named_children(node, "elif_clause", "else_clause"):
            if one.type == "else_clause":
                bodies.append(self._body(one.children))
                none = False
            else:
                condition, body = _halves(one.children)
                self.statements(condition, scope)
                bodies.append(self._body(body))
        self._arms(bodies, scope, none)

    def _case(self, node: Node, scope: Variables) -> None:
        value = node.child_by_field_name("value")
        if value is not None:
            self.words.expand(value, scope)
        bodies, none = [], True
        for item in shell_tree.named_children(node, "case_item"):
            patterns = item.children_by_field_name("value")
            none = none and not any(shell_tree.text_of(one) == "*" for one in patterns)
            at = {one.id for one in patterns}
            bodies.append(self._body([one for one in item.children if one.id not in at and one.is_named]))
        self._arms(bodies, scope, none)

    def _loop(self, node: Node, scope: Variables) -> None:
        """Read a loop whose number of turns is not known."""
        body = node.child_by_field_name("body")
        conditions = [one for one in shell_tree.named_children(node) if body is None or one.id != body.id]
        self.statements([one for one in conditions if one.type in _CONDITIONS], scope)
        if body is not None:
            self._arms([lambda inner: self._turn(body, inner)], scope, none=True)

    def _turn(self, body: Node, scope: Variables) -> None:
        """Read a turn of a loop, before which others may have been."""
        if any(shell_tree.text_of(one) == "shift" for one in shell_tree.find_nodes(body, "command_name")):
            scope.forget_arguments()
        for assigned in shell_tree.find_nodes(body, "variable_assignment"):
            target = assigned.child_by_field_name("name")
            name = shell_tree.text_of(target).partition("[")[0] if target is not None else ""
            if name and not settings.IS_OURS.match(name):
                exported = scope.is_exported(name)
                scope.put(name, [Option(settings.HOLE, exported, line=self.line(assigned), raw=f"${name}")])
        self.statements(body.children, scope)

    def _for(self, node: Node, scope: Variables) -> None:
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        if variable is None or body is None:
            return
        name = shell_tree.text_of(variable)
        values = [self.words.expand(one, scope) for one in node.children_by_field_name("value")]
        words = [word for value in values for word in split_fields(value[0][1])]
        certain = (
            all(len(value) == 1 and settings.HOLE not in value[0][1] for value in values)
            and len(words) <= _MOST_TURNS
        )
        if certain and words:
            for word in words:
                scope.put(name, [Option(word, scope.is_exported(name), line=self.line(node), raw=word)])
                self.statements(body.children, scope)
            return

        def turn(inner: Variables) -> None:
            inner.put(
                name, [Option(settings.HOLE, inner.is_exported(name), line=self.line(node), raw=f"${name}")]
            )
            self._turn(body, inner)

        self._arms([turn], scope, none=True)

    def call(self, body: Node, scope: Variables, arguments: Sequence[str]) -> None:
        """Read the body of a function as it is called with these arguments."""
        kept: dict[str, tuple[Option, ...]] = {}
        self.assignments.locals.append(kept)
        given = {str(number): one for number, one in enumerate(arguments, 1)}
        given["@"] = given["*"] = "".join(ITEM + one for one in arguments)
        for parameter, text in given.items() if arguments else ():
            kept[parameter] = scope.get(parameter)
            scope.put(parameter, [Option(text, line=self.line(body))])
        ended = scope.ended
        self.statements(body.children, scope)
        scope.ended = ended or scope.exited
        self.assignments.locals.pop()
        for parameter, options in kept.items():
            scope.put(parameter, options)


def _halves(children: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """Return what is before `then`, and what behind it up to the next arm."""
    before: list[Node] = []
    behind: list[Node] = []
    seen = False
    for one in children:
        if one.type == "then":
            seen = True
        elif one.is_named and one.type not in ("elif_clause", "else_clause"):
            (behind if seen else before).append(one)
    return before, behind
