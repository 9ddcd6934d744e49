# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write one file of gauges for all clusters, `railyard_runs.prom`, for node_exporter's textfile collector.

Of each cluster it has the newest run's own gauges (`prometheus.render`), when each node was last proven, and
what is not good at each node. A run that is under way leaves the cluster's older one in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils.metrics.catalogue import DRAINED_BY, METRICS
from ansible_collections.railyard.fabric.plugins.module_utils.state import slurm
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import sinfo
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import history, node_results, prometheus
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.node_results import RunResult
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder, RunFolderError

FILE = "railyard_runs.prom"
#: A cluster where everything is bad has a series per rail and cause; more than this are left out.
MOST_NOT_GOOD = 20_000
PROVEN, NOT_GOOD, DRAINED = "node_proven_timestamp_seconds", "rail_not_good", "slurm_node_drained"
_HEAD = re.compile(r"# (HELP|TYPE) (railyard_[a-z0-9_]+) (.*)")
_SERIES = re.compile(r"(railyard_[a-z0-9_]+)(\{[^\n]*\}) (-?[0-9.e+-]+)")


class _Families:
    """Families of gauges, each written once for all clusters."""

    def __init__(self) -> None:
        self._heads: dict[str, dict[str, str]] = {}
        self._series: dict[str, dict[str, str]] = {}
        self._comments: list[str] = []

    def take(self, text: str) -> None:
        """Add a file's families; duplicate series and malformed lines are left out."""
        for line in text.split("\n"):
            if head := _HEAD.fullmatch(line):
                self._heads.setdefault(head[2], {}).setdefault(head[1], line)
            elif series := _SERIES.fullmatch(line):
                self._series.setdefault(series[1], {}).setdefault(series[2], line)
            elif line.startswith("# "):
                self._comments.append(line)

    def text(self) -> str:
        """Return the file."""
        lines = list(self._comments)
        for name in sorted(self._series):
            head = self._heads.get(name, {})
            lines += [head[key] for key in ("HELP", "TYPE") if key in head] + [*self._series[name].values()]
        return "".join(f"{line}\n" for line in lines)


def write(reports_dir: Path, places: Iterable[Path] = ()) -> Path:
    """Write the file beside the clusters' folders and to other places, each atomically.

    Args:
        reports_dir: the folder of all clusters' runs.
        places: further files, such as one in node_exporter's folder.

    Returns:
        The path beside the clusters' folders.

    Raises:
        RunFolderError: it cannot be written.
        OSError: the folder cannot be listed.
    """
    text = render(reports_dir)
    for place in (reports_dir / FILE, *places):
        RunFolder(place.parent).write(place.name, text)
    return reports_dir / FILE


def render(reports_dir: Path) -> str:
    """Return the file.

    Raises:
        OSError: the folder cannot be listed.
    """
    families = _Families()
    drained = _drained()
    for name in sorted(history.folders(reports_dir)):
        newest = newest_judged(reports_dir / name)
        if newest is not None:
            with suppress(OSError, UnicodeDecodeError), RunFolder(newest).open(prometheus.FILE) as stream:
                families.take(stream.read(run_folder.MOST_DOCUMENT_BYTES).decode("utf-8"))
            families.take("".join(_of_nodes(reports_dir / name, drained)))
    return families.text()


def newest_judged(cluster: Path) -> Path | None:
    """Return a cluster's newest run that has ended and is judged; None where there is none.

    A run that was killed has no end: it counts once a newer run or `railyard judge` ends it.
    """
    with suppress(OSError):
        for name in sorted(filter(run_folder.is_run_id, history.folders(cluster)), reverse=True):
            path = cluster / name
            with suppress(RunFolderError):
                manifest = RunFolder(path).manifest()
                mine = (manifest.get("run"), manifest.get("cluster")) == (name, cluster.name)
                if mine and manifest.get("end") and (path / run_folder.VERDICTS).exists():
                    return path
    return None


def _drained() -> dict[str, str] | None:
    """Return name in Slurm -> who drained it; None where this machine has no Slurm, or it does not answer."""
    if not sinfo.is_here():
        return None
    try:
        listed = sinfo.ask()
    except sinfo.SinfoError:
        return None
    drained = {name: one for name, one in listed.items() if one.is_drained}
    return {name: DRAINED_BY[not one.is_drained_by(slurm.OWN_REASON)] for name, one in drained.items()}


def _of_nodes(cluster: Path, drained: Mapping[str, str] | None) -> Iterator[str]:
    """Yield the gauges of each node of a cluster's inventory."""
    runs: list[RunResult] = []
    wanted = inventory_nodes(cluster, ())
    for run in node_results.each(cluster):
        runs.append(run)
        # Older runs add nothing once each node is proven.
        if wanted and wanted <= proven_s(runs).keys():
            break
    nodes = wanted or inventory_nodes(cluster, runs)
    label = ("cluster", cluster.name)
    proven = {(label, ("node", node)): at for node, at in sorted(proven_s(runs).items()) if node in nodes}
    yield prometheus.family(PROVEN, METRICS[f"railyard_{PROVEN}"].help, proven.items())
    places = {
        (label, ("node", node), ("rail", fault.rail), ("outcome", fault.outcome), ("cause", fault.cause)): 1
        for node, found in sorted(newest(runs).items())
        if node in nodes
        for fault in found.nodes[node].faults
    }
    if len(places) > MOST_NOT_GOOD:
        yield f"# railyard_{NOT_GOOD} of {label[1]} is left out: {len(places)} series are too many.\n"
    else:
        yield prometheus.family(NOT_GOOD, METRICS[f"railyard_{NOT_GOOD}"].help, places.items())
    if drained is not None:
        by = {node: drained.get(node) or drained.get(node.partition(".")[0]) for node in sorted(nodes)}
        found = {(label, ("node", node), ("by", who)): 1 for node, who in by.items() if who}
        yield prometheus.family(DRAINED, METRICS[f"railyard_{DRAINED}"].help, found.items())


def proven_s(runs: Iterable[RunResult]) -> dict[str, float]:
    """Return node -> end of the last run that tested it with others and found it good, Unix time.

    Args:
        runs: newest first.
    """
    found: dict[str, float] = {}
    for run in runs:
        if run.ended_s is not None:
            for name, one in run.nodes.items():
                if one.is_good:
                    found.setdefault(name, run.ended_s)
    return found


def newest(runs: Iterable[RunResult]) -> dict[str, RunResult]:
    """Return node -> the newest run with it.

    Args:
        runs: newest first.
    """
    found: dict[str, RunResult] = {}
    for run in runs:
        for name in run.nodes:
            found.setdefault(name, run)
    return found


def inventory_nodes(cluster: Path, runs: Iterable[RunResult]) -> set[str]:
    """Return the nodes of a cluster's inventory as of its newest run: removed nodes have no series any more.

    Runs of older versions did not keep them: then these are all nodes of the runs.
    """
    with suppress(RunFolderError):
        names = RunFolder(cluster).document(run_folder.INVENTORY_NODES).get("nodes")
        if isinstance(names, list):
            return {str(name) for name in names}
    return {name for run in runs for name in run.nodes}


def keep_inventory(cluster: Path, nodes: Iterable[str]) -> None:
    """Keep the names of all nodes of a cluster's inventory beside its runs.

    Raises:
        RunFolderError: the file cannot be written.
    """
    document: Mapping[str, object] = {"schema": run_folder.SCHEMA, "nodes": sorted(nodes)}
    RunFolder(cluster).write(run_folder.INVENTORY_NODES, run_folder.pretty(document))
