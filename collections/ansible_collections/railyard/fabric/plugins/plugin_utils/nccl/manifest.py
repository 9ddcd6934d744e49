# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what YAML sets: environment and commands of Kubernetes' containers, ConfigMaps, values, workflows.

The kind of a document does not matter; what counts is a list of names and values, a mapping whose keys are
names, and text that a shell runs. What mentions a setting in another form is returned as not read.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import settings, shell
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.shell_record import Record, TooLongError
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.shell_values import Option, Variables

try:
    import yaml
    from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
except ImportError:  # sanity's environment may have none
    yaml = None  # type: ignore[assignment]

_LISTS = re.compile(r"(?:.*env(?:ironment|s|_?vars)?|variables)\Z", re.IGNORECASE)
_RUNS = re.compile(
    r"(?:.*(?:script|command|commands|cmd|entrypoint|args)|run|shell|setup|prolog|epilog)\Z", re.IGNORECASE
)
_COMMAND = re.compile(r"(?:source|\.|export|mpirun|mpiexec|srun|bash|sh|env|exec)\s")
_TEMPLATE = re.compile(r"\$?\{\{.*?\}\}", re.DOTALL)
# What Kubernetes, and what Compose, envsubst or CloudFormation puts in.
_REFERENCE = re.compile(r"\$\(\w+\)|\$\{[^}]*\}|\$\w+")
_DEEPEST = 100


def read(text: str, read_file: Callable[[str, str], settings.Settings]) -> settings.Settings:
    """Return what YAML sets; `read_file` reads the text of a file that is in it, by its name.

    Raises:
        UnreadableError: it is not YAML.
    """
    if yaml is None:
        raise settings.UnreadableError(1, "the package PyYAML is not installed: YAML cannot be read")
    record = Record(read_file)
    reader = _Reader(record, text)
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        _check_depth(text, loader)
        # All at once: the reader knows a node by its id, which another one would take when it is gone.
        for root in list(yaml.compose_all(text, Loader=loader)):
            if root is not None:
                reader.walk(root, "", Variables())
    except yaml.YAMLError as error:
        simple_key = "simple key" in str(getattr(error, "context", ""))
        mark = getattr(error, "context_mark" if simple_key else "problem_mark", None)
        line = mark.line + 1 if mark else 1
        template = " (a template has to be rendered first, as by `helm template`)" if "{{" in text else ""
        raise settings.UnreadableError(
            line, f"it is not YAML: {getattr(error, 'problem', None) or error}{template}"
        ) from error
    except TooLongError:
        record.stop(1, "the YAML takes too many steps to read: its rest was not read")
    found = record.result(settings.YAML, reader.files)
    found.empty = not (found.settings or found.unread)
    return found


def _check_depth(text: str, loader: Any) -> None:
    """Refuse what is nested so deep that PyYAML, which descends by recursion, ends the interpreter."""
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.events.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.events.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            line = 1 if event.start_mark is None else event.start_mark.line + 1
            raise settings.UnreadableError(line, f"its YAML is nested more than {_DEEPEST} deep")


