"""The report of a run: page, Markdown and JUnit, from the run folder alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard.report.model import Report


def write_report(run_dir: Path, read: Report | None = None) -> None:
    """Write `index.html`, `report.md` and `junit.xml` into a run folder; same folder, same bytes.

    Args:
        run_dir: the run folder.
        read: what `model.read` made of it, where the caller has that already.

    Raises:
        RunFolderError, JudgeError, PolicyError: it is no run folder, or cannot be read, judged or written.
    """
    # Late, since matplotlib takes longer to load than most commands to run.
    from railyard.report import junit, model, pages

    from ansible_collections.railyard.fabric.plugins.plugin_utils import run_folder  # isort: skip

    report = read or model.read(run_dir)
    folder = run_folder.RunFolder(run_dir)
    for name, text in (
        ("report.md", pages.markdown(report)),
        ("junit.xml", junit.render(report)),
        ("index.html", pages.html(report)),
    ):
        folder.write(name, text)
