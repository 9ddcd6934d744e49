"""The end of a run on the terminal: a verdict per rail, what is wrong and what to do, the answer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean, clean_line, fold_names
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import (
    comparison_text,
    fabric_rows,
    model,
    wording,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.pages import exit_meaning
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.run_file import RunFabric
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.summary import Folded
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from railyard.base import output

_STYLES = {
    "pass": "green",
    "fail": "bold red",
    "unmeasured": "bold yellow",
    "recorded": "cyan",
    "not_applicable": "dim",
    "met_suspect": "magenta",
}
_SEVERITIES = {"fail": "bold red", "unmeasured": "bold yellow", "warn": "yellow"}
_PROBLEMS_SHOWN = 12
_FINDINGS_SHOWN = 8
_REASONS_SHOWN = 6


def summary(report: model.Report, out: Console, status: int | None = None) -> None:
    """Print the end of a run.

    Args:
        report: what was measured.
        out: where to print.
        status: the exit status of the whole command; None where it is the report's.
    """
    out.print()
    out.print(_rails(report, out.width))
    if report.node_count > 1:
        out.print(Text("A check between two nodes is counted in the rows of both.", style="dim"))
    if report.who_is_slow:
        out.print(Text("\nSlow components", style="bold"))
    for told in report.who_is_slow[:_PROBLEMS_SHOWN]:
        out.print(Text(f"  {clean_line(told)}"))
    if (more := len(report.who_is_slow) - _PROBLEMS_SHOWN) > 0:
        out.print(f"  … and {more} more; see the report.")
    for problem in report.problems[:_PROBLEMS_SHOWN]:
        shown = wording.outcome(problem.outcome)
        out.print()
        out.print(
            Text.assemble(
                (f"{shown.symbol} {shown.word}", _STYLES[shown.name]),
                (f"  {clean_line(problem.places_text)}", "bold"),
                (f"  ({clean_line(problem.checks_text)})", "dim"),
            )
        )
        out.print(Text(_indented(problem.cause)))
        if problem.next:
            out.print(Text(_indented(f"next: {problem.next}"), style="cyan"))
    left_out = len(report.problems) - _PROBLEMS_SHOWN
    if left_out > 0:
        out.print(f"\n… and {left_out} more causes; the report has them all.")
    for note in report.notes:
        out.print(Text(f"\n{clean_line(note)}", style="yellow"))
    if report.fabric:
        shown = wording.outcome(fabric_rows.OUTCOMES[report.fabric["status"]])
        out.print()
        headline = f"{shown.symbol} Fabric: {clean_line(report.fabric['headline'])}"
        out.print(Text(headline, style=_STYLES[shown.name]))
        print_findings(fabric_rows.fold(report.fabric), out)
        print_paths(report.fabric, out)
    table = comparison_text.lines(report.compared, fold_names)
    if table:
        out.print()
    for line in table:
        # The heading and the sentence, which is not indented, stand out from the numbers.
        out.print(Text(clean_line(line), style="" if line.startswith(" ") else "bold"))
    out.print()
    shown = wording.outcome(report.verdict)
    out.print(Text(f"{shown.symbol} {clean_line(report.headline)}", style=_STYLES[shown.name]))
    counts = ", ".join(
        f"{report.counts[name]} {each.word}" for name, each in wording.OUTCOMES.items() if report.counts[name]
    )
    status = report.exit_status if status is None else status
    out.print(Text(f"{counts}. Exit status {status}: {exit_meaning(status)}", style="dim"))
    for why, count in report.recorded[:_REASONS_SHOWN]:
        out.print(Text(f"  {count} recorded: {clean_line(why)}", style="dim"))
    if status != report.exit_status:
        told = f"What was measured would be exit status {report.exit_status}; something beside it went wrong."
        out.print(Text(told, style="yellow"))


def print_findings(folded: Iterable[Folded], out: Console) -> None:
    """Print findings of an InfiniBand fabric, the first few of each cause."""
    for group in folded:
        _outcome, word = fabric_rows.SEVERITIES[group.severity]
        out.print()
        out.print(
            Text.assemble((word, _SEVERITIES[group.severity]), f"  {group.sentence} ({len(group.findings)})")
        )
        for _number, one in group.findings[:_FINDINGS_SHOWN]:
            out.print(Text(f"  {clean_line(one.text)}{' (inferred)' if one.inferred else ''}"))
            if group.next is None:
                out.print(Text(f"    next: {clean_line(one.next)}", style="cyan"))
        if (more := len(group.findings) - _FINDINGS_SHOWN) > 0:
            out.print(f"  … and {more} more; see the page.")
        if group.next is not None:
            out.print(Text(f"  next: {clean_line(group.next)}", style="cyan"))


def print_paths(fabric: RunFabric, out: Console) -> None:
    """Print the paths of slow pairs through the switches."""
    for line in fabric_rows.write_lines(fabric):
        out.print(Text(clean_line(line), style="" if line.startswith(" ") else "bold"))


def report_place(run_dir: Path, out: Console, notes: Iterable[str] = ()) -> None:
    """Say where the report is: on a line of its own, so that a terminal makes a link of it; last of all.

    Args:
        run_dir: the run folder.
        out: where to print.
        notes: what could not be written beside it.
    """
    for note in notes:
        out.print(Text(clean_line(note), style="yellow"))
    out.print(Text(clean(f"Report: {run_dir / 'index.html'}")))


def recap(stats: dict[str, dict[str, int]], out: Console, hosts_shown: int = 12) -> None:
    """Print Ansible's counts per host; of many hosts only those that something happened to."""
    hosts = sorted({host for counts in stats.values() for host in counts})
    lines = {host: _counts(stats, host) for host in hosts}
    shown = [
        host
        for host in hosts
        if len(hosts) <= hosts_shown or stats["failures"].get(host) or stats["dark"].get(host)
    ][: 4 * hosts_shown]
    width = max((len(host) for host in shown), default=0)
    for host in shown:
        out.print(Text(f"{host:<{width}}  {lines[host]}"))
    if len(shown) < len(hosts):
        changed = sum(1 for host in hosts if stats["changed"].get(host))
        out.print(Text(f"{len(hosts) - len(shown)} hosts more; changed on {changed} of {len(hosts)} hosts"))


