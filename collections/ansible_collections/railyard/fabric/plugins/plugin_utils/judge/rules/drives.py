# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do a device's counters bear out what fio says of it, and does it keep up with its like? Pure.

No authority says what a drive has to reach: a vendor's figure is of the bare drive, and of one workload. So
like drives are held against each other: those of the same models and sizes, on any node, measured alike. One
that is far behind the median of the others, in two of its tests, fails; of two drives nobody can tell which
one is wrong, and it is told. So it is of nodes that share what is below them with others, which no count of
their own shows, and where load beside a test was allowed.
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

#: Which of a mount's tests says that a link is badly trained.
_OF_SLOT = "storage_read"
#: What a busy node takes to start fio and to end it.
_AROUND_S = 10.0
#: How much of a node's own words is shown.
_MOST_WORDS, _MOST_DISKS = 60, 4
#: By how much fio's own time and the row's window may differ.
_WINDOW_S = 1.0


def doubt(row: Row, policy: Policy) -> str | None:
    """Tell why a whole row's counters do not bear its numbers out, or None."""
    storage, counters = row["storage"], row["counters"]
    if not all(is_pair(counters.get(name)) for name in (fio.READ_BYTES, fio.WRITTEN_BYTES)):
        return f"its device's counters are {counters!r}"
    if storage["mount"] != row["subject"]:
        return f"it was measured below {storage['mount']!r}"
    options, argv = fio.JOBS[str(row["check"])].options, row["argv"][-1]
    # Of an option that is given twice fio takes the last.
    names = {option.partition("=")[0] for option in options}
    if sorted(options) != sorted(word for word in argv if word.partition("=")[0] in names):
        return f"argv is {argv!r}, asked was {' '.join(options)}"
    window = row["window_s"]
    lasted_s = float(window[1]) - float(window[0])
    if abs(storage["moved_s"] - lasted_s) > _WINDOW_S:
        return f"fio says that it ran for {storage['moved_s']:g} s, its window has {lasted_s:g} s"
    # fio's own start and end are beside its window.
    return fio.unproven(str(row["check"]), row["metrics"], storage, counters, lasted_s + _AROUND_S, policy)


def shown(row: Row) -> dict[str, str]:
    """Return what a verdict shows of a row's drives: file system, device, models and sizes."""
    storage = row["storage"]
    told = [
        " ".join(str(disk[key])[:_MOST_WORDS] for key in ("name", "model") if disk[key] is not None)
        + (f" {disk['size_bytes'] / 1e12:.3g} TB" if disk["size_bytes"] is not None else "")
        for disk in storage["disks"][:_MOST_DISKS]
    ]
    words = (storage[key][:_MOST_WORDS] for key in ("filesystem", "name"))
    return {"drive": " on ".join(words) + (f" ({', '.join(told)})" if told else "")}


def settle(
    asked: Sequence[AskedLine],
    answers: Sequence[Answer],
    rows: Mapping[str, Sequence[Row]],
    own: AbstractSet[str],
    groups: Mapping[str, str],
) -> None:
    """Judge drives by their like and by their slots; changed in place.

    Args:
        asked: the asked lines.
        answers: their answers, in the same order.
        rows: id -> its rows.
        own: nodes whose drives nobody else uses while they are measured.
        groups: node -> its peers' group, from `peers.groups`.
    """
    odd, alone = _find_odd(asked, answers, rows, groups)
    alike: dict[tuple[object, ...], dict[Place, Answer]] = {}
    for line, answer in zip(asked, answers, strict=True):
        if line["tool"] != "fio" or answer.outcome not in (PASS, RECORDED):
            continue
        storage = rows[str(line["id"])][0]["storage"]
        if line["check"] == _OF_SLOT and (seen := "; ".join(slots(storage))):
            answer.failed("drive_slot", f"{line['node']} {line['subject']}: {seen}").proof = "proven"
        elif (differs := odd.get(str(line["id"]))) and answer.outcome == RECORDED:
            answer.unknown("drive_differs", f"{line['node']} {line['subject']}: {differs}")
        elif (told := alone.get(str(line["id"]))) and answer.outcome == RECORDED:
            answer.basis = f"{answer.basis}; {told}"
        elif (kind := _kind(storage)) is not None:
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
            said = f"{metric} {values[place]:g}, the median of {len(values) - 1} like drives {usual:g}"
            if fails:
                behind.setdefault(place, []).append((answer, said))
            # Why nothing bounds it comes first: by that the terminal folds what is recorded.
            answer.basis = f"{answer.basis}; {doubt_of}{said}"
    for (node, subject), found in behind.items():
        # A number of some seconds may be bad once: another test of the same drive is another attempt.
        for answer, said in found if len(found) >= outliers.REPRODUCED else ():
            answer.failed("drive_stands_apart", f"{node} {subject}: {said} (in {len(found)} tests)")
            answer.proof = "proven"


def _find_odd(
    asked: Sequence[AskedLine],
    answers: Sequence[Answer],
    rows: Mapping[str, Sequence[Row]],
    groups: Mapping[str, str],
) -> tuple[dict[str, str], dict[str, str]]:
    """Return test -> in what its drives differ from those that most peers have at the same mount.

    Second those whose drives no peer has, where the peers have no majority.
    """
    slots_of: dict[tuple[object, ...], dict[str, tuple[object, ...] | None]] = {}
    for line, answer in zip(asked, answers, strict=True):
        if line["tool"] == "fio" and answer.outcome in (PASS, RECORDED):
            slot = line["check"], line["subject"], groups.get(str(line["node"]))
            kind = _kind(rows[str(line["id"])][0]["storage"])
            slots_of.setdefault(slot, {})[str(line["id"])] = kind
    found, alone = {}, {}
    for kinds in slots_of.values():
        for identity, usual in peers.find_odd(kinds).items():
            many = sum(kind == usual for kind in kinds.values())
            found[identity] = (
                f"its drives are {_words_of(kinds[identity])}, those of {many} of {len(kinds)} peers there "
                f"{_words_of(usual)}"
            )
        for identity, kind in kinds.items():
            if identity not in found and len(kinds) > 1 and list(kinds.values()).count(kind) == 1:
                alone[identity] = f"its drives are {_words_of(kind)}, which no peer has at that mount"
    return found, alone


def _words_of(kind: tuple[object, ...] | None) -> str:
    return "not described" if kind is None else " ".join(map(str, kind))[: 4 * _MOST_WORDS]


def slots(storage: Storage) -> Iterator[str]:
    """Yield of each disk below a mount that its link is trained below what both its ends can do."""
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


def _kind(storage: Storage) -> tuple[object, ...] | None:
    """Return what makes a mount's drives like another's; None where they do not say what they are."""
    disks = storage["disks"]
    # A virtual drive has no model; of drives that have one none lacks it.
    models = {disk["model"] is None for disk in disks}
    if len(models) != 1 or any(disk["size_bytes"] is None for disk in disks):
        return None
    kinds = sorted((str(disk["model"]), str(disk["size_bytes"]), str(disk["rotational"])) for disk in disks)
    return (storage["filesystem"], str(storage["file_bytes"]), *kinds)
