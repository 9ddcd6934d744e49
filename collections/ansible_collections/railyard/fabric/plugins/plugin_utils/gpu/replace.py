# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find a driver that Railyard did not install: a refusal, or with confirmation a plan to replace it.

Pure: facts of `gpu_info` and the choice in; what is removed, moved, uninstalled and put aside out. Nothing is
installed over what somebody else put there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu.driver.work import Choice, Facts

_BRANCH = re.compile(r"(?:[0-9]+:)?([0-9]{3})\.")
# The packages whose version is the driver's. Others (nvidia-modprobe, nvidia-persistenced) may be of another
# branch.
_CORE_PACKAGE = re.compile(
    r"(?:nvidia-(?:open-)?kernel(?:-open)?-dkms|nvidia-dkms(?:-.+)?|nvidia-headless-.+|libcuda1|"
    r"libnvidia-compute(?:-.+)?)\Z"
)
# What belongs to a driver, by its name, where its version is a driver's too.
_OF_A_DRIVER = ("nvidia-", "libnvidia-", "cuda-drivers", "libcuda1", "xserver-xorg-video-nvidia")
UNINSTALLER = "/usr/bin/nvidia-uninstall"
_KINDS = {"ppa": "a PPA of drivers", "vendor": "NVIDIA's repository"}


def branch_of(version: str) -> int | None:
    """Return the driver branch of a package's or module's version: `580.95.05-1` is 580."""
    match = _BRANCH.match(version)
    return int(match.group(1)) if match else None


def _packages(facts: Facts) -> list[tuple[str, Mapping[str, Any]]]:
    return sorted((facts.get("packages") or {}).items())


def _sources(facts: Facts, source: str) -> list[Mapping[str, Any]]:
    """Return apt's sources whose packages would mix with those of the source."""
    return [one for one in facts.get("archives") or [] if not one["kind"] == source == "vendor"]


def _from_elsewhere(facts: Facts, source: str) -> dict[str, Mapping[str, Any]]:
    """Return the driver's packages that came from another archive than the source."""
    return {
        name: one
        for name, one in _packages(facts)
        if one.get("archive") not in (None, source)
        and name.startswith(_OF_A_DRIVER)
        and branch_of(str(one["version"])) is not None
    }


def _refuse_run_installer(facts: Facts, may_uninstall: bool) -> list[dict[str, str]]:
    files = (facts.get("run_installer") or {}).get("files") or []
    if not files or (may_uninstall and UNINSTALLER in files):
        return []
    there = f"a driver of NVIDIA's own installer is there ({', '.join(files)}), and packages would go over it"
    if may_uninstall:
        fix = (
            f"{UNINSTALLER} is not there to remove it: run that version's .run file with `--uninstall`, or "
            "remove by hand what /var/log/nvidia-installer.log lists"
        )
    else:
        fix = (
            "run `nvidia-uninstall` on the node while no GPU is in use, reboot, and run again; or "
            "nvidia_driver_uninstall_run: true, with which this role runs it"
        )
    return [{"code": "run_installer", "text": f"{there}. Fix: {fix}."}]


def _refuse_sources(facts: Facts, source: str, replace: bool) -> list[dict[str, str]]:
    found = []
    for one in _sources(facts, source):
        if replace and (one["ours"] or one.get("alone")):
            continue
        there = (
            f"{one['file']} names {_KINDS[one['kind']]}, whose packages would mix with those of the {source}"
        )
        if replace:
            fix = "it names other archives as well, so it is not put aside: take the entry out of it by hand"
        elif one["ours"]:
            fix = (
                "nvidia_driver_replace: true to replace its packages and withdraw it, or "
                "nvidia_driver_source: vendor"
            )
        else:
            other = "" if one["kind"] == "ppa" else ", or nvidia_driver_source: vendor"
            fix = (
                "nvidia_driver_replace: true to replace its packages and put the file aside, or do both by "
                f"hand{other}"
            )
        found.append({"code": "mixed_archives", "text": f"{there}. Fix: {fix}."})
    return found


def _refuse_packages(
    facts: Facts, choice: Choice, source: str, pins: Mapping[str, str], replace: bool
) -> list[dict[str, str]]:
    """Refuse to replace packages unasked, and to move one by its name alone, which moves nothing."""
    if choice["branch"] is None:
        return []
    other = {
        name: one
        for name, one in _packages(facts)
        if _CORE_PACKAGE.match(name) and branch_of(str(one["version"])) not in (None, choice["branch"])
    }
    foreign = _from_elsewhere(facts, source)
    if not replace:
        listed = ", ".join(
            f"{name} {one['version']}{' (held)' if one['held'] else ''}" for name, one in other.items()
        )
        if other:
            there = branch_of(str(next(iter(other.values()))["version"]))
            text = (
                f"a driver of another branch than {choice['branch']} is installed: {listed}. "
                f"Fix: nvidia_driver_branch: {there} to stay, or nvidia_driver_replace: true to move."
            )
            return [{"code": "other_branch", "text": text}]
        return []
    asked = choice["driver_packages"]
    unmoved = [name for name in {**other, **foreign} if name in asked and name not in pins]
    if unmoved:
        text = (
            f"{', '.join(sorted(unmoved))} is there at another version, and its name alone does not move it. "
            f"Fix: nvidia_driver_pins with its {choice['branch']} version, as `apt-cache madison` shows it."
        )
        return [{"code": "pin_needed", "text": text}]
    return []


