# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The captures beside the tests of the parsers, and what a parser makes of a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry

_COLLECTION = Path(registry.__file__).parents[3]
FIXTURES = _COLLECTION / "tests/unit/plugins/module_utils/parsers/fixtures"


def read(tool: str, name: str) -> str:
    return (FIXTURES / tool / name).read_text()


def parse_valid(tool: str, text: str) -> list[dict[str, Any]]:
    """Return the outputs of a text that must be valid."""
    found = registry.parse(tool, text)
    assert (found["valid"], found["error"]) == (True, None)
    return list(found["outputs"])


def one(tool: str, text: str) -> dict[str, Any]:
    """Return the only output of a text that must be valid."""
    (output,) = parse_valid(tool, text)
    return output


def failed(tool: str, text: str) -> str:
    """Return the class of the error of a text that must not be valid."""
    found = registry.parse(tool, text)
    assert found["valid"] is False
    return str(found["error"]["class"])


def parse_failed(tool: str, text: str, kind: str) -> dict[str, Any]:
    """Return what a text is read as that must not be valid, for a reason of this class."""
    assert failed(tool, text) == kind
    return registry.parse(tool, text)


def for_tool(tool: str) -> tuple[Any, ...]:
    """Return `read`, `parse_valid`, `one` and `failed` of one tool."""
    return tuple(partial(ask, tool) for ask in (read, parse_valid, one, failed))


def shows(row: dict[str, Any], **expected: Any) -> None:
    """Assert that a row has these values."""
    assert {key: row[key] for key in expected} == expected


def parsed(tool: str, text: str) -> dict[str, Any] | None:
    """Return what a text reads as; None when it is refused."""
    try:
        return registry.parse(tool, text)
    except registry.NotThisTool:
        return None


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Return each number and its place in the outputs."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            # NCCL's ranks are sorted: one more changes the places of others.
            name = inner.get("pid", index) if isinstance(inner, dict) else index
            yield from numbers(inner, f"{path}.{name}")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value


def wrong_when_cut(tool: str, text: str, places: Iterable[int]) -> Iterator[tuple[int, str, object]]:
    """Return where a text that is cut there reads as valid with another number, or invalid for no reason."""
    right = dict(numbers(registry.parse(tool, text)["outputs"]))
    for place in places:
        found = parsed(tool, text[:place])
        if found is None:
            continue
        if not found["valid"]:
            wrong: Any = None if found["error"] or found["warnings"] else "no reason"
        else:
            wrong = {key: value for key, value in numbers(found["outputs"]) if right.get(key) != value}
        if wrong:
            yield place, text[:place][-60:], wrong
