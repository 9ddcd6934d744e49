# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node's GPUs reach by themselves: can it be believed, and does it keep up with its like? Pure.

What is published of them is of single clouds and sizes. So like links of one node are compared with each
other, and the same links of like nodes. What is far behind, in both directions of a link or in two
collectives of a node, fails; what is behind otherwise is reported. Who is like the others stays `recorded`:
all may be slow alike.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, TypeVar

from ansible_collections.railyard.fabric.plugins.module_utils.measure import nccl_tests, nvbandwidth, outliers
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import PASS, RECORDED
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy, is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import gpu_shapes, peers
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

Key = TypeVar("Key", bound=Hashable)
#: What is said of an answer that it does not fail for.
Told = list[tuple[Answer, str]]
_TOOLS = ("nccl-tests", "nvbandwidth")
_MOST_GPUS, _MOST_WORDS = 128, 60
#: What no copy reaches stands for a pair that has no access where its like have: no ratio is taken of 0.
_NO_ACCESS_GBPS = 1e-3


class Link(NamedTuple):
    """A GPU's way to the host, or two GPUs' way to each other.

    Attributes:
        gpus: their places in the row.
        kind: what makes another one like it.
        ways_gbps: what was copied each way, GB/s.
    """

    gpus: tuple[int, ...]
    kind: tuple[object, ...]
    ways_gbps: tuple[float, float]


def doubt(row: Row, policy: Policy) -> str | None:
    """Tell why a whole row's own account does not bear its numbers out, or None."""
    said, check = row[_key(row)], str(row["check"])
    gpus, joined, many = said["gpus"], said["joined"], row["metrics"]["gpus"]
    if len(gpus) != many or many > _MOST_GPUS:
        return f"it names {len(gpus)} GPUs, it says that there are {many}"
    for key in ("index", "pci"):
        named = [gpu[key] for gpu in gpus if gpu[key] is not None]
        if len(set(named)) < len(named):
            return f"it names a GPU twice: {key} {', '.join(map(str, named))}"
    if len(joined) != many or any(len(cells) != many for cells in joined):
        return "it does not hold how each two GPUs are joined"
    if check in nccl_tests.COLLECTIVES:
        return nccl_tests.unproven(check, row["metrics"], said["sizes"], policy)
    matrices = said["matrices"]
    if set(matrices) != set(nvbandwidth.COPIES[check]):
        return "it does not hold the matrices that were asked"
    if not all(nvbandwidth.copied(check, matrix) for matrix in matrices.values()):
        return "nothing was copied"
    return nvbandwidth.unproven(check, row["metrics"], matrices)


def shown(row: Row) -> dict[str, str]:
    """Return what a verdict shows of a row's GPUs: how many of which model, and the library."""
    said = row[_key(row)]
    names = [str(gpu["name"])[:_MOST_WORDS] for gpu in said["gpus"]]
    kinds = ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
    version = said.get("nccl_version")
    return {"model": kinds, **({"nccl": str(version)[:20]} if version else {})}


