# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan what has to be done for the requested packages, and what of it needs an opt-in.

Pure: what dpkg has and what `apt-get --simulate` answers comes in, sentences and lists go out. Each refusal
ends with what to do about it.
"""

from __future__ import annotations

import typing as t

from ..parsers.node.apt_get import Move, Package, Sizes

# With these dpkg still counts a package as there; the next trigger run ends them by itself.
_THERE = ("installed", "triggers-awaited", "triggers-pending")
_GONE = ("not-installed", "config-files")
_MEBIBYTE_BYTES = 1024 * 1024
_TAIL_CHARACTERS = 600


# Messages of a failed transaction and their fixes; the first match is reported.
_CURES = (
    ("No space left on device", "free some space (`df -h` on the node tells where), then run again"),
    ("Hash Sum mismatch", "the mirror is being changed, or a proxy keeps old files: try again later"),
    (
        # apt's own, before it unpacks anything; "Failed to fetch" may be a package's script.
        "Unable to fetch some archives",
        "the mirror does not answer, or dropped the file: `apt-get update` on the node tells which",
    ),
    (
        "post-installation script",
        "a package's own script failed, for a driver mostly its build: see the lines above its name, and "
        "/var/lib/dkms/*/*/build/make.log",
    ),
    (
        "trying to overwrite",
        "another package owns that file: name it in the conflicts (apt_packages_conflicts)",
    ),
)
_OTHER_CURE = "run the same apt-get on the node, which says more"


class Wish(t.NamedTuple):
    """The requested packages.

    Attributes:
        names: Packages that are to be there, in any version.
        pins: Packages to install in exactly this version.
        hold: Packages that others must not upgrade.
        unhold: Packages that may be upgraded again.
        conflicts: Packages that must not be there.
        remove_allow: Packages that may be removed for it.
    """

    names: list[str]
    pins: dict[str, str]
    hold: list[str]
    unhold: list[str]
    conflicts: list[str]
    remove_allow: list[str]


class Need(t.NamedTuple):
    """What is to be done: `specs` as apt-get takes them, `conflicts` what is there and must not be.

    `absent` is what is to be held and is not there: it may come as a dependency.
    """

    missing: list[str]
    other_version: list[Move]
    specs: list[str]
    hold: list[str]
    unhold: list[str]
    absent: list[str]
    conflicts: list[str]


class Room(t.NamedTuple):
    """A filesystem that packages are fetched to or unpacked on."""

    paths: list[str]
    needed_bytes: int
    free_bytes: int


class Undo(t.NamedTuple):
    """How to come back from a transaction that failed: names to purge, remove and hold, specs to install."""

    purge: list[str]
    remove: list[str]
    restore: list[str]
    hold: list[str]


def installed(packages: t.Mapping[str, Package]) -> dict[str, str]:
    """Return the version of each package that is there."""
    return {name: package.version for name, package in packages.items() if package.state in _THERE}


def unfinished(packages: t.Mapping[str, Package]) -> list[str]:
    """Return the packages that dpkg did not finish, with their state."""
    return [
        f"{name} ({'reinst-required, ' if package.is_broken else ''}{package.state})"
        for name, package in sorted(packages.items())
        if package.is_broken or package.state not in _THERE + _GONE
    ]


def need(wish: Wish, packages: t.Mapping[str, Package]) -> Need:
    """Compare the request with dpkg's packages."""
    there = installed(packages)
    names = list(dict.fromkeys([*wish.names, *wish.pins]))
    missing = [name for name in names if name not in there]
    other = [
        Move(name, there[name], version)
        for name, version in sorted(wish.pins.items())
        if name in there and there[name] != version
    ]
    moved = missing + [move.name for move in other]
    return Need(
        missing=missing,
        other_version=other,
        specs=[f"{name}={wish.pins[name]}" if name in wish.pins else name for name in moved],
        hold=[name for name in wish.hold if name not in packages or packages[name].want != "hold"],
        unhold=[name for name in wish.unhold if name in packages and packages[name].want == "hold"],
        absent=[name for name in wish.hold if name not in there],
        conflicts=[name for name in wish.conflicts if name in there],
    )


def to_remove(wish: Wish, needed: Need) -> list[str]:
    """Name what has to go and may."""
    return [name for name in needed.conflicts if name in wish.remove_allow]


def wrong_wish(wish: Wish) -> list[str]:
    """Say what in the request contradicts itself, or is no exact version."""
    problems = [
        f"the version {version!r} of {name} is a pattern. Fix: name one version, as "
        f"`apt-cache madison {name}` shows it"
        for name, version in sorted(wish.pins.items())
        if not version or set(version) & set("*?[ ")
    ]
    for what, other in (
        ("is held and released", wish.unhold),
        ("must be there and must not", wish.conflicts),
    ):
        asked = wish.hold if other is wish.unhold else [*wish.names, *wish.pins]
        problems += [f"{name} {what}. Fix: ask for one of the two" for name in asked if name in other]
    return problems


def refuse_state(packages: t.Mapping[str, Package], is_interrupted: bool) -> list[str]:
    """Say why nothing may be begun on this dpkg."""
    problems = []
    if is_interrupted:
        problems.append(
            "dpkg was interrupted (/var/lib/dpkg/updates is not empty). Fix: run `dpkg --configure -a` on "
            "the node, look at what it says, then run again"
        )
    left = unfinished(packages)
    if left:
        problems.append(
            f"dpkg has not finished with {', '.join(left)}. Fix: run `dpkg --configure -a`, then "
            "`apt-get --fix-broken install` on the node, look at what they say, then run again"
        )
    return problems


