# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's GPUs in a quick look, by the rules that verdicts follow; of XIDs those since the last look."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.facts import gpus, kernel_log
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.quick.found import Found
from ansible_collections.railyard.fabric.plugins.module_utils.records.facts import Gpus
from ansible_collections.railyard.fabric.plugins.module_utils.rules import gpu, gpu_rows
from ansible_collections.railyard.fabric.plugins.module_utils.rules.gpu_rows import Node
from ansible_collections.railyard.fabric.plugins.module_utils.rules.ruling import FAIL, UNMEASURED

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
    """Look at the GPUs.

    Args:
        node: the node's name.
        expected: what is declared of them (`expected_gpus`); None where nobody said.
        reader: where sysfs, procfs and the kernel's log are.
        ask: runs nvidia-smi; raises ToolError.
        after: the number of the first record of the kernel's log that is new.
        found: takes what is found.
        records: takes those of the log that are of GPUs and new.

    Returns:
        The number of the log's next record; None where it was not read.
    """
    # What nothing bounds is not asked: each question takes a driver without persistence its time.
    seen = gpus.read(reader, ask, after=after, parts=("rows", "nvlink"), records=records)
    log = seen["xids"]
    if not seen["pci"] and not (expected and expected["count"]):
        found.good += ["no GPU, as expected"] if expected is not None else []
        found.good_items += [_item(check) for check in gpu.CHECKS]
        return None if log is None else int(log["next"])
    found.gpus["nvlinks"] = _active_links(seen)
    why = seen["errors"].get("rows") or {"message": "NVIDIA's driver is not loaded", "class": gpus.ABSENT}
    if expected is None and (seen["driver"] is None or why["class"] == gpus.ABSENT) and not seen["rows"]:
        # What was never promised is said; what hangs is no good either way.
        found.told.append(f"gpus: {why['message']}, so that nothing is known of their health")
    else:
        _judge(Node(node, expected or {}, {}, {}), seen, expected is not None, found)
    return None if log is None else int(log["next"])


def _item(check: str) -> str:
    return f"gpus/{check}"


def _active_links(seen: Gpus) -> list[dict[str, Any]]:
    """Return `pci` and `active` of each GPU, nothing where nvidia-smi did not tell of its links."""
    if "nvlink" in seen["errors"]:
        return []
    return [{"pci": pci, "active": active} for pci, active in gpu_rows.count_active(seen).items()]


def _judge(node: Node, seen: Gpus, promised: bool, found: Found) -> None:
    is_good = True
    # Near which card they are is nothing for one line.
    for check in gpu.CHECKS[:-1]:
        ruling = gpu.rule(check, node, seen)
        words = f"{ruling.cause}: {ruling.detail.removeprefix(node.name).lstrip(' :')}"
        if others := ruling.observed.get("other_xids"):
            found.told.append(f"{others}, told and not judged")
        if ruling.outcome == UNMEASURED and check == "gpu_xid" and not promised:
            found.told.append(words)
        elif ruling.outcome in (FAIL, UNMEASURED):
            is_good = False
            add = found.add_wrong if ruling.outcome == FAIL else found.add_unknown
            add(words, _item(check), str(ruling.cause))
        else:
            found.good_items.append(_item(check))
        if not is_good and not seen["rows"]:
            break  # the others know nothing for the same reason
    if is_good:
        found.good.append(f"{len(seen['rows'])} GPU{'s' if len(seen['rows']) > 1 else ''}")
