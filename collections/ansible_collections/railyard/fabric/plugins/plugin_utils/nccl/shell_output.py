# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the text that a script writes into files and hands to other programs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.launchers import Field
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.settings import HOLE
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.shell_tree import find_nodes, text_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.shell_values import Variables

if TYPE_CHECKING:
    from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.shell import Script
    from tree_sitter import Node

#: They start no program that uses NCCL, and set nothing for one.
HARMLESS = frozenset(
    (
        "[", ":", "apt", "apt-get", "awk", "basename", "break", "cat", "cd", "chmod", "chown",
        "clear", "cmake", "continue", "cp", "curl", "cut", "date", "df", "dirname", "dmesg", "dpkg",
        "echo", "egrep", "expr", "false", "fgrep", "free", "getopt", "git", "grep", "gzip",
        "head", "help", "hostname", "ibstat", "ibv_devinfo", "id", "install", "ip", "jq", "kill",
        "ldconfig", "let", "ln", "ls", "lscpu", "lsmod", "lspci", "make", "mapfile", "mkdir", "mktemp",
        "module", "mv", "nl", "nproc", "numfmt", "nvidia-smi", "pip", "pip3", "popd", "printenv", "printf",
        "pushd", "pwd", "read", "readarray", "readlink", "realpath", "rm", "rmdir", "scontrol", "sed",
        "seq", "set", "shift", "shopt", "sinfo", "sleep", "sort", "spack", "squeue", "stat", "tail", "tar",
        "tee", "test", "touch", "tr", "true", "type", "ulimit", "umask", "unalias", "uname",
        "uniq", "wait", "wc", "wget", "which", "whoami", "yum",
    )
)  # fmt: skip
_SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh", "ssh", "sbatch", "srun", "eval"))
# What a shell of another place does with its input: `bash -c "cat > /etc/nccl.conf"`.
_WRITES = re.compile(r"\b(?:cat\s*>>?|tee(?:\s+-a)?)\s*([^\s;&|<>]+)\s*\Z")
_READS_MANIFESTS, _READS_DOCKERFILES = ("kubectl", "oc", "helm"), ("docker", "podman")


class Out(NamedTuple):
    """Where a command's output goes: a file, or a program's words; both None where it is shown."""

    file: str | None = None
    program: tuple[Field, ...] | None = None


SHOWN = Out()


class Outputs:
    """Reads what the commands of a script write."""

    def __init__(self, script: Script) -> None:
        self._script, self._record, self._words = script, script.record, script.words

    def send(self, lines: list[tuple[int, str]], scope: Variables, out: Out) -> None:
        """Take text that a command writes."""
        file, program = out
        if program:
            name = PurePath(program[0].text).name
            if name == "sudo" and len(program) > 1:
                program = program[1:]
                name = PurePath(program[0].text).name
            if name == "tee":
                file = next((one.text for one in program[1:] if one.text[:1] != "-"), "")
            elif name in _SHELLS:
                text = "\n".join(line for _number, line in lines)
                self._script.nested(Field(text, lines[0][0] if lines else program[0].line), scope.copy())
                return
            elif name in HARMLESS:
                return
            else:
                file = ""
        if lines and file is not None:
            self._record.write(file, lines, scope.path)
        elif lines and self._script.substitutions:
            text = "\n".join(line for _number, line in lines)
            why = "{name} is in what a command substitution prints, which is not read"
            self._record.report_unread_text(text, lines[0][0], why)

    def heredoc(self, node: Node, words: list[Field], scope: Variables, out: Out) -> None:
        """Read a here-document by what the command does with it."""
        lines = self.heredoc_lines(node, scope)
        text = "\n".join(line for _number, line in lines)
        bare = words[1:] if words[0].text == "sudo" else words
        name = PurePath(bare[0].text).name
        inside = {PurePath(word.text).name for word in bare}
        if not lines:
            return
        if name == "tee":
            self.send(lines, scope, Out(None, tuple(bare)))
        elif name == "cat" or name == "echo":
            self.send(lines, scope, out)
        elif (shell := next((word for word in bare if _WRITES.search(word.text)), None)) and inside & _SHELLS:
            target = _WRITES.search(shell.text)
            self._record.write(target[1] if target else "", lines, scope.path)
        elif inside & _SHELLS:
            self._script.nested(Field(text, lines[0][0]), scope.copy())
        elif name in _READS_MANIFESTS:
            self._record.write("manifest.yaml", lines, scope.path)
        elif name in _READS_DOCKERFILES:
            self._record.write("Dockerfile", lines, scope.path)
        else:
            why = f"{{name}} is in the text that {shown(words[0])} is given"
            self._record.report_unread_text(text, lines[0][0], why)

    def heredoc_lines(self, node: Node, scope: Variables) -> list[tuple[int, str]]:
        """Return the lines of a here-document, with what the shell puts in."""
        body = next(find_nodes(node, "heredoc_body"), None)
        start = next(find_nodes(node, "heredoc_start"), None)
        if body is None:
            return []
        text = text_of(body)
        if start is not None and not re.search(r"['\"\\]", text_of(start)):
            found = self._words.span(body.start_byte, body.end_byte, body.children, scope, quoted=True)
            expanded = found[0][1] if len(found) == 1 else HOLE
            if expanded.count("\n") == text.count("\n"):
                text = expanded
            else:
                # A value of several lines moves the lines below it.
                text = re.sub(r"\$(\{[^}]*\}|\w+|\([^)]*\))", HOLE, text)
        first = self._script.line(body)
        return [
            (first + number, line.lstrip("\t")) for number, line in enumerate(text.rstrip("\t\n").split("\n"))
        ]


def shown(word: Field) -> str:
    """Return a command's name for a message."""
    return PurePath(word.text).name if HOLE not in word.text else word.raw


def printed(words: Sequence[Field]) -> list[str]:
    """Return the lines that echo or printf writes."""
    name, *rest = [word.text for word in words]
    while rest and re.fullmatch(r"-[neE]+", rest[0]):
        rest = rest[1:]
    if name == "printf" and rest and "%" in rest[0]:
        values = iter(rest[1:])
        text = re.sub(r"%[-0-9.]*[a-z]", lambda _found: next(values, ""), rest[0])
        more = [f"{value}" for value in values]
        text = "\n".join([text, *more])
    else:
        text = " ".join(rest)
    return text.replace("\\n", "\n").rstrip("\n").split("\n")
