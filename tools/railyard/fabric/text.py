"""What was found, on a terminal: the headline first, then what to do, then the leaves."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from railyard.base import terminal
from railyard.fabric import folders
from railyard.fabric.documents import EXIT_MEANING, Report, coverage_row, show_ratio
from railyard.plan.table import print_uncut

_STATUS_STYLES = {0: "bold green", 1: "bold red", 3: "bold yellow"}
_LEAVES_SHOWN = 32


def print_report(report: Report, folder: Path, out: Console) -> None:
    """Print what was found.

    Args:
        report: what was found.
        folder: where it was written.
        out: where to print.
    """
    out.print(Text(clean(report.headline), style=_STATUS_STYLES[report.status]))
    terminal.print_findings(report.folded, out)
    out.print()
    print_uncut(_leaves(report))
    for note in report.notes:
        out.print(Text(note, style="dim"))
    for subnet in report.subnets:
        out.print(
            Text("; ".join(f"{what}: {value}" for what, value in coverage_row(subnet).items()), style="dim")
        )
    out.print(f"Exit status {report.status}: {EXIT_MEANING[report.status]}")
    out.print(Text(clean(f"Report: {folder / folders.PAGE}")))


def _leaves(report: Report) -> Table:
    """Make a row for each leaf; of many leaves, the most oversubscribed ones."""
    leaves = [leaf for one in report.subnets for leaf in one.judgement.leaves]
    shown = leaves
    if len(leaves) > _LEAVES_SHOWN:
        shown = sorted(leaves, key=lambda leaf: -(leaf.ratio_now or float("inf")))[:_LEAVES_SHOWN]
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    numbers = ("host ports", "down Gbit/s", "up Gbit/s", "spines", "now", "cabled", "declared")
    for title in ("leaf", *numbers):
        made.add_column(title, justify="right" if title in numbers else "left", no_wrap=title in numbers)
    for leaf in shown:
        ratios = map(show_ratio, (leaf.ratio_now, leaf.ratio_cabled, leaf.ratio_declared))
        rates = (f"{leaf.hosts_gbps:g}", f"{leaf.uplinks_gbps_now:g}", str(len(leaf.spines)))
        made.add_row(Text(clean(leaf.name)), str(leaf.hosts), *rates, *ratios)
    if len(shown) < len(leaves):
        made.caption = f"{len(shown)} of {len(leaves)} leaves, the most oversubscribed first"
    return made
