# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of a collective with its orders, in memory alone: an interpreter reads it from an open file."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from typing import Any

from .. import program
from . import job

_ENTRY = "collective.job"


def argv(python: str) -> list[str]:
    """Return the command line of a program in standard input; `-I` ignores the user's Python paths."""
    return [python, "-I", "/proc/self/fd/0"]


def opened(orders: Mapping[str, Any]) -> int:
    """Return a descriptor of the program with these parameters; no file is left that others could read."""
    buffer = io.BytesIO(program.build(_ENTRY, program.loaded))
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(job.ORDERS, json.dumps(orders))
    descriptor = os.memfd_create("railyard-collective", os.MFD_CLOEXEC)
    os.write(descriptor, buffer.getvalue())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def lines(text: str) -> list[dict[str, Any]]:
    """Return the results that a program wrote among other things; what is no whole line of it is left out."""
    found = []
    for line in text.splitlines():
        if line.startswith(job.MARK):
            try:
                said = json.loads(line[len(job.MARK) :])
            except (ValueError, RecursionError):
                continue
            if isinstance(said, dict):
                found.append(said)
    return found