def refusals(
    facts: Facts,
    choice: Choice,
    source: str,
    pins: Mapping[str, str],
    replace: bool,
    uninstall_run: bool = False,
) -> list[dict[str, str]]:
    """Return why the driver that is there must stay for now, `code` and `text` each.

    Args:
        facts: What `gpu_info` returned.
        choice: What `gpu_driver_choice.choose` returned.
        source: `distribution` or `vendor`.
        pins: Requested exact versions, by package.
        replace: Whether packages of another branch or archive may be replaced.
        uninstall_run: Whether NVIDIA's own uninstaller may be run.
    """
    moved = {**plan(facts, choice, source, replace, uninstall_run)["move"], **pins}
    return [
        *_refuse_run_installer(facts, uninstall_run),
        *_refuse_sources(facts, source, replace),
        *_refuse_packages(facts, choice, source, moved, replace),
    ]


def plan(
    facts: Facts, choice: Choice, source: str, replace: bool, uninstall_run: bool = False
) -> dict[str, Any]:
    """Return what takes the place of what.

    Args:
        facts: What `gpu_info` returned.
        choice: What was chosen.
        source: `distribution` or `vendor`.
        replace: Whether packages of another branch or archive may be replaced.
        uninstall_run: Whether NVIDIA's own uninstaller may be run.

    Returns:
        `remove`, packages; `move`, packages to the source's own version; `release`, those of both that are
        held; `aside`, files of apt's sources; `withdraw`, whether Railyard's own is one that goes; `sites`,
        its packages; `uninstall`, an argument list or none; `any`; and `says`, one sentence each.
    """
    asked = {*choice["driver_packages"], *choice["same_version_packages"], *choice["other_packages"]}
    foreign = _from_elsewhere(facts, source) if replace else {}
    move: dict[str, str] = {}
    remove = []
    for name, one in _packages(facts) if replace else []:
        here = branch_of(str(one["version"]))
        offered = str(one.get("offered") or "")
        # With the branch in its name (Ubuntu's libnvidia-compute-570) another name takes its place. Without
        # (Debian's nvidia-modprobe) it follows what depends on it.
        has_branch = here is not None and str(here) in name
        if name in foreign and (name in asked or not has_branch) and branch_of(offered) == choice["branch"]:
            move[name] = offered
        elif name not in asked and (
            name in foreign or (name.startswith(_OF_A_DRIVER) and has_branch and here != choice["branch"])
        ):
            remove.append(name)
    sources = _sources(facts, source) if replace else []
    uninstall: list[str] = []
    if uninstall_run and UNINSTALLER in ((facts.get("run_installer") or {}).get("files") or []):
        uninstall = [UNINSTALLER, "--silent"]
        # The loaded module stays until the requested reboot or restart; otherwise it would be unloaded.
        if facts["driver"]["loaded"] is not None:
            uninstall.append("--skip-module-unload")
    there = dict(_packages(facts))
    aside = [one["file"] for one in sources if one.get("alone") and not one["ours"]]
    withdrawn = [one["file"] for one in sources if one["ours"]]
    lists = (
        ("removed", [f"{name} {there[name]['version']}" for name in remove]),
        ("moved", [f"{name} {there[name]['version']} to {to}" for name, to in move.items()]),
        ("put aside", aside),
        ("withdrawn", withdrawn),
        ("run", [" ".join(uninstall)] if uninstall else []),
    )
    return {
        "remove": remove,
        "move": move,
        "release": [name for name in [*remove, *move] if there[name]["held"] and name not in asked],
        "aside": aside,
        "withdraw": bool(withdrawn),
        "sites": sorted({site for one in sources for site in one.get("sites") or [] if site}),
        "uninstall": uninstall,
        "any": bool(remove or move or aside or withdrawn or uninstall),
        "says": [f"{what}: {', '.join(each)}" for what, each in lists if each],
    }


def left(facts: Facts, source: str) -> list[str]:
    """Return the driver's packages that still are another archive's: none after a replacement."""
    return [f"{name} {one['version']}" for name, one in _from_elsewhere(facts, source).items()]
