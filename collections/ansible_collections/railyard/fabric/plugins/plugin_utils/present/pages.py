# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render the page and its Markdown version from templates. All input data is escaped here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import fold_names
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import (
    charts,
    comparison_chart,
    comparison_text,
    fabric_rows,
    heatmap,
    picture,
    size_curve_chart,
    spread,
    suspects,
    wording,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.meetings import RailMatrix
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.model import Report
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

_PROBLEMS_SHOWN = 40
# So many lines of TCP against RDMA are shown; more are the worst.
_COMPARED_SHOWN = 400
# Tables up to these sizes are open; the others are one click away.
_OPEN_WHEN_AT_MOST = 12
_SPREADS_OPEN = 24
_ROWS_OPEN = 8
#: From so many nodes on the page lists its sections.
CONTENTS_FROM_NODES = 8

_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")

_EXIT_MEANING = {
    0: "everything planned was measured, and nothing failed.",
    1: "something failed.",
    2: "bad input.",
    3: "something planned is unmeasured, a node did not answer, or the run is incomplete.",
}


def html(report: Report) -> str:
    """Return the page: one file, no script, nothing loaded from anywhere."""
    page = _rendered(
        "report.html.j2",
        report,
        **page_style(),
        spreads_open=_SPREADS_OPEN,
        rows_open=_ROWS_OPEN,
        picture=Markup(picture.draw(report)),  # noqa: S704 - escapes every name itself
        matrices=_matrices(report),
        tiles=Markup(heatmap.patterns()),  # noqa: S704 - constant
        open_tables={table.check for table in report.tables if _worth_opening(table.check, len(table.shown))},
        **_charts(report),
    )
    return _link_sections(page, list_them=report.node_count >= CONTENTS_FROM_NODES).rstrip() + "\n"


def _link_sections(page: str, *, list_them: bool) -> str:
    """Give each section an anchor, and list the sections where the page is long enough to need it."""
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    anchors = {title: re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") for title in titles}
    links = "".join(f'<a href="#{anchor}">{title}</a>' for title, anchor in anchors.items())
    page = re.sub(r"<h2>(.*?)</h2>", lambda found: f'<h2 id="{anchors[found[1]]}">{found[1]}</h2>', page)
    contents = f'<nav class="contents" aria-label="Contents">{links}</nav>' if list_them else ""
    return page.replace("<!-- contents -->", contents)


def _matrices(report: Report) -> list[tuple[RailMatrix, Markup]]:
    """Return each matrix with its drawing."""
    return [
        (one, Markup(heatmap.draw(report.meetings, one)))  # noqa: S704 - escapes every name itself
        for one in report.meetings.matrices
    ]


def page_style() -> dict[str, Any]:
    """Return what the template of every page needs: the style, and how an outcome is shown."""
    style = environment(autoescape=True).get_template("style.css").render()
    return {
        "css": lambda name: str(name).replace("_", "-"),
        "verdict": verdict_mark,
        "style": Markup(style),  # noqa: S704 - a file of the collection without data
    }


def _charts(report: Report) -> dict[str, Any]:
    """Return the drawings, or why there are none: a distribution's Ansible comes without matplotlib."""
    try:
        drawn, compared = (
            charts.draw(report.measurements, report.passes),
            comparison_chart.draw(report.compared),
        )
        curves = size_curve_chart.draw(report.curves)
    except ImportError as error:
        return {"charts": [], "compared_chart": None, "no_charts": str(error)}
    return {"charts": drawn + ([curves] if curves else []), "compared_chart": compared, "no_charts": ""}


def markdown(report: Report) -> str:
    """Return the report in Markdown, for a terminal, a ticket or a pull request."""
    return re.sub(r"\n{3,}", "\n\n", _rendered("report.md.j2", report)).strip() + "\n"


def _rendered(template: str, report: Report, **more: Any) -> str:
    """Fill a template with what page and Markdown both need, and more."""
    return (
        environment(autoescape=template.endswith(".html.j2"))
        .get_template(template)
        .render(
            report=report,
            words=wording,
            fabric_rows=fabric_rows,
            met_suspect=any(suspects.MET_SUSPECT in row.outcomes for row in report.rows)
            or any(one.counts.get(suspects.MET_SUSPECT) for one in report.meetings.matrices),
            fold_names=fold_names,
            coverage=_coverage(report.coverage),
            problems_shown=_PROBLEMS_SHOWN,
            spread_columns=spread.SHOWN,
            exit_meaning=exit_meaning(report.exit_status),
            **_compared(report),
            **more,
        )
    )


def _compared(report: Report) -> dict[str, object]:
    """Return what both templates need of TCP against RDMA: rows, number of further rows, format of cells."""
    rows = list(report.compared.rows)
    if len(rows) > _COMPARED_SHOWN:
        rows = comparison_text.worst_first(rows, "bandwidth")[:_COMPARED_SHOWN]
    return {
        "compared_rows": rows,
        "compared_left_out": len(report.compared.rows) - len(rows),
        "compared_open": len(rows) <= _OPEN_WHEN_AT_MOST,
        "cells": comparison_text,
    }


def _coverage(met: Mapping[str, int]) -> str:
    """Return a sentence about how many node pairs were tested; empty where there are none."""
    if not met.get("of_pairs"):
        return ""
    tested = f"{met['pairs']} of {wording.count(met['of_pairs'], 'node pair')} tested"
    if met.get("of_leaf_pairs"):
        tested += f", {met['leaf_pairs']} of {wording.count(met['of_leaf_pairs'], 'leaf pair')}"
    rest = met["of_pairs"] - met["pairs"]
    return f"{tested}." + (f" The other {rest} were not tested." if rest else "")


def exit_meaning(status: int) -> str:
    """Return the meaning of an exit status of railyard."""
    return _EXIT_MEANING.get(status, "unknown.")


def markdown_text(text: object) -> str:
    """Return text that Markdown shows as it is, on one line, inside a table cell as well."""
    one_line = " ".join(str(text).split())
    escaped = re.sub(r"([\\`*\[\]|#~]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", one_line)
    # Lists and heading underlines at the start of a line; addresses that would become links.
    escaped = re.sub(r"^([-+=])", r"\\\1", re.sub(r"^([0-9]+)([.)])", r"\1\\\2", escaped))
    escaped = escaped.replace("://", r":\//")
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@cache
def environment(*, autoescape: bool) -> Environment:
    """Return the templates' environment: input is escaped, a missing variable is an error."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=autoescape,  # noqa: S701 - off for Markdown only, whose own escape is the `md` filter
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    made.filters["md"] = markdown_text
    made.filters["marked"] = mark_code
    made.filters["code"] = lambda text: " ".join(str(text).replace("`", "'").split())
    return made


def mark_code(text: str) -> Markup:
    """Return text in which commands between backticks are shown as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped


def verdict_mark(name: str, word: str = "") -> Markup:
    """Return an outcome as the pages show it: colour, symbol and word, or another word."""
    shown = wording.outcome(name)
    return Markup('<span class="v {css}"><b aria-hidden="true">{symbol}</b>{word}</span>').format(
        css=shown.name.replace("_", "-"), symbol=shown.symbol, word=word or shown.word
    )


def _worth_opening(check: str, count: int) -> bool:
    """Tell whether a table is open at first: bandwidth and latency, unless there are many lines."""
    return count <= _OPEN_WHEN_AT_MOST and check.endswith(("_bandwidth", "_latency"))
