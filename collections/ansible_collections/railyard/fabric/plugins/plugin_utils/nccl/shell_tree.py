# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse bash with tree-sitter, and take its words apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.settings import ALWAYS, HOLE, IS_OURS
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.shell_values import (
    ITEM,
    QUOTED,
    SPLIT,
    Option,
    Texts,
    Variables,
    as_value,
    join_texts,
)

try:
    import tree_sitter
    import tree_sitter_bash
except ImportError:  # sanity's environment has none
    tree_sitter = tree_sitter_bash = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from tree_sitter import Node

_EXPANSION = re.compile(rb"\$\{([A-Za-z_]\w*)(\[[^\]]*\])?(?:(:?[-=+?])(.*))?\}\Z", re.DOTALL)
_SPACE = re.compile(r"[ \t\n]+")
_ANSI = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_HOLE: Texts = [(ALWAYS, HOLE)]


# Of these the parser's time and memory grow with the square of the number; real scripts have some hundreds.
_MOST = {b"|": 2000, b"=(": 2000, b"<<": 1000, b"[[": 5000, b"${": 10_000, b")": 10_000, b"<": 10_000}


class TooLargeError(Exception):
    """A script has too many of one sign to be parsed."""


class ParserMissingError(Exception):
    """tree-sitter is not installed."""


def parse(source: bytes) -> Node:
    """Return the root of a script's syntax tree.

    Raises:
        ParserMissingError: tree-sitter is not installed.
        TooLargeError: it would take too long.
    """
    if tree_sitter is None:
        raise ParserMissingError
    for sign, most in _MOST.items():
        if source.count(sign) > most:
            raise TooLargeError(f"it has more than {most} times {sign.decode()}")
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
    return parser.parse(source).root_node


def named_children(node: Node, *types: str) -> list[Node]:
    """Return the children of a node that have one of these types, or all that are named."""
    return [one for one in node.children if (one.type in types if types else one.is_named)]


def text_of(node: Node) -> str:
    """Return what the file has in a node's place."""
    return (node.text or b"").decode("utf-8", errors="replace")


