# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node had before a role first changed it: packages, files, units; a record a role.

A record is never changed: a second reading would see the role's own changes. The restore is planned in
module_utils/state/restore_plan.py. `root` is `/` on a node and a folder in the tests.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import typing as t

from .. import atomic_files, node_files

SCHEMA = 1
FOLDER = "var/lib/railyard/originals"
#: In every text file that a role writes; a file that has it is no original.
MARK = b"Managed by Railyard"
#: The format for `dpkg-query --showformat`, which `parse_packages` reads.
SHOW = "${db:Status-Want} ${db:Status-Status} ${Package} ${Version}\\n"
_MARK_WITHIN_BYTES = 4096
_ROLE = re.compile(r"[a-z][a-z0-9_]{0,62}\Z")

Record = dict[str, t.Any]


class OriginalsError(Exception):
    """A record that cannot be made or read; the message says which, and what to do."""


def check_role(role: str) -> str:
    """Return the role's name.

    Raises:
        OriginalsError: It would be no file name.
    """
    if not _ROLE.match(role):
        raise OriginalsError(f"role {role!r} is not usable. Fix: 1 to 63 of a-z, 0-9 and _, a letter first")
    return role


def parse_packages(text: str) -> dict[str, dict[str, t.Any]]:
    """Read what dpkg-query says with `SHOW`: the installed packages, each with `version` and `hold`."""
    packages = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 4 and words[1] == "installed":
            packages[words[2]] = {"version": words[3], "hold": words[0] == "hold"}
    return packages


def look_at_packages(
    names: t.Iterable[str], installed: t.Mapping[str, t.Mapping[str, t.Any]]
) -> dict[str, t.Any]:
    """Return what was there of `names` (None: it was not), from `parse_packages`."""
    return {name: dict(installed[name]) if name in installed else None for name in names}


def look_at_file(root: str, path: str) -> dict[str, t.Any] | None:
    """Return what identifies a file's original state; None when there is none, or it is a role's own.

    Raises:
        OriginalsError: There is something that is not a file.
    """
    place = os.path.join(root, path.lstrip("/"))
    if not os.path.lexists(place):
        return None
    if os.path.islink(place):
        return {"link": os.readlink(place)}
    if not os.path.isfile(place):
        raise OriginalsError(f"{path} is no file. Fix: move it aside, then run again")
    if is_ours(root, path):
        return None
    status = os.stat(place)
    with open(place, "rb") as handle:
        digest = hashlib.sha256(handle.read()).hexdigest()
    return {
        "sha256": digest,
        "mode": f"{status.st_mode & 0o7777:04o}",
        "uid": status.st_uid,
        "gid": status.st_gid,
    }


def is_ours(root: str, path: str) -> bool:
    """Tell whether a file says of itself that Railyard manages it."""
    place = os.path.join(root, path.lstrip("/"))
    if os.path.islink(place) or not os.path.isfile(place):
        return False
    with open(place, "rb") as handle:
        return MARK in handle.read(_MARK_WITHIN_BYTES)


def missing_folders(root: str, path: str) -> list[str]:
    """Return the folders above a file that are not there, the outermost first."""
    missing = []
    folder = os.path.dirname(path)
    while folder not in ("", "/") and not os.path.isdir(os.path.join(root, folder.lstrip("/"))):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing[::-1]


def merged(recorded: t.Mapping[str, t.Any] | None, seen: t.Mapping[str, t.Any]) -> Record:
    """Add to a record what it does not have yet.

    Args:
        recorded: The record, section to name to what was there; None when there is none yet.
        seen: The same form, as it is now. A section that is no dictionary is one thing.
    """
    record: Record = {
        key: dict(value) if isinstance(value, dict) else value for key, value in (recorded or {}).items()
    }
    for section, value in seen.items():
        known = record.get(section)
        if section not in record:
            record[section] = dict(value) if isinstance(value, dict) else value
        elif isinstance(value, dict) and isinstance(known, dict):
            record[section] = {**value, **known}
    return record


def backup_path(role: str, path: str) -> str:
    """Return where the copy of an original file lies on the node."""
    return f"/{FOLDER}/files/{role}{path}"


def keep_file(root: str, role: str, path: str) -> None:
    """Copy an original file, its mode and owner, under the record; a link is only recorded."""
    source = os.path.join(root, path.lstrip("/"))
    if os.path.islink(source):
        return
    target = os.path.join(root, backup_path(role, path).lstrip("/"))
    # Only root reads what may be a site's secret.
    os.makedirs(os.path.join(root, FOLDER, "files"), mode=0o700, exist_ok=True)
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    with open(source, "rb") as handle:
        data = handle.read()
    status = os.stat(source)
    atomic_files.write_bytes(target, data, status.st_mode & 0o7777, (status.st_uid, status.st_gid))


