# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read mappings of a data file strictly: keys are known and have their type; errors name file and key."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

T = TypeVar("T")


class DataError(ValueError):
    """A data file is wrong; the message names the file and the key, and says what to write."""


class _Loader(yaml.SafeLoader):
    """YAML without booleans by `on` and `yes`, numbers to base 60, and keys that stand twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _value in node.value if key.tag != "tag:yaml.org,2002:merge"]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"{self.name}:{node.start_mark.line + 1}: key {twice!r} stands twice; keep one")
        return {str(key): value for key, value in super().construct_mapping(node, deep).items()}


_KEPT = {"y", "Y", "n", "N", "o", "O"}
_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in found
        if not (tag == "tag:yaml.org,2002:bool" and first in _KEPT)
        and not (tag == "tag:yaml.org,2002:int" and first in "0123456789-+")
        and tag != "tag:yaml.org,2002:timestamp"
    ]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
# Decimal numbers alone: PCI addresses, MACs and hexadecimal numbers stay texts.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"-?(?:0|[1-9][0-9]*)$"), list("-0123456789")
)


def load(path: Path) -> dict[str, Any]:
    """Read a YAML file whose top is a mapping.

    Raises:
        DataError: there is no such file, or it is no such YAML.
    """
    try:
        with path.open(encoding="utf-8") as handle:
            found = yaml.load(handle, _Loader)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise DataError(f"{path}: not YAML: {error}") from error
    if not isinstance(found, dict):
        raise DataError(f"{path}: the top must be a mapping")
    return found


class Fields:
    """Takes keys out of a mapping, and complains of those that nobody took.

    Args:
        value: the mapping.
        where: file and key path, for messages.
    """

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, Mapping):
            raise DataError(f"{where}: must be a mapping, not {value!r}")
        self._left = dict(value)
        self._known: list[str] = []
        self.where = where

    def take(self, key: str, kind: type[T] | tuple[type, ...], default: Any = ...) -> Any:
        """Return a key's value of this type; without a default it must be there."""
        self._known.append(key)
        value = self._left.pop(key, default)
        if value is ...:
            raise DataError(f"{self.where}: `{key}` is missing")
        if value is default:
            return value
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if float in kinds and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            wanted = " or ".join(one.__name__ for one in kinds)
            raise DataError(f"{self.where}.{key}: must be {wanted}, not {value!r}")
        return value

    def word(self, key: str, words: tuple[str, ...], default: Any = ...) -> Any:
        """Return a key's value, which is one of some words."""
        value = self.take(key, str, default)
        if value is not default and value not in words:
            raise DataError(f"{self.where}.{key}: must be one of {', '.join(words)}, not {value!r}")
        return value

    def each(self, key: str, read: Callable[[Any, str], T]) -> dict[str, T]:
        """Return a mapping of mappings, each read by a function that takes it and where it stands."""
        found = self.take(key, dict, {}) or {}
        return {str(name): read(one, f"{self.where}.{key}.{name}") for name, one in found.items()}

    def listed(self, key: str, read: Callable[[Any, str], T]) -> list[T]:
        """Return a list, each read by a function that takes it and where it stands."""
        found = self.take(key, list, []) or []
        return [read(one, f"{self.where}.{key}[{place}]") for place, one in enumerate(found)]

    def done(self) -> None:
        """Complain of keys that are not known."""
        if self._left:
            raise DataError(
                f"{self.where}: unknown key {next(iter(self._left))!r}; known are {', '.join(self._known)}"
            )


@dataclass(frozen=True)
class Content:
    """What a file holds.

    Attributes:
        data: its bytes; None for a file that is not there.
        error: the number with which opening it fails.
        link: where a symbolic link points, below the root.
    """

    data: bytes | None = None
    error: int | None = None
    link: str | None = None


def content(value: object, where: str) -> Content:
    """Read what a file holds: a text, a number, or a mapping with one of the keys that README.md lists."""
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return Content(f"{value}\n".encode())
    if value is None or value == "missing":
        return Content()
    fields = Fields(value, where)
    if fields.take("missing", bool, False):
        found = Content()
    elif fields.take("empty", bool, False):
        found = Content(b"")
    elif name := fields.take("errno", str, None):
        number = getattr(errno, name, None)
        if not isinstance(number, int):
            raise DataError(f"{where}.errno: {name!r} is no name of errno.h")
        found = Content(b"", number)
    elif (digits := fields.take("hex", str, None)) is not None:
        try:
            found = Content(bytes.fromhex(digits))
        except ValueError as error:
            raise DataError(f"{where}.hex: {error}") from error
    elif (count := fields.take("zeros_bytes", int, None)) is not None:
        found = Content(bytes(count))
    elif (target := fields.take("link", str, None)) is not None:
        found = Content(link=target)
    else:
        raise DataError(f"{where}: write a text, or one of missing, empty, errno, hex, zeros_bytes, link")
    fields.done()
    return found


def merged(base: Any, over: Any) -> Any:
    """Lay a mapping over another one, key by key; a null takes a key out, what is no mapping replaces."""
    if not (isinstance(base, Mapping) and isinstance(over, Mapping)):
        return over
    found = dict(base)
    for key, value in over.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value) if isinstance(value, Mapping) else value
    return found
