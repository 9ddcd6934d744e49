# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks dpkg what is there, and apt-get by a simulation what it would do. Changes nothing, takes no lock.

What the answers mean, and what of it is refused, is decided in `apt_plan`.
"""

from __future__ import annotations

import os
import time
import typing as t

from ..parsers.node import apt_get
from . import plan as apt_plan

DPKG_UPDATES = "/var/lib/dpkg/updates"
# When the lists were fetched last, as in ansible.builtin.apt: the first of these that exists.
LISTS_FETCHED = ("/var/lib/apt/periodic/update-success-stamp", "/var/lib/apt/lists")
_ENVIRONMENT = {"LC_ALL": "C", "LANGUAGE": "C", "DEBIAN_FRONTEND": "noninteractive"}
# Allowed in the simulation so that it shows them; what of it is refused is decided afterwards.
_SIMULATE = (
    "--simulate",
    "--quiet",
    "--allow-downgrades",
    "--allow-change-held-packages",
    "--ignore-hold",
    "-oAPT::Install-Recommends=no",
    "-oDebug::NoLocking=1",
)

#: Runs an argv; returns its exit status, standard output and standard error.
Run = t.Callable[[t.Sequence[str]], "tuple[int, str, str]"]


class AptError(Exception):
    """dpkg does not answer; the message says what to do."""


def runner(module: t.Any) -> Run:
    """Return what runs a program for a module, in the C locale; the module is an AnsibleModule."""

    def run(argv: t.Sequence[str]) -> tuple[int, str, str]:
        code, out, error = module.run_command(list(argv), environ_update=_ENVIRONMENT)
        return int(code), str(out), str(error)

    return run


def read_packages(run: Run) -> dict[str, apt_get.Package]:
    """Ask dpkg for all packages.

    Raises:
        AptError: dpkg-query failed.
    """
    native = run(["dpkg", "--print-architecture"])[1].strip()
    code, out, error = run(["dpkg-query", "--show", f"--showformat={apt_get.DPKG_QUERY_FORMAT}"])
    if code not in (0, 1):
        raise AptError(f"dpkg-query failed: {error.strip()}. Fix: look at /var/lib/dpkg/status on the node")
    return apt_get.parse_packages(out, native)


def refuse_now(wish: apt_plan.Wish, packages: t.Mapping[str, apt_get.Package]) -> list[str]:
    """Say why nothing may be begun on this node, whatever apt would do."""
    needed = apt_plan.need(wish, packages)
    return apt_plan.refuse_state(packages, is_interrupted()) + apt_plan.refuse_conflicts(
        wish, needed, packages
    )


def is_interrupted() -> bool:
    """Tell whether dpkg left updates that it did not bring into its list, which apt looks at as well."""
    return os.path.isdir(DPKG_UPDATES) and any(name.isdigit() for name in os.listdir(DPKG_UPDATES))


def lists_age_s() -> float | None:
    """Return how long ago apt's lists were fetched, in seconds; None when nothing tells.

    Below zero where the node's clock was set back since.
    """
    for path in LISTS_FETCHED:
        try:
            return time.time() - os.stat(path).st_mtime
        except OSError:
            continue
    return None


def are_young(age_s: float | None, valid_s: float) -> bool:
    """Tell whether lists of that age need not be fetched; of an age that cannot be, they must."""
    return age_s is not None and 0 <= age_s <= valid_s


def with_parts(run: Run, wish: apt_plan.Wish, specs: t.Sequence[str]) -> list[str]:
    """Add the versions of the parts that hang on a pinned package, since apt would take the newest of each.

    A part is what the request holds and a pinned package needs in exactly one version.
    """
    specs = list(specs)
    for spec in specs:  # grows while it is walked: a part may have parts
        if "=" not in spec:
            continue
        needed = apt_get.parse_exact_depends(run(["apt-cache", "show", spec])[1])
        named = [one.split("=", maxsplit=1)[0] for one in specs]
        specs += [
            f"{name}={version}" for name, version in needed.items() if name in wish.hold and name not in named
        ]
    return specs


def simulate(
    run: Run,
    wish: apt_plan.Wish,
    packages: t.Mapping[str, apt_get.Package],
    spare_bytes: int,
    options: t.Sequence[str] = (),
) -> tuple[dict[str, t.Any], list[str]]:
    """Ask apt-get what it would do.

    Args:
        run: Runs a program.
        wish: The requested packages.
        packages: What dpkg has.
        spare_bytes: What has to be left on the filesystem of `/usr`.
        options: Further ones of apt's.

    Returns:
        The plan as module `apt_plan` returns it, and why it is refused.
    """
    needed = apt_plan.need(wish, packages)
    away = [f"{name}-" for name in apt_plan.to_remove(wish, needed)]
    specs = with_parts(run, wish, needed.specs)
    code, out, error = run(["apt-get", *_SIMULATE, *options, "install", *specs, *away])
    plan: dict[str, t.Any] = {
        "specs": specs,
        "moves": [],
        "possible": code == 0,
        "moves_held": False,
        "before": {},
    }
    if code != 0:
        offered = apt_get.parse_madison(run(["apt-cache", "madison", *wish.names, *wish.pins])[1])
        return plan, apt_plan.explain_failure(wish, apt_get.parse_complaints(f"{out}\n{error}"), offered)
    moves = apt_get.parse_simulation(out)
    fetched = [f"{move.name}={move.after}" for move in moves if move.after is not None]
    sizes = apt_get.Sizes(0, 0)
    if fetched:
        sizes = apt_get.parse_sizes(run(["apt-cache", "show", *fetched])[1])
    rooms = apt_plan.rooms(sizes, _place(_archives_folder(run)), _place("/usr"), spare_bytes)
    plan.update(
        moves=[move._asdict() for move in moves],
        moves_held=apt_plan.moves_held(moves, packages),
        before={move.name: packages[move.name]._asdict() for move in moves if move.name in packages},
        **sizes._asdict(),
    )
    return plan, apt_plan.refuse_moves(wish, moves, packages) + (
        apt_plan.refuse_space(rooms) if fetched else []
    )


def _place(path: str) -> tuple[str, int, int]:
    """Return the path, its device and what is free there; of the nearest folder that exists."""
    while not os.path.isdir(path):
        path = os.path.dirname(path.rstrip("/")) or "/"
    state = os.statvfs(path)
    return path, os.stat(path).st_dev, state.f_bavail * state.f_frsize


def _archives_folder(run: Run) -> str:
    """Ask apt where it fetches packages to."""
    out = run(["apt-config", "shell", "FOLDER", "Dir::Cache::archives/d"])[1]
    return out.strip().partition("=")[2].strip("'\"") or "/var/cache/apt/archives"