def refuse_conflicts(wish: Wish, needed: Need, packages: t.Mapping[str, Package]) -> list[str]:
    """Say which packages must not be there and may not be removed."""
    kept = [f"{name} {packages[name].version}" for name in needed.conflicts if name not in wish.remove_allow]
    if not kept:
        return []
    return [
        f"in conflict with the requested packages: {', '.join(kept)}. Fix: allow their removal by name "
        "(apt_packages_remove_allow), or do not request both"
    ]


def refuse_moves(wish: Wish, moves: t.Sequence[Move], packages: t.Mapping[str, Package]) -> list[str]:
    """Return what apt would remove, or change although it is held, without an opt-in.

    A request that pins versions may move what it holds itself: the parts of a driver hang on its metapackage.
    What may be removed by name may be so from its hold, and what is released may be moved.
    """
    problems = []
    removed = [
        f"{move.name} {move.before}"
        for move in moves
        if move.after is None and move.name not in wish.remove_allow
    ]
    if removed:
        problems.append(
            f"apt would remove {', '.join(removed)}. Fix: allow it by name (apt_packages_remove_allow), or "
            "ask for versions that go with them"
        )
    held = [
        f"{move.name} (held at {move.before}, would become {move.after or 'removed'})"
        for move in moves
        if move.name in packages
        and packages[move.name].want == "hold"
        and not (wish.pins and move.name in wish.hold)
        and not (move.after is None and move.name in wish.remove_allow)
        and move.name not in wish.unhold
    ]
    if held:
        problems.append(
            f"on hold, and not by this request: {', '.join(held)}. Fix: release it on the node "
            "(`apt-mark unhold NAME`), or hold it by the request that pins the version"
        )
    return problems


def moves_held(moves: t.Iterable[Move], packages: t.Mapping[str, Package]) -> bool:
    """Tell whether a held package moves."""
    return any(move.name in packages and packages[move.name].want == "hold" for move in moves)


def rooms(
    sizes: Sizes, archives: tuple[str, int, int], unpacked: tuple[str, int, int], spare_bytes: int
) -> list[Room]:
    """Calculate the space that each file system needs; one for both needs the sum.

    Args:
        sizes: What is to be fetched and unpacked.
        archives: Where apt fetches to: path, number of the device, free bytes.
        unpacked: Where packages are unpacked: the same three.
        spare_bytes: What has to be left afterwards, for initramfs, module builds and dpkg's own lists.
    """
    if archives[1] == unpacked[1]:
        needed = sizes.download_bytes + sizes.unpacked_bytes + spare_bytes
        return [Room([archives[0], unpacked[0]], needed, unpacked[2])]
    return [
        Room([archives[0]], sizes.download_bytes, archives[2]),
        Room([unpacked[0]], sizes.unpacked_bytes + spare_bytes, unpacked[2]),
    ]


def refuse_space(all_rooms: t.Iterable[Room]) -> list[str]:
    """Say which filesystem is too small."""
    return [
        f"{' and '.join(room.paths)}: {_mebibytes(room.needed_bytes)} needed, {_mebibytes(room.free_bytes)} "
        "free. Fix: free some space (`apt-get clean` removes packages fetched before) or enlarge the "
        "filesystem"
        for room in all_rooms
        if room.needed_bytes > room.free_bytes
    ]


def explain_failure(
    wish: Wish, complaints: t.Sequence[str], offered: t.Mapping[str, t.Sequence[str]]
) -> list[str]:
    """Say why apt-get cannot plan it: names a version or package that no source has, and the available ones.

    Args:
        wish: The requested packages.
        complaints: apt-get's messages.
        offered: The versions that the sources have, by package.
    """
    problems = []
    for name in dict.fromkeys([*wish.names, *wish.pins]):
        versions = offered.get(name, [])
        if name in wish.pins and versions and wish.pins[name] not in versions:
            problems.append(
                f"no source has {name} in version {wish.pins[name]}; there are: {', '.join(versions)}. "
                "Fix: pin one of these, or add the repository that has it"
            )
        elif name in wish.pins and not versions:
            problems.append(f"no source has {name}. Fix: add the repository that has it, or correct the name")
    if not problems:
        said = "; ".join(complaints) or "it gives no reason"
        problems.append(
            f"apt cannot plan it: {said}. Fix: run `apt-get --simulate install` on the node with them"
        )
    return problems


def explain_failed_transaction(text: str, complaints: t.Sequence[str]) -> str:
    """Say what a transaction that was begun failed of, with what to do about it."""
    fix = next((cure for sign, cure in _CURES if sign in text), _OTHER_CURE)
    said = "; ".join(dict.fromkeys(complaints)) or " ".join(text.split())[-_TAIL_CHARACTERS:]
    return f"{said}. Fix: {fix}"


def undo(moves: t.Sequence[Move], before: t.Mapping[str, Package], now: t.Mapping[str, Package]) -> Undo:
    """Plan the restore of the packages before a transaction.

    Args:
        moves: The transaction as it was planned.
        before: What dpkg had then, for the packages of the plan.
        now: What dpkg has after the failure.
    """
    purge, remove, restore = [], [], []
    there = installed(now)
    for move in moves:
        if move.before is None:
            state = now[move.name].state if move.name in now else "not-installed"
            was_configured = move.name in before and before[move.name].state == "config-files"
            if state != "not-installed" and not was_configured:
                purge.append(move.name)
            elif state not in _GONE:
                remove.append(move.name)
        elif there.get(move.name) != move.before:
            restore.append(f"{move.name}={move.before}")
    hold = [
        name
        for name, package in sorted(before.items())
        if package.want == "hold" and (name not in now or now[name].want != "hold")
    ]
    return Undo(purge, remove, restore, hold)


def _mebibytes(value_bytes: int) -> str:
    """Return it in MiB, rounded up, so that what is too little never looks enough."""
    return f"{-(-value_bytes // _MEBIBYTE_BYTES)} MiB"
