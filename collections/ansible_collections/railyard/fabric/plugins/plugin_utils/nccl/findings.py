# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about a setting."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import catalogue
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.settings import Setting

#: Not what is written happens, or the fabric is not used; it costs, or will once; good to know; not known, so
#: that it is no pass.
ERROR, WARNING, NOTE, UNKNOWN = "error", "warning", "note", "unknown"
SEVERITIES = (ERROR, WARNING, UNKNOWN, NOTE)


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes:
        line: of the file, or None where a line is missing.
        variable: its name, empty of a line that is no setting.
        value: as written.
        severity: one of SEVERITIES.
        code: which rule, a word for programs.
        why: what is wrong, a sentence.
        fix: what to do, a sentence.
        since: the first release of NCCL that reads the variable; empty: older than 2.3.5, or none.
        until: the first that does not read it; empty: the newest does.
    """

    line: int | None
    variable: str
    value: str
    severity: str
    code: str
    why: str
    fix: str
    since: str = ""
    until: str = ""


def about(setting: Setting, severity: str, code: str, why: str, fix: str) -> Finding:
    """Make a finding of a setting."""
    row = catalogue.find(setting.name)
    since, until = (row.since, row.until) if row else ("", "")
    return Finding(setting.line, setting.name, setting.text, severity, code, why, fix, since, until)
