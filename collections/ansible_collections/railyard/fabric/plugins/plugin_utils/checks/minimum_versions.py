# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The minimum versions without a known vulnerability, `minimum_versions.json`, and the comparison with them.

A version is reported, never judged: no verdict and no exit status depends on it. A version that the table
does not know is `not known`, never `fine`. docs/clustermax.md is generated from it (tools/railyard/report/
made_docs.py). Pure.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import fold_names, named

FINE: Final = "fine"
BELOW: Final = "below the minimum"
NOT_KNOWN: Final = "not known"

_TABLE: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
#: When NVIDIA's bulletins were last read into the table.
READ = datetime.date.fromisoformat(_TABLE["read"])
SOURCE: str = _TABLE["source"]
#: Number of a bulletin -> title, released, cves (those that concern the table's components).
BULLETINS: dict[str, Mapping[str, Any]] = _TABLE["bulletins"]
#: Name -> title, version (pattern of a version), packages (pattern of its packages, or null), branch_at
#: (which number of a version is its branch, or null) and minimums (branch, version, bulletin).
COMPONENTS: dict[str, Mapping[str, Any]] = _TABLE["components"]
#: Firmware is compared only for NICs with these drivers.
CONNECTX_DRIVERS = ("mlx4_core", "mlx5_core")
# The epoch before and the package revision after it are not part of the version: `1:580.95.05-1~x`.
_PACKAGED = re.compile(r"(?:[0-9]+:)?([0-9.]*[0-9])(?:[-~+ ].*)?\Z", re.S)
_CVES_NAMED = 1


class Comparison(NamedTuple):
    """A version compared with its minimum: `state` is `FINE`, `BELOW` or `NOT_KNOWN`, `text` a sentence."""

    component: str
    state: str
    text: str


def compare(component: str, version: str | None) -> Comparison:
    """Compare the version of a component, or of a package of it, with the minimum of its branch.

    Raises:
        KeyError: the table has no such component.
    """
    kind = COMPONENTS[component]
    title = kind["title"]
    understood = _parse_version(kind, version or "")
    if understood is None:
        return Comparison(component, NOT_KNOWN, f"{title}: {version or 'no version'} is not understood")
    version = understood
    at = (kind["branch_at"] or 1) - 1
    numbers = _split_numbers(version)[at:]
    branch = numbers[0] if kind["branch_at"] else None
    minimum = next((one for one in kind["minimums"] if one["branch"] == branch), None)
    if minimum is None:
        known = ", ".join(str(one["branch"]) for one in kind["minimums"])
        text = f"{title} {version}: no minimum is known for branch {branch}, only for {known}"
        return Comparison(component, NOT_KNOWN, text)
    least = ".".join([*version.split(".")[:at], minimum["version"]])
    of_branch = "" if branch is None else f" of branch {branch}"
    of_bulletin = f"the minimum{of_branch} ({_describe_bulletin(minimum['bulletin'])})"
    if numbers < _split_numbers(minimum["version"]):
        return Comparison(component, BELOW, f"{title} {version} is below {least}, {of_bulletin}")
    return Comparison(component, FINE, f"{title} {version} is not below {least}, {of_bulletin}")


def find_component(package: str) -> str | None:
    """Return the component that a package belongs to; None for one without a minimum."""
    return next(
        (
            name
            for name, kind in COMPONENTS.items()
            if kind["packages"] is not None and re.fullmatch(kind["packages"], package)
        ),
        None,
    )


def compare_packages(versions: Mapping[str, Any]) -> list[Comparison]:
    """Compare the packages that belong to a component with its minimum.

    Packages such as nvidia-container-toolkit have `nvidia` in their name, but another version scheme.
    """
    components = {package: find_component(package) for package in versions}
    return [
        compare(component, str(versions[package]))
        for package, component in components.items()
        if component and _parse_version(COMPONENTS[component], str(versions[package])) is not None
    ]


def compare_facts(row: Mapping[str, Any]) -> list[Comparison]:
    """Compare the versions in a node's facts row: the loaded driver, and firmware."""
    gpus, hcas = row.get("gpus"), row.get("hcas")
    driver = gpus.get("driver") if isinstance(gpus, Mapping) else None
    firmware = [
        str(hca["firmware"])
        for hca in (hcas if isinstance(hcas, list) else ())
        if isinstance(hca, Mapping) and hca.get("driver") in CONNECTX_DRIVERS and hca.get("firmware")
    ]
    found = [compare("nvidia_driver", str(driver))] if driver else []
    found += [compare("connectx_firmware", one) for one in firmware]
    return list(dict.fromkeys(found))


def fold(compared: Mapping[str, Iterable[Comparison]], *states: str) -> list[tuple[Comparison, str]]:
    """Return each comparison with these states once, with its folded node names.

    Args:
        compared: node -> its comparisons.
        states: the states, in the order of the result.
    """
    nodes: dict[Comparison, list[str]] = {}
    for node, mine in compared.items():
        for one in dict.fromkeys(mine):
            nodes.setdefault(one, []).append(node)
    return [
        (one, fold_names(names)) for state in states for one, names in nodes.items() if one.state == state
    ]


def describe_age(today: datetime.date) -> str:
    """Return the age of the table as text."""
    days = (today - READ).days
    if days < 0:
        return f"table of {READ}, which is in the future by this machine's clock ({today})"
    return f"table of {READ}, {days} day{'' if days == 1 else 's'} old"


def _parse_version(kind: Mapping[str, Any], version: str) -> str | None:
    """Return a version without epoch and revision; None if it does not match the component's pattern."""
    packaged = _PACKAGED.match(version)
    return packaged.group(1) if packaged and re.fullmatch(kind["version"], packaged.group(1)) else None


def _split_numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def _describe_bulletin(number: str) -> str:
    bulletin = BULLETINS[number]
    cves = named(bulletin["cves"], _CVES_NAMED)
    return f"NVIDIA bulletin {number} of {bulletin['released']}, {cves}"
