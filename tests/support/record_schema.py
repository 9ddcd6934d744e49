# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A record as the JSON Schema that it is, to be compared with the one in `docs/schema`."""

from __future__ import annotations

import json
import types
import typing
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records import reader
from railyard.base import paths


def read(name: str) -> dict[str, Any]:
    """Return a schema of `docs/schema`."""
    path = paths.repo_root() / "docs" / "schema" / f"{name}.schema.json"
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def _of_limit(limit: Any) -> dict[str, Any]:
    if isinstance(limit, reader.AtLeast):
        return {"minimum": limit.least}
    if isinstance(limit, reader.Matches):
        return {"pattern": f"^{limit.pattern}$"}
    if isinstance(limit, reader.Long):
        return {"minItems": limit.values, "maxItems": limit.values}
    kinds = {
        reader.AboveZero: {"exclusiveMinimum": 0},
        reader.NotEmpty: {"minItems": 1},
        reader.NotTwice: {"uniqueItems": True},
    }
    return kinds[type(limit)]


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema that a record is, without words."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if hasattr(kind, "__required_keys__"):
        hints = typing.get_type_hints(kind, include_extras=True)
        return {
            "type": "object",
            "properties": {name: schema_of(hint) for name, hint in hints.items()},
            "required": sorted(kind.__required_keys__),
            "additionalProperties": False,
        }
    if hasattr(kind, "__metadata__"):
        schema = schema_of(kind.__origin__)
        for limit in kind.__metadata__:
            schema.update(_of_limit(limit))
        return schema
    if origin is typing.Literal:
        return {"enum": list(inner)} if len(inner) > 1 else {"const": inner[0]}
    if origin in (typing.Union, types.UnionType):
        schemas = [schema_of(one) for one in inner if one is not type(None)]
        if "enum" in schemas[0] or "const" in schemas[0]:
            return {"enum": [*schemas[0].get("enum", [schemas[0].get("const")]), None]}
        return {**schemas[0], "type": sorted([*(one["type"] for one in schemas), "null"])}
    if origin is list:
        return {"type": "array", "items": schema_of(inner[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(inner[1])}
    return {"type": {str: "string", int: "integer", float: "number", bool: "boolean"}[kind]}


def strip_descriptions(schema: Any, document: dict[str, Any]) -> Any:
    """Return a schema of `docs/schema` with its references put in, without titles and descriptions."""
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        schema = document["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    found = {}
    for key, value in schema.items():
        if key in ("$schema", "$defs", "title", "description", "examples"):
            continue
        if key == "properties":
            found[key] = {name: strip_descriptions(one, document) for name, one in value.items()}
        elif key in ("required", "type") and isinstance(value, list):
            found[key] = sorted(value)
        else:
            found[key] = strip_descriptions(value, document)
    return found
