# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cause table: why a check did not pass, in a sentence, what most often makes it so, and what to do next.

Its rows are in `cause_table/`, by what tells of them. Verdicts take their `cause` and `next` from here, and
docs/troubleshooting.md is generated from it (tools/railyard/report/made_docs.py), so that what the report
says can be looked up word for word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ansible_collections.railyard.fabric.plugins.module_utils.records.failures import Error
from ansible_collections.railyard.fabric.plugins.plugin_utils import plain_text
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.cause_table import (
    bmcs,
    cabling,
    collectives,
    facts,
    gpus,
    node_tests,
    rows,
    runner,
    subnets,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.cause_table.cause import Cause

#: How much of a node's own words a verdict holds.
_MOST_CHARACTERS = 1000
#: What stands in a command until a place is known, and is the user's own: folders, inventory, addresses.
PLACEHOLDERS = (
    "NETDEV", "PCI", "DEVICE", "ADDRESS", "PEER", "NODE", "ANSIBLE_HOST", "BMC_ADDRESS", "INVENTORY", "RUN",
    "BASELINE_RUN", "SIZE",
)  # fmt: skip
_PLACEHOLDER = re.compile(rf"\b(?:{'|'.join(PLACEHOLDERS)})\b")

_TABLES = (facts, rows, cabling, bmcs, node_tests, runner, collectives, gpus, subnets)
CAUSES: dict[str, Cause] = {cause.name: cause for table in _TABLES for cause in table.TABLE}


def explain(
    name: str,
    detail: str = "",
    fix: str | None = None,
    likely: tuple[str, str] | None = None,
    known: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return a verdict's `cause_class`, `cause` and `next`: the likely cause, what to type, what to do.

    Args:
        name: an id of the table; an id that it lacks is the runner's defect and named as such.
        detail: what was seen; it may hold a node's own words, which become one line that has an end.
        fix: a more exact next step, where the row brought one.
        likely: what the run itself shows to be the likely cause, and the command that shows more of it.
        known: what the placeholders stand for.
    """
    detail, fix = (plain_text.clean_line(text or "")[:_MOST_CHARACTERS] for text in (detail, fix))
    cause = CAUSES.get(name)
    if cause is None:
        cause, detail = (
            CAUSES["row_garbled"],
            f"unknown error class {name[:_MOST_CHARACTERS]!r}" + (f", {detail}" if detail else ""),
        )
    text = cause.sentence + (f": {detail}" if detail else "")
    told, command = likely or (cause.likely, cause.command)
    advice = fix if fix and not likely else f"Likely {told}; see `{command}`. {fix or cause.next}"
    known = {name: plain_text.clean_line(value) for name, value in (known or {}).items()}
    advice = _PLACEHOLDER.sub(lambda word: known.get(word[0], word[0]), advice) if known else advice
    return {"cause_class": cause.name, "cause": text, "next": advice}


def explain_error(error: Error, *hosts: str) -> dict[str, str]:
    """Return the same for an `error`: of a row, that of one of `hosts`, whose first wrote the row."""
    host, message = error.get("host"), error["message"]
    if hosts and host not in hosts:
        host = hosts[0]
    return explain(error["class"], f"{host}: {message}" if host else message, error.get("fix") or None)
