# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Show a network change for `--diff`: each file that differs, and the running network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def rows(findings: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return Ansible's diff rows.

    Args:
        findings: `files` (`path`, `before`, `text`, `wrong`) and `drift`, as `netplan_change.examine` and
            `revert.plan` return them.
    """
    diff = [
        {
            "before_header": entry["path"],
            "after_header": entry["path"],
            "before": entry["before"] or "",
            "after": entry["text"] or "",
        }
        for entry in findings["files"]
        if entry["wrong"]
    ]
    drift = findings["drift"]
    if drift:
        header = "running network"
        texts = {side: "".join(_line(row, side) for row in drift) for side in ("is", "planned")}
        diff.append(
            {
                "before_header": header,
                "after_header": header,
                "before": texts["is"],
                "after": texts["planned"],
            }
        )
    return diff


def _line(row: Any, side: str) -> str:
    """Format one side of a difference; a plain sentence (of a restore) is on the side that is undone."""
    if isinstance(row, str):
        return f"{row}\n" if side == "is" else ""
    return f"{row['rail']} ({row['netdev']}): {row['what']} {row[side]}\n"
