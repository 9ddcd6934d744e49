# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Format the comparison of RDMA with TCP for the terminal, at most 100 columns wide."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import comparison

#: A table with more lines than this shows the worst few; the pages have them all.
MOST_LINES = 8
WORST_SHOWN = 5
NOT_MEASURED = "not measured"
NOT_PLANNED = "not planned"
#: How many names are listed where no function folds them.
_NAMED = 3
_PLACE, _CELL = 38, 17

#: What is compared → the key of its numbers.
KEYS = {"bandwidth": "bandwidth_gbps", "latency": "latency_us"}

Fold = Callable[[Sequence[str]], str]


def lines(compared: comparison.Compared, fold: Fold | None = None) -> list[str]:
    """Return the table and the sentence under it; nothing where RDMA was not planned.

    Args:
        compared: as `comparison.compare_run` returns it.
        fold: names many nodes in short, such as `gpu[001-512]`; default: the first few and how many more.
    """
    if not compared.rows:
        return []
    fold = fold or partial(named, most=_NAMED)
    carried = [row for row in compared.rows if row["asked"]["bandwidth"]]
    delayed = [row for row in compared.rows if "rdma" in row["asked"]["latency"]]
    busy = [row for row in compared.rows if "rdma" in row["asked"]["bandwidth"]]
    cpu = "host CPU during the bandwidth test, % of all processors (sender / receiver)"
    text = ["TCP against RDMA"]
    text += _block(f"bandwidth, Gbit/s ({compared.bandwidth_of})", carried, "bandwidth", fold)
    text += _block(f"latency, µs ({compared.latency_of})", delayed, "latency", fold)
    text += _block(cpu, busy, "cpu", fold)
    return [*text, *wrapped(compared.sentence)]


def cell(row: comparison.Row, what: str, transport: str) -> str:
    """Return one number for people: `27.4 (68 %)`, `not measured` or `not planned`.

    Args:
        row: of `comparison.compare`.
        what: `bandwidth` or `latency`.
        transport: `tcp` or `rdma`.
    """
    if transport not in row["asked"][what]:
        return NOT_PLANNED
    value = row[KEYS[what]][transport]
    if value is None:
        return NOT_MEASURED
    share = row["efficiency"][transport] if what == "bandwidth" else None
    # A share of the link's rate, where the inventory declares one.
    return comparison.three(value) + (f" ({comparison.three(100 * share)} %)" if share is not None else "")


def cpu_cell(row: comparison.Row, transport: str) -> str:
    """Return the host CPU for people: `35.0 / 41.0`, sender and receiver."""
    ends = [row[key][transport] for key in ("cpu_percent", "peer_cpu_percent")]
    if all(value is None for value in ends):
        return NOT_MEASURED if transport in row["asked"]["bandwidth"] else NOT_PLANNED
    return " / ".join("?" if value is None else f"{value:.1f}" for value in ends)


def advantage(row: comparison.Row, what: str) -> str:
    """Return RDMA's advantage as text: `1.39 times faster`; nothing where one of the two is missing."""
    ratio = row[f"{what}_ratio"]
    return comparison.times(ratio) if ratio is not None else ""


