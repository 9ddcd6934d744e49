# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue of published figures, `figures.json`: the references that results are compared with.

Read on the controller only. docs/figures.md is generated from it (tools/railyard/report/made_docs.py).
Figures that no check reads are listed too, so that no one takes a figure from a source that is known to be
wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Group -> title.
GROUPS = {
    "bounds": "thresholds of checks",
    "infiniband": "data rate of an InfiniBand port after its line code",
    "told": "published or measured, but no floor: the method is not documented, or sources differ",
    "none": "no published reference was found, so there is no floor",
    "inside": "accelerators within a node",
    "between": "network interfaces of a node",
    "collective": "collectives",
}
#: `read_by` of a figure that no check reads.
NOTHING = "nothing"
#: name -> name, group, what, class, value (a number, [dividend, divisor], or null if there is none), unit,
#: message_bytes (null if not stated), source, read_by (a file of plugin_utils, or NOTHING) and note.
FIGURES: dict[str, Mapping[str, Any]] = {
    row["name"]: row
    for row in json.loads(Path(__file__).with_name("figures.json").read_text(encoding="utf-8"))
}


def read_value(name: str) -> float:
    """Return a figure in its unit.

    Raises:
        KeyError: the catalogue lacks it.
    """
    found = FIGURES[name]["value"]
    return float(found[0]) / found[1] if isinstance(found, list) else float(found)


def read_source(name: str) -> str:
    """Return the source of a figure, as a verdict's basis quotes it."""
    return str(FIGURES[name]["source"])