def settle(
    asked: Sequence[AskedLine],
    answers: Sequence[Answer],
    rows: Mapping[str, Sequence[Row]],
    declared: Mapping[str, Any],
    own: AbstractSet[str],
    groups: Mapping[str, str],
) -> None:
    """Judge GPUs by their number and by their like, and all nodes by one; changed in place.

    Args:
        asked: the asked lines.
        answers: their answers, in the same order.
        rows: id -> its rows.
        declared: node -> how many GPUs the inventory declares, None where it does not.
        own: nodes whose GPUs nobody else uses while they are measured.
        groups: node -> its peers' group, from `peers.groups`.
    """
    good: dict[tuple[str, str], tuple[Answer, Row]] = {}
    for line, answer in zip(asked, answers, strict=True):
        if line["tool"] not in _TOOLS or answer.outcome not in (PASS, RECORDED):
            continue
        node, row = str(line["node"]), rows[str(line["id"])][0]
        wanted, seen = declared.get(node), row["metrics"]["gpus"]
        if wanted is not None and wanted != seen:
            answer.unknown("gpu_unfit", f"{node}: measured over {seen} GPUs, the inventory declares {wanted}")
        else:
            good[node, str(line["check"])] = answer, row
    told: Told = []
    accounts: dict[str, dict[str, Row]] = {}
    for (node, check), (_answer, row) in good.items():
        accounts.setdefault(check, {})[node] = row[_key(row)]
    built = {check: gpu_shapes.find(of_nodes, groups) for check, of_nodes in accounts.items()}
    _of_collectives(good, built, groups, own, told)
    for check in nvbandwidth.COPIES:
        measured = {node: both for (node, name), both in good.items() if name == check}
        if not measured:
            continue
        linked = {node: links(row, built[check][node].shape) for node, (_answer, row) in measured.items()}
        for node, (answer, row) in measured.items():
            _of_node(answer, node, row, linked[node], node in own, told)
        kinds = {
            node: _kind_of_node(row, built[check][node], groups) for node, (_answer, row) in measured.items()
        }
        _of_fleet(measured, linked, kinds, own, told)
    for (node, check), (answer, _row) in good.items():
        if (differs := built[check][node].differs) and answer.outcome == RECORDED:
            answer.unknown("gpu_differs", f"{node}: {differs}")
    if good:
        _scaling(asked, answers, good)
    said_of: set[int] = set()
    for answer, said in told:
        # The first says it: of a GPU that is behind all links may be.
        if answer.outcome == RECORDED and id(answer) not in said_of:
            said_of.add(id(answer))
            answer.basis = f"{answer.basis}; {said}"


def links(row: Row, shape: gpu_shapes.Shape) -> list[Link]:
    """Return the links that a trusted row of nvbandwidth measured, each with the kind that it should have."""
    said = row["nvbandwidth"]
    found = []
    models = [
        (str(gpu["name"])[:_MOST_WORDS], *slot) for gpu, slot in zip(said["gpus"], shape.slots, strict=True)
    ]
    matrices = [said["matrices"][name] for name in nvbandwidth.COPIES[str(row["check"])]]
    if len(matrices) > 1:
        there, back = matrices
        return [Link((at,), kind, (there[0][at], back[0][at])) for at, kind in enumerate(models)]
    [matrix] = matrices
    for one in range(len(models)):
        for other in range(one + 1, len(models)):
            ways = tuple(cell or _NO_ACCESS_GBPS for cell in (matrix[one][other], matrix[other][one]))
            kind = (*sorted(map(str, (models[one], models[other]))), shape.joined[one][other])
            found.append(Link((one, other), kind, (ways[0], ways[1])))
    return found


def _of_collectives(
    good: Mapping[tuple[str, str], tuple[Answer, Row]],
    built: Mapping[str, Mapping[str, gpu_shapes.Built]],
    groups: Mapping[str, str],
    own: AbstractSet[str],
    told: Told,
) -> None:
    """Compare the collectives of like nodes with each other."""
    alike: dict[tuple[object, ...], dict[str, float]] = {}
    for (node, check), (_answer, row) in good.items():
        if check in nccl_tests.COLLECTIVES:
            like_it = check, _kind_of_node(row, built[check][node], groups), row["metrics"]["size_bytes"]
            alike.setdefault(like_it, {})[node] = float(row["metrics"]["busbw_GBps"])
    behind: dict[str, list[tuple[Answer, str]]] = {}
    for kind, values in alike.items():
        for node, fails, usual, doubt_of in _behind([values], own >= values.keys()):
            answer = good[node, str(kind[0])][0]
            said = f"busbw_GBps {values[node]:g}, {usual} like nodes"
            if fails:
                behind.setdefault(node, []).append((answer, said))
            told.append((answer, doubt_of + said))
    for node, found in behind.items():
        for answer, said in found if len(found) >= outliers.REPRODUCED else ():
            _fail(answer, "gpu_node_apart", f"{node}: {said} (in {len(found)} collectives)")


