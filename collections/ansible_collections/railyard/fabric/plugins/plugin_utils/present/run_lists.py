# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the lists of a cluster's runs (`<reports>/<cluster>/index.html`) and of clusters (`<reports>/`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from ansible_collections.railyard.fabric.plugins.module_utils import owner_lock
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import (
    history,
    pages,
    run_metrics,
    wording,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder, RunFolderError
from markupsafe import Markup

#: Marks a page as Railyard's; pages of other programs are not replaced.
_OURS = b'<meta name="generator" content="Railyard">'
# That line is within the first bytes of the page.
_HEAD_BYTES = 4096
#: Environment: the folder of node_exporter's textfile collector on this machine.
TEXTFILE_DIR = "RAILYARD_TEXTFILE_DIR"
#: Beside the page; `.lock` is held for the whole of a run.
_LOCK = ".lists.lock"
# The page of hundreds of runs takes some seconds.
_LOCK_PATIENCE_S = 60.0
_WIDTH, _HEIGHT, _DOT = 110, 34, 2.5


def write(run_dir: Path) -> list[str]:
    """Write the list of runs of a run's cluster, and the list of clusters.

    Args:
        run_dir: a run folder. Nothing is written unless it is `<reports>/<cluster>/<run>` (a copy is not).

    Returns:
        What could not be written, and why; the run's own report does not need it.
    """
    path = run_dir.resolve()
    cluster = path.parent
    try:
        manifest = RunFolder(path).manifest()
        if (manifest.get("run"), manifest.get("cluster")) != (path.name, cluster.name):
            return []
        notes = [*_write(cluster, cluster_page), *_write(cluster.parent, clusters_page)]
        return [*notes, *_write_metrics(cluster.parent)]
    except (OSError, RunFolderError) as error:
        return [f"the list of runs was not written: {error}"]


def _write(folder: Path, page: Callable[[Path], str]) -> list[str]:
    """Rewrite a folder's page, unless another program wrote it."""
    # When two runs end at once, the later list holds both. The folder itself, which others may open, is
    # not what is locked.
    with owner_lock.held(folder / _LOCK, _LOCK_PATIENCE_S):
        if not _is_ours(folder / history.PAGE):
            return [f"{folder / history.PAGE} is not Railyard's and was left as it is"]
        RunFolder(folder).write(history.PAGE, page(folder))
    return []


def _write_metrics(reports_dir: Path) -> list[str]:
    """Write the gauges of all clusters, into node_exporter's folder as well where one is named."""
    named = os.environ.get(TEXTFILE_DIR)
    places = [Path(named).expanduser() / run_metrics.FILE] if named else []
    try:
        with owner_lock.held(reports_dir / _LOCK, _LOCK_PATIENCE_S):
            run_metrics.write(reports_dir, places)
    except (OSError, RunFolderError) as error:
        return [f"{run_metrics.FILE} was not written: {error}"]
    return []


def _is_ours(page: Path) -> bool:
    if not page.is_symlink() and not page.exists():
        return True
    if page.is_symlink() or not page.is_file():
        return False
    with page.open("rb") as stream:
        return _OURS in stream.read(_HEAD_BYTES)


def cluster_page(folder: Path) -> str:
    """Return the page of a cluster: its runs, and each rail's history.

    Raises:
        OSError: the folder cannot be listed.
    """
    found = history.read_cluster(folder)
    return _rendered("runs.html.j2", cluster=found, trend=trend)


def clusters_page(folder: Path) -> str:
    """Return the page of all clusters, each with its newest run.

    Raises:
        OSError: a folder cannot be listed.
    """
    clusters, unread, others = [], [], 0
    for name in sorted(history.folders(folder)):
        try:
            found = history.read_cluster(folder / name, most=1)
        except OSError as error:
            unread.append(f"{clean_line(name)} cannot be read: {error.strerror}")
            continue
        if found.runs:
            # A folder's name may not be text; in a link it is quoted byte by byte, and is never a scheme.
            clusters.append((found, f"{quote(os.fsencode(name), safe='')}/{history.PAGE}"))
        else:
            others += 1
    if others:
        unread.append(f"{wording.count(others, 'folder')} beside them without a run")
    return _rendered("clusters.html.j2", clusters=clusters, notes=unread)


def trend(values: Sequence[float | None]) -> Markup:
    """Draw a rail's values, oldest first, above a zero line; a gap is a run without a value."""
    most = max((value for value in values if value is not None), default=1.0)
    step = (_WIDTH - 4 * _DOT) / max(len(values) - 1, 1)
    dots, path, before = [], "", False
    for number, value in enumerate(values):
        if value is not None:
            at = f"{2 * _DOT + number * step:.1f},{_HEIGHT - 2 - value / most * (_HEIGHT - 8):.1f}"
            path += f"{'L' if before else 'M'}{at}"
            dots.append(at.split(","))
        before = value is not None
    marks = "".join(f'<circle cx="{x}" cy="{y}" r="{_DOT}"/>' for x, y in dots)
    # Only numbers that were formatted here, no text from outside.
    return Markup(  # noqa: S704
        f'<svg class="trend" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'aria-hidden="true"><path class="zero" d="M0,{_HEIGHT - 1}H{_WIDTH}"/><path d="{path}"/>'
        f"{marks}</svg>"
    )


def _rendered(template: str, **more: object) -> str:
    page = pages.environment(autoescape=True).get_template(template)
    return page.render(words=wording, number=wording.number, **pages.page_style(), **more).rstrip() + "\n"
