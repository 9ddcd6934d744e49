# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The captures beside the tests of the parsers, and what a parser makes of a text."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry

_COLLECTION = Path(registry.__file__).parents[3]
FIXTURES = _COLLECTION / "tests/unit/plugins/module_utils/parsers/fixtures"


def read(tool: str, name: str) -> str:
    return (FIXTURES / tool / name).read_text()


def whole(tool: str, text: str) -> list[dict[str, Any]]:
    """Return the outputs of a text that must be valid."""
    found = registry.parse(tool, text)
    assert (found["valid"], found["error"]) == (True, None)
    return list(found["outputs"])


def one(tool: str, text: str) -> dict[str, Any]:
    """Return the only output of a text that must be valid."""
    (output,) = whole(tool, text)
    return output


def failed(tool: str, text: str) -> str:
    """Return the class of the error of a text that must not be valid."""
    found = registry.parse(tool, text)
    assert found["valid"] is False
    return str(found["error"]["class"])


def of(tool: str) -> tuple[Any, ...]:
    """Return `read`, `whole`, `one` and `failed` of one tool."""
    return tuple(partial(ask, tool) for ask in (read, whole, one, failed))


def shows(row: dict[str, Any], **expected: Any) -> None:
    """Assert that a row has these values."""
    assert {key: row[key] for key in expected} == expected
