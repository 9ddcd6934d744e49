# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest (ib_write_bw and others): the text is the primary source, its JSON the second."""

from __future__ import annotations

import re
from typing import Any

from .. import common
from ..common import error
from . import json_form, messages, run, text_form

_PART_TITLE = re.compile(r"^\s*(?:Local|Remote) results:\s*$")


def parse(text: str) -> dict[str, Any]:
    """Parse the output of a perftest program.

    Args:
        text: What it printed (standard error included or not), or the file that `--out_json` wrote.

    Returns:
        The common object; one output per side and run, bandwidths in Gbit/s, latencies in microseconds.

    Raises:
        NotThisTool: The text holds neither a table, nor JSON, nor a message of perftest.
    """
    lines = common.split_lines(text)
    problem, warnings, ours = messages.read(lines)
    runs, unread = text_form.read(lines)
    if json_form.is_json(text):
        if runs:
            warnings.append(common.not_read("JSON"))
        else:
            runs, unread = json_form.read(text)
    waiting = "Waiting for client to connect" in text
    if not runs and not ours and not waiting:
        raise common.refusal("no table, JSON or message of perftest", lines)
    if not runs and problem is None:
        problem = error("truncated", "the server was still waiting for its client")
    problem = problem or unread
    complete = 0
    parts = any(_PART_TITLE.match(line) for line in lines)
    for output, closed in runs:
        wrong, silent = run.problem(output, closed)
        problem = problem or wrong
        if silent:
            warnings.append(silent)
        if parts:
            warnings.append("with --report-both the result is the sum of both directions")
        complete += wrong is None and silent is None
    return common.result("perftest", [output for output, _end in runs], problem, warnings, complete > 0)
