# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the restore of a node's originals: packages to remove, files to restore, and what stays and why.

Pure except for reading files. Only apt knows what depends on a package, so it simulates, and a package that
something else needs stays.
"""

from __future__ import annotations

import glob
import os
import re
import typing as t

from .. import node_files
from . import baseline

#: Files that are Railyard's by their name alone, whether or not a role recorded them.
OWN_FILES = (
    "etc/apt/keyrings/railyard-*",
    "etc/apt/preferences.d/railyard-*",
    "etc/apt/sources.list.d/railyard-*",
    "etc/modprobe.d/railyard-*",
    "etc/modules-load.d/railyard-nvidia.conf",
    "etc/systemd/system/nvidia-persistenced.service.d/60-railyard-persistence.conf",
)
#: What a role takes back itself, by the file that tells that there is something.
BY_ROLES = (
    (
        "var/lib/railyard/node_tuning/originals.json",
        "node_tuning: the recorded settings of the kernel, its files",
    ),
    ("var/lib/railyard/soft_roce.json", "rdma_stack: the Soft-RoCE devices that it made"),
    ("var/lib/railyard/opensm_installed", "rdma_stack: opensm, which was not there before"),
    ("etc/modules-load.d/railyard-rdma.conf", "rdma_stack: the list of modules to load"),
    (
        "etc/systemd/system/railyard-roce-qos@.service",
        "roce_qos: its unit and rules (ports: at the next boot)",
    ),
)

#: Put aside while another archive's driver was replaced; what was replaced does not come back by itself.
_ASIDE = "etc/apt/sources.list.d/*.railyard.disabled"

_REMOVED = re.compile(r"(?m)^(?:Remv|Purg) (\S+?)(?::\S+)? \[")

#: Asks apt what goes when these go; with True also what was installed only for them.
Simulate = t.Callable[[t.Sequence[str], bool], list[str]]


class Packages(t.NamedTuple):
    """What becomes of packages.

    Attributes:
        remove: To be purged, in one transaction.
        keep: `{"name", "why"}` of what came with Railyard and stays.
        unhold: Were not held before, and are.
        moved: `{"name", "was", "is"}` of what was there in another version; it stays as it is.
        gone: `{"name", "was"}` of what was there and has been replaced; it does not come back by itself.
    """

    remove: list[str]
    keep: list[dict[str, str]]
    unhold: list[str]
    moved: list[dict[str, str]]
    gone: list[dict[str, str]]


def parse_simulation(text: str) -> list[str]:
    """Return the packages that `apt-get --simulate purge` would remove, without architecture."""
    return sorted(set(_REMOVED.findall(text)))


def plan_packages(
    records: t.Mapping[str, t.Mapping[str, t.Any]],
    installed: t.Mapping[str, t.Mapping[str, t.Any]],
    automatic: t.Container[str],
    simulate: Simulate,
) -> Packages:
    """Say what becomes of the packages of all roles.

    Args:
        records: Role to record.
        installed: From `originals.parse_packages`, as it is now.
        automatic: The packages that apt installed only since others need them.
        simulate: See `Simulate`.
    """
    was: dict[str, t.Any] = {}
    before: set[str] | None = None
    # What a role moved or removed, and had brought itself before, was never the site's.
    sites: set[str] = set()
    for record in records.values():
        names = record.get("installed_before")
        for name, state in record.get("packages", {}).items():
            # Of two roles, the one that saw it missing came first.
            was[name] = None if name in was and was[name] is None else state
            if state is not None and (names is None or name in names):
                sites.add(name)
        if names is not None:
            before = set(names) if before is None else before & set(names)
    known = before or set()
    ours = sorted(name for name, state in was.items() if state is None and name in installed)
    removable, keep = _without_needed(ours, known, automatic, simulate)
    remove = list(removable)
    if removable:
        along = [
            name
            for name in simulate(removable, True)
            if name not in removable and name not in known and name in automatic
        ]
        # What came along must take nothing else with it.
        if set(simulate(sorted({*removable, *along}), False)) <= {*removable, *along}:
            remove = sorted({*removable, *along})
    left = [name for name in was if was[name] is not None and name in sites and name not in remove]
    stays = [name for name in left if name in installed]
    return Packages(
        remove,
        keep,
        sorted(name for name in stays if installed[name]["hold"] and not was[name].get("hold")),
        [
            {"name": name, "was": was[name]["version"], "is": installed[name]["version"]}
            for name in sorted(stays)
            if installed[name]["version"] != was[name].get("version")
        ],
        [{"name": name, "was": was[name]["version"]} for name in sorted(left) if name not in installed],
    )


def _without_needed(
    ours: t.Sequence[str], known: t.Container[str], automatic: t.Container[str], simulate: Simulate
) -> tuple[list[str], list[dict[str, str]]]:
    """Take out what a package needs that was there before, or that somebody installed since."""
    removable, keep = list(ours), []
    while removable:
        gone = simulate(removable, False)
        others = {name for name in gone if name not in removable and (name in known or name not in automatic)}
        if not others:
            break
        needed = {}
        for name in removable:
            by = sorted(others.intersection(simulate([name], False)))
            if by:
                needed[name] = by
        if not needed:  # only together do they take it along
            needed = {name: sorted(others) for name in removable}
        keep += [{"name": name, "why": f"needed by {', '.join(by)}"} for name, by in needed.items()]
        removable = [name for name in removable if name not in needed]
    return removable, keep


def plan_files(root: str, records: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Say what becomes of the files of all roles.

    Returns:
        `remove_files`, `restore_files` (`{"path", "backup", "mode", "uid", "gid"}` or `{"path", "link"}`),
        `keep_files` (`{"path", "why"}`), and `remove_folders`, the innermost first, to be removed when empty.
    """
    plan: dict[str, t.Any] = {"remove_files": [], "restore_files": [], "keep_files": [], "remove_folders": []}
    for role, record in sorted(records.items()):
        for path, was in sorted(record.get("files", {}).items()):
            _plan_file(root, role, path, was, plan)
        plan["remove_folders"] += [
            folder
            for folder in record.get("folders", {})
            if os.path.isdir(os.path.join(root, folder.lstrip("/")))
        ]
    aside = sorted(glob.glob(os.path.join(root, _ASIDE)))
    plan["keep_files"] += [
        {
            "path": "/" + os.path.relpath(path, root),
            "why": "put aside when its driver was replaced; give it its old name to use that archive again",
        }
        for path in aside
    ]
    named = [path for record in records.values() for path in record.get("files", {})]
    for pattern in OWN_FILES:
        found = ["/" + os.path.relpath(path, root) for path in glob.glob(os.path.join(root, pattern))]
        plan["remove_files"] += sorted(path for path in found if path not in named)
    plan["remove_folders"] = sorted(set(plan["remove_folders"]), key=lambda path: (-path.count("/"), path))
    return plan


