#!/usr/bin/env python3
"""Writes which release of NCCL reads which variable into the catalogue, from NCCL's source and its libraries.

    --source FOLDER                  a clone of NCCL: each release that it has a tag of
    --library 2.32.3=libnccl.so.2    a library, for a release that has no tag there
    --rccl FOLDER --rccl-docs FILE   a clone of RCCL, AMD's library, and its env-variables.rst
    --docs FILE                      NCCL's env.rst: lists what it documents and the catalogue does not

All may be given at once; without --source, only releases newer than the catalogue are taken in. A library is
in the wheel nvidia-nccl-cu13 (nvidia-nccl-cu12 before 2.27.7):

    pip download --no-deps --only-binary :all: nvidia-nccl-cu13==2.32.3
    unzip -j nvidia_nccl_cu13-*.whl '*/libnccl.so.2'

What a variable is for (use, values, default, why, ...) is written by hand in variables.json and stays; a new
name comes as `internal`. Of 2.30.7 source and library give the same 245 names, so that either will do.
"""

from __future__ import annotations

import argparse
import json
import mmap
import re
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CATALOGUE = (
    Path(__file__).resolve().parents[1]
    / "collections/ansible_collections/railyard/fabric/plugins/plugin_utils/nccl/variables.json"
)
#: A row's keys in their order; the last ones are written by this program.
KEYS = ("name", "use", "values", "case", "default", "since", "deprecated", "until", "instead", "left_over")
KEYS_BEHIND = ("why", "plugin", "rccl")
#: Rows of these uses are NCCL's own; the others are written by hand.
OWN = ("system", "debugging", "internal")
# NCCL_PARAM(Name, "IB_TC", -1), DEFINE_NCCL_PARAM(name, type, NCCL_DEBUG, ...), and any call with "NCCL_...".
_SOURCE = (
    r'(NCCL_PARAM\([^,]+, *"[A-Z0-9_]+"|DEFINE_NCCL_PARAM\([^,]+,[^,]+, *NCCL_[A-Z0-9_]+'
    r'|RCCL_PARAM\([^,]+, *"[A-Z0-9_]+"|"(NCCL|RCCL)_[A-Z0-9_]+")'
)
_LIBRARY, _PLUGINS = ("src",), ("plugins", "ext-net", "ext-profiler", "ext-tuner")
_TAG = re.compile(r"v(2\.[0-9]+\.[0-9]+)-[0-9]+")
_ROCM_TAG = re.compile(r"rocm-([0-9]+\.[0-9]+\.[0-9]+)")
#: Literals that the pattern finds and no release reads as a variable.
NOT_READ = {
    "NCCL_COMM_PROPERTIES_INITIALIZER": "a macro, in a message",
    "NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER": "a macro, in a message",
    "NCCL_GIN_CONNECTION_RAIL": "a macro, in a message",
    "NCCL_NCCL_ALLOC_P2P_NET_LL_BUFFERS": "the prefix twice by mistake, 2.14.3 to 2.16.2",
    "NCCL_USE_CMAKE": "a macro of the build",
    "RCCL_RCCL_INTRANET_THRESHOLD": "the prefix twice by mistake",
    "RCCL_RCCL_P2P_NET_THRESHOLD": "the prefix twice by mistake",
    "RCCL_TEST_ENV_VARS": "of RCCL's tests",
}
_NAME = re.compile(rb"(?<![A-Z_ ])NCCL_[A-Z0-9_]+(?=\0)")
_DOCUMENTED = re.compile(r"\s*(NCCL_[A-Z0-9_]+)(?: \(formerly .*\))?\s*\Z")
_RCCL_DOCUMENTED = re.compile(r"\* - \| ``((?:NCCL|RCCL)_[A-Z0-9_]+)``")


class CatalogueError(Exception):
    """An input that cannot be read; the message names it and the fix."""


