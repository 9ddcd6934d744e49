"""What was found, as a document for programs, as a page and as drawings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.present import fabric_rows, pages, wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.fabric_rows import OUTCOMES, SEVERITIES
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import summary
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import (
    Expected,
    Finding,
    Judgement,
    LeafState,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.rail_groups import (
    RailGroups,
    find_groups,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.rank_order import Subnet
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.run_file import PathRecord
from markupsafe import Markup

from railyard.fabric import drawing, folders
from railyard.plan import svg_parts

SCHEMA = 1
#: So many findings of a cause are open on the page; the others are one click away.
_OPEN, _MOST_SHOWN = 12, 1000
_INVENTORY = re.compile(r"\bINVENTORY\b")


class Report(NamedTuple):
    """What was found.

    Attributes:
        cluster: the inventory's name.
        subnets: each subnet with its judgement.
        expected: what the inventory says of all of them.
        groups: the nodes by their leaves.
        headline: what came of it, in one line.
        folded: the findings of all subnets by cause.
        notes: statements that are no findings.
        status: the exit status.
        drawings: for each subnet: for the page, and as a file of its own.
        document: for programs.
        page: the page.
        paths: the paths of slow pairs, where the fabric was read around a run.
        run: the id of that run.
    """

    cluster: str
    subnets: tuple[Subnet, ...]
    expected: Expected
    groups: RailGroups
    headline: str
    folded: tuple[summary.Folded, ...]
    notes: tuple[str, ...]
    status: Literal[0, 1, 3]
    drawings: tuple[tuple[str, str], ...]
    document: dict[str, Any]
    page: str
    paths: tuple[PathRecord, ...] = ()
    run: str | None = None


def build_report(
    cluster: str,
    read: Sequence[Subnet],
    expected: Expected,
    sources: Sequence[str],
    notes: Sequence[str] = (),
    paths: Sequence[PathRecord] = (),
    run: str | None = None,
) -> Report:
    """Make everything that is shown or written of a reading.

    Args:
        cluster: the inventory's name.
        read: each subnet with its judgement.
        expected: what the inventory says of all of them.
        sources: what follows `-i`: the commands of next steps name it.
        notes: statements beside those of the judgements.
        paths: the paths of slow pairs.
        run: the run that found these, whose folder is beside that of the readings.
    """
    subnets = [one._replace(judgement=_with_sources(one.judgement, sources)) for one in read]
    judgements = [one.judgement for one in subnets]
    numbered = summary.number_findings(judgements)
    headline = summary.write_headline(judgements)
    statuses = {judgement.status for judgement in judgements}
    status: Literal[0, 1, 3] = 1 if 1 in statuses else 3 if 3 in statuses else 0
    told = [note for judgement in judgements for note in judgement.notes]
    all_notes = tuple(dict.fromkeys([*told, *notes]))
    drawings = tuple(
        (
            drawing.draw(_title(cluster, subnets, one), headline, *one, mine, paths=paths),
            drawing.draw(_title(cluster, subnets, one), headline, *one, mine, folders.PAGE, paths),
        )
        for one, mine in zip(subnets, numbered, strict=True)
    )
    folded = tuple(summary.fold_findings([pair for mine in numbered for pair in mine]))
    groups = find_groups(judgements, expected.nodes)
    report = Report(
        cluster, tuple(subnets), expected, groups, headline, folded, all_notes, status, drawings, {}, "",
        tuple(paths), run,
    )  # fmt: skip
    return report._replace(document=_document(report), page=_page(report))


def show_ratio(ratio: float | None) -> str:
    """Return an oversubscription, `1.07:1`."""
    return "–" if ratio is None else f"{ratio:.3g}:1"  # noqa: RUF001 - a dash for no value


def show_time(seconds: float) -> str:
    """Return a time as people read it, UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def show_source(one: Subnet) -> str:
    """Return where a subnet was read from."""
    reading = one.reading
    where = f"from {reading.host}" if reading.host else "from a capture"
    return f"{where}{f' {reading.device}' if reading.device else ''}, {show_time(reading.taken_at_s)}"


def _with_sources(judgement: Judgement, sources: Sequence[str]) -> Judgement:
    """Return a judgement whose next steps name the inventory."""
    inventory = " -i ".join(map(shlex.quote, sources))
    found = (
        one._replace(next=_INVENTORY.sub(lambda _word: inventory, one.next)) for one in judgement.findings
    )
    return judgement._replace(findings=tuple(found))


