# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read mappings of a data file into dataclasses, strictly; errors name file and key."""

from __future__ import annotations

import dataclasses
import errno
import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import yaml

T = TypeVar("T")


class DataError(ValueError):
    """A data file is wrong; the message names the file and the key, and says what to write."""


class _Loader(yaml.SafeLoader):
    """YAML without booleans by `on` and `yes`, numbers to base 60, and repeated keys."""

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
    return dict(_repeated(found, str(path)))


def _repeated(value: Any, where: str) -> Any:
    """Write out what is under a key `repeat`, once for each row of its table `with`."""
    if isinstance(value, list):
        return [_repeated(one, where) for one in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for key, one in value.items():
        if key.split()[0:1] != ["repeat"]:
            found[key] = _repeated(one, f"{where}: {key}")
            continue
        table = one.pop("with")
        if len({len(column) for column in table.values()}) != 1:
            raise DataError(f"{where}: {key}.with: the lists must be of one length")
        for row in zip(*table.values(), strict=True):
            found |= _filled(one, dict(zip(table, row, strict=True)))
    return found


def _filled(value: Any, row: Mapping[str, Any]) -> Any:
    """Put a row's values in the place of their names; a text that is but a name becomes the value itself."""
    if isinstance(value, list):
        return [_filled(one, row) for one in value]
    if isinstance(value, dict):
        return {_filled(key, row): _filled(one, row) for key, one in value.items()}
    if not isinstance(value, str):
        return value
    whole = re.fullmatch(r"\{(\w+)\}", value)
    if whole and whole[1] in row:
        return row[whole[1]]
    return re.sub(r"\{(\w+)\}", lambda found: str(row.get(found[1], found[0])), value)


def key(name: str, default: Any = ...) -> Any:
    """Return a field of a dataclass that the data calls by another name."""
    given = {} if default is ... else {"default": default}
    return dataclasses.field(metadata={"key": name}, **given)


def read(kind: type[T], value: object, where: str) -> T:
    """Read a mapping into a dataclass: its fields are the keys, and their types what each key holds.

    A type may be `Annotated` with a function that reads the value and takes where it is. A dataclass
    may have a method `complain`, which takes that too and raises DataError where values conflict.

    Args:
        kind: the dataclass.
        value: the mapping.
        where: file and key path, for messages.

    Raises:
        DataError: a key is missing, is not known, or has another type.
    """
    if not isinstance(value, Mapping):
        raise DataError(f"{where}: must be a mapping, not {value!r}")
    left, known, found = dict(value), [], {}
    hints = _hints(kind)
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]  # a dataclass by its caller
        known.append(name := field.metadata.get("key", field.name))
        if name in left:
            found[field.name] = _converted(hints[field.name], left.pop(name), f"{where}.{name}")
        elif field.default is field.default_factory is dataclasses.MISSING:
            raise DataError(f"{where}: `{name}` is missing")
    if left:
        raise DataError(f"{where}: unknown key {next(iter(left))!r}; known are {', '.join(known)}")
    made = kind(**found)
    if hasattr(made, "complain"):
        made.complain(where)
    return made


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _converted(kind: Any, value: Any, where: str) -> Any:
    """Return a value as a type wants it."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is Annotated:
        return inner[1](value, where)
    if NoneType in inner:
        return None if value is None else _converted(inner[0], value, where)
    if origin is Literal:
        if value not in inner:
            raise DataError(f"{where}: must be one of {', '.join(inner)}, not {value!r}")
        return value
    if dataclasses.is_dataclass(kind):
        return read(kind, value, where)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if origin in (list, dict) and value is None:
        return origin()
    wanted = origin or kind
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise DataError(f"{where}: must be {wanted.__name__}, not {value!r}")
    if origin is list:
        return [_converted(inner[0], one, f"{where}[{place}]") for place, one in enumerate(value)]
    if origin is dict:
        return {
            _converted(inner[0], name, where): _converted(inner[1], one, f"{where}.{name}")
            for name, one in value.items()
        }
    return value


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


def _fails(name: str) -> Content:
    number = getattr(errno, name, None)
    if not isinstance(number, int):
        raise ValueError(f"{name!r} is no name of errno.h")
    return Content(b"", number)


#: What the data may write in place of a text.
_SPECIAL: dict[str, Callable[[Any], Content]] = {
    "missing": lambda _true: Content(),
    "empty": lambda _true: Content(b""),
    "errno": _fails,
    "hex": lambda digits: Content(bytes.fromhex(digits)),
    "zeros_bytes": lambda count: Content(bytes(count)),
    "link": lambda target: Content(link=target),
}


def content(value: object, where: str) -> Content:
    """Read what a file holds: a text, a number, or a mapping with one of the keys that README.md lists."""
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return Content(f"{value}\n".encode())
    if value is None:
        return Content()
    if not isinstance(value, Mapping) or len(value) != 1 or not value.keys() <= _SPECIAL.keys():
        raise DataError(f"{where}: write a text, or one of {', '.join(_SPECIAL)}, not {value!r}")
    [(name, one)] = value.items()
    try:
        return _SPECIAL[name](one)
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}.{name}: {error}") from error


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
