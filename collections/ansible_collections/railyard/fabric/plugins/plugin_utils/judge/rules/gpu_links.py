# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the results of a node's GPUs, and compare them with those of peers. Pure.

Published figures are for single clouds and sizes. So comparable links of one node are compared with each
other, and the same links of peer nodes. A link that is far behind in both directions, or a node that is far
behind in two collectives, fails; any other difference is reported. All others stay `recorded`, since all of
them may be slow.
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
#: Answers with remarks that do not make them fail.
Remarks = list[tuple[Answer, str]]
_TOOLS = ("nccl-tests", "nvbandwidth")
_MOST_GPUS, _MOST_CHARACTERS = 128, 60
#: Replaces 0 for a pair without access, so that ratios can be calculated.
_NO_ACCESS_GBPS = 1e-3


class Link(NamedTuple):
    """The path between a GPU and the host, or between two GPUs.

    Attributes:
        gpus: their places in the row.
        kind: what comparable links have in common.
        ways_gbps: the rate in each direction, GB/s.
    """

    gpus: tuple[int, ...]
    kind: tuple[object, ...]
    ways_gbps: tuple[float, float]


def find_contradiction(row: Row, policy: Policy) -> str | None:
    """Return why a complete row contradicts its results, or None."""
    account, check = row[_find_key(row)], str(row["check"])
    gpus, joined, many = account["gpus"], account["joined"], row["metrics"]["gpus"]
    if len(gpus) != many or many > _MOST_GPUS:
        return f"it names {len(gpus)} GPUs, and counts {many}"
    for key in ("index", "pci"):
        named = [gpu[key] for gpu in gpus if gpu[key] is not None]
        if len(set(named)) < len(named):
            return f"it names a GPU twice: {key} {', '.join(map(str, named))}"
    if len(joined) != many or any(len(cells) != many for cells in joined):
        return "the connection types of the GPUs are incomplete"
    if check in nccl_tests.COLLECTIVES:
        return nccl_tests.unproven(check, row["metrics"], account["sizes"], policy)
    matrices = account["matrices"]
    if set(matrices) != set(nvbandwidth.COPIES[check]):
        return "the planned matrices are missing"
    if not all(nvbandwidth.copied(check, matrix) for matrix in matrices.values()):
        return "nothing was copied"
    return nvbandwidth.unproven(check, row["metrics"], matrices)


def describe_gpus(row: Row) -> dict[str, str]:
    """Return the observed values of a row's GPUs: number and model, and the library."""
    account = row[_find_key(row)]
    names = [str(gpu["name"])[:_MOST_CHARACTERS] for gpu in account["gpus"]]
    kinds = ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
    version = account.get("nccl_version")
    return {"model": kinds, **({"nccl": str(version)[:20]} if version else {})}


