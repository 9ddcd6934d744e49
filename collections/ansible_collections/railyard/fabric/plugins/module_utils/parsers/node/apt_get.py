# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""apt-get, apt-cache and dpkg-query, as they print in the C locale: text in, records out."""

from __future__ import annotations

import re
import typing as t

# The output of dpkg-query with DPKG_QUERY_FORMAT, one package per line.
DPKG_QUERY_FORMAT = r"${binary:Package}\t${Version}\t${Status}\n"

_KIBIBYTE_BYTES = 1024
# "Inst name [installed] (candidate origin [arch]) [...]", "Remv name [installed] [...]"; "Purg" as "Remv".
_STEP = re.compile(r"^(Inst|Remv|Purg) (\S+)(?: \[([^\]\s]*)\])?(?: \((\S+))?")
_EXACT = re.compile(r"([^\s:(]+)(?::\S+)? *\(= *([^\s)]+)\)\Z")
_UNMET = "The following packages have unmet dependencies:"


class Package(t.NamedTuple):
    """A package as dpkg has it.

    Attributes:
        version: Empty where only a selection is left.
        want: The selection: `install`, `hold`, `deinstall`, `purge`, `unknown`.
        state: `installed`, `config-files`, `half-configured`, `unpacked`, `not-installed`, ...
        is_broken: Whether dpkg reports that it must be reinstalled.
    """

    version: str
    want: str
    state: str
    is_broken: bool


class Move(t.NamedTuple):
    """A step of a transaction: installs (no `before`), removes (no `after`) or changes a version."""

    name: str
    before: str | None
    after: str | None


class Sizes(t.NamedTuple):
    """The download size, and the installed size."""

    download_bytes: int
    unpacked_bytes: int


def parse_packages(text: str, native: str) -> dict[str, Package]:
    """Read dpkg-query's list.

    Args:
        text: What it printed with DPKG_QUERY_FORMAT.
        native: The machine's architecture, which is left out of names, as in apt's output.
    """
    packages = {}
    for line in text.splitlines():
        fields = line.split("\t")
        status = fields[2].split() if len(fields) == 3 else []
        if len(status) != 3:
            continue
        name = fields[0][: -len(native) - 1] if fields[0].endswith(f":{native}") else fields[0]
        packages[name] = Package(fields[1], status[0], status[2], status[1] != "ok")
    return packages


def parse_simulation(text: str) -> list[Move]:
    """Read `apt-get --simulate` in order; a package that is unpacked and then configured counts once."""
    moves = []
    for line in text.splitlines():
        match = _STEP.match(line)
        if match is None:
            continue
        step, name, before, after = match.groups()
        moves.append(Move(name, before, after if step == "Inst" else None))
    return moves


def parse_complaints(text: str) -> list[str]:
    """Read why apt-get failed: its errors and dpkg's, and unmet dependencies."""
    reported, goes_on = [], False
    for line in text.splitlines():
        if line.startswith(_UNMET):
            goes_on = True
        elif goes_on and line.startswith(" "):
            reported.append(" ".join(line.split()))
        else:
            # dpkg's reason is on the indented line below its error.
            goes_on = line.startswith("dpkg: error")
            if line.startswith("E: "):
                reported.append(line[3:].strip())
            elif goes_on:
                reported.append(line.strip())
    return reported


def parse_sizes(text: str) -> Sizes:
    """Add up the sizes in the records of `apt-cache show`, each package and version once."""
    download_bytes = unpacked_bytes = 0
    seen = set()
    for record in re.split(r"\n\s*\n", text):
        fields = dict(
            re.findall(r"^(Package|Version|Architecture|Size|Installed-Size): *(\S+)", record, re.M)
        )
        key = (fields.get("Package"), fields.get("Version"), fields.get("Architecture"))
        if key[0] is None or key in seen:
            continue
        seen.add(key)
        download_bytes += int(fields.get("Size", 0))
        unpacked_bytes += int(fields.get("Installed-Size", 0)) * _KIBIBYTE_BYTES
    return Sizes(download_bytes, unpacked_bytes)


def parse_exact_depends(text: str) -> dict[str, str]:
    """Read from `apt-cache show` the dependencies on exact versions, by package."""
    fields = re.findall(r"^(?:Pre-)?Depends: *(.*(?:\n[ \t].*)*)", text, re.M)
    # An alternative ("a (= 1) | b") leaves apt the choice.
    words = [word.strip() for field in fields for word in field.split(",") if "|" not in word]
    matches = [_EXACT.match(word) for word in words]
    return {match.group(1): match.group(2) for match in matches if match}


def parse_madison(text: str) -> dict[str, list[str]]:
    """Read `apt-cache madison`: the available versions of each package, the newest first."""
    offered: dict[str, list[str]] = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if (
            len(fields) == 3
            and fields[2].endswith("Packages")
            and fields[1] not in offered.get(fields[0], [])
        ):
            offered.setdefault(fields[0], []).append(fields[1])
    return offered
