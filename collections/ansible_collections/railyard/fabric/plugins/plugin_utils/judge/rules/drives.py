# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that a device's counters confirm fio's results, and compare each drive with its peers. Pure.

There is no general reference for a drive: a vendor's figure is for the bare drive and one workload. So
comparable drives are compared with each other: those of the same models and sizes, on any node, measured in
the same way. A drive that is far behind the median of the others in two of its tests fails. With only two
drives either may be wrong, so the difference is only reported; the same holds for nodes that may share their
drives with others, and if load beside a test was allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from ansible_collections.railyard.fabric.plugins.module_utils.measure import fio, outliers
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.records.node_rows import Storage
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS, PASS, RECORDED
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy, is_pair
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import peers
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: Node and mount.
Place = tuple[str, str]

#: The test of a mount that reports a badly trained link.
_SLOT_CHECK = "storage_read"
#: Time that a busy node needs to start and to stop fio.
_AROUND_S = 10.0
#: Limits for text from a node.
_MOST_CHARACTERS, _MOST_DISKS = 60, 4
#: Permitted difference between fio's time and the row's window.
_WINDOW_S = 1.0


def find_contradiction(row: Row, policy: Policy) -> str | None:
    """Return why a complete row's counters do not confirm its results, or None."""
    storage, counters = row["storage"], row["counters"]
    if not all(is_pair(counters.get(name)) for name in (fio.READ_BYTES, fio.WRITTEN_BYTES)):
        return f"its device's counters are {counters!r}"
    if storage["mount"] != row["subject"]:
        return f"it was measured below {storage['mount']!r}"
    options, argv = fio.JOBS[str(row["check"])].options, row["argv"][-1]
    # fio uses the last value of a repeated option.
    names = {option.partition("=")[0] for option in options}
    if sorted(options) != sorted(word for word in argv if word.partition("=")[0] in names):
        return f"argv is {argv!r}, planned was {' '.join(options)}"
    window = row["window_s"]
    lasted_s = float(window[1]) - float(window[0])
    if abs(storage["moved_s"] - lasted_s) > _WINDOW_S:
        return f"fio reports {storage['moved_s']:g} s, its window has {lasted_s:g} s"
    # fio's start and end are outside of its window.
    return fio.unproven(str(row["check"]), row["metrics"], storage, counters, lasted_s + _AROUND_S, policy)


def describe_drives(row: Row) -> dict[str, str]:
    """Return the observed values of a row's drives: file system, device, models and sizes."""
    storage = row["storage"]
    disks = [
        " ".join(str(disk[key])[:_MOST_CHARACTERS] for key in ("name", "model") if disk[key] is not None)
        + (f" {disk['size_bytes'] / 1e12:.3g} TB" if disk["size_bytes"] is not None else "")
        for disk in storage["disks"][:_MOST_DISKS]
    ]
    words = (storage[key][:_MOST_CHARACTERS] for key in ("filesystem", "name"))
    return {"drive": " on ".join(words) + (f" ({', '.join(disks)})" if disks else "")}