def compare_gpus(
    asked: Sequence[AskedLine],
    answers: Sequence[Answer],
    rows: Mapping[str, Sequence[Row]],
    declared: Mapping[str, Any],
    own: AbstractSet[str],
    groups: Mapping[str, str],
) -> None:
    """Check the number of GPUs, compare them with peers, and add the scaling of NCCL; changed in place.

    Args:
        asked: the planned tests.
        answers: their answers, in the same order.
        rows: id -> its rows.
        declared: node -> number of GPUs in the inventory, None if not declared.
        own: nodes that use their GPUs alone while they are measured.
        groups: node -> its peers' group, from `peers.group_peers`.
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
    remarks: Remarks = []
    accounts: dict[str, dict[str, Row]] = {}
    for (node, check), (_answer, row) in good.items():
        accounts.setdefault(check, {})[node] = row[_find_key(row)]
    built = {check: gpu_shapes.find_shapes(of_nodes, groups) for check, of_nodes in accounts.items()}
    _compare_collectives(good, built, groups, own, remarks)
    for check in nvbandwidth.COPIES:
        measured = {node: both for (node, name), both in good.items() if name == check}
        if not measured:
            continue
        linked = {
            node: list_links(row, built[check][node].shape) for node, (_answer, row) in measured.items()
        }
        for node, (answer, row) in measured.items():
            _compare_links_of_node(answer, node, row, linked[node], node in own, remarks)
        kinds = {
            node: _find_node_kind(row, built[check][node], groups)
            for node, (_answer, row) in measured.items()
        }
        _compare_links_of_fleet(measured, linked, kinds, own, remarks)
    for (node, check), (answer, _row) in good.items():
        if (differs := built[check][node].differs) and answer.outcome == RECORDED:
            answer.unknown("gpu_differs", f"{node}: {differs}")
    if good:
        _add_scaling(asked, answers, good)
    done: set[int] = set()
    for answer, remark in remarks:
        # One remark per answer: all links of a slow GPU may have one.
        if answer.outcome == RECORDED and id(answer) not in done:
            done.add(id(answer))
            answer.basis = f"{answer.basis}; {remark}"


def list_links(row: Row, shape: gpu_shapes.Shape) -> list[Link]:
    """Return the links that a trusted row of nvbandwidth measured, each with its expected kind."""
    account = row["nvbandwidth"]
    found = []
    models = [
        (str(gpu["name"])[:_MOST_CHARACTERS], *slot)
        for gpu, slot in zip(account["gpus"], shape.slots, strict=True)
    ]
    matrices = [account["matrices"][name] for name in nvbandwidth.COPIES[str(row["check"])]]
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


def _compare_collectives(
    good: Mapping[tuple[str, str], tuple[Answer, Row]],
    built: Mapping[str, Mapping[str, gpu_shapes.Built]],
    groups: Mapping[str, str],
    own: AbstractSet[str],
    remarks: Remarks,
) -> None:
    """Compare the collectives of peer nodes with each other."""
    alike: dict[tuple[object, ...], dict[str, float]] = {}
    for (node, check), (_answer, row) in good.items():
        if check in nccl_tests.COLLECTIVES:
            group = check, _find_node_kind(row, built[check][node], groups), row["metrics"]["size_bytes"]
            alike.setdefault(group, {})[node] = float(row["metrics"]["busbw_GBps"])
    behind: dict[str, list[tuple[Answer, str]]] = {}
    for kind, values in alike.items():
        for node, fails, usual, doubt_of in _find_behind([values], own >= values.keys()):
            answer = good[node, str(kind[0])][0]
            detail = f"busbw_GBps {values[node]:g}, {usual} peer nodes"
            if fails:
                behind.setdefault(node, []).append((answer, detail))
            remarks.append((answer, doubt_of + detail))
    for node, found in behind.items():
        for answer, detail in found if len(found) >= outliers.REPRODUCED else ():
            _fail(answer, "gpu_node_apart", f"{node}: {detail} (in {len(found)} collectives)")


def _compare_links_of_node(
    answer: Answer, node: str, row: Row, found: Sequence[Link], is_own: bool, remarks: Remarks
) -> None:
    """Compare links of one node with comparable ones."""
    alike: dict[tuple[object, ...], list[Link]] = {}
    for link in found:
        alike.setdefault(link.kind, []).append(link)
    bad: list[tuple[tuple[int, ...], str]] = []
    for members in alike.values():
        ways = [{link.gpus: link.ways_gbps[way] for link in members} for way in (0, 1)]
        for gpus, fails, usual, doubt_of in _find_behind(ways, is_own):
            detail = f"{_format_rates(way[gpus] for way in ways)} GB/s, {usual} comparable links of the node"
            if fails:
                bad.append((gpus, detail))
            remarks.append((answer, f"{doubt_of}{_format_gpus(row, gpus)}: {detail}"))
    if bad:
        shared = set.intersection(*(set(gpus) for gpus, _detail in bad))
        where = _format_gpus(row, sorted(shared)) if shared and len(bad) > 1 else _format_gpus(row, bad[0][0])
        more = f" (and {len(bad) - 1} more of its links)" if len(bad) > 1 else ""
        _fail(answer, "gpu_link_apart", f"{node} {where}: {bad[0][1]}{more}")


def _compare_links_of_fleet(
    measured: Mapping[str, tuple[Answer, Row]],
    linked: Mapping[str, Sequence[Link]],
    kinds: Mapping[str, tuple[object, ...]],
    own: AbstractSet[str],
    remarks: Remarks,
) -> None:
    """Compare each link with the same one of peer nodes."""
    alike: dict[tuple[object, ...], list[str]] = {}
    for node, kind in kinds.items():
        alike.setdefault(kind, []).append(node)
    for nodes in alike.values():
        for at, first in enumerate(linked[nodes[0]]):
            ways = [{node: linked[node][at].ways_gbps[way] for node in nodes} for way in (0, 1)]
            for node, fails, usual, doubt_of in _find_behind(ways, own >= set(nodes)):
                answer, row = measured[node]
                where, gbps = _format_gpus(row, first.gpus), _format_rates(way[node] for way in ways)
                detail = f"{where}: {gbps} GB/s, {usual} peer nodes"
                if fails:
                    _fail(answer, "gpu_node_apart", f"{node} {detail}")
                remarks.append((answer, doubt_of + detail))


def _add_scaling(
    asked: Sequence[AskedLine],
    answers: Sequence[Answer],
    good: Mapping[tuple[str, str], tuple[Answer, Row]],
) -> None:
    """Add to NCCL's all-reduce over nodes its share of a single node's, at the same size."""
    for line, answer in zip(asked, answers, strict=True):
        alone = good.get((str(line["node"]), "nccl_all_reduce"))
        over_nodes = line["check"] == "collective_allreduce" and line["tool"] == "torch_nccl"
        if not over_nodes or alone is None or not is_number(answer.observed.get("busbw_GBps")):
            continue
        for size in alone[1]["nccl_tests"]["sizes"]:
            if size["size_bytes"] == answer.observed.get("size_bytes") and size["busbw_GBps"]:
                share = 100 * answer.observed["busbw_GBps"] / size["busbw_GBps"]
                answer.observed["of_one_node_percent"] = round(share, 1)


def _find_behind(ways: Sequence[Mapping[Key, float]], is_own: bool) -> Iterator[tuple[Key, bool, str, str]]:
    """Yield the results of `peers.find_behind` for GPUs, with the median as text."""
    for key, fails, usual, doubt_of in peers.find_behind(ways, outliers.GPU_RATE, is_own):
        yield key, fails, f"the median is {usual:.4g} of {len(ways[0]) - 1}", doubt_of


def _fail(answer: Answer, cause: str, detail: str) -> None:
    if answer.outcome == RECORDED:
        answer.failed(cause, detail, "proven")


def _format_gpus(row: Row, places: Iterable[int]) -> str:
    return " and ".join(_format_gpu(row, place) for place in places)


def _format_gpu(row: Row, place: int) -> str:
    address = row["nvbandwidth"]["gpus"][place]["pci"]
    return f"GPU {place}" + (f" ({str(address)[:20]})" if address else "")


def _format_rates(ways_gbps: Iterable[float]) -> str:
    return " and ".join("none" if way <= _NO_ACCESS_GBPS else f"{way:.4g}" for way in ways_gbps)


def _find_node_kind(row: Row, built: gpu_shapes.Built, groups: Mapping[str, str]) -> tuple[object, ...]:
    account = row[_find_key(row)]
    version = str(account.get("nccl_version") or account.get("version"))
    return (groups.get(str(row["host"])), built.models, built.shape, version)


def _find_key(row: Row) -> str:
    return "nccl_tests" if row["tool"] == "nccl-tests" else "nvbandwidth"
