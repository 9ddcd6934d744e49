# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does a test claim bytes that another test claims too? From the counters in all rows of a run. Pure.

A node runs one test after the other on a rail, and all its rows hold the rail's counters from before and
after. So the spans of one counter follow each other; where two of them share a part, the same traffic would
prove two tests, and it proves neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_whole

Row = Mapping[str, Any]
#: Begin, end, test id and end of the test: (before, after, id, client or server).
Span = tuple[int, int, str, str]
_OF_NETDEV = ("tx_", "rx_")


class Claims:
    """Which tests' counters overlap.

    Args:
        run: the run id; rows of other runs claim nothing.
        tests: all asked lines that two nodes answer.
        rows: test id -> its rows.
    """

    def __init__(self, run: str, tests: Iterable[Row], rows: Mapping[str, Sequence[Row]]) -> None:
        spans: dict[tuple[str, str, str], list[Span]] = {}
        for test in tests:
            for row in rows.get(str(test["id"]), ()):
                end = row.get("end")
                host = test["node"] if end == "client" else test["peer"]
                if row.get("run") == run and row.get("host") == host and row.get("proof") == "proven":
                    _add(spans, row, str(test["id"]), str(end))
        self._shared: dict[tuple[str, str], str] = {}
        for (_host, _source, name), found in spans.items():
            self._sweep(name, sorted(found))

    def shared(self, row: Row) -> str | None:
        """Tell in what a row's counters are those of another test too, or None."""
        return self._shared.get((str(row["id"]), str(row["end"])))

    def _sweep(self, name: str, spans: Sequence[Span]) -> None:
        """Note who overlaps; of those before, the one that reaches the furthest is enough to ask."""
        furthest = spans[0]
        for one in spans[1:]:
            if one[0] < furthest[1]:
                self._note(name, one, furthest)
                self._note(name, furthest, one)
            furthest = max(furthest, one, key=lambda span: span[1])

    def _note(self, name: str, one: Span, other: Span) -> None:
        seen = f"{name} from {one[0]} to {one[1]}"
        said = f"its {seen} is in part that of test {other[2]}, {other[0]} to {other[1]}"
        self._shared.setdefault((one[2], one[3]), said)


def _add(spans: dict[tuple[str, str, str], list[Span]], row: Row, identity: str, end: str) -> None:
    counters = row.get("counters")
    for name, span in counters.items() if isinstance(counters, Mapping) else ():
        if isinstance(span, list) and len(span) == 2 and all(map(is_whole, span)) and span[0] < span[1]:
            # Two rails on one netdev or one port count the same bytes.
            source = row.get("netdev" if str(name).startswith(_OF_NETDEV) else "hca")
            key = (str(row.get("host")), str(source), str(name))
            spans.setdefault(key, []).append((span[0], span[1], identity, end))
