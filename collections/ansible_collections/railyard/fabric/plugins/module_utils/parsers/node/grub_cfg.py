# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read GRUB's menu and its saved entry, as grub-mkconfig and grub-reboot write them: text in, records out.

grub.cfg is a script; only what grub-mkconfig writes is read. Entries that a custom script creates at boot are
not seen.
"""

from __future__ import annotations

import re
import shlex
import typing as t

_ID_OPTIONS = ("$menuentry_id_option", "--id")
# linux, linux16 and linuxefi (older Ubuntu); a separate /boot or a btrfs subvolume changes the folder only.
_LINUX = re.compile(r"\s*linux(?:16|efi)?\s+(\S+)")
_DEFAULT = re.compile(r"^\s*set default=(.*?)\s*$", re.M)
_NEXT_ENTRY = "${next_entry}"


class Entry(t.NamedTuple):
    """An entry of the menu.

    Attributes:
        title: The title in the menu.
        name: Its --id, or None.
        image: The kernel's file in the entry; None where it boots something else, or is a submenu.
        entries: The entries of a submenu, in order; None for an entry that boots.
    """

    title: str
    name: str | None
    image: str | None
    entries: tuple[Entry, ...] | None


class Menu(t.NamedTuple):
    """The content of grub.cfg.

    Attributes:
        defaults: The values that it assigns to `default`, each once, without that of `grub-reboot`.
        obeys_next: Whether it reads the entry that `grub-reboot` saved.
    """

    entries: tuple[Entry, ...]
    defaults: tuple[str, ...]
    obeys_next: bool


class _Open:
    """An entry, a submenu or any other block before its end."""

    def __init__(self, words: t.Sequence[str]) -> None:
        self.kind = words[0] if words and words[0] in ("menuentry", "submenu") else ""
        self.title = words[1] if self.kind and len(words) > 1 else ""
        self.name = _name(words) if self.kind else None
        self.image: str | None = None
        self.entries: list[Entry] = []

    def entry(self) -> Entry:
        entries = tuple(self.entries) if self.kind == "submenu" else None
        return Entry(self.title, self.name, self.image, entries)


def parse_menu(text: str) -> Menu:
    """Read grub.cfg."""
    top = _Open(())
    blocks = [top]
    for line in text.splitlines():
        stripped = line.strip()
        if stripped == "}" and len(blocks) > 1:
            closed = blocks.pop()
            if closed.kind:
                blocks[-1].entries.append(closed.entry())
        elif stripped.endswith("{") and not stripped.startswith("#"):
            blocks.append(_Open(_split_line(stripped[:-1])))
        else:
            found = _LINUX.match(line)
            if found and blocks[-1].kind == "menuentry":
                blocks[-1].image = found.group(1)
    values = [_unquoted(value) for value in _DEFAULT.findall(text)]
    defaults = [value for value in values if value != _NEXT_ENTRY]
    return Menu(tuple(top.entries), tuple(dict.fromkeys(defaults)), _NEXT_ENTRY in values)


def parse_environment(text: str) -> dict[str, str]:
    """Read grubenv: NAME=VALUE lines, filled up with #."""
    values = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            values[name] = re.sub(r"\\(.)", r"\1", value)
    return values


def _split_line(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote that does not end: no line of grub-mkconfig's
        return []


def _name(words: t.Sequence[str]) -> str | None:
    for place, word in enumerate(words[:-1]):
        if word in _ID_OPTIONS:
            return words[place + 1]
    for word in words:
        if word.startswith("--id="):
            return word[len("--id=") :]
    return None


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value
