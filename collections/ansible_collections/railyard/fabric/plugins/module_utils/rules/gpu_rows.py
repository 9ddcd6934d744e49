# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a node's facts for the rules of GPUs. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..numeric import is_number, is_whole
from ..parsers.gpu import nvml_words
from ..records.facts import GpuRow, Gpus

MOST_NAMED = 4
_MOST_WORDS = 60
# Values for yes and no differ between versions.
_YES, _NO = ("yes", "1", "active"), ("no", "0", "not active")


class Node(NamedTuple):
    """What the rules ask of a node beside its facts.

    Attributes:
        name: its name.
        declared: what the inventory says of its GPUs, the variable `expected_gpus`; may be empty.
        usual: `model`, `driver` and `nvlinks`, where nodes that are declared alike differ in it: the one
            that most of them have (None where none is), and how many have which.
        cards: rail -> PCI address of its network card, None where it has none.
    """

    name: str
    declared: Mapping[str, Any]
    usual: Mapping[str, tuple[str | None, str]]
    cards: Mapping[str, str | None]


def why_unknown(node: Node, seen: Gpus, parts: Sequence[str] | None) -> str | None:
    """Return why the facts that a rule needs are unknown, or None."""
    if parts is None:
        return None
    if not seen["pci"]:
        return f"{node.name}: no NVIDIA GPU on the PCI bus"
    if seen["driver"] is None:
        return f"{node.name}: NVIDIA's driver is not loaded"
    for part in parts:
        if error := seen["errors"].get(part):
            return f"{node.name}: {error['message']}"
    if twice := find_twice(seen["rows"]):
        return f"{node.name}: {twice}"
    return None if seen["rows"] else f"{node.name}: nvidia-smi lists no GPU"


def each(node: Node, words: Iterable[tuple[str, str]]) -> str:
    """Join messages about GPUs in one line, each with its address; of many the first."""
    all_words = [f"{address}: {one}" for address, one in words]
    more = f"; and {len(all_words) - MOST_NAMED} more" if len(all_words) > MOST_NAMED else ""
    return f"{node.name} " + "; ".join(all_words[:MOST_NAMED]) + more


def select_values(
    rows: Sequence[GpuRow], key: str, is_one: Callable[[Any], bool] = is_number
) -> list[tuple[str, Any]]:
    """Return address and value of the GPUs that have one."""
    return [(str(row["pci"]), row[key]) for row in rows if is_one(row.get(key))]


def count_active(seen: Gpus) -> dict[str, int]:
    """Return address -> active NVLinks."""
    gpus: Mapping[object, int] = {one["gpu"]: one["active"] for one in seen["nvlink"]}
    return {str(row["pci"]): gpus.get(row.get("index"), 0) for row in seen["rows"]}


def is_yes(value: Any) -> bool:
    """Tell whether a value is one of nvidia-smi's words for yes."""
    return str(value).lower() in _YES


def is_yes_or_no(value: Any) -> bool:
    """Tell whether a value is one of nvidia-smi's words for yes or for no."""
    return str(value).lower() in (*_YES, *_NO)


def is_word(value: Any) -> bool:
    """Tell whether a value is a text and no word for trouble."""
    return isinstance(value, str) and not nvml_words.is_trouble(value)


def find_faulty(rows: Iterable[GpuRow]) -> list[tuple[str, str]]:
    """Return address and words of the GPUs that say, in place of a value, that they cannot be used."""
    found = []
    for row in rows:
        keys = [key for key, value in row.items() if nvml_words.is_faulty(value)]
        if keys:
            more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
            found.append((str(row["pci"]), f"{keys[0]}{more}: {str(row[keys[0]]).strip('[]')}"))
    return found


#: Check -> what it reads of nvidia-smi's rows, by the beginning of its name, and which values are understood.
_READS: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    "gpu_kind": {"name": is_word},
    "gpu_xid": {"gpu_recovery_action": is_word},
    "gpu_memory": {"ecc.": is_number, "retired_pages.": is_yes_or_no, "remapped_rows.": is_yes_or_no},
    "gpu_slowdown": {"clocks_throttle_reasons.": is_yes_or_no, "temperature.": is_number},
    "gpu_power": {"power.": is_number},
    "gpu_pcie": {"pcie.": is_number},
    "gpu_nvlink": {"index": is_whole},
}


def find_unread(node: Node, rows: Iterable[GpuRow], check: str) -> str:
    """Describe the first value that a check reads, is there and cannot be understood, or return nothing."""
    for row in rows:
        for starts, is_understood in _READS.get(check, {}).items():
            for key, value in row.items():
                if key.startswith(starts) and value is not None and not is_understood(value):
                    return f"{node.name}: {row['pci']} answers {key} with {str(value)[:_MOST_WORDS]!r}"
    return ""


def find_twice(rows: Sequence[GpuRow]) -> str:
    """Describe a GPU or an index that is twice in nvidia-smi's rows, or return nothing."""
    for key in ("pci", "index"):
        counts = Counter(row[key] for row in rows if row.get(key) is not None)
        if twice := [value for value, count in counts.items() if count > 1]:
            return f"nvidia-smi lists two GPUs of {key} {twice[0]}"
    return ""
