# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the runner: one zip of the modules that it needs, the same bytes from the same sources."""

from __future__ import annotations

import ast
import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "ansible_collections.railyard.fabric.plugins.module_utils"
_ENTRY = "runner.main"
_MAIN = f"import sys\n\nfrom {PACKAGE}.{_ENTRY} import main\n\nsys.exit(main())\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Program:
    """The runner as it is uploaded."""

    data: bytes
    sha256: str


def build(module_utils: Path) -> Program:
    """Build the runner from the folder `plugins/module_utils`."""
    files = {name: (module_utils / name).read_bytes() for name in needed(module_utils)}
    root = PACKAGE.replace(".", "/")
    members: dict[str, bytes] = {"__main__.py": _MAIN.encode()}
    parts = PACKAGE.split(".")
    for depth in range(1, len(parts) + 1):
        # Packages without __init__ are not found inside a zip by every Python that nodes have.
        members["/".join(parts[:depth]) + "/__init__.py"] = b""
    members.update({f"{root}/{name}": data for name, data in files.items()})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in sorted(members):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            packed.writestr(info, members[name])
    data = buffer.getvalue()
    return Program(data, hashlib.sha256(data).hexdigest())


def needed(module_utils: Path) -> list[str]:
    """Return the files that the runner imports, directly or not, relative to the folder."""
    todo, seen = [_ENTRY], set()
    while todo:
        name = todo.pop()
        path = _file(module_utils, name)
        if path is None or path in seen:
            continue
        seen.add(path)
        if "/" in path and not path.endswith("__init__.py"):
            todo.append(path.rsplit("/", 1)[0].replace("/", "."))
        todo.extend(_imports(ast.parse((module_utils / path).read_text(encoding="utf-8")), path))
    return sorted(seen)


def _imports(tree: ast.Module, path: str) -> list[str]:
    found: list[str] = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            raise ValueError(f"{path}: relative imports do not work in the runner; name the whole package")
        if node.module == PACKAGE:
            found.extend(alias.name for alias in node.names)
        elif node.module and node.module.startswith(PACKAGE + "."):
            inner = node.module[len(PACKAGE) + 1 :]
            found.append(inner)
            found.extend(f"{inner}.{alias.name}" for alias in node.names)
    return found


def _file(module_utils: Path, name: str) -> str | None:
    relative = name.replace(".", "/")
    for candidate in (relative + ".py", relative + "/__init__.py"):
        if (module_utils / candidate).is_file():
            return candidate
    return None