def _counts(stats: dict[str, dict[str, int]], host: str) -> str:
    names = (("ok", "ok"), ("changed", "changed"), ("dark", "unreachable"), ("failures", "failed"))
    return " ".join(f"{word}={stats[kind].get(host, 0)}" for kind, word in names)


def _rails(report: model.Report, width: int) -> Table:
    """Return a table: a row per node, or per group of nodes with equal outcomes; a column per rail.

    On a narrow terminal cells have less detail, but names are never
    cut.
    """
    for parts in (3, 2, 1):  # symbol, state, share of the rate
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("node", overflow="fold")
        for rail in report.rails:
            table.add_column(Text(clean_line(rail)), overflow="fold")
        for row in report.rows:
            label = row.label + (f" ({len(row.nodes)} nodes)" if len(row.nodes) > 1 else "")
            table.add_row(Text(clean_line(label)), *_cells(row, parts))
        if Measurement.get(_WIDE, _WIDE.options, table).maximum <= width:
            break
    return table


#: A console without a limit, to measure a table's width.
_WIDE = output.console(width=10_000)


def _cells(row: model.RailRow, parts: int) -> list[Text]:
    shares = row.shares or ("",) * len(row.outcomes)
    cells = []
    for name, state, share in zip(row.outcomes, row.states, shares, strict=True):
        shown = wording.outcome(name)
        told = " ".join((shown.symbol, state)[:parts])
        tail = f" ({share})" if share and parts > 2 else ""
        cells.append(Text.assemble((told, _STYLES[shown.name]), (tail, "dim")))
    return cells


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())
