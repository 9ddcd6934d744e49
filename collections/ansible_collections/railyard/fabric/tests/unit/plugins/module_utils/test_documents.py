# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The types of the run folder's records say what `docs/schema` says."""

from __future__ import annotations

import json
import types
import typing
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import documents

SCHEMA = Path(__file__).resolve().parents[8] / "docs" / "schema"
JSON_TYPE = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
RECORDS = [
    (documents.Network, "plan", "network"),
    (documents.Rail, "plan", "rail"),
    (documents.Bond, "plan", "bond"),
]


def of_python(hint: Any) -> set[Any]:
    """Return JSON's names of the types, and the literals themselves."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return set().union(*map(of_python, typing.get_args(hint)))
    if origin is typing.Literal:
        return set(typing.get_args(hint))
    if typing.is_typeddict(hint):
        return {"object"}
    return {{list: "array", dict: "object"}.get(origin) or JSON_TYPE[hint]}


def of_schema(schema: dict[str, Any], document: dict[str, Any]) -> set[Any]:
    """Return the same of a property."""
    if "$ref" in schema:
        return of_schema(document["$defs"][schema["$ref"].rsplit("/", 1)[1]], document)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return set().union(*(of_schema(one, document) for one in schema[several]))
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return {"null" if one is None else "integer" if one == 1 else one for one in values}
    named = schema["type"]
    return {named} if isinstance(named, str) else set(named)


@pytest.mark.parametrize(("record", "file", "part"), RECORDS, ids=lambda one: getattr(one, "__name__", None))
def test_a_record_is_typed_as_its_schema_says(record: Any, file: str, part: str | None) -> None:
    document = json.loads((SCHEMA / f"{file}.schema.json").read_text(encoding="utf-8"))
    schema = document["$defs"][part] if part else document
    assert record.__required_keys__ == frozenset(schema["required"])
    hints = {key: of_python(hint) for key, hint in typing.get_type_hints(record).items()}
    assert hints == {key: of_schema(value, document) for key, value in schema["properties"].items()}
