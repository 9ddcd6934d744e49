#!/usr/bin/env python3
"""Report words that a reader from the field has to translate, with their replacements.

    tools/plain_lint.py                 # every tracked file; exit 1 and name file, line, word and replacement
    tools/plain_lint.py PATH...         # these files or folders alone

Markdown is read without code, YAML for comments, names of plays and tasks, descriptions and messages, Python
for docstrings, comments, messages and names of functions. plain_words.toml has the words, and the exemptions
with their reasons.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
WORDS = Path(__file__).with_name("plain_words.toml")
# Files that hold what other programs or people wrote, what a test compares byte for byte, or what is made
# (its source is read instead).
SKIPPED = re.compile(
    r"(^|/)(fixtures|golden|expected|schema)/|^requirements/|/changelogs/|(^|/)CHANGELOG"
    r"|^docs/faults\.md$"
)
# Keys of YAML whose values a person reads.
READ_BY_PEOPLE = {
    "name",
    "description",
    "short_description",
    "fail_msg",
    "success_msg",
    "msg",
    "heading",
    "nothing",
}
# Code, and the tables that role_docs.py and made_docs.py write from argument_specs and from the code.
NOT_PROSE = re.compile(
    r"^ *(```|~~~).*?^ *\1|<!-- variables:begin -->.*?<!-- variables:end -->|<!-- table .*?<!-- end -->",
    re.M | re.S,
)
COMMENT_LINE = re.compile(r"#.*")
# What is an interface rather than a word: code, expressions of templates, addresses of links, names of files;
# in the documentation of modules also the markup and the keys of results.
NOT_TEXT = re.compile(
    r"``?[^`]*?`?`|\{\{.*?\}\}|\{%.*?%\}|\]\([^)]*\)|<!--.*?-->|\b[\w/-]+\.[a-z][a-z0-9]{1,6}\b"
    r"|\b(?:C|V|O|RV|M)\([^)]*\)|(?m:^ +\w+:|^\w+:$)",
    re.S,
)
MESSAGE = re.compile(r"[A-Za-z]{2}.* .* ", re.S)


class WordsError(Exception):
    """A list of words that cannot be used; the message names the file and the fix."""


@dataclass(frozen=True)
class Word:
    """A word or phrase and what to write instead."""

    pattern: re.Pattern[str]
    write: str


@dataclass(frozen=True)
class Exemption:
    """A place in which a word is right."""

    path: str
    text: str
    reason: str


@dataclass(frozen=True)
class Rules:
    """What plain_words.toml says."""

    words: tuple[Word, ...]
    any_word: re.Pattern[str]
    exact_names: frozenset[str]
    name_suffixes: tuple[str, ...]
    exemptions: tuple[Exemption, ...]


@dataclass(frozen=True)
class Text:
    """A piece of a file that a person reads, and the line on which it begins."""

    line: int
    text: str


@dataclass(frozen=True)
class Hit:
    """A word that is not plain."""

    path: str
    line: int
    found: str
    write: str
    exemption: Exemption | None = None

    def __str__(self) -> str:
        """Return the line of the report."""
        return f"{self.path}:{self.line}: {' '.join(self.found.split())!r}: write: {self.write}"


def compile_word(find: str) -> re.Pattern[str]:
    """Compile an expression so that it matches without case, between words, and over the end of a line."""
    return re.compile(rf"(?<![\w-])(?:{find})(?![\w-])".replace(" ", r"[\s#]+"), re.I)


def load_rules(path: Path = WORDS) -> Rules:
    """Load the words.

    Raises:
        WordsError: The file cannot be read, lacks something, or has an exemption without a reason.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        words = tuple(Word(compile_word(one["find"]), one["write"]) for one in document["word"])
        exemptions = tuple(
            Exemption(one["path"], one["text"], one["reason"]) for one in document.get("exempt", ())
        )
        names = document["functions"]
        finds = "|".join(f"(?:{one['find']})" for one in document["word"])
    except (OSError, ValueError, KeyError, TypeError, re.error) as error:
        raise WordsError(
            f"{path}: {error!r}. Give each word `find` and `write`, see the file's head."
        ) from error
    for one in exemptions:
        if len(one.reason.split()) < 3 or not one.text:
            raise WordsError(f"{path}: the exemption of {one.text!r} needs a text and a reason.")
    suffixes = tuple(names["suffix"])
    return Rules(words, compile_word(finds), frozenset(names["exact"]), suffixes, exemptions)


def blank(text: str, pattern: re.Pattern[str]) -> str:
    """Replace each match by spaces, so that lines keep their numbers."""
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def read_markdown(text: str) -> Iterator[Text]:
    """Yield the text of a document without code and generated tables."""
    yield Text(1, blank(text, NOT_PROSE))