def compare_drives(
    asked: Sequence[AskedLine],
    answers: Sequence[Answer],
    rows: Mapping[str, Sequence[Row]],
    own: AbstractSet[str],
    groups: Mapping[str, str],
) -> None:
    """Compare drives with their peers, and check their slots; changed in place.

    Args:
        asked: the planned tests.
        answers: their answers, in the same order.
        rows: id -> its rows.
        own: nodes that use their drives alone while they are measured.
        groups: node -> its peers' group, from `peers.group_peers`.
    """
    odd, alone = _find_odd(asked, answers, rows, groups)
    alike: dict[tuple[object, ...], dict[Place, Answer]] = {}
    for line, answer in zip(asked, answers, strict=True):
        if line["tool"] != "fio" or answer.outcome not in (PASS, RECORDED):
            continue
        storage = rows[str(line["id"])][0]["storage"]
        if line["check"] == _SLOT_CHECK and (seen := "; ".join(list_slow_links(storage))):
            answer.failed("drive_slot", f"{line['node']} {line['subject']}: {seen}", "proven")
        elif (differs := odd.get(str(line["id"]))) and answer.outcome == RECORDED:
            answer.unknown("drive_differs", f"{line['node']} {line['subject']}: {differs}")
        elif (remark := alone.get(str(line["id"]))) and answer.outcome == RECORDED:
            answer.basis = f"{answer.basis}; {remark}"
        elif (kind := _find_kind(storage)) is not None:
            members = alike.setdefault((line["check"], *kind), {})
            members[str(line["node"]), str(line["subject"])] = answer
    behind: dict[Place, list[tuple[Answer, str]]] = {}
    for (check, *_kind_of), members in alike.items():
        metric = CHECKS[str(check)].bounded[0]
        values = {place: float(answer.observed[metric]) for place, answer in members.items()}
        few = outliers.DRIVE_US if metric.endswith("_us") else outliers.DRIVE_RATE
        is_own = own >= {node for node, _mount in members}
        for place, fails, usual, doubt_of in peers.find_behind([values], few, is_own):
            if (answer := members[place]).outcome != RECORDED:
                continue
            detail = f"{metric} {values[place]:g}, the median of {len(values) - 1} peer drives {usual:g}"
            if fails:
                behind.setdefault(place, []).append((answer, detail))
            # The basis begins with why there is no threshold: the terminal groups verdicts by that.
            answer.basis = f"{answer.basis}; {doubt_of}{detail}"
    for (node, subject), found in behind.items():
        # A short measurement may be bad once: another test of the same drive is a second attempt.
        for answer, detail in found if len(found) >= outliers.REPRODUCED else ():
            where = f"{node} {subject}: {detail} (in {len(found)} tests)"
            answer.failed("drive_stands_apart", where, "proven")


def _find_odd(
    asked: Sequence[AskedLine],
    answers: Sequence[Answer],
    rows: Mapping[str, Sequence[Row]],
    groups: Mapping[str, str],
) -> tuple[dict[str, str], dict[str, str]]:
    """Return test -> how its drives differ from those of most peers at the same mount.

    The second mapping has tests whose drives no peer has, if there is no majority.
    """
    slots_of: dict[tuple[object, ...], dict[str, tuple[object, ...] | None]] = {}
    for line, answer in zip(asked, answers, strict=True):
        if line["tool"] == "fio" and answer.outcome in (PASS, RECORDED):
            slot = line["check"], line["subject"], groups.get(str(line["node"]))
            kind = _find_kind(rows[str(line["id"])][0]["storage"])
            slots_of.setdefault(slot, {})[str(line["id"])] = kind
    found, alone = {}, {}
    for kinds in slots_of.values():
        for identity, usual in peers.find_odd(kinds).items():
            many = sum(kind == usual for kind in kinds.values())
            found[identity] = (
                f"its drives are {_format_kind(kinds[identity])}, those of {many} of {len(kinds)} peers "
                f"there {_format_kind(usual)}"
            )
        for identity, kind in kinds.items():
            if identity not in found and len(kinds) > 1 and list(kinds.values()).count(kind) == 1:
                alone[identity] = f"its drives are {_format_kind(kind)}, which no peer has at that mount"
    return found, alone


def _format_kind(kind: tuple[object, ...] | None) -> str:
    return "not described" if kind is None else " ".join(map(str, kind))[: 4 * _MOST_CHARACTERS]


def list_slow_links(storage: Storage) -> Iterator[str]:
    """Yield the disks below a mount whose link is trained below what both of its ends support."""
    for disk in storage["disks"]:
        link = disk["pcie"]
        if link is None:
            continue
        for now, most, unit in (
            (link["speed_gts"], link["max_speed_gts"], "GT/s"),
            (link["width"], link["max_width"], "lanes"),
        ):
            if now is not None and most is not None and now < most:
                yield f"{disk['name']} runs at {now:g} {unit}, {most:g} are possible"


def _find_kind(storage: Storage) -> tuple[object, ...] | None:
    """Return what comparable drives of mounts have in common; None if they do not report it."""
    disks = storage["disks"]
    # Virtual drives have no model; a mixture means that a drive does not report its model.
    models = {disk["model"] is None for disk in disks}
    if len(models) != 1 or any(disk["size_bytes"] is None for disk in disks):
        return None
    kinds = sorted((str(disk["model"]), str(disk["size_bytes"]), str(disk["rotational"])) for disk in disks)
    return (storage["filesystem"], str(storage["file_bytes"]), *kinds)
