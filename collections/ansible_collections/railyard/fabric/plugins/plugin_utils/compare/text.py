# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Format a comparison of two runs as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import significance
from ansible_collections.railyard.fabric.plugins.plugin_utils.compare import environment
from ansible_collections.railyard.fabric.plugins.plugin_utils.compare.run_comparison import (
    Comparison,
    Row,
    Side,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.compare.runs import Place, Run
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line, fold_names
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import (
    comparison,
    comparison_text,
    wording,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.comparison import three

SCHEMA = 1
#: The key figures of a cluster, in the order of the results table: the first check of each line that has a
#: result is shown.
_RESULTS = (
    comparison.RDMA_BANDWIDTH,
    comparison.RDMA_LATENCY,
    ("tcp_bandwidth",),
    ("tcp_latency",),
    ("ping_rtt",),
)
# Maximum number of lines of a section; --json has all.
_LINES = 20
_NUMBER, _SPREAD = 13, 15
#: How many changes the headline names of each kind.
_NAMED = 3
#: Settings that label the two runs, if they differ.
_LABELS = ("cabling", "transport")
_STATISTIC = {comparison.LATENCY_METRIC: " (median)", "rtt_average_us": " (average)"}
_WHICH = {"a": "in A", "b": "in B", "both": "in both"}


def format_comparison(held: Comparison) -> list[str]:
    """Return the lines for a terminal; text from nodes is cleaned."""
    text = [f"{letter}  {_format_run(run)}" for letter, run in (("A", held.a), ("B", held.b))]
    for letter, run in (("A", held.a), ("B", held.b)):
        text += _wrap(f"{letter}: {note}" for note in run.notes)
    text += ["", *_wrap([_format_headline(held)]), "", *_format_results(held), "", *_format_table(held)]
    text += _format_section(
        "Single senders that changed while their rail did not",
        [_format_row(f"{_name_row(one)}, {wording.unit(one.metric)}", one) for one in held.places],
    )
    text += _format_section(
        "Not compared, because the conditions differ", [_format_refused(*one) for one in held.refused]
    )
    text += _format_section(
        "Without a proven result",
        [
            f"{wording.check_title(one.check)}: {len(one.places)} {_WHICH[one.run]} "
            f"({', '.join(one.outcomes)}): {_format_places(one.places)}"
            for one in held.lacking
        ],
    )
    text += _format_section(
        "Changed verdicts",
        [
            f"{wording.check_title(one.check)}: {one.a} → {one.b}: {len(one.places)}, "
            f"{_format_places(one.places)}"
            for one in held.changed
        ],
    )
    differs = environment.find_differences(held.a, held.b)
    text += _format_section("What else differs", [_format_difference(*one) for one in differs]) or [
        "",
        "Nothing else differs.",
    ]
    with_rdma = [(letter, run) for letter, run in (("A", held.a), ("B", held.b)) if run.against_tcp]
    text += ["", "RDMA compared with TCP within each run"] if with_rdma else []
    for letter, run in with_rdma:
        text += [f"  {letter}: {run.table[0]}", *run.table[1:]] if run.table else []
        text += [] if run.table else _wrap([f"{letter}: {run.against_tcp}"])
    text += ["", "How changes are detected", *_wrap(significance.describe_rule())]
    return [clean_line(line) for line in text]


def build_document(held: Comparison) -> dict[str, Any]:
    """Return the comparison as JSON; `metric` names the unit of each number."""
    return {
        "schema": SCHEMA,
        "a": _build_run(held.a),
        "b": _build_run(held.b),
        "compared": held.is_compared,
        "rows": [_build_row(row) for row in held.rows],
        "places": [_build_row(row) for row in held.places],
        "not_compared": [
            {**one._asdict(), "differs": [{"what": what, "a": a, "b": b} for what, a, b in one.differs]}
            for one in held.refused
        ],
        "without_number": [{**one._asdict(), "places": _build_places(one.places)} for one in held.lacking],
        "verdicts": [{**one._asdict(), "places": _build_places(one.places)} for one in held.changed],
        "differs": [one._asdict() for one in environment.find_differences(held.a, held.b)],
        "rule": significance.describe_rule(),
    }


def _build_run(run: Run) -> dict[str, Any]:
    return {
        "run": run.manifest.get("run"),
        "cluster": run.manifest.get("cluster"),
        "folder": str(run.folder),
        "notes": list(run.notes),
        "rdma_against_tcp": run.against_tcp,
    }


def _build_row(row: Row) -> dict[str, Any]:
    return {
        "check": row.check,
        "metric": row.metric,
        "rails": list(row.rails),
        "node": row.node or None,
        "peer": row.peer or None,
        **{
            name: side
            and {"median": side.value, "min": side.least, "max": side.greatest, "values": side.values}
            for name, side in (("a", row.a), ("b", row.b))
        },
        "change_percent": None if row.ratio is None else round((row.ratio - 1) * 100, 2),
        "p_adjusted": row.chance,
        "word": row.finding,
    }


def _build_places(places: Iterable[Place]) -> list[dict[str, str | None]]:
    return [{"node": place.node, "peer": place.peer or None, "rail": place.rail} for place in places]


def _format_run(run: Run) -> str:
    kinds = ", ".join(wording.quantity_text(run.plan.get(key)).replace("_", " ") for key in _LABELS)
    start = run.manifest.get("start")
    begun = start.get("at") if isinstance(start, dict) else None
    return f"{run.name}  {kinds}; {wording.count(len(run.plan['nodes']), 'node')}; began {begun or 'unknown'}"


def _format_headline(held: Comparison) -> str:
    """Return in one sentence what is worse and better in B; names the first checks of each."""
    rows = [*held.rows, *held.places]
    parts = []
    for finding, word in ((significance.WORSE, "worse"), (significance.IMPROVED, "better")):
        # The first row of a check covers its rails and single senders.
        first = {row.check: row for row in reversed(rows) if row.finding == finding}
        found = [_name_row(row) for row in reversed(first.values())]
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        parts += [f"B is {word} in {'; '.join(found[:_NAMED])}{more}."] if found else []
    compared = sum(row.ratio is not None for row in rows)
    if not parts and compared:
        return f"B is neither better nor worse than A in any of {wording.count(compared, 'comparison')}."
    return " ".join(parts) or "Nothing of the two runs can be compared."


def _name_row(row: Row) -> str:
    """Name a row: the check, then the rails, or the single sender."""
    rails = fold_names(list(row.rails)) if row.rails else "all rails at once"
    return f"{wording.heading(row.check)}, {f'{row.node} → {row.peer} ' if row.node else ''}{rails}"


def _format_results(held: Comparison) -> list[str]:
    """Return the results table: one line per key figure."""
    names = [_label_run(held, letter) for letter in ("A", "B")]
    width = max(_NUMBER + 6, *(len(name) + 2 for name in names))
    text = [f"  {'Results':<34}{names[0]:>{width}}{names[1]:>{width}}   difference"]
    for checks in _RESULTS:
        rows = [row for row in held.rows if row.check in checks]
        # The first row of a check covers all its rails.
        row = next((one for one in rows if one.ratio is not None), rows[0] if rows else None)
        sides = (row.a, row.b) if row else (None, None)
        cells = "".join(f"{_format_value(row, side):>{width}}" for side in sides)
        title = wording.heading(row.check if row else checks[0])
        text.append(f"  {title:<34}{cells}   {_format_change(row) if row else significance.NOT_COMPARABLE}")
    return text


def _label_run(held: Comparison, letter: str) -> str:
    for key in _LABELS:
        a, b = (str(run.plan.get(key)).replace("_", " ") for run in (held.a, held.b))
        if a != b:
            return f"{letter}: {a if letter == 'A' else b}"
    return letter


def _format_change(row: Row) -> str:
    return row.finding if row.ratio is None else f"{_format_percent(row.ratio)}: {row.finding}"


def _format_value(row: Row | None, side: Side | None) -> str:
    return f"{three(side.value)} {wording.unit(row.metric)}" if row and side else comparison_text.NOT_MEASURED


def _format_table(held: Comparison) -> list[str]:
    heads = (
        f"{'A':>{_NUMBER}}{'B':>{_NUMBER}}{'change':>9}{'spread of A':>{_SPREAD}}{'spread of B':>{_SPREAD}}"
    )
    text, check = [], ""
    wheres = [fold_names(list(row.rails)) if row.rails else "all rails at once" for row in held.rows]
    width = max(map(len, wheres), default=0)
    for where, row in zip(wheres, held.rows, strict=True):
        if row.check != check:
            check = row.check
            kind = _STATISTIC.get(row.metric, "")
            text += [
                "",
                f"{wording.heading(check)}, {wording.unit(row.metric)}{kind}",
                f"{'':<{width + 2}}{heads}   n",
            ]
        text.append(_format_row(f"  {where:<{width}}", row))
    return text[1:] or ["No results of the two runs can be compared."]


def _format_row(where: str, row: Row) -> str:
    sides = (row.a, row.b)
    values = "".join(
        f"{three(side.value) if side else comparison_text.NOT_MEASURED:>{_NUMBER}}" for side in sides
    )
    spreads = "".join(f"{_format_spread(side):>{_SPREAD}}" for side in sides)
    counts = " / ".join(dict.fromkeys(str(side.values) if side else "0" for side in sides))
    chance = f" (p {row.chance:.2g})" if row.chance is not None else ""
    change = "" if row.ratio is None else _format_percent(row.ratio)
    return f"{where}{values}{change:>9}{spreads}   {counts:<5} {row.finding}{chance}"


def _format_spread(side: Side | None) -> str:
    return f"{three(side.least)} to {three(side.greatest)}" if side and side.values > 1 else ""


def _format_percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %"


def _format_section(title: str, lines: Sequence[str]) -> list[str]:
    more = [f"  and {len(lines) - _LINES} more: see --json"] if len(lines) > _LINES else []
    return ["", title, *(f"  {line.lstrip()}" for line in lines[:_LINES]), *more] if lines else []


def _wrap(sentences: Iterable[str]) -> list[str]:
    return [line for one in sentences for line in comparison_text.wrapped(one, "  ", 108)]


def _format_refused(tool: str, differs: Iterable[tuple[str, str, str]], rows: int) -> str:
    differences = ", ".join(f"{what} {a} / {b}" for what, a, b in differs)
    return f"{tool} {differences}: {wording.count(rows, 'row')} not compared"


def _format_difference(what: str, a: str, b: str, nodes: Sequence[str], rails: Sequence[str]) -> str:
    where = ", ".join(fold_names(list(names)) for names in (nodes, rails) if names)
    return f"{what}: {a} → {b}" + (f" ({where})" if where else "")


def _format_places(places: Sequence[Place]) -> str:
    nodes = list(dict.fromkeys(name for place in places for name in (place.node, place.peer) if name))
    rails = list(dict.fromkeys(place.rail for place in places if place.rail))
    return ", ".join(fold_names(names) for names in (nodes, rails) if names)
