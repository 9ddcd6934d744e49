# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cause table: why a check did not pass, the most likely reason, and what to do next.

Its rows are in `cause_table/`, grouped by the source of the evidence. Verdicts take their `cause` and `next`
from here. docs/troubleshooting.md is generated from it (tools/railyard/report/made_docs.py), so that users
can search the docs for the exact text of a report.
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

#: Limit for text that comes from a node.
_MOST_CHARACTERS = 1000
#: Placeholders in commands, replaced as soon as the value is known.
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
    """Return a verdict's `cause_class`, `cause` and `next`: the likely cause, a command, what to do.

    Args:
        name: an id of the table; an unknown id is reported as a defect of the runner.
        detail: what was seen. Text from a node becomes one line of limited length.
        fix: a more exact next step, if the row has one.
        likely: the likely cause by this run's own evidence, and the command that shows it.
        known: placeholder -> value.
    """
    detail, fix = (plain_text.clean_line(text or "")[:_MOST_CHARACTERS] for text in (detail, fix))
    cause = CAUSES.get(name)
    if cause is None:
        cause, detail = (
            CAUSES["row_garbled"],
            f"unknown error class {name[:_MOST_CHARACTERS]!r}" + (f", {detail}" if detail else ""),
        )
    text = cause.sentence + (f": {detail}" if detail else "")
    reason, command = likely or (cause.likely, cause.command)
    advice = fix if fix and not likely else f"Likely {reason}; see `{command}`. {fix or cause.next}"
    known = {name: plain_text.clean_line(value) for name, value in (known or {}).items()}
    advice = _PLACEHOLDER.sub(lambda word: known.get(word[0], word[0]), advice) if known else advice
    return {"cause_class": cause.name, "cause": text, "next": advice}


def explain_error(error: Error, *hosts: str) -> dict[str, str]:
    """Explain an error record.

    Args:
        error: the record.
        hosts: the hosts that it may name; the first of them wrote the row.
    """
    host, message = error.get("host"), error["message"]
    if hosts and host not in hosts:
        host = hosts[0]
    return explain(error["class"], f"{host}: {message}" if host else message, error.get("fix") or None)
