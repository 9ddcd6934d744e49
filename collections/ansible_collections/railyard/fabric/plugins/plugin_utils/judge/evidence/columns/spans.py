# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the hosts with counters that may overlap, while their packed rows are read. Pure.

A node writes its rows in the order in which it measured. So a counter begins where it ended in the row
before, or later. If any counter of a host does not, all of its rows are compared (`overlaps.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.runner import packed_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import Ints, NDArray, np
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

Source = tuple[str, str, str]
"""A host, its netdev or port, and the counter's name."""
_OF_NETDEV = ("tx_", "rx_")
#: Beyond it two values of a column cannot be added.
MOST = 1 << 61


def source_of(row: Row, name: str) -> Source:
    """Return the device of a counter: two rails on one netdev or one port count the same bytes."""
    return str(row.get("host")), str(row.get("netdev" if name.startswith(_OF_NETDEV) else "hca")), name


class Added(NamedTuple):
    """Rows of a table that were read.

    Attributes:
        frames: the frames of the table.
        counters: names of its counters.
        rows: the columns of the rows.
        frame_of: for each row, the index of its frame.
        begin: for each row, the position of its line.
    """

    frames: Sequence[packed_rows.Frame]
    counters: tuple[str, ...]
    rows: NDArray[Any]
    frame_of: NDArray[Any]
    begin: NDArray[Any]


class Spans:
    """Compares rows with those before them.

    Attributes:
        doubtful: the hosts.
    """

    def __init__(self) -> None:
        self.doubtful: set[str] = set()
        self._numbers: dict[Source, int] = {}
        #: Source -> its last value.
        self._last: Ints = np.zeros(0, dtype=np.int64)
        #: Frames of a table (by identity) and counter -> the number of each frame's source.
        self._of_frames: dict[tuple[int, str], list[int]] = {}

    def add(self, parts: Sequence[Added]) -> None:
        """Add rows that follow the ones before in the file."""
        orders: dict[tuple[object, ...], Any] = {}
        for name in dict.fromkeys(name for part in parts for name in part.counters):
            mine = [part for part in parts if name in part.counters]
            sources = np.concatenate([self._number(part, name)[part.frame_of] for part in mine])
            # Counters of one device have one order.
            key = name.startswith(_OF_NETDEV), *map(id, mine)
            if (order := orders.get(key)) is None:
                begin = np.concatenate([part.begin for part in mine])
                order = orders[key] = np.lexsort((begin, sources))
            before, grown = (
                np.concatenate([part.rows[f"{what} {name}"].astype(np.int64) for part in mine])[order]
                for what in ("before", "growth")
            )
            self._compare(sources[order], before, grown)

    def _compare(self, sources: NDArray[Any], before: Ints, grown: Ints) -> None:
        """Compare values by source, in the order of the file, each with the one before."""
        after = before + grown
        begins = np.append(True, sources[1:] != sources[:-1])
        last = np.where(begins, self._last[sources], np.append(0, after[:-1]))
        odd = (before < last) | (grown < 0) | (np.abs(before) >= MOST) | (grown >= MOST)
        if odd.any():
            hosts = [host for host, _device, _name in self._numbers]
            self.doubtful |= {hosts[number] for number in np.unique(sources[odd]).tolist()}
        ends = np.append(begins[1:], True)
        self._last[sources[ends]] = after[ends]

    def _number(self, part: Added, name: str) -> NDArray[Any]:
        """Return for each frame the number of a counter's source."""
        found = self._of_frames.setdefault((id(part.frames), name), [])
        for frame in part.frames[len(found) :]:
            found.append(self._numbers.setdefault(source_of(frame.row, name), len(self._numbers)))
        if len(self._last) < len(self._numbers):
            more = np.full(2 * len(self._numbers) - len(self._last), -MOST, dtype=np.int64)
            self._last = np.append(self._last, more)
        return np.array(found)
