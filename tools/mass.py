#!/usr/bin/env python3
"""Count the code: lines without comments, docstrings, documentation and blank ones, product and tests apart.

    tools/mass.py                 # of the working tree
    tools/mass.py 2c2515f         # of a commit beside it, with the difference
    tools/mass.py 2c2515f 068c4d5 # of two commits, with the difference

Product: the collection, roles, playbooks, tools, site.yml and the schemas. Tests: all `tests/` and molecule.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = re.compile(r"^(collections|roles|playbooks|tools|docs/schema|site\.yml|ansible\.cfg)(/|$)")
TESTS = re.compile(r"(^|/)tests/|^molecule/")
CODE = {".py", ".yml", ".yaml", ".j2", ".json", ".cfg", ".css", ".js", ".html", ""}
# What Ansible reads as a module's documentation.
DOCUMENTATION = {"DOCUMENTATION", "EXAMPLES", "RETURN"}


def python_lines(text: str) -> int:
    """Count the lines of Python that hold code."""
    tree = ast.parse(text)
    lines = {
        number
        for node in ast.walk(tree)
        if isinstance(node, ast.expr | ast.stmt | ast.arg | ast.alias)
        for number in (node.lineno, node.end_lineno or node.lineno)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    closing = re.compile(r"\s*[)\]}]")
    lines |= {number for number, row in enumerate(text.splitlines(), 1) if closing.match(row)}
    for node in ast.walk(tree):
        written = None
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ) or (isinstance(node, ast.Assign) and {getattr(t, "id", "") for t in node.targets} & DOCUMENTATION):
            written = node
        if written is not None:
            lines -= set(range(written.lineno, (written.end_lineno or written.lineno) + 1))
    return len(lines)


def other_lines(text: str) -> int:
    """Count the lines that are neither blank nor a comment."""
    return sum(
        1 for row in text.splitlines() if row.strip() and not row.strip().startswith(("#", "{#", "//"))
    )


def count(files: dict[str, str]) -> dict[str, int]:
    """Return the lines of code of `product` and `tests`."""
    found = {"product": 0, "tests": 0}
    for path, text in files.items():
        if (
            Path(path).suffix not in CODE
            or "/fixtures/" in path
            or ("/golden/" in path and not path.endswith(".py"))
        ):
            continue
        kind = "tests" if TESTS.search(path) else "product" if PRODUCT.search(path) else None
        first = text.partition("\n")[0]
        if kind and (Path(path).suffix or first.startswith("#!")):
            is_python = path.endswith(".py") or (first.startswith("#!") and "python" in first)
            found[kind] += python_lines(text) if is_python else other_lines(text)
    return found


def tree(commit: str | None) -> dict[str, str]:
    """Return the text files of the working tree, or of a commit."""

    def git(*argv: str) -> bytes:
        return subprocess.run(["git", "-C", str(ROOT), *argv], check=True, capture_output=True).stdout

    names = (
        git(*(("ls-tree", "-r", "--name-only", commit) if commit else ("ls-files",))).decode().splitlines()
    )
    found = {}
    for name in names:
        if PRODUCT.search(name) or TESTS.search(name):
            path = ROOT / name
            if not commit and not path.is_file():
                continue
            data = git("show", f"{commit}:{name}") if commit else path.read_bytes()
            try:
                found[name] = data.decode()
            except UnicodeDecodeError:
                continue
    return found


def main() -> None:
    """Print the counts."""
    now = count(tree(sys.argv[2] if len(sys.argv) > 2 else None))
    before = count(tree(sys.argv[1])) if len(sys.argv) > 1 else None
    for kind, lines in now.items():
        print(f"{kind:8} {lines:6,}" + (f"  {lines - before[kind]:+,} since {sys.argv[1]}" if before else ""))


if __name__ == "__main__":
    main()
