# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A list of devices as NCCL reads it: `mlx5_0:1,mlx5_1`, `=eth0`, `^docker`, `^=mlx5_4`.

The list may begin with two marks, in this order: ^ (all but these) and = (exactly these; without it each name
is a prefix). Each entry is NAME[:PORT[:RAIL[:PLANE]]].
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_ENTRY = re.compile(r"[^\s:=^,]+(:\d*){0,3}")


@dataclass(frozen=True)
class Entry:
    """One name of a list; port None is all ports."""

    name: str
    port: int | None

    def __str__(self) -> str:
        return self.name if self.port is None else f"{self.name}:{self.port}"


@dataclass(frozen=True)
class Names:
    """A list as NCCL reads it.

    Attributes:
        excludes: whether all but the named ones are meant.
        exact: whether the names are exact, not prefixes.
        entries: in order.
        wrong: a mistake in the list, as the end of a sentence, or None.
    """

    excludes: bool
    exact: bool
    entries: tuple[Entry, ...]
    wrong: str | None

    def takes(self, name: str, port: int | None = None) -> bool:
        """Return whether a device (and its port, if any) matches the list."""
        hit = any(self._is(entry, name, port) for entry in self.entries) or not self.entries
        return hit != self.excludes if self.entries else True

    def _is(self, entry: Entry, name: str, port: int | None) -> bool:
        fits = name == entry.name if self.exact else name.startswith(entry.name)
        return fits and (entry.port is None or port is None or entry.port == port)

    def unused(self, devices: Iterable[tuple[str, int | None]]) -> list[str]:
        """Return the entries that match none of the devices."""
        known = list(devices)
        return [str(entry) for entry in self.entries if not any(self._is(entry, *one) for one in known)]


def parse(value: str) -> Names:
    """Read a list."""
    rest = value.removeprefix("^")
    excludes = rest != value
    exact = rest.startswith("=")
    rest = rest.removeprefix("=")
    entries = []
    for text in rest.split(","):
        name, _colon, more = text.partition(":")
        port = more.partition(":")[0]
        if name:
            entries.append(Entry(name, int(port) if port.isdigit() else None))
    return Names(excludes, exact, tuple(entries), _wrong(rest))


def device(hca: str) -> tuple[str, int | None]:
    """Return a rail's HCA, `mlx5_0:1`, as its name and port."""
    name, _colon, port = hca.partition(":")
    return name, int(port) if port.isdigit() else None


def _wrong(rest: str) -> str | None:
    for text in rest.split(","):
        if text.strip() != text:
            return f"has a blank beside {text.strip() or 'a comma'}, which NCCL takes as part of the name"
        if text[:1] in ("=", "^"):
            return f"has {text[0]} before {text[1:]}: it counts once, before the list, and ^ before ="
        if text and not _ENTRY.fullmatch(text):
            return f"has {text}, which is no NAME[:PORT]"
    return None
