# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the report of a run from its folder: page, Markdown, JUnit, Prometheus metrics, results by node."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.railyard.fabric.plugins.plugin_utils.present import (
    junit,
    model,
    node_results,
    pages,
    prometheus,
    run_lists,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder

PAGE = "index.html"


def write_report(run_dir: Path, read: model.Report | None = None) -> list[str]:
    """Write the report in all its formats into a run folder; the same folder gives the same bytes.

    The lists of the cluster's runs and of all clusters are written again, too (`run_lists.write`).

    Args:
        run_dir: the run folder.
        read: what `model.read` made of it, where the caller has that already.

    Returns:
        A message for each list that could not be written.

    Raises:
        RunFolderError, JudgeError, PolicyError: it is no run folder, or cannot be read, judged or written.
    """
    report = read or model.read(run_dir)
    folder = run_folder.RunFolder(run_dir)
    write_node_results(run_dir, report)
    # The page last: where it exists, the other files do.
    for name, text in (
        (prometheus.FILE, prometheus.render(report)),
        ("report.md", pages.markdown(report)),
        ("junit.xml", junit.render(report)),
        (PAGE, pages.html(report)),
    ):
        folder.write(name, text)
    return run_lists.write(run_dir)


def write_node_results(run_dir: Path, report: model.Report) -> None:
    """Write what the run found of each node, for metrics, the choice of nodes and drains.

    Raises:
        RunFolderError: it cannot be written.
    """
    text = run_folder.pretty(node_results.document(report.by_node))
    run_folder.RunFolder(run_dir).write(node_results.FILE, text)
