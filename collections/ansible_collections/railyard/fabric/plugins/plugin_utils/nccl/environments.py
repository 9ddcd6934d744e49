# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check what a program sees in each combination of a script's branches, and combine what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.findings import (
    NOTE,
    SEVERITIES,
    UNKNOWN,
    Finding,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.settings import Environment, Setting

# What they report is true of a name wherever it is set, whatever its value is.
_OF_NAMES = ("unknown", "obsolete", "renamed", "left_over", "too_new", "deprecated", "comma")
FIX = "lint what the program really gets: srun -N1 env | railyard lint-nccl -"


def check(
    environment: Environment, lint: Callable[[Mapping[str, Setting]], list[Finding]]
) -> Iterable[Finding]:
    """Return what is found in all branches as it is, and what is found in some of them as unknown."""
    variants = environment.variants()
    if variants is None:
        line = min(one.setting.line for found in environment.choices.values() for one in found if one.setting)
        why = "too many branches decide what is set here"
        yield Finding(line, "", "", UNKNOWN, "branches", why, FIX)
        return
    found = [lint(variant) for variant in variants]
    often = Counter(key for findings in found for key in {(one.variable, one.code) for one in findings})
    for findings in found:
        for one in findings:
            certain = often[one.variable, one.code] == len(variants)
            if certain or one.code in _OF_NAMES or one.severity in (NOTE, UNKNOWN):
                yield one
            else:
                why = f"in some branches of the script only: {one.why}"
                yield replace(one, severity=UNKNOWN, why=why)


def distinct(findings: Sequence[Finding]) -> list[Finding]:
    """Return each finding once: the most severe of those about one line, variable and rule."""
    best: dict[tuple[int | None, str, str], Finding] = {}
    others: dict[Finding, None] = {}
    for one in findings:
        key = (one.line, one.variable, one.code)
        kept = best.setdefault(key, one)
        if SEVERITIES.index(one.severity) < SEVERITIES.index(kept.severity):
            best[key] = one
    for one in findings:
        if one.severity == best[one.line, one.variable, one.code].severity:
            others.setdefault(one, None)
    return list(others)