def _plan_file(
    root: str, role: str, path: str, was: t.Mapping[str, t.Any] | None, plan: dict[str, t.Any]
) -> None:
    place = os.path.join(root, path.lstrip("/"))
    if baseline.look_at_file(root, path) == was and not baseline.is_ours(root, path):
        return
    if os.path.lexists(place) and not baseline.is_ours(root, path):
        plan["keep_files"].append({"path": path, "why": "somebody else has written it since"})
    elif was is None:
        plan["remove_files"].append(path)
    elif "link" in was:
        plan["restore_files"].append({"path": path, "link": was["link"]})
    else:
        backup = baseline.backup_path(role, path)
        if node_files.sha256_of(os.path.join(root, backup.lstrip("/"))) != was["sha256"]:
            plan["keep_files"].append({"path": path, "why": f"its copy {backup} is gone or damaged"})
            return
        plan["restore_files"].append(
            {"path": path, "backup": backup, **{key: was[key] for key in ("mode", "uid", "gid")}}
        )


def recorded_units(records: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, dict[str, bool]]:
    """Return how units were; without those whose package a role brought, since they go with it."""
    units = {}
    for record in records.values():
        packages = record.get("packages", {})
        for unit, was in record.get("units", {}).items():
            package = was.get("package")
            if package not in packages or packages[package] is not None:
                units[unit] = {
                    "enabled": was.get("enabled") == "enabled",
                    "active": was.get("active") == "active",
                }
    return units


def plan_units(
    was: t.Mapping[str, t.Mapping[str, bool]], now: t.Mapping[str, t.Mapping[str, bool]]
) -> list[dict[str, t.Any]]:
    """Say which units are to be started or enabled again; one that is gone is left out."""
    return [
        {"unit": unit, **state} for unit, state in sorted(was.items()) if unit in now and now[unit] != state
    ]


def plan_users(
    root: str, records: t.Mapping[str, t.Mapping[str, t.Any]], stays: t.Iterable[str]
) -> list[str]:
    """Return the system users that packages of a role made and left behind, as Debian's do.

    A record's section `users` has for each `there` (whether it was there before) and `home`: while a package
    stays whose name begins with the user's, or a file in its home, so does the user.

    Args:
        root: Where the node's files are.
        records: Role to record.
        stays: The packages that are installed and stay.
    """
    kept = list(stays)
    lines = (node_files.read_text(os.path.join(root, "etc/passwd")) or "").splitlines()
    there = {line.partition(":")[0] for line in lines}
    users: dict[str, dict[str, t.Any]] = {}
    for record in records.values():
        for user, was in record.get("users", {}).items():
            # Of two roles, the one that saw it missing came first.
            users[user] = {**was, "there": was.get("there") and users.get(user, was).get("there")}
    return sorted(
        user
        for user, was in users.items()
        if not was["there"]
        and user in there
        and not any(name.startswith(user) for name in kept)
        and not _has_files(os.path.join(root, str(was.get("home", "")).lstrip("/")), root)
    )


def _has_files(folder: str, root: str) -> bool:
    if os.path.normpath(folder) == os.path.normpath(root):
        return False  # it has no home
    return any(names for _folder, _folders, names in os.walk(folder))


def by_roles(root: str) -> list[str]:
    """Say what roles take back themselves."""
    return [says for path, says in BY_ROLES if os.path.exists(os.path.join(root, path))]


def is_empty(plan: t.Mapping[str, t.Any]) -> bool:
    """Tell whether a plan changes nothing on the node."""
    changes = (
        "remove_packages", "unhold", "remove_files", "restore_files", "units", "remove_users", "by_roles",
    )  # fmt: skip
    return not any(plan.get(key) for key in changes)
