# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of what kernel settings were before the first change; it is never changed, only released.

Values are section to key to value, as `settings.read` returns them: `{"governors": {"cpu0": "powersave"}}`.
"""

from __future__ import annotations

import os
import typing as t

from .. import atomic_files

SCHEMA = 1
#: In the order in which they are written.
SECTIONS = ("governors", "energy_preferences", "idle_states", "irqs", "sysctl", "sysfs", "rings")

Values = t.Mapping[str, t.Mapping[str, t.Any]]
Record = dict[str, t.Any]


class OriginalsError(Exception):
    """The record cannot be read; the message says what to do."""


def split(
    recorded: Record | None, held: Values, asked: t.Collection[str], seen: Values
) -> tuple[Record, Record]:
    """Split the record into what is still managed and what is no longer configured.

    Args:
        recorded: The record; None when there is none.
        held: What is configured and supported.
        asked: The sections with a configured value.
        seen: What the kernel has now; None for what is not supported. What is gone for the moment (a CPU that
            is offline) stays on record for as long as its section is configured.

    Returns:
        Two records without a schema: kept, and released, whose values go back to where they were.
    """
    kept: Record = {}
    released: Record = {}
    for section in SECTIONS:
        kept[section], released[section] = {}, {}
        for key, value in (recorded or {}).get(section, {}).items():
            gone = section in asked and seen[section].get(key) is None
            part = kept if key in held[section] or gone else released
            part[section][key] = value
    return kept, released


def merged(kept: Record, held: Values, seen: Values) -> Record | None:
    """Add to what is kept what is about to be held and is not on record yet; None when nothing is held."""
    sections = {
        section: {**{key: seen[section][key] for key in held[section]}, **kept[section]}
        for section in SECTIONS
    }
    return _record(sections)


def union(recorded: Record | None, after: Record | None) -> Record | None:
    """Return a record of what either has; the older value counts."""
    if recorded is None or after is None:
        return recorded or after
    return _record({section: {**after.get(section, {}), **recorded.get(section, {})} for section in SECTIONS})


def _record(sections: Values) -> Record | None:
    """Return sections as a record, without those that are empty; None when all are."""
    filled = {section: values for section, values in sections.items() if values}
    return {"schema": SCHEMA, **filled} if filled else None


def load(path: str) -> Record | None:
    """Read the record, None when there is none.

    Raises:
        OriginalsError: The file is no record; to go on would record changed values as original.
    """
    try:
        return atomic_files.load_record(path, SCHEMA)
    except ValueError as error:
        raise OriginalsError(
            f"{path} is no record of original values ({error}): repair or remove it"
        ) from error


def store(path: str, document: Record) -> None:
    """Write the record."""
    atomic_files.store_record(path, document)


def remove(path: str) -> None:
    """Remove the record; its values have been restored."""
    if os.path.exists(path):
        os.remove(path)