def _title(cluster: str, subnets: Sequence[Subnet], one: Subnet) -> str:
    return cluster if len(subnets) == 1 else f"{cluster}, subnet {list(subnets).index(one) + 1}"


def _document(report: Report) -> dict[str, Any]:
    """Return the document of `--json` and findings.json (docs/fabric.md)."""
    return {
        "schema": SCHEMA,
        "cluster": report.cluster,
        "status": report.status,
        "headline": report.headline,
        "notes": list(report.notes),
        "units": [{"name": one.name, "nodes": list(one.nodes)} for one in report.groups.groups],
        "unlinked": list(report.groups.unlinked),
        "subnets": [_subnet(one) for one in report.subnets],
        "paths": list(report.paths),
    }


def _subnet(one: Subnet) -> dict[str, Any]:
    reading, judgement = one
    return {
        "host": reading.host,
        "device": reading.device,
        "prefix": reading.prefix,
        "taken_at_s": reading.taken_at_s,
        "status": judgement.status,
        "is_tree": judgement.is_tree,
        "coverage": judgement.coverage._asdict(),
        "findings": [_finding(finding) for finding in judgement.findings],
        "leaves": [{**leaf._asdict(), "spines": dict(leaf.spines)} for leaf in judgement.leaves],
    }


def _finding(one: Finding) -> dict[str, Any]:
    return {
        **one._asdict(),
        "ports": [port._asdict() for port in one.ports],
        "sources": [source._asdict() for source in one.sources],
    }


def _page(report: Report) -> str:
    template = pages.environment(autoescape=True).get_template("subnet.html.j2")
    return template.render(
        **pages.page_style(),
        words=wording,
        report=report,
        outcome=OUTCOMES[report.status],
        severities=SEVERITIES,
        fabric_rows=fabric_rows,
        open_count=_OPEN,
        most_shown=_MOST_SHOWN,
        drawn=[_inline(inline) for inline, _file in report.drawings],
        leaves=[_leaf_row(leaf) for one in report.subnets for leaf in one.judgement.leaves],
        coverage=[coverage_row(one) for one in report.subnets],
        exit_meaning=EXIT_MEANING[report.status],
    ).rstrip() + "\n"  # fmt: skip


def _inline(svg: str) -> tuple[int, Markup]:
    """Return a drawing's width, and the drawing, which escapes every name itself."""
    return int(svg_parts.read_size(svg, "width")), Markup(svg)  # noqa: S704 - names are escaped in it


EXIT_MEANING = {
    0: "every part was read, and no finding fails.",
    1: "a finding fails.",
    3: "a part of the fabric could not be read or decided.",
}


def _leaf_row(leaf: LeafState) -> tuple[str, ...]:
    def gbps(rate: float | None) -> str:
        return "–" if rate is None else f"{rate:g}"  # noqa: RUF001 - a dash for no value

    return (
        leaf.name, str(leaf.hosts), gbps(leaf.hosts_gbps), gbps(leaf.uplinks_gbps_now),
        gbps(leaf.uplinks_gbps_cabled), gbps(leaf.uplinks_gbps_declared), str(len(leaf.spines)),
        show_ratio(leaf.ratio_now), show_ratio(leaf.ratio_cabled), show_ratio(leaf.ratio_declared),
    )  # fmt: skip


def coverage_row(one: Subnet) -> dict[str, str]:
    """Return how much of a subnet was read, as text."""
    read = one.judgement.coverage
    rows = {
        "read": show_source(one),
        "switches": str(read.switches),
        "adapters": f"{read.adapters}, {read.found_ports} of {read.expected_ports} declared ports",
        "links": str(read.links),
        "error counters": "one reading or none: growth is not known"
        if read.counted_s is None
        else f"two readings, {read.counted_s:.0f} s apart",
        "partitions": "not read" if read.pkey_tables is None else f"P_Key tables of {read.pkey_tables} ports",
        "subnet managers": "not read" if read.managers is None else f"{read.managers} answered",
    }
    if read.aggregation_nodes:
        rows["SHARP aggregation nodes"] = str(read.aggregation_nodes)
    return rows
