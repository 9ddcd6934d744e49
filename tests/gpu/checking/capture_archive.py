"""Read an archive of tests/gpu/run; it comes from another person and is not trusted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import archive
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch.archive_limits import Size
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import json_lines
from gpu.capture import archive_file

_SIZE = Size(
    packed_bytes=archive_file.MOST_PACKED_BYTES,
    total_bytes=4 * archive_file.MOST_PACKED_BYTES,
    member_bytes=archive_file.MOST_MEMBER_BYTES,
    members=archive_file.MOST_FORMS + 32,
)
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_FILE = re.compile(r"[a-z_]{1,40}\Z")
_MOST_FUNCTIONS = 256
_STATUSES = ("done", "failed", "skipped")


class BadArchiveError(ValueError):
    """It is no archive of tests/gpu/run; the message says why."""


class Capture:
    """What an archive holds.

    Attributes:
        manifest: what it says of itself.
        node: the machine.
        forms: command line -> how it ended (`status`, `error`, `absent`) and its `text`.
        texts: all its other members.
    """

    def __init__(self, members: Mapping[str, str]) -> None:
        self.texts = dict(members)
        self.manifest = self.result(archive_file.MANIFEST)
        _hold(self.manifest.get("schema") == archive_file.SCHEMA, "manifest.json: the schema is another one")
        steps = self.manifest.get("steps")
        _hold(
            isinstance(steps, list) and all(map(_is_step, steps)), "manifest.json: steps are missing or odd"
        )
        _hold(isinstance(self.manifest.get("gpu"), bool), "manifest.json: gpu is neither true nor false")
        self.node = self.result("node.json") if "node.json" in members else {"functions": []}
        functions = self.node.get("functions")
        _hold(
            isinstance(functions, list)
            and len(functions) <= _MOST_FUNCTIONS
            and all(map(_is_function, functions)),
            "node.json: functions are missing or odd",
        )
        self.forms = self._forms()

    def result(self, name: str) -> dict[str, Any]:
        """Return the JSON object of a member."""
        try:
            found = json_lines.read(self.texts[name])
        except KeyError:
            raise BadArchiveError(f"{name} is missing") from None
        except (ValueError, RecursionError) as error:
            raise BadArchiveError(f"{name}: not JSON: {error}") from error
        _hold(isinstance(found, dict) and not json_lines.is_deep(found), f"{name}: no plain JSON object")
        return dict(found)

    def step(self, name: str) -> Mapping[str, Any]:
        """Return the manifest's line of a step; of one that is missing, that it was skipped."""
        missing = {"status": "skipped", "reason": "the archive does not name this step"}
        return next((one for one in self.manifest["steps"] if one["name"] == name), missing)

    def _forms(self) -> dict[tuple[str, ...], dict[str, Any]]:
        if "forms.json" not in self.texts:
            return {}
        lines = self.result("forms.json").get("forms")
        _hold(isinstance(lines, list) and all(map(_is_form, lines)), "forms.json: forms are missing or odd")
        return {tuple(one["argv"]): {**one, "text": self.texts.get(one["file"], "")} for one in lines or []}


def read(path: Path) -> Capture:
    """Read an archive.

    Raises:
        BadArchiveError: it is damaged, too large, or holds something else.
    """
    members: dict[str, str] = {}
    try:
        for member in archive.members(path, archive_file.is_member, _SIZE):
            members[member.name] = b"".join(member.pieces).decode("utf-8", errors="replace")
    except archive.ArchiveError as error:
        raise BadArchiveError(str(error)) from error
    return Capture(members)


def _hold(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise BadArchiveError(otherwise)


def _is_count(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _is_step(one: object) -> bool:
    return (
        isinstance(one, dict)
        and isinstance(one.get("name"), str)
        and one.get("status") in _STATUSES
        and isinstance(one.get("reason"), str)
    )


def _is_function(one: object) -> bool:
    """Tell whether a PCI function may be written as files: its address and files become their names."""
    if not isinstance(one, dict):
        return False
    files = one.get("files")
    return (
        isinstance(one.get("pci"), str)
        and bool(_PCI.match(one["pci"]))
        and _is_count(one.get("device"), 0xFFFF)
        and _is_count(one.get("class"), 0xFFFF)
        and isinstance(files, dict)
        and all(_FILE.match(name) and isinstance(text, str) for name, text in files.items())
    )


def _is_form(one: object) -> bool:
    return (
        isinstance(one, dict)
        and isinstance(one.get("argv"), list)
        and len(one["argv"]) > 0
        and all(isinstance(word, str) for word in one["argv"])
        and isinstance(one.get("file"), str)
        and isinstance(one.get("error"), (str, type(None)))
        and isinstance(one.get("status"), (int, type(None)))
    )