def place(row: comparison.Row, longest: int = 0) -> str:
    """Return the pair and rail of a row: `gpuserver1 → gpuserver2  rail0`.

    Args:
        row: of `comparison.compare`.
        longest: cut the names to this many characters altogether; 0 cuts nothing.
    """
    tail = f"  {rail(row)}"
    names = [str(row["node"]), str(row["peer"])]
    if longest and sum(map(len, names)) + 3 + len(tail) > longest:
        room = longest - 3 - len(tail)
        names = [_cut_middle(name.split(".", maxsplit=1)[0], max(room // 2, 5)) for name in names]
        tail = tail[: max(longest - 3 - sum(map(len, names)), 6)]
    return f"{names[0]} {_arrow(row)} {names[1]}{tail}"


def between(row: comparison.Row) -> str:
    """Return the two nodes of a row: `gpuserver1 → gpuserver2`, `↔` for both ways at once."""
    return f"{row['node']} {_arrow(row)} {row['peer']}"


def rail(row: comparison.Row) -> str:
    """Return the rail of a row, or `all rails`."""
    return str(row["rail"] or "all rails")


def worst_first(rows: Iterable[comparison.Row], what: str) -> list[comparison.Row]:
    """Sort rows: those without a comparison first, then the least advantage."""
    return sorted(rows, key=lambda row: -1.0 if row[f"{what}_ratio"] is None else row[f"{what}_ratio"])


def _block(title: str, rows: Sequence[comparison.Row], what: str, fold: Fold) -> list[str]:
    """Return the lines of `bandwidth`, `latency` or `cpu`: all rows, or of many the worst few."""
    if not rows:
        return []
    text = [*wrapped(title, "  "), _line("", "TCP", "RDMA", "RDMA is" if what in KEYS else "")]
    if len(rows) <= MOST_LINES:
        return text + [_line(place(row, _PLACE), *_cells(row, what)) for row in rows]
    known = [row for row in rows if _rank(row, what) is not None]
    text += _missing([row for row in rows if _rank(row, what) is None], len(rows), fold)
    worst = sorted(known, key=lambda row: _rank(row, what) or 0.0)[:WORST_SHOWN]
    text += [_line(place(row, _PLACE), *_cells(row, what)) for row in worst]
    # Both directions at once and all rails carry more: one median of everything would describe neither.
    alike = [row for row in known if row["rail"] is not None and row["direction"] == "uni"]
    if alike and what in KEYS:
        tcp, rdma = (
            comparison.three(statistics.median(row[KEYS[what]][name] for row in alike))
            for name in ("tcp", "rdma")
        )
        ratio = comparison.times(statistics.median(row[f"{what}_ratio"] for row in alike))
        text.append(_line(f"median of {len(alike)}: one rail, one way", tcp, rdma, ratio))
    return text + _left_out(len(known) - WORST_SHOWN)


def _rank(row: comparison.Row, what: str) -> float | None:
    """Return the sort key, worst first: least advantage, busiest sender; None without a number."""
    if what in KEYS:
        return None if row[f"{what}_ratio"] is None else float(row[f"{what}_ratio"])
    busy = row["cpu_percent"]["rdma"]
    return None if busy is None else -float(busy)


def _arrow(row: comparison.Row) -> str:
    return "↔" if row["direction"] == "bi" else "→"


def _cells(row: comparison.Row, what: str) -> tuple[str, str, str]:
    if what not in KEYS:
        return cpu_cell(row, "tcp"), cpu_cell(row, "rdma"), ""
    return cell(row, what, "tcp"), cell(row, what, "rdma"), advantage(row, what)


def _missing(rows: Sequence[comparison.Row], total: int, fold: Fold) -> list[str]:
    if not rows:
        return []
    ends = [{str(row["node"]), str(row["peer"])} for row in rows]
    nodes, common = set.union(*ends), set.intersection(*ends)
    # Where one node is in all of them, name it once.
    who = f"{next(iter(common))} with " if len(common) == 1 else ""
    named = sorted(nodes - common if who else nodes)
    rails = ", ".join(sorted({rail(row) for row in rows}))
    return wrapped(f"{NOT_MEASURED}: {len(rows)} of {total} ({who}{fold(named)}; {rails})", "    ")


def _left_out(count: int) -> list[str]:
    return [f"    {count} more: see report.md or index.html"] if count > 0 else []


def _line(where: str, tcp: str, rdma: str, ratio: str) -> str:
    return f"    {where:<{_PLACE}}{tcp:>{_CELL}}{rdma:>{_CELL}}   {ratio}".rstrip()


def wrapped(text: str, indent: str = "", width: int = 99) -> list[str]:
    """Break at spaces: a terminal would break in the middle of a word."""
    further = f"{indent}  " if indent else ""
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=further,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _cut_middle(name: str, longest: int) -> str:
    """Cut a name in its middle: the end of it distinguishes nodes."""
    if len(name) <= longest:
        return name
    head = (longest - 1) // 2
    return name[:head] + "…" + name[len(name) - (longest - 1 - head) :]
