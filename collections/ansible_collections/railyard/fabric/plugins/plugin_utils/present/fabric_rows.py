# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a run's report shows the InfiniBand fabric: its findings, and the paths of slow pairs link by link."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.present import wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Finding
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.run_file import (
    FindingRecord,
    LinkRecord,
    PathRecord,
    PortRecord,
    RunFabric,
    WayRecord,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.summary import Folded, fold_findings

#: Outcome that the pages show for an exit status, and for a severity.
OUTCOMES = {0: "pass", 1: "fail", 3: "unmeasured"}
SEVERITIES = {
    "fail": ("fail", "fail"),
    "unmeasured": ("unmeasured", "not decided"),
    "warn": ("recorded", "warning"),
}
#: So many paths are shown at first sight; the others are one click away, and not on a terminal.
PATHS_OPEN = 4


class LinkRow(NamedTuple):
    """A link of a path as text: from which port to which, its rate, and the errors that were counted."""

    link: str
    rate: str
    errors: str


def join_statuses(tested: int, fabric: int) -> int:
    """Return the exit status of the tests and the fabric together: the worse of both."""
    return 1 if 1 in (tested, fabric) else max(tested, fabric)


def find_page(fabric: RunFabric) -> str:
    """Return where the fabric's page is, seen from the run's folder."""
    return f"../fabric/{fabric['folder']}/index.html"


def fold(fabric: RunFabric) -> list[Folded]:
    """Return the findings by cause, as the fabric's own page has them."""
    return fold_findings([(one["number"], Finding(**_drop_number(one))) for one in fabric["findings"]])


def _drop_number(one: FindingRecord) -> dict[str, Any]:
    return {key: value for key, value in one.items() if key != "number"}


def show_pair(path: PathRecord) -> str:
    """Return whose path it is, and which checks failed."""
    checks = ", ".join(map(wording.check_title, path["checks"])) or "slow by all tests together"
    return f"{path['node']} and {path['peer']}, {path['rail']} ({checks})"


def show_way(way: WayRecord) -> str:
    """Return the direction of a path."""
    return f"{way['sender']} to {way['receiver']}"


def list_links(way: WayRecord) -> list[LinkRow]:
    """Return the links of a path as text."""
    return [
        LinkRow(
            f"{_show_port(link['out'])} → {_show_port(link['into'])}",
            "not known" if link["rate_gbps"] is None else f"{wording.number(link['rate_gbps'])} Gbit/s",
            _show_errors(link),
        )
        for link in way["links"]
    ]


def show_gap(way: WayRecord) -> str:
    """Return why a path is not known to its end; empty where it is."""
    if way["unknown"] is None:
        return ""
    return f"{'The rest' if way['links'] else 'The path'} is not known: {way['unknown']}."


def show_left_out(fabric: RunFabric) -> str:
    """Return of how many slow pairs no path was read."""
    return f"Of {wording.count(fabric['paths_left_out'], 'further slow pair')} no path was read."


def write_lines(fabric: RunFabric) -> Iterator[str]:
    """Yield the paths as lines of a terminal: the first few, the report has all."""
    for path in fabric["paths"][:PATHS_OPEN]:
        yield ""
        yield f"Path of {show_pair(path)}"
        for way in path["ways"]:
            yield f"  {show_way(way)}"
            rows = list_links(way)
            width, rate = (max((len(row[at]) for row in rows), default=0) for at in (0, 1))
            for row in rows:
                yield f"    {row.link:<{width}}  {row.rate:>{rate}}  {row.errors}"
            if gap := show_gap(way):
                yield f"    {gap}"
    if (more := len(fabric["paths"]) - PATHS_OPEN) > 0:
        yield f"… and {wording.count(more, 'path')} more; see the report."
    if fabric["paths_left_out"]:
        yield show_left_out(fabric)


def _show_port(port: PortRecord) -> str:
    return f"{port['name']} port {port['port']}"


def _show_errors(link: LinkRecord) -> str:
    if link["grown"] is None:
        return "errors not known"
    shown = []
    for one in link["grown"]:
        much = f"at least {one['by']}" if one["at_least"] else f"{one['by']}"
        much = much if one["by"] else "at its maximum"
        where = link["out"] if one["end"] == "out" else link["into"]
        shown.append(f"{one['counter']} {'' if much[0] == 'a' else '+'}{much} at {_show_port(where)}")
    return "; ".join(shown) or "no errors"
