# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Store what waits on a node for a reboot, a restart of modules or an opt-in: one file per topic.

A role that must not act stores what waits instead. What waits for a reboot has the id of its boot: after a
reboot, by any cause, it is done, unless it waits for a kernel that still does not run.
"""

from __future__ import annotations

import json
import os
import re
import typing as t

from .. import atomic_files, node_files

SCHEMA = 1
FOLDER = "var/lib/railyard/waits"
#: What a boot does for it.
ANSWERED_BY_A_BOOT = ("reboot", "module_restart")
_KEYS = ("what", "why", "needs")
_TOPIC = re.compile(r"[a-z][a-z0-9_-]{0,62}\Z")
_NEEDS = re.compile(r"(reboot|module_restart|consent:[a-z][a-z0-9_]*)\Z")

Item = dict[str, t.Any]


class WaitsError(Exception):
    """A topic, an item or a file that cannot be used; the message says which, and what to do."""


class Now(t.NamedTuple):
    """The current boot and kernel."""

    boot_id: str
    kernel: str


def check_topic(topic: str) -> str:
    """Return the topic.

    Raises:
        WaitsError: It would be no file name, or a hidden one.
    """
    if not _TOPIC.match(topic):
        raise WaitsError(f"topic {topic!r} is not usable. Fix: 1 to 63 of a-z, 0-9, _ and -, a letter first")
    return topic


def stamped(items: t.Iterable[t.Mapping[str, t.Any]], now: Now) -> list[Item]:
    """Return the items as they are stored: those that a reboot completes with the id of the current boot.

    Args:
        items: `{"what", "why", "needs"}` each, and `kernel` where a kernel waits to be booted.
        now: The boot that runs.

    Raises:
        WaitsError: An item is empty, has invalid needs, or a kernel without a boot.
    """
    kept = []
    for number, item in enumerate(items, start=1):
        for key in _KEYS:
            if not str(item.get(key) or "").strip():
                raise WaitsError(f"item {number} has no {key}. Fix: give what, why and needs")
        one: Item = {key: str(item[key]).strip() for key in _KEYS}
        if not _NEEDS.match(one["needs"]):
            raise WaitsError(
                f"item {number} needs {one['needs']!r}. Fix: reboot, module_restart or `consent:VARIABLE`"
            )
        if item.get("kernel"):
            if one["needs"] != "reboot":
                raise WaitsError(
                    f"item {number} has kernel {item['kernel']}, which only a boot brings. Fix: needs: reboot"
                )
            one["kernel"] = str(item["kernel"])
        if one["needs"] in ANSWERED_BY_A_BOOT:
            one["boot_id"] = now.boot_id
        kept.append(one)
    return kept


def is_answered(item: t.Mapping[str, t.Any], now: Now) -> bool:
    """Return whether a reboot since then has completed an item."""
    if item.get("needs") not in ANSWERED_BY_A_BOOT or item.get("boot_id") == now.boot_id:
        return False
    return item.get("kernel") in (None, now.kernel)


def unanswered(topics: t.Mapping[str, t.Sequence[Item]], now: Now) -> dict[str, list[Item]]:
    """Return what still waits, by topic; a topic of which nothing is left stays as an empty list."""
    return {
        topic: [item for item in items if not is_answered(item, now)]
        for topic, items in sorted(topics.items())
    }


def listed(topics: t.Mapping[str, t.Sequence[Item]]) -> list[Item]:
    """Return all items in one list, each with its topic and without what only the file needs."""
    return [
        {"topic": topic, **{key: value for key, value in item.items() if key != "boot_id"}}
        for topic, items in sorted(topics.items())
        for item in items
    ]


def text(topics: t.Mapping[str, t.Sequence[Item]]) -> str:
    """Return what waits as lines, for a diff."""
    return "".join(
        f"{item['topic']}: {item['what']} ({item['needs']}): {item['why']}\n" for item in listed(topics)
    )


def path_of(root: str, topic: str) -> str:
    """Return the file of a topic."""
    return os.path.join(root, FOLDER, topic + ".json")


def load(root: str, but: str | None = None) -> dict[str, list[Item]]:
    """Read what waits, by topic.

    Args:
        root: `/`, or a folder that looks like it.
        but: A topic that is about to be written, whose file may be damaged.

    Raises:
        WaitsError: A file that cannot be read: its contents must not be lost silently.
    """
    topics = {}
    for name in node_files.list_names(os.path.join(root, FOLDER)):
        topic, ending = os.path.splitext(name)
        if ending != ".json" or not _TOPIC.match(topic):
            continue
        path = os.path.join(root, FOLDER, name)
        try:
            topics[topic] = _read(path)
        except WaitsError:
            if topic != but:
                raise
            topics[topic] = []
    return topics


def standing(root: str, topic: str) -> list[Item] | None:
    """Return what is kept under a topic as a role says it; None where that has to be written anew.

    An item that a reboot completes stays during the boot in which it was stored. A file that cannot be read
    is written again too.
    """
    try:
        path, now = path_of(root, check_topic(topic)), read_now(root)
        items = _read(path) if os.path.exists(path) else []
        plain = [{key: value for key, value in item.items() if key != "boot_id"} for item in items]
        return plain if stamped(plain, now) == items else None
    except WaitsError:
        return None


def store(root: str, topic: str, items: t.Sequence[Item]) -> None:
    """Write a topic's file in one step; without items there is none."""
    path = path_of(root, topic)
    if items:
        atomic_files.store_record(path, {"schema": SCHEMA, "topic": topic, "items": list(items)})
    elif os.path.exists(path):
        os.remove(path)


def read_now(root: str) -> Now:
    """Return the boot and the kernel that run.

    Raises:
        WaitsError: The kernel does not tell.
    """
    texts = []
    for name in ("random/boot_id", "osrelease"):
        try:
            with open(os.path.join(root, "proc/sys/kernel", name), encoding="ascii") as handle:
                texts.append(handle.read().strip())
        except OSError as error:
            raise WaitsError(f"the running boot cannot be read: {error}. Fix: mount /proc") from error
    return Now(*texts)


def _read(path: str) -> list[Item]:
    try:
        with open(path, encoding="utf-8") as handle:
            document = json.load(handle)
    except (OSError, ValueError) as error:
        raise WaitsError(f"{path} cannot be read ({error}). {_FIX}") from error
    items = document.get("items") if isinstance(document, dict) else None
    whole = isinstance(items, list) and all(
        isinstance(item, dict) and all(isinstance(item.get(key), str) for key in _KEYS) for item in items
    )
    if not whole or document.get("schema") != SCHEMA:
        raise WaitsError(f"{path} is no list of what waits, schema {SCHEMA}. {_FIX}")
    return t.cast("list[Item]", items)


_FIX = "Fix: remove it and run playbooks/drivers.yml, which says again what waits"