@dataclass(frozen=True)
class Release:
    """The names that a release has.

    Attributes:
        version: such as 2.30.7.
        names: those that the library reads.
        plugins: those that the plugins in NCCL's source read; None of a library, which does not hold them.
    """

    version: str
    names: frozenset[str]
    plugins: frozenset[str] | None


def version_key(version: str) -> tuple[int, ...]:
    """Return a version as what can be compared."""
    return tuple(int(part) for part in version.split("."))


def _git(folder: Path, *argv: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *argv], capture_output=True, text=True, check=False)
    # git grep ends with 1 where nothing was found.
    if done.returncode not in (0, 1):
        raise CatalogueError(f"{folder}: {done.stderr.strip()}; name a clone of the repository with its tags")
    return done.stdout


def names_in(source: str) -> frozenset[str]:
    """Return the variables in what `git grep` printed of a source."""
    found = set()
    for line in source.splitlines():
        name = line.rpartition(",")[2].strip().strip('"')
        prefix = {"NCCL_PARAM": "NCCL_", "RCCL_PARAM": "RCCL_"}.get(line.partition("(")[0], "")
        found.add(prefix + name)
    return frozenset(found - NOT_READ.keys())


def _grep(folder: Path, ref: str, paths: Sequence[str]) -> frozenset[str]:
    return names_in(_git(folder, "grep", "-hoE", _SOURCE, ref, "--", *paths))


def source_releases(folder: Path) -> list[Release]:
    """Return every release that a clone of NCCL has a tag of, oldest first.

    Raises:
        CatalogueError: It is no clone, or has no tag of a release.
    """
    tags = {found.group(1): tag for tag in _git(folder, "tag").split() if (found := _TAG.fullmatch(tag))}
    if not tags:
        raise CatalogueError(f"{folder}: there is no tag such as v2.30.7-1; fetch them: git fetch --tags")
    return [
        Release(version, _grep(folder, tags[version], _LIBRARY), _grep(folder, tags[version], _PLUGINS))
        for version in sorted(tags, key=version_key)
    ]


def library_release(version: str, path: Path) -> Release:
    """Return the names in the read-only data of a libnccl.so, without those at the end of a message.

    The names of enumerators, which look alike, are only in the debug information. A name need not begin
    behind a NUL: some follow a number.

    Raises:
        CatalogueError: It is no 64-bit ELF file, or has no name of NCCL.
    """
    try:
        with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
            constants = _read_only_data(data)
    except (OSError, ValueError, struct.error) as error:
        raise CatalogueError(f"{path}: {error}; name the libnccl.so.2 of the wheel") from error
    names = frozenset(name.decode("ascii") for name in _NAME.findall(constants)) - NOT_READ.keys()
    if not names:
        raise CatalogueError(f"{path}: no name of NCCL is in it; name the libnccl.so.2 of the wheel")
    return Release(version, names, None)