def read_yaml(text: str) -> Iterator[Text]:
    """Yield the comments, names, descriptions and messages of a YAML file; only comments of a template."""
    for found in re.finditer(r"(?:^[ \t]*#.*\n?)+", text, re.M):
        yield Text(text.count("\n", 0, found.start()) + 1, found[0])
    try:
        documents = list(yaml.compose_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.YAMLError:
        return
    todo: list[Any] = [one for one in documents if one is not None]
    while todo:
        node = todo.pop()
        if isinstance(node, yaml.SequenceNode):
            todo += node.value
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                todo.append(value)
                if key.value in READ_BY_PEOPLE:
                    leaves = value.value if isinstance(value, yaml.SequenceNode) else [value]
                    for leaf in leaves:
                        if isinstance(leaf, yaml.ScalarNode):
                            yield Text(leaf.start_mark.line + 1, leaf.value)


def walk_tree(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield each node after the one that holds it, as ast.walk does, in half its time."""
    todo = [tree]
    while todo:
        node = todo.pop()
        yield node
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                todo += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST) and field not in ("ctx", "op"):
                todo.append(value)


def read_python(text: str, *, is_test: bool) -> Iterator[Text]:
    """Yield the docstrings and messages of a Python file; of a test no messages, which are its data."""
    docstrings = set()
    for node in walk_tree(ast.parse(text)):  # what holds a docstring comes before it
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and (
                id(node) in docstrings or (not is_test and MESSAGE.search(node.value))
            ):
                yield Text(node.lineno, node.value)
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr):
                docstrings.add(id(first.value))


def read_comments(text: str) -> list[Text]:
    """Return the comments of a Python file."""
    comments: list[Text] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            # Lines of a comment are one text: a phrase may go over the end of a line.
            last = comments[-1] if comments else None
            if last and last.line + last.text.count("\n") + 1 == token.start[0]:
                comments[-1] = Text(last.line, f"{last.text}\n{token.string}")
            else:
                comments.append(Text(token.start[0], token.string))
    return comments


def find_names(path: str, text: str, rules: Rules) -> Iterator[Hit]:
    """Yield the functions whose names say nothing."""
    for found in re.finditer(r"^[ \t]*(?:async )?def (\w+)\(", text, re.M):
        name = found[1].lstrip("_")
        is_test = name.startswith("test_")  # the name of a test is a sentence
        if name in rules.exact_names or (name.endswith(rules.name_suffixes) and not is_test):
            line = text.count("\n", 0, found.start(1)) + 1
            exemption = find_exemption(path, found[0], rules)
            yield Hit(path, line, f"def {found[1]}", "a verb and an object", exemption)


def read_texts(path: str, text: str, rules: Rules) -> Iterator[Text]:
    """Yield what a person reads in a file, by its kind."""
    if path.endswith(".md"):
        yield from read_markdown(text)
    elif path.endswith((".yml", ".yaml")):
        yield from read_yaml(text)
    else:
        yield from read_python(text, is_test="/tests/" in f"/{path}")
        # Splitting a file into tokens is slow: only where one that looks like a comment has such a word.
        if rules.any_word.search("\n".join(COMMENT_LINE.findall(text))):
            yield from read_comments(text)


def find_hits(path: str, text: str, rules: Rules) -> list[Hit]:
    """Return what is not plain in a file; what is exempt has its exemption."""
    hits = list(find_names(path, text, rules)) if path.endswith(".py") else []
    # Reading a file by its syntax takes most of the time, and most files need it not.
    if rules.any_word.search(text):
        for piece in read_texts(path, text, rules):
            prose = blank(piece.text, NOT_TEXT)
            for found in rules.any_word.finditer(prose):
                word = next(one for one in rules.words if one.pattern.match(prose, found.start()))
                line = piece.line + prose.count("\n", 0, found.start())
                around = piece.text[max(0, found.start() - 60) : found.end() + 60]
                hits.append(Hit(path, line, found[0], word.write, find_exemption(path, around, rules)))
    return sorted(hits, key=lambda one: one.line)


def find_exemption(path: str, around: str, rules: Rules) -> Exemption | None:
    """Return why a word is right there, or None where it is not."""
    return next((one for one in rules.exemptions if path.startswith(one.path) and one.text in around), None)


def list_files(paths: list[str]) -> list[str]:
    """List the tracked and new files of the kinds that are read."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *paths]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    wanted = (".md", ".yml", ".yaml", ".py")
    return [
        one for one in listed if one.endswith(wanted) and not SKIPPED.search(one) and (ROOT / one).is_file()
    ]


def main(arguments: list[str] | None = None) -> int:
    """Report what is not plain; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", help="files or folders; default: every tracked file")
    options = parser.parse_args(arguments)
    try:
        rules = load_rules()
    except WordsError as error:
        print(f"plain_lint: {error}", file=sys.stderr)
        return 2
    hits: list[Hit] = []
    used: set[Exemption | None] = set()
    for path in list_files(options.paths):
        all_found = find_hits(path, (ROOT / path).read_text(encoding="utf-8"), rules)
        used |= {one.exemption for one in all_found}
        hits += [one for one in all_found if one.exemption is None]
    for hit in hits:
        print(hit)
    unused = [] if options.paths else [one for one in rules.exemptions if one not in used]
    for one in unused:
        where = one.path or "all files"
        print(f"{WORDS.name}: nothing needs the exemption of {one.text!r} in {where}. Remove it.")
    print(f"plain_lint: {len(hits)} to fix; {len(rules.exemptions)} exemptions")
    return 1 if hits or unused else 0


if __name__ == "__main__":
    sys.exit(main())
