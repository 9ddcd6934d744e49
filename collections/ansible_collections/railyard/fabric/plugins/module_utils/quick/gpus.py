# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check a node's GPUs by the rules of the verdicts; XIDs since the last check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..facts import gpus, kernel_log
from ..facts.sysfs import Reader
from ..records.facts import Gpus
from ..rules import gpu, gpu_rows
from ..rules.gpu_rows import Node
from ..rules.ruling import FAIL, UNMEASURED
from .found import Found

Declared = Mapping[str, Any]


def look(
    node: str,
    expected: Declared | None,
    reader: Reader,
    ask: gpus.Ask,
    after: int,
    found: Found,
    records: list[kernel_log.Record] | None = None,
) -> int | None:
    """Check the GPUs.

    Args:
        node: the node's name.
        expected: their declaration (`expected_gpus`), or None.
        reader: where sysfs, procfs and the kernel's log are.
        ask: runs nvidia-smi; raises ToolError.
        after: the number of the first new record of the kernel's log.
        found: takes the findings.
        records: takes the new records of the log about GPUs.

    Returns:
        The number of the log's next record; None where it was not read.
    """
    # Values without thresholds are not queried: without persistence mode each query takes time.
    seen = gpus.read(reader, ask, after=after, parts=("rows", "nvlink"), records=records)
    log = seen["xids"]
    if not seen["pci"] and not (expected and expected["count"]):
        found.good += ["no GPU, as expected"] if expected is not None else []
        found.good_items += [_item(check) for check in gpu.CHECKS]
        return None if log is None else int(log["next"])
    found.gpus["nvlinks"] = _active_links(seen)
    why = seen["errors"].get("rows") or {"message": "NVIDIA's driver is not loaded", "class": gpus.ABSENT}
    if expected is None and (seen["driver"] is None or why["class"] == gpus.ABSENT) and not seen["rows"]:
        # GPUs that are not declared are only reported; a program that hangs is never good.
        found.told.append(f"gpus: {why['message']}, so their health is unknown")
    else:
        _judge(Node(node, expected or {}, {}, {}), seen, expected is not None, found)
    return None if log is None else int(log["next"])


def _item(check: str) -> str:
    return f"gpus/{check}"


def _active_links(seen: Gpus) -> list[dict[str, Any]]:
    """Return `pci` and `active` of each GPU, nothing where nvidia-smi did not list its links."""
    if "nvlink" in seen["errors"]:
        return []
    return [{"pci": pci, "active": active} for pci, active in gpu_rows.count_active(seen).items()]


def _judge(node: Node, seen: Gpus, promised: bool, found: Found) -> None:
    is_good = True
    # The nearest NICs are too much for one line.
    for check in gpu.CHECKS[:-1]:
        ruling = gpu.rule(check, node, seen)
        words = f"{ruling.cause}: {ruling.detail.removeprefix(node.name).lstrip(' :')}"
        if others := ruling.observed.get("other_xids"):
            found.told.append(f"{others}, reported but not judged")
        if ruling.outcome == UNMEASURED and check == "gpu_xid" and not promised:
            found.told.append(words)
        elif ruling.outcome in (FAIL, UNMEASURED):
            is_good = False
            add = found.add_wrong if ruling.outcome == FAIL else found.add_unknown
            add(words, _item(check), str(ruling.cause))
        else:
            found.good_items.append(_item(check))
        if not is_good and not seen["rows"]:
            break  # the others are unknown for the same reason
    if is_good:
        found.good.append(f"{len(seen['rows'])} GPU{'s' if len(seen['rows']) > 1 else ''}")