def _read_only_data(data: mmap.mmap) -> bytes:
    """Return the section .rodata of an ELF file."""
    if data[:5] != b"\x7fELF\x02":
        raise ValueError("no 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, table + size * number) for number in range(count)]
    names = headers[names_at][4]
    for name, _type, _flags, _address, offset, length in headers:
        if data[names + name : names + name + 8] == b".rodata\0":
            return data[offset : offset + length]
    raise ValueError("it has no section .rodata")


def spans(releases: Sequence[Release]) -> dict[str, tuple[str, str, bool]]:
    """Return `{name: (first release, first release without it, whether plugins alone read it)}`.

    Either is empty where no release says: the first one has the name already, the last one still has it.
    """
    seen: dict[str, list[int]] = {}
    plugins: set[str] = set()
    for number, release in enumerate(releases):
        has = release.names | (release.plugins or frozenset())
        if release.plugins is None:
            has |= {name for name in plugins if seen[name][-1] == number - 1}
        plugins = (plugins | (has - seen.keys())) - release.names
        for name in has:
            seen.setdefault(name, []).append(number)
    versions = [release.version for release in releases]
    return {
        name: (
            versions[at[0]] if at[0] else "",
            versions[at[-1] + 1] if at[-1] + 1 < len(versions) else "",
            name in plugins,
        )
        for name, at in seen.items()
    }


def update(catalogue: Mapping[str, Any], releases: Sequence[Release], *, anew: bool) -> dict[str, Any]:
    """Return the catalogue with the releases taken in.

    Args:
        catalogue: as it is in variables.json.
        releases: oldest first.
        anew: whether they are all releases from the first on; else those that the catalogue has are left out.
    """
    rows = {str(row["name"]): dict(row) for row in catalogue["variables"]}
    known = list(catalogue["nccl"]["releases"])
    if not anew:
        alive = {name for name, row in rows.items() if row["use"] in OWN and "until" not in row}
        plugins = {name for name in alive if rows[name].get("plugin")}
        newer = [one for one in releases if version_key(one.version) > version_key(known[-1])]
        releases = [Release(known[-1], frozenset(alive - plugins), frozenset(plugins)), *newer]
    versions = [release.version for release in releases]
    for name, (since, until, is_plugin) in spans(releases).items():
        row = rows.setdefault(name, {"name": name, "use": "internal"})
        if row["use"] not in OWN:
            continue
        row.update({"since": _closer(row.get("since", ""), since, versions)} if anew or since else {})
        row.update({"until": _closer(row.get("until", ""), until, versions), "plugin": is_plugin})
    ordered = [ordered_row(rows[name]) for name in sorted(rows)]
    count = versions if anew else [*known, *versions[1:]]
    return {**catalogue, "nccl": {**catalogue["nccl"], "releases": count}, "variables": ordered}


def _closer(by_hand: str, found: str, versions: Sequence[str]) -> str:
    """Keep a version by hand that has no tag, from NVIDIA's documentation, where it fits between two tags."""
    if not by_hand or not found or by_hand in versions:
        return found
    before = [one for one in versions if version_key(one) < version_key(found)]
    after = version_key(before[-1]) if before else ()
    return by_hand if after < version_key(by_hand) <= version_key(found) else found


def take_rccl(catalogue: Mapping[str, Any], read: Mapping[str, str]) -> dict[str, Any]:
    """Return the catalogue with RCCL's names.

    Args:
        catalogue: as it is in variables.json.
        read: `{name: newest ROCm release that was seen to read it, or "documentation"}`.
    """
    rows = {str(row["name"]): dict(row) for row in catalogue["variables"] if row["use"] != "rccl"}
    for row in rows.values():
        row.pop("rccl", None)
    for name, release in read.items():
        row = rows.setdefault(name, {"name": name, "use": "rccl"})
        row["rccl"] = release
    return {**catalogue, "variables": [ordered_row(rows[name]) for name in sorted(rows)]}


def rccl_names(folder: Path | None, documentation: Path | None) -> dict[str, str]:
    """Return `{name: newest ROCm release whose RCCL reads it, or "documentation"}`."""
    read: dict[str, str] = {}
    if folder is not None:
        tags = {
            found.group(1): tag for tag in _git(folder, "tag").split() if (found := _ROCM_TAG.fullmatch(tag))
        }
        if not tags:
            raise CatalogueError(
                f"{folder}: there is no tag such as rocm-6.2.2; fetch them: git fetch --tags"
            )
        for version in sorted(tags, key=version_key):
            read.update(dict.fromkeys(_grep(folder, tags[version], _LIBRARY), version))
    if documentation is not None:
        names = _RCCL_DOCUMENTED.findall(documentation.read_text(encoding="utf-8"))
        read.update({name: "documentation" for name in names if name not in read})
    return read


def documented(text: str) -> dict[str, str]:
    """Return `{name: use}` of the headings of NVIDIA's page of environment variables, or of its contents."""
    found: dict[str, str] = {}
    use = "system"
    for line in text.splitlines():
        use = "debugging" if line.strip() == "Debugging" else use
        if name := _DOCUMENTED.match(line):
            found.setdefault(name.group(1), use)
    return found


def to_describe(catalogue: Mapping[str, Any], found: Mapping[str, str]) -> Iterator[str]:
    """Yield what documented names want by hand: their use, and what they do."""
    rows = {row["name"]: row for row in catalogue["variables"]}
    for name, use in found.items():
        row = rows.get(name, {})
        if row.get("use") != use and row.get("use") in (None, *OWN):
            yield f"{name}: documented as {use}, here {row.get('use', 'unknown')}"


def ordered_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its keys in the catalogue's order, without those that say nothing."""
    return {key: row[key] for key in (*KEYS, *KEYS_BEHIND) if row.get(key)}


def render(catalogue: Mapping[str, Any]) -> str:
    """Return the file's text: a line for each variable, so that a change of one changes one line."""
    head = {key: value for key, value in catalogue.items() if key != "variables"}
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    rows = ",\n".join(f"    {json.dumps(row)}" for row in catalogue["variables"])
    return "\n".join(["{", *lines, f'  "variables": [\n{rows}\n  ]', "}", ""])


def main(argv: Sequence[str] | None = None) -> int:
    """Take the inputs in, write the catalogue, and print what is new, gone or to be described; 0, or 2."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", type=Path, metavar="FOLDER", help="a clone of NCCL with its tags")
    parser.add_argument("--library", action="append", default=[], metavar="VERSION=FILE")
    parser.add_argument("--rccl", type=Path, metavar="FOLDER", help="a clone of RCCL with its tags")
    parser.add_argument("--rccl-docs", type=Path, metavar="FILE", help="RCCL's env-variables.rst")
    parser.add_argument("--docs", type=Path, metavar="FILE", help="NCCL's env.rst")
    parser.add_argument("--catalogue", type=Path, default=CATALOGUE, metavar="FILE")
    options = parser.parse_args(argv)
    try:
        before = json.loads(options.catalogue.read_text(encoding="utf-8"))
        after = _updated(before, options)
        notes = to_describe(
            after, documented(options.docs.read_text(encoding="utf-8")) if options.docs else {}
        )
    except (CatalogueError, OSError, ValueError) as error:
        print(f"nccl_catalogue: {error}", file=sys.stderr)
        return 2
    options.catalogue.write_text(render(after), encoding="utf-8")
    print("\n".join([*changes(before, after), *notes]) or "nothing changed")
    return 0


def _updated(catalogue: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    releases = source_releases(options.source) if options.source else []
    for one in options.library:
        version, separator, path = one.partition("=")
        if not separator or not re.fullmatch(r"[0-9]+(\.[0-9]+){2}", version):
            raise CatalogueError(f"--library {one}: write VERSION=FILE, such as 2.32.3=libnccl.so.2")
        # Where there is a tag, too, the source tells more: what plugins read.
        if version not in {release.version for release in releases}:
            releases.append(library_release(version, Path(path)))
    if releases:
        releases.sort(key=lambda release: version_key(release.version))
        catalogue = update(catalogue, releases, anew=bool(options.source))
    if options.rccl or options.rccl_docs:
        catalogue = take_rccl(catalogue, rccl_names(options.rccl, options.rccl_docs))
    return catalogue


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each row that is new or has another first or last release."""
    old = {row["name"]: row for row in before["variables"]}
    for row in after["variables"]:
        was = old.get(row["name"])
        keys = ("since", "until")
        if was is None or any(was.get(key) != row.get(key) for key in keys):
            spans_ = [f"{key} {row[key]}" for key in keys if row.get(key)]
            yield f"{'new' if was is None else 'changed'}: {row['name']} ({', '.join(spans_) or row['use']})"
    yield from (f"left out: {name}" for name in old.keys() - {row["name"] for row in after["variables"]})


if __name__ == "__main__":
    sys.exit(main())
