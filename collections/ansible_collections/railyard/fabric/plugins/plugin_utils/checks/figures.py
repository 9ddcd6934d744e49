# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue of figures, `figures.json`: what numbers are held against, each with its source.

Read on the controller alone. docs/figures.md is generated from it (tools/railyard/report/made_docs.py). What
no check reads yet stands there too, so that nobody takes a figure from a source that is known to be wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Group -> what its figures are.
GROUPS = {
    "bounds": "what a check holds a number against",
    "infiniband": "what an InfiniBand port carries after its line code",
    "told": "published or measured, and no floor: what was measured, or how, is not said, or sources differ",
    "none": "where no authority was found, so that no floor is invented",
    "inside": "accelerators within a node",
    "between": "network interfaces of a node",
    "collective": "collectives",
}
#: What `read_by` says of a figure that no check reads.
NOTHING = "nothing"
#: name -> name, group, what, class, value (a number, [dividend, divisor], or null where there is none), unit,
#: message_bytes (null where it is not said), source, read_by (a file of plugin_utils, or NOTHING) and note.
FIGURES: dict[str, Mapping[str, Any]] = {
    row["name"]: row
    for row in json.loads(Path(__file__).with_name("figures.json").read_text(encoding="utf-8"))
}


def value(name: str) -> float:
    """Return a figure in its unit.

    Raises:
        KeyError: the catalogue lacks it.
    """
    found = FIGURES[name]["value"]
    return float(found[0]) / found[1] if isinstance(found, list) else float(found)


def source(name: str) -> str:
    """Return who says so, as a verdict's basis tells it."""
    return str(FIGURES[name]["source"])