def _of_node(answer: Answer, node: str, row: Row, found: Sequence[Link], is_own: bool, told: Told) -> None:
    """Compare links of one node with others of their kind."""
    alike: dict[tuple[object, ...], list[Link]] = {}
    for link in found:
        alike.setdefault(link.kind, []).append(link)
    bad: list[tuple[tuple[int, ...], str]] = []
    for members in alike.values():
        ways = [{link.gpus: link.ways_gbps[way] for link in members} for way in (0, 1)]
        for gpus, fails, usual, doubt_of in _behind(ways, is_own):
            said = f"{_two(way[gpus] for way in ways)} GB/s, {usual} like links of the node"
            if fails:
                bad.append((gpus, said))
            told.append((answer, f"{doubt_of}{_named(row, gpus)}: {said}"))
    if bad:
        shared = set.intersection(*(set(gpus) for gpus, _said in bad))
        where = _named(row, sorted(shared)) if shared and len(bad) > 1 else _named(row, bad[0][0])
        more = f" (and {len(bad) - 1} more of its links)" if len(bad) > 1 else ""
        _fail(answer, "gpu_link_apart", f"{node} {where}: {bad[0][1]}{more}")


def _of_fleet(
    measured: Mapping[str, tuple[Answer, Row]],
    linked: Mapping[str, Sequence[Link]],
    kinds: Mapping[str, tuple[object, ...]],
    own: AbstractSet[str],
    told: Told,
) -> None:
    """Compare each link with the same one of like nodes."""
    alike: dict[tuple[object, ...], list[str]] = {}
    for node, kind in kinds.items():
        alike.setdefault(kind, []).append(node)
    for nodes in alike.values():
        for at, first in enumerate(linked[nodes[0]]):
            ways = [{node: linked[node][at].ways_gbps[way] for node in nodes} for way in (0, 1)]
            for node, fails, usual, doubt_of in _behind(ways, own >= set(nodes)):
                answer, row = measured[node]
                where, gbps = _named(row, first.gpus), _two(way[node] for way in ways)
                said = f"{where}: {gbps} GB/s, {usual} like nodes"
                if fails:
                    _fail(answer, "gpu_node_apart", f"{node} {said}")
                told.append((answer, doubt_of + said))


def _scaling(
    asked: Sequence[AskedLine],
    answers: Sequence[Answer],
    good: Mapping[tuple[str, str], tuple[Answer, Row]],
) -> None:
    """Say of NCCL's all-reduce over nodes what share it is of one node's, at the same size."""
    for line, answer in zip(asked, answers, strict=True):
        alone = good.get((str(line["node"]), "nccl_all_reduce"))
        over_nodes = line["check"] == "collective_allreduce" and line["tool"] == "torch_nccl"
        if not over_nodes or alone is None or not is_number(answer.observed.get("busbw_GBps")):
            continue
        for size in alone[1]["nccl_tests"]["sizes"]:
            if size["size_bytes"] == answer.observed.get("size_bytes") and size["busbw_GBps"]:
                share = 100 * answer.observed["busbw_GBps"] / size["busbw_GBps"]
                answer.observed["of_one_node_percent"] = round(share, 1)


def _behind(ways: Sequence[Mapping[Key, float]], is_own: bool) -> Iterator[tuple[Key, bool, str, str]]:
    """Yield what `peers.find_behind` does of GPUs, the median in words."""
    for key, fails, usual, doubt_of in peers.find_behind(ways, outliers.GPU_RATE, is_own):
        yield key, fails, f"the median is {usual:.4g} of {len(ways[0]) - 1}", doubt_of


def _fail(answer: Answer, cause: str, said: str) -> None:
    if answer.outcome == RECORDED:
        answer.failed(cause, said).proof = "proven"


def _named(row: Row, places: Iterable[int]) -> str:
    return " and ".join(_gpu_words(row, place) for place in places)


def _gpu_words(row: Row, place: int) -> str:
    address = row["nvbandwidth"]["gpus"][place]["pci"]
    return f"GPU {place}" + (f" ({str(address)[:20]})" if address else "")


def _two(ways_gbps: Iterable[float]) -> str:
    return " and ".join("none" if way <= _NO_ACCESS_GBPS else f"{way:.4g}" for way in ways_gbps)


def _kind_of_node(row: Row, built: gpu_shapes.Built, groups: Mapping[str, str]) -> tuple[object, ...]:
    said = row[_key(row)]
    version = str(said.get("nccl_version") or said.get("version"))
    return (groups.get(str(row["host"])), built.models, built.shape, version)


def _key(row: Row) -> str:
    return "nccl_tests" if row["tool"] == "nccl-tests" else "nvbandwidth"
