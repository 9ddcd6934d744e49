# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on nodes has to run on their Python: 3.9 at least, while the controller has 3.11 or newer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parents[4] / "plugins"
NODE_SIDE = sorted(path for kind in ("module_utils", "modules") for path in (PLUGINS / kind).rglob("*.py"))

# Names of the standard library that came after Python 3.9, by the module that has them (docs.python.org).
NEWER = {
    "datetime": {"UTC"},
    "itertools": {"pairwise", "batched"},
    "enum": {"StrEnum", "ReprEnum"},
    "hashlib": {"file_digest"},
    "contextlib": {"aclosing", "chdir"},
    "typing": {"ParamSpec", "TypeAlias", "TypeGuard", "Self", "assert_never", "override"},
}
NEWER_MODULES = {"tomllib"}
NEWER_KEYWORDS = {"zip": {"strict"}, "dataclass": {"slots", "kw_only"}}


def is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def too_new(tree: ast.AST) -> Iterator[str]:
    """Yield what a module uses that Python 3.9 does not have."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in NEWER.get(node.value.id, ()):
                yield f"line {node.lineno}: {node.value.id}.{node.attr}"
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if node.module in NEWER_MODULES or alias.name in NEWER.get(node.module or "", ()):
                    yield f"line {node.lineno}: from {node.module} import {alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in NEWER_MODULES:
                    yield f"line {node.lineno}: import {alias.name}"
        elif isinstance(node, ast.Assign) and node in getattr(tree, "body", ()):
            # Annotations are not evaluated, nor what is under TYPE_CHECKING; a name given to a type is.
            for part in ast.walk(node.value):
                if isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr) and is_none(part.right):
                    yield f"line {node.lineno}: X | None"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            for keyword in node.keywords:
                if keyword.arg in NEWER_KEYWORDS.get(node.func.id, ()):
                    yield f"line {node.lineno}: {node.func.id}({keyword.arg}=)"


@pytest.mark.parametrize("path", NODE_SIDE, ids=lambda path: path.name)
def test_node_side_code_runs_on_python_3_9(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
    assert list(too_new(tree)) == []


def test_the_search_finds_what_it_looks_for() -> None:
    source = "import datetime\ndatetime.UTC\nfrom itertools import pairwise\nzip((), (), strict=True)\n"
    source += "A = B[C | None]\n"
    assert len(list(too_new(ast.parse(source)))) == 4