def find_nodes(node: Node, *types: str) -> Iterator[Node]:
    """Yield the outermost nodes of these types in a node, itself included."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one.type in types:
            yield one
        else:
            waiting += reversed(one.children)


def errors(root: Node, most: int) -> list[Node]:
    """Return what does not fit the grammar; of what is missing, the statement that lacks it."""
    found: list[Node] = []
    waiting = [(root, root)] if root.has_error else []
    while waiting and len(found) < most:
        node, statement = waiting.pop()
        if node.type == "ERROR":
            found.append(node)
        elif node.is_missing:
            found.append(statement)
        else:
            inner = node if node.type.endswith(("command", "_statement", "_assignment")) else statement
            waiting += [(one, inner) for one in reversed(node.children) if one.has_error or one.is_missing]
    return found


class Words:
    """Evaluates words of a script.

    Args:
        run: runs a command substitution.
        used: is given the name of each variable that is read.
        branch: returns the number of a new branch.
    """

    def __init__(
        self,
        source: bytes,
        run: Callable[[Node, Variables], None],
        used: Callable[[str], None],
        branch: Callable[[], int],
    ) -> None:
        self._source, self._run, self._used, self._branch = source, run, used, branch

    def expand(self, node: Node, scope: Variables, *, quoted: bool = False) -> Texts:
        """Return what a word may be."""
        kind = node.type
        if kind in ("word", "number", "variable_name", "regex", "extglob_pattern", "file_descriptor"):
            if not node.named_children:
                return [(ALWAYS, _unescaped(text_of(node), quoted))]
            return self.span(node.start_byte, node.end_byte, node.children, scope, quoted=quoted)
        if kind in ("concatenation", "command_name"):
            return self.span(node.start_byte, node.end_byte, node.children, scope, quoted=quoted)
        if kind in ("string", "translated_string"):
            if kind == "translated_string":
                node = named_children(node, "string")[0] if named_children(node, "string") else node
            inner = self.span(node.start_byte + 1, node.end_byte - 1, node.children, scope, quoted=True)
            return [(when, ("" if quoted else QUOTED) + text) for when, text in inner]
        if kind == "raw_string":
            return [(ALWAYS, text_of(node) if quoted else QUOTED + text_of(node)[1:-1])]
        if kind == "ansi_c_string":
            literal = re.sub(
                r"\\(.)", lambda found: _ANSI.get(found[1], HOLE), text_of(node)[2:-1], flags=re.DOTALL
            )
            return [(ALWAYS, QUOTED + literal)]
        if kind == "array":
            items = [self.expand(one, scope) for one in named_children(node) if one.type != "comment"]
            mark: Texts = [(ALWAYS, ITEM)]
            return join_texts(part for item in items for part in (mark, _itemised(item))) if items else mark
        if kind in ("simple_expansion", "expansion"):
            return [(when, _split(text, quoted)) for when, text in self._variable(node, scope, quoted)]
        if kind in ("command_substitution", "process_substitution"):
            self._run(node, scope)
            return _HOLE
        if kind in ("string_content", "heredoc_content"):
            return [(ALWAYS, _unescaped(text_of(node), quoted=True))]
        if kind == "arithmetic_expansion" and (number := _calculated(text_of(node))) is not None:
            return [(ALWAYS, number)]
        for inner_node in find_nodes(node, "command_substitution"):
            self._run(inner_node, scope)
        for inner_node in find_nodes(node, "variable_name"):
            self._used(text_of(inner_node))
        return _HOLE

    def span(
        self, start: int, end: int, children: Sequence[Node], scope: Variables, *, quoted: bool
    ) -> Texts:
        """Return what a stretch of the file may be, whose children are words and what the shell expands."""
        parts: list[Texts] = []
        at = start
        for child in children:
            if child.start_byte < at or child.end_byte > end or not child.is_named:
                continue
            if child.start_byte > at:
                parts.append(self._literal(at, child.start_byte, quoted))
            parts.append(self.expand(child, scope, quoted=quoted))
            at = child.end_byte
        if at < end:
            parts.append(self._literal(at, end, quoted))
        return join_texts(parts)

    def _literal(self, start: int, end: int, quoted: bool) -> Texts:
        return [(ALWAYS, _unescaped(self._source[start:end].decode("utf-8", errors="replace"), quoted))]

    def _variable(self, node: Node, scope: Variables, quoted: bool) -> Texts:
        """Evaluate $NAME and ${NAME...}."""
        if node.type == "simple_expansion":
            name = text_of(node)[1:]
            self._used(name)
            return _items(scope.get(name)) if name in ("@", "*") else _scalars(scope.get(name))
        found = _EXPANSION.match(node.text or b"")
        if found is None:  # ${#A}, ${A%x}, ${A/x/y}, ${!A}
            for one in find_nodes(node, "command_substitution"):
                self._run(one, scope)
            for one in find_nodes(node, "variable_name"):
                # What is in another's text is not known here, so that it stays to be reported.
                if IS_OURS.match(text_of(one)):
                    self._used(text_of(one))
            return _HOLE
        name, index, operator = found[1].decode(), found[2], (found[3] or b"").decode()
        if index in (None, b"[@]", b"[*]") or IS_OURS.match(name):
            self._used(name)
        options = scope.get(name)
        if index is not None:
            return _items(options) if index in (b"[@]", b"[*]") else _HOLE
        if not operator or operator.endswith("?"):
            return _scalars(options)
        start = node.start_byte + found.start(4)
        other = self.span(start, node.end_byte - 1, node.children, scope, quoted=quoted)
        chosen: Texts = []
        for option in options:
            chosen += join_texts([[(option.when, "")], self._chosen(name, option, operator, other)])
        if operator.endswith("="):
            kept = [
                Option(as_value(text), scope.is_exported(name), when, node.start_point[0] + 1)
                for when, text in chosen
            ]
            scope.put(name, kept)
        return chosen or _HOLE

    def _chosen(self, name: str, one: Option, operator: str, other: Texts) -> Texts:
        """Return what ${NAME-other} is, where nothing but the file sets NAME."""
        is_set = one.text is not None and (bool(one.text) or operator[0] != ":")
        if operator[-1] == "+":
            if one.text is None and not one.line and not IS_OURS.match(name):
                # The environment may have it: both are possible.
                branch = self._branch()
                put_in: Texts = [(frozenset({(branch, 0)}), "")]
                return [*join_texts([put_in, other]), (frozenset({(branch, 1)}), "")]
            return other if is_set else [(ALWAYS, "")]
        return [(ALWAYS, one.text or "")] if is_set else other


def _calculated(text: str) -> str | None:
    """Return what $((...)) is where it is a product of numbers or a number shifted, as sizes in bytes are."""
    found = re.fullmatch(r"\$\(\(\s*(\d{1,9})\s*(?:(\*|<<)\s*(\d{1,9})\s*)?(?:\*\s*(\d{1,9})\s*)?\)\)", text)
    if found is None or (found[2] == "<<" and (found[4] or int(found[3]) > 40)):
        return None
    first, second, third = int(found[1]), int(found[3] or 1), int(found[4] or 1)
    return str(first << second if found[2] == "<<" else first * second * third)


def _scalars(options: Sequence[Option]) -> Texts:
    found: Texts = []
    for one in options:
        text = one.text
        if text is None:
            text = "" if one.line else HOLE
        elif text.startswith(ITEM):
            text = text[1:].split(ITEM)[0]
        found.append((one.when, text))
    return found


def _items(options: Sequence[Option]) -> Texts:
    """Return "${A[@]}": each item a word, whatever is in it."""
    found: Texts = []
    for one in options:
        if one.text is None:
            found.append((one.when, HOLE))
        elif one.text.startswith(ITEM):
            items = [part.replace(" ", "\ue004") for part in one.text[1:].split(ITEM)] if one.text[1:] else []
            found.append((one.when, SPLIT.join(items)))
        else:
            found.append((one.when, one.text))
    return found


def _itemised(item: Texts) -> Texts:
    """Return a word of an array's list as items."""
    return [(when, text.strip(SPLIT).replace(SPLIT, ITEM).replace(QUOTED, "")) for when, text in item]


def _split(text: str, quoted: bool) -> str:
    """Mark where the shell splits a value that stands outside quotes."""
    if "\ue004" in text or SPLIT in text:
        return text.replace("\ue004", " ")
    return text if quoted else _SPACE.sub(SPLIT, text)


def _unescaped(text: str, quoted: bool) -> str:
    if "\\" not in text:
        return text
    if quoted:
        return re.sub(r"\\(\n|[$`\"\\])", lambda found: "" if found[1] == "\n" else found[1], text)
    return re.sub(r"\\(.)", lambda found: "" if found[1] == "\n" else found[1], text, flags=re.DOTALL)
