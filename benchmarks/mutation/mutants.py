"""The mutants of a module, found in its tree and compiled in memory."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.abc
import importlib.util
import sys
import types
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SWAPS = {ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.In: ast.NotIn, ast.Is: ast.IsNot,
         ast.Add: ast.Sub, ast.Mult: ast.Div, ast.And: ast.Or}  # fmt: skip
SWAPS |= {new: old for old, new in SWAPS.items()}
SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.In: "in",
         ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not", ast.Add: "+", ast.Sub: "-", ast.Mult: "*",
         ast.Div: "/", ast.And: "and", ast.Or: "or"}  # fmt: skip
#: Of a large number one more is nothing.
_LARGE = 10**6
#: What is no behaviour: annotations, and the texts of strings.
NO_CODE = ("annotation", "returns", "type_params", "decorator_list")


@dataclass(frozen=True)
class Mutant:
    """One change: in `owner`, `field` (its place `at` in a list) becomes `new`."""

    function: str  # or the module's constant that it is in
    imported: bool  # it runs when the module is imported
    said: str  # original and change
    owner: ast.AST
    field: str
    at: int | None
    new: Any
    lines: range

    @contextlib.contextmanager
    def made(self) -> Iterator[None]:
        """Hold the tree changed."""
        place: Any = getattr(self.owner, self.field) if self.at is not None else vars(self.owner)
        key = self.field if self.at is None else self.at
        old, place[key] = place[key], self.new
        try:
            yield
        finally:
            place[key] = old


def mutants(tree: ast.Module) -> list[Mutant]:
    """Return all mutants of a module in their order; no two have the same description."""
    found: list[Mutant] = []
    seen: Counter[tuple[str, str]] = Counter()

    def add(where: str, imported: bool, shown: ast.AST, change: str, *place: Any) -> None:
        said = " ".join(ast.unparse(shown).split())
        said = f"{said if len(said) <= 90 else said[:87] + '...'}: {change}"
        seen[where, said] += 1
        if seen[where, said] > 1:
            said += f" #{seen[where, said]}"
        # Typed as any node of a tree; only expressions and statements come here, which have lines.
        lines = range(shown.lineno, (shown.end_lineno or shown.lineno) + 1)  # type: ignore[attr-defined]
        found.append(Mutant(where, imported, said, *place, lines))

    def visit(node: ast.AST, names: tuple[str, ...], inside: str, number: bool, truth: bool) -> None:
        if not inside and (name := _name(node)):
            names = (*names, name)
        if isinstance(node, ast.FunctionDef):
            truth = node.returns is not None and ast.unparse(node.returns) == "bool"
        for change in _changes(node, number, truth):
            add(inside or ".".join(names), not inside, *change)
        number = number or (isinstance(node, ast.BinOp) and not _is_text(node))
        for field, value in ast.iter_fields(node):
            body = field == "body" and isinstance(node, ast.FunctionDef)
            within = inside or (".".join(names) if body else "")
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and field not in NO_CODE and not _left_out(child):
                    entered = isinstance(child, ast.stmt | ast.Call | ast.Subscript)
                    visit(child, names, within, (number and not entered) or not within, truth)

    visit(tree, (), "", True, False)
    return found


def _name(node: ast.AST) -> str:
    """Return the name that a statement defines, if any; what a comprehension names is none."""
    if isinstance(node, ast.comprehension):
        return ""
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    target = target.elts[0] if isinstance(target, ast.Tuple) else target
    return target.id if isinstance(target, ast.Name) else str(getattr(node, "name", None) or "")


def _left_out(node: ast.AST) -> bool:
    names = [*getattr(node, "targets", ()), getattr(node, "test", None)]
    words = {name.id for name in names if isinstance(name, ast.Name)}
    return isinstance(node, ast.JoinedStr) or bool(words & {"__all__", "TYPE_CHECKING"})


def _is_text(node: ast.AST) -> bool:
    text = ast.JoinedStr, ast.Constant
    parts = (node.left, node.right) if isinstance(node, ast.BinOp) else (node,)
    return any(
        _is_text(one) if isinstance(one, ast.BinOp)
        else isinstance(one, text) and isinstance(getattr(one, "value", ""), str) for one in parts
    )  # fmt: skip


def _changes(node: ast.AST, number: bool, is_bool: bool) -> Iterator[tuple[Any, ...]]:
    """Yield (what to show, change, owner, field, place in a list, what comes there) of one node."""
    if isinstance(node, ast.Compare):
        for at, sign in enumerate(node.ops):
            new = SWAPS[type(sign)]
            yield node, f"{SIGNS[type(sign)]} → {SIGNS[new]}", node, "ops", at, new()
    elif isinstance(node, ast.BoolOp | ast.BinOp | ast.AugAssign) and type(node.op) in SWAPS:
        if not (isinstance(node, ast.BinOp) and _is_text(node)):
            new = SWAPS[type(node.op)]
            yield node, f"{SIGNS[type(node.op)]} → {SIGNS[new]}", node, "op", None, new()
    elif isinstance(node, ast.Constant) and number and isinstance(node.value, int | float):
        more = node.value * 2 if node.value > _LARGE else node.value + 1
        more = not node.value if isinstance(node.value, bool) else more
        yield node, f"{node.value} → {more}", node, "value", None, more
    elif isinstance(node, ast.Return) and node.value is not None:
        old = node.value
        if isinstance(old, ast.Constant) and isinstance(old.value, bool):
            yield node, f"→ {not old.value}", old, "value", None, not old.value
        elif is_bool:
            negated = ast.copy_location(ast.UnaryOp(ast.Not(), old), old)
            yield node, "negated", node, "value", None, negated
        elif not (isinstance(old, ast.Constant) and old.value is None):
            yield node, "→ None", node, "value", None, ast.copy_location(ast.Constant(None), old)
    for field, value in ast.iter_fields(node):
        places: Any = enumerate(value) if isinstance(value, list) else [(None, value)]
        for at, child in places:
            if isinstance(child, ast.UnaryOp) and isinstance(child.op, ast.Not):
                yield child, "without not", node, field, at, child.operand
            if (field, type(node)) in _CONDITIONS:
                for truth in (True, False):
                    yield child, f"→ {truth}", node, field, at, ast.copy_location(ast.Constant(truth), child)


_CONDITIONS = {("ifs", ast.comprehension), *(("test", kind) for kind in (ast.If, ast.IfExp, ast.While))}


class Module:
    """A module under test, its tree, its mutants and the digests of its functions."""

    def __init__(self, name: str, file: Path, dotted: str) -> None:
        self.name, self.file, self.dotted = name, file, dotted
        self.tree = ast.parse(self.file.read_bytes())
        self.mutants = mutants(self.tree)
        self._digests: dict[str, str] = {}

    def digest(self, function: str) -> str:
        """Return the digest of a function's code, or of a constant's."""
        if function not in self._digests:
            node: ast.AST = self.tree
            for name in filter(None, function.split(".")):
                node = next(one for one in getattr(node, "body", ()) if _name(one) == name)
            self._digests[function] = hashlib.sha256(ast.unparse(node).encode()).hexdigest()[:8]
        return self._digests[function]

    def compiled(self, mutant: Mutant) -> types.CodeType:
        """Return the code of the module with the mutant in it."""
        with mutant.made():
            return compile(self.tree, str(self.file), "exec", dont_inherit=True)

    def put_in(self, mutant: Mutant) -> None:
        """Change the imported module's function."""
        found: Any = sys.modules[self.dotted]
        for name in mutant.function.split("."):
            found = vars(found)[name]
        kinds = ("fget", "func", "__func__")  # of a property, a cached one, a class's
        found = next((getattr(found, kind) for kind in kinds if hasattr(found, kind)), found)
        codes = [self.compiled(mutant)]
        for name in mutant.function.split("."):
            codes = [one for code in codes for one in code.co_consts
                     if isinstance(one, types.CodeType) and one.co_name == name]  # fmt: skip
        found.__code__ = codes[0]


class Hook(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from mutated code."""

    def __init__(self, module: Module, mutant: Mutant) -> None:
        self.module, self.code = module, module.compiled(mutant)

    def find_spec(self, name: str, path: object, target: object = None) -> Any:
        """Find the one module."""
        if name == self.module.dotted:
            return importlib.util.spec_from_file_location(name, self.module.file, loader=self)
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the mutated code as the module's own."""
        exec(self.code, vars(module))  # noqa: S102 - the module's own code, changed in one place