class _Reader:
    def __init__(self, record: Record, text: str) -> None:
        self._record, self._lines = record, text.split("\n")
        self.files: list[settings.Settings] = []
        self._seen: set[int] = set()

    def walk(self, node: Node, key: str, scope: Variables) -> None:
        """Read a node that is under a key; `scope` is the environment there."""
        self._record.step()
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        if isinstance(node, MappingNode):
            self._mapping(node, scope)
        elif isinstance(node, SequenceNode):
            if _LISTS.match(key) and any(_pair(one) or isinstance(one, ScalarNode) for one in node.value):
                self._listed(node, scope.copy(), alone=True)
            elif _RUNS.match(key) and all(isinstance(one, ScalarNode) for one in node.value):
                self._read_command(node.value, scope)
            else:
                for one in node.value:
                    self.walk(one, key, scope)
        elif isinstance(node, ScalarNode):
            self._scalar(node, key, scope)

    def _mapping(self, node: MappingNode, scope: Variables) -> None:
        inner = scope.copy()
        rest: list[tuple[str, Node]] = []
        command: list[Node] = []
        sets = False
        pairs = [(str(key.value) if isinstance(key, ScalarNode) else "", value) for key, value in node.value]
        for key, value in pairs:
            if settings.IS_OURS.match(key) and isinstance(value, ScalarNode):
                self._put(key, value, inner)
                sets = True
            elif _LISTS.match(key) and isinstance(value, SequenceNode):
                if id(value) not in self._seen:
                    self._listed(value, inner)
                sets = True
            elif _LISTS.match(key) and isinstance(value, MappingNode) and _sets_names(value):
                self._named(value, inner)
                sets = True
            elif key == "command" and _is_word_list(value):
                command.insert(0, value)
            elif key == "args" and _is_word_list(value):
                command.append(value)
            else:
                rest.append((key, value))
        if sets:
            self._record.record_program(inner)
        if command:
            self._read_command([word for one in command for word in one.value], inner)
        for key, value in rest:
            self._walk_value(key, value, inner)

    def _listed(self, node: SequenceNode, scope: Variables, alone: bool = False) -> None:
        """Read a list of names and values, as Kubernetes and Compose have it."""
        self._seen.add(id(node))
        for one in node.value:
            pair = _pair(one)
            text = one.value if isinstance(one, ScalarNode) else ""
            if pair and pair[1] is None and settings.IS_OURS.match(pair[0]):
                why = "{name} is in a list without a value that is read here"
                self._record.report_unread_text(f"{pair[0]}=", _line(one), why)
            elif pair:
                self._put(pair[0], pair[1], scope)
            elif isinstance(one, ScalarNode) and "=" in text:
                name, _equals, value = text.partition("=")
                self._set(name.strip(), value, one, scope)
            elif not settings.IS_OURS.match(text):  # a name alone passes on what the caller has
                self.walk(one, "", scope)
        if alone:
            self._record.record_program(scope)

    def _named(self, node: MappingNode, scope: Variables) -> None:
        for key, value in node.value:
            if isinstance(key, ScalarNode) and isinstance(value, ScalarNode):
                self._put(str(key.value), value, scope)
            else:
                self._walk_value(str(key.value), value, scope)

    def _walk_value(self, key: str, value: Node, scope: Variables) -> None:
        """Read what is under a key that sets nothing itself, as far as that is known."""
        if settings.IS_OURS.match(key):
            why = "{name} is a key here, and its content is not read"
            self._record.report_unread_text(f"{key}=", _line(value), why)
        self.walk(value, key, scope)

    def _put(self, name: str, value: Node | None, scope: Variables) -> None:
        if isinstance(value, ScalarNode) and value.tag.endswith(":null"):
            return  # Helm and Kubernetes leave it out
        if isinstance(value, ScalarNode):
            self._set(name, str(value.value), value, scope)
        elif value is not None and settings.IS_OURS.match(name):
            self._keep(name, settings.HOLE, "(a reference)", value, scope)

    def _set(self, name: str, value: str, node: Node, scope: Variables) -> None:
        text = _REFERENCE.sub(settings.HOLE, _TEMPLATE.sub(settings.HOLE, value))
        self._keep(name, text, value, node, scope)

    def _keep(self, name: str, text: str, raw: str, node: Node, scope: Variables) -> None:
        option = Option(text, True, line=_line(node), raw=raw)
        if not settings.IS_OURS.match(name):
            why = f"{{name}} is in the value of {name}, which is not read"
            self._record.report_unread_text(text, _line(node), why)
        scope.put(name, [option])

    def _read_command(self, nodes: Sequence[Node], scope: Variables) -> None:
        """Read a command whose words are in separate lines of the file."""
        text, row = "", 0
        first = _line(nodes[0]) if nodes else 1
        for node in nodes:
            self._seen.add(id(node))
            word = _TEMPLATE.sub(settings.HOLE, self._text(node))
            if " " not in word and "\n" not in word:
                word = _REFERENCE.sub(settings.HOLE, word)
            wanted = max(_line(node) - first, row)
            text += "\\\n" * (wanted - row)
            quoted = shlex.quote(word)
            text += f"{quoted} "
            row = wanted + quoted.count("\n")
        alone = nodes and len(nodes) == 1 and (" " in nodes[0].value or "\n" in nodes[0].value)
        self._record.step(len(nodes))
        if alone:
            text = _TEMPLATE.sub(settings.HOLE, self._text(nodes[0]))
        shell.run(text, self._record, scope.copy(), first)

    def _text(self, node: Any) -> str:
        """Return a command's text, with continued lines where YAML folded lines into one.

        So its parts keep their lines. Inside single quotes a continued line would be part of the text.
        """
        text = str(node.value)
        first, last = node.start_mark.line, node.end_mark.line
        if node.style == "|" or last == first or "'" in text:
            return text
        found, at = "", 0
        lines = [self._lines[first][node.start_mark.column :], *self._lines[first + 1 : last]]
        lines.append(self._lines[last][: node.end_mark.column] if last < len(self._lines) else "")
        for line in lines[node.style == ">" :]:
            part = line.strip().strip('"').removesuffix("\\").strip()
            place = text.find(part, at) if part else at
            if place < 0 or text[at:place].strip(" "):
                return text
            found += text[at:place] + part if not found else f"{text[at:place]}\\\n{part}"
            at = place + len(part)
        return found + text[at:]

    def _scalar(self, node: ScalarNode, key: str, scope: Variables) -> None:
        text = _TEMPLATE.sub(settings.HOLE, str(node.value))
        if "NCCL" not in text and "nccl" not in text:
            return
        first = _line(node)
        if settings.IS_OURS.match(text) and node.tag[:1] != "!":  # as a reference of CloudFormation
            text = f"{text}="
        if re.search(r"\.(?:conf|env|sh|bash|sbatch|slurm|ya?ml)\Z|Dockerfile\Z|\Aenvironment\Z", key):
            lines = [(first + number, line) for number, line in enumerate(text.split("\n"))]
            self.files.append(self._record.read_text(key, lines))
        elif _RUNS.match(key) or "\n" in text.strip() or _COMMAND.match(text):
            shell.run(_TEMPLATE.sub(settings.HOLE, self._text(node)), self._record, scope.copy(), first)
        else:
            why = f"{{name}} is in the value of {key or 'a list'}, which is not read"
            self._record.report_unread_text(text, first, why)


def _line(node: Node) -> int:
    """Return the line where a node's text begins."""
    block = isinstance(node, ScalarNode) and node.style in ("|", ">")
    return int(node.start_mark.line) + 1 + block


def _is_word_list(node: Node) -> bool:
    return isinstance(node, SequenceNode) and all(isinstance(one, ScalarNode) for one in node.value)


def _sets_names(node: MappingNode) -> bool:
    return any(
        isinstance(key, ScalarNode) and settings.IS_OURS.match(str(key.value)) for key, _value in node.value
    )


def _pair(node: Node) -> tuple[str, Node | None] | None:
    """Return name and value of an item such as {name: A, value: b}; the value may be a reference."""
    if not isinstance(node, MappingNode):
        return None
    found = {str(key.value).lower(): value for key, value in node.value if isinstance(key, ScalarNode)}
    name = found.get("name") or found.get("key")
    if not isinstance(name, ScalarNode):
        return None
    value = found.get("value", found.get("valuefrom"))
    return str(name.value), value