def look_at_files(
    root: str, recorded: t.Mapping[str, t.Any] | None, paths: t.Iterable[str]
) -> dict[str, t.Any]:
    """Return the sections `files` and `folders` for those of `paths` that a record does not have yet.

    Raises:
        OriginalsError: At one of the paths is something that is no file.
    """
    known = (recorded or {}).get("files", {})
    seen: dict[str, t.Any] = {}
    new = {path: look_at_file(root, path) for path in paths if path not in known}
    if new:
        seen["files"] = new
        missing = [folder for path in new for folder in missing_folders(root, path)]
        if missing:
            seen["folders"] = dict.fromkeys(missing)
    return seen


def keep(root: str, role: str, record: t.Mapping[str, t.Any], seen: t.Mapping[str, t.Any]) -> None:
    """Copy the files that were just looked at, then write the record, useless without the copies."""
    for path, original in seen.get("files", {}).items():
        if original is not None:
            keep_file(root, role, path)
    store(root, role, record)


def record_files(root: str, role: str, paths: t.Iterable[str], check_mode: bool) -> list[dict[str, str]]:
    """Record what files were before a role; return the diff of its record, none if it has them all."""
    recorded = load(root, check_role(role))
    return _add(root, role, recorded, look_at_files(root, recorded, paths), check_mode)


def record_packages(
    root: str,
    role: str,
    names: t.Iterable[str],
    installed: t.Mapping[str, t.Mapping[str, t.Any]],
    check_mode: bool,
) -> list[dict[str, str]]:
    """Record what packages were before a role; return the diff of its record, none if it has them all.

    Args:
        root: Where the node's files are.
        role: Whose record it is.
        names: The packages that may move.
        installed: All packages of the node, in the form of `parse_packages`.
        check_mode: Whether nothing may be written.
    """
    recorded = load(root, check_role(role))
    known = (recorded or {}).get("packages", {})
    new = [name for name in names if name not in known]
    seen: dict[str, t.Any] = {}
    if new:
        seen = {"packages": look_at_packages(new, installed), "installed_before": sorted(installed)}
    return _add(root, role, recorded, seen, check_mode)


def _add(
    root: str, role: str, recorded: Record | None, seen: t.Mapping[str, t.Any], check_mode: bool
) -> list[dict[str, str]]:
    record = merged(recorded, seen)
    if not record or record == recorded:
        return []
    if not check_mode:
        keep(root, role, record, seen)
    return [make_diff(role, recorded, record)]


def short(record: t.Mapping[str, t.Any] | None) -> dict[str, t.Any]:
    """Return a record without the list of all packages of the node."""
    return {key: value for key, value in (record or {}).items() if key != "installed_before"}


def make_diff(
    role: str, before: t.Mapping[str, t.Any] | None, after: t.Mapping[str, t.Any] | None
) -> dict[str, str]:
    """Return the diff of a record, as Ansible shows it."""
    path = f"/{FOLDER}/{role}.json"
    texts = [
        json.dumps(short(record), indent=2, sort_keys=True) + "\n" if record else ""
        for record in (before, after)
    ]
    return {"before_header": path, "after_header": path, "before": texts[0], "after": texts[1]}


def load(root: str, role: str) -> Record | None:
    """Read a role's record; None when there is none.

    Raises:
        OriginalsError: The file is no record; to go on would take what a role made for an original.
    """
    path = os.path.join(root, FOLDER, role + ".json")
    try:
        document = atomic_files.load_record(path, SCHEMA)
        if document is not None and not isinstance(document.get("record"), dict):
            raise ValueError("it holds nothing")
    except ValueError as error:
        raise OriginalsError(
            f"{path} is no record of what was there before {role} ({error}). "
            "Fix: bring it back from a backup; or remove it: uninstall will not know what the role brought"
        ) from error
    return None if document is None else document["record"]


def load_all(root: str) -> dict[str, Record]:
    """Read all records, by role."""
    records = {}
    for name in node_files.list_names(os.path.join(root, FOLDER)):
        role, ending = os.path.splitext(name)
        if ending == ".json" and _ROLE.match(role):
            record = load(root, role)
            if record is not None:
                records[role] = record
    return records


def store(root: str, role: str, record: t.Mapping[str, t.Any]) -> None:
    """Write a record."""
    document = {"schema": SCHEMA, "role": role, "record": record}
    atomic_files.store_record(os.path.join(root, FOLDER, role + ".json"), document)


def remove(root: str, role: str) -> None:
    """Remove a role's record and its copies; their contents have been restored."""
    shutil.rmtree(os.path.join(root, FOLDER, "files", role), ignore_errors=True)
    path = os.path.join(root, FOLDER, role + ".json")
    if os.path.exists(path):
        os.remove(path)
    for folder in (os.path.join(root, FOLDER, "files"), os.path.join(root, FOLDER)):
        if os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)
