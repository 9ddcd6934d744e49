# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pack a program of the node's: one zip of a module and all that it imports of this package.

The same bytes come from the same sources. Standard library alone, Python 3.9: a node packs its own rollback.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import zipfile
from collections.abc import Callable
from typing import Optional

PACKAGE = "ansible_collections.railyard.fabric.plugins.module_utils"
# The source of a module, by its name below PACKAGE (`runner.main`); None for what is no module there.
# Python 3.9, which nodes may have, cannot evaluate `X | Y`.
Read = Callable[[str], Optional[str]]  # noqa: UP045 - see above
_EPOCH = (1980, 1, 1, 0, 0, 0)


def build(entry: str, read: Read, *more: str) -> bytes:
    """Pack a module whose `main()` returns the exit status.

    Args:
        entry: its name below `PACKAGE`, e.g. `runner.main`.
        read: gives the sources.
        more: modules that are packed as well, by their names below `PACKAGE`.

    Returns:
        The zip, to be run as `python program.pyz`.

    Raises:
        ValueError: there is no such module.
    """
    members = {
        "__main__.py": f"import sys\n\nfrom {PACKAGE}.{entry} import main\n\nsys.exit(main())\n",
    }
    sources: dict[str, str] = {}
    for one in (entry, *more):
        sources.update(needed(one, read))
    for name, source in sources.items():
        parts = f"{PACKAGE}.{name}".split(".")
        # Packages without __init__ are not found inside a zip by every Python that nodes have.
        members.update({"/".join([*parts[:depth], "__init__.py"]): "" for depth in range(1, len(parts))})
        members["/".join(parts) + ".py"] = source
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(members):
            info = zipfile.ZipInfo(path, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            packed.writestr(info, members[path])
    return buffer.getvalue()


def needed(entry: str, read: Read) -> dict[str, str]:
    """Return `{name below PACKAGE: source}` of a module and of what it imports, directly or not."""
    todo, found = [entry], {}
    while todo:
        name = todo.pop()
        source = None if name in found else read(name)
        if source is not None:
            found[name] = source
            todo.extend(_imports(ast.parse(source), name))
    if entry not in found:
        raise ValueError(f"there is no module {entry}")
    return found


def loaded(name: str) -> str | None:
    """Read a module's source from where Ansible keeps it: inside a zip file, so the loader reads it."""
    try:
        spec = importlib.util.find_spec(f"{PACKAGE}.{name}")
    except ImportError:  # its parent is a module, not a package
        return None
    if spec is None or spec.submodule_search_locations is not None:
        return None
    # A module's loader is there and gives sources, a zip's too; its type in the library promises neither.
    source: str | None = spec.loader.get_source(spec.name)  # type: ignore[union-attr]
    return source


def _imports(tree: ast.Module, name: str) -> list[str]:
    found: list[str] = []
    package = f"{PACKAGE}.{name}".rpartition(".")[0]
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        whole = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
        if f"{whole}.".startswith(PACKAGE + "."):
            inner = whole[len(PACKAGE) + 1 :]
            found.append(inner)
            found.extend(f"{inner}.{alias.name}".lstrip(".") for alias in node.names)
    return [one for one in found if one]
