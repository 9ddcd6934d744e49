# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limit what an archive may hold and what it may cost to read: all such limits are in this file.

An archive comes from a node or from another person, and neither is trusted. `docs/bundle.md` has the limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.measure import registry
from ansible_collections.railyard.fabric.plugins.module_utils.runner import main, raw_names, record
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder

_MIB = 1 << 20


class Size(NamedTuple):
    """Limits on the content of an archive; each is checked before the content is read.

    Attributes:
        packed_bytes: of the archive itself.
        total_bytes: of all members together, their headers included.
        member_bytes: of one member.
        members: how many there may be.
    """

    packed_bytes: int
    total_bytes: int
    member_bytes: int
    members: int

    def unpacked_bytes(self, packed_bytes: int) -> int:
        """Return how far an archive of this size may be unpacked.

        A gzip bomb is a thousand times as large unpacked; rows of a run are 10 to 40 times as large.
        """
        return min(self.total_bytes, _FREE_BYTES + _RATIO * packed_bytes)


#: Up to here the ratio of unpacked to packed size is free, beyond it is at most this.
_FREE_BYTES, _RATIO = 16 * _MIB, 100

#: A bundle that `railyard judge` reads.
BUNDLE = Size(
    packed_bytes=512 * _MIB,
    total_bytes=8 * run_folder.MOST_DOCUMENT_BYTES,
    member_bytes=run_folder.MOST_DOCUMENT_BYTES,
    members=1 << 16,
)
#: A node's archive in a run folder that `railyard bundle` reads.
NODE_IN_BUNDLE = Size(
    packed_bytes=run_folder.MOST_DOCUMENT_BYTES,
    total_bytes=run_folder.MOST_DOCUMENT_BYTES,
    member_bytes=64 * _MIB,
    members=1 << 16,
)


class Cost(NamedTuple):
    """What the whole process of `railyard judge` may use for a bundle."""

    memory_bytes: int
    cpu_s: float


# A bundle of up to so many bytes is judged within so much; each further MiB allows more.
_SMALL_BYTES = 2 * _MIB
_MEMORY_BYTES, _MEMORY_BYTES_PER_BYTE = 256 * _MIB, 128
_CPU_S, _CPU_S_PER_MIB = 20.0, 10.0


def judge_cost(packed_bytes: int) -> Cost:
    """Return what the judgement of a bundle of this size may use."""
    more = max(0, packed_bytes - _SMALL_BYTES)
    return Cost(_MEMORY_BYTES + _MEMORY_BYTES_PER_BYTE * more, _CPU_S + _CPU_S_PER_MIB * more / _MIB)


# Of a node's archive: what the log of a run takes that goes wrong, whatever the run tests.
_BASE_BYTES = 16 * _MIB
# A row has 2 KB; five times a second a rail of several at once is sampled, in 45 bytes.
_ROW_BYTES, _ROW_BYTES_PER_S = 16 << 10, 1 << 10
#: How much longer than the average one row may be: one that has waited long for its partner.
LONGEST_ROW = 8
# A tool's output: iperf3's has less than 1 KB for each stream and second, in each direction.
_RAW_BYTES, _RAW_BYTES_PER_STREAM_S = 32 << 10, 4 << 10


class NodeLimits(NamedTuple):
    """Limits on the archive that a node hands over; they follow from the tests that were planned for it.

    Attributes:
        raw: names of tools' outputs: one for each end of a test that the node has.
        row_bytes: of a row, on average.
        total_bytes: of all members, and of the archive itself.
    """

    raw: frozenset[str]
    row_bytes: int
    total_bytes: int

    @property
    def names(self) -> frozenset[str]:
        """The members that a node's archive may have."""
        return self.raw | {run_folder.RESULTS, record.STATUS, "runner.log"}

    @property
    def size(self) -> Size:
        """The limits on its members."""
        return Size(self.total_bytes, self.total_bytes, self.total_bytes, len(self.names))


def of_node(orders: Sequence[Mapping[str, Any]], node: str) -> NodeLimits:
    """Return the limits on a node's archive.

    Args:
        orders: the run's test schedules: a node that could not hand over its results of the first hands them
            over after the second.
        node: a name of their roster.
    """
    policy = orders[0]["policy"]
    asked = [line for order in orders for line in main.iter_planned({**order, "node": node})]
    raw = frozenset(
        raw_names.raw_name(line["id"], record.end_of(line, node), attempt)
        for line in asked
        for attempt in range(1, 2 + (int(policy.get("confirm", 0)) if line["peer"] is not None else 0))
    )
    # Of planned tests only: the policy of an earlier version's run has no keys of later tests.
    tests = {str(line["check"]) for line in asked}.intersection(registry.CHECKS)
    longest_s = max((registry.planned_s(check, policy) for check in tests), default=0.0)
    output = _RAW_BYTES + _RAW_BYTES_PER_STREAM_S * int(policy["iperf3_streams"]) * longest_s
    row = _ROW_BYTES + _ROW_BYTES_PER_S * longest_s
    return NodeLimits(raw, int(row), _BASE_BYTES + int(len(raw) * (row + output)))
