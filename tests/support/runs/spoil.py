# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Spoil one field of one row of a healthy run; what is then no longer true must not pass."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from support.runs.fake_run import FakeRun

GARBAGE: list[Any] = [
    None, "", "x", "9000", True, False, -1, 0, float("nan"), float("inf"), float("-inf"), [], {},
    [None, None],
    ["1", "2"], [5, 1], [0, 0], [-3, 2], 1e300, {"a": 1},
]  # fmt: skip

#: For the place of any value: what may be another type's, or beyond all sense.
ODD: list[Any] = [
    None, "", "x", "9000", True, -1, 0, float("nan"), float("inf"), 10**400, [], {}, [None], {"a": 1}, [[]],
]  # fmt: skip

#: What a run of TCP asks between two nodes.
CHECKS_BETWEEN = (
    "path_mtu",
    "path_mtu_one_way",
    "ping_rtt",
    "tcp_bandwidth",
    "tcp_latency",
    "tcp_bandwidth_bi",
    "tcp_bandwidth_concurrent",
)


def garbage_for(path: str, check: str, checks: Sequence[str] = CHECKS_BETWEEN) -> list[Any]:
    """Return what one field of a check's row is spoilt with.

    What a check has for itself gets all values. A field that all checks' rows have is read by one code: it
    gets a third of the values for each check, together all of them.
    """
    own = path.partition(".")[0] in ("metrics", "counters", "latency_is", "pinned")
    return GARBAGE if own else GARBAGE[checks.index(check) % 3 :: 3]


def paths(row: dict[str, Any], prefix: str = "") -> list[str]:
    """Return every field of a row, `a.b` for those inside another."""
    found = []
    for key, value in row.items():
        found.append(prefix + key)
        if isinstance(value, dict) and key != "raw":
            found += paths(value, f"{prefix}{key}.")
    return found


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of each value below this one."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*path, key)
        yield from places(one, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    """Return the value at a place."""
    for key in path:
        value = value[key]
    return value


def put(row: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Return a copy of a row with this value at a place."""
    spoilt = copy.deepcopy(row)
    at(spoilt, path[:-1])[path[-1]] = value
    return spoilt


def may_be(odd: Any, before: Any) -> bool:
    """Tell whether a value is of the type of what was there, or one of them says that nothing is known."""
    same = type(odd) is type(before) or {type(odd), type(before)} == {int, float}
    return same or None in (odd, before)


def mutate(row: dict[str, Any], path: str, value: Any, remove: bool = False) -> None:
    """Set one field of a row, or take it out."""
    *parents, last = path.split(".")
    for key in parents:
        row = row[key]
    if remove:
        del row[last]
    else:
        row[last] = value


def error_row(row: dict[str, Any], name: str, status: str, host: str = "gpuserver2") -> None:
    """Make a row that of a test which ended with an error, of which `host` tells."""
    row.update(
        status=status,
        metrics={},
        counters=None,
        proof=None,
        error={"class": name, "message": "what was seen", "host": host, "fix": "do this"},
    )


def obstacle(run: str, node: str, kind: str) -> dict[str, Any]:
    """Return the row by which the controller tells what kept it from a node."""
    error = {"class": kind, "message": "No space left on device", "host": node}
    return {"schema": 1, "run": run, "node": node, "error": error}


# Ends that time nothing may leave their window out; one that is there must be an interval.
UNTIMED = {(check, end) for check in ("path_mtu", "path_mtu_one_way") for end in ("client", "server")}
UNTIMED |= {("ping_rtt", "server"), ("tcp_latency", "server"), ("rdma_read_bandwidth", "server")}
UNTIMED |= {(check, "server") for check in ("rdma_latency", "rdma_read_latency", "rdma_send_latency")}


def still_true(path: str, value: Any, remove: bool, row: dict[str, Any], original: dict[str, Any]) -> bool:
    """Tell whether the changed row says something that may be true, and is judged by its bounds instead."""
    if json.dumps(row, sort_keys=True) == json.dumps(original, sort_keys=True):
        return True
    if path in ("window_s", "error") and value is None:
        return path == "error" or (original["check"], original["end"]) in UNTIMED
    if path == "metrics" and isinstance(value, dict) and not original["metrics"]:
        return True  # this end states no number that it should
    before: Any = original
    for key in path.split("."):
        before = before[key]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    another_number = is_number and isinstance(before, (int, float)) and 0 <= value < 1e9
    return not remove and another_number and not isinstance(before, bool) and path.startswith("metrics.")


def spoil_each_field(
    run: FakeRun,
    check: str,
    end: str,
    is_relevant: Callable[[str], bool],
    checks: Sequence[str] = CHECKS_BETWEEN,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Spoil each relevant field of a row of a check's first test in each way; yield how, and the verdict."""
    identity = run.ids(check)[0]
    original = run.rows(identity, end)[0]
    for path in filter(is_relevant, paths(original)):
        for value, remove in [(None, True), *((one, False) for one in garbage_for(path, check, checks))]:
            view = FakeRunView(run, identity, end)
            mutate(view.row, path, value, remove)
            if not still_true(path, value, remove, view.row, original):
                yield f"{path} {'removed' if remove else repr(value)}", view.verdict(identity)


def again(row: dict[str, Any], attempt: int) -> dict[str, Any]:
    """Return a row of another attempt, with counters of its own."""
    later = copy.deepcopy(row)
    spans = (row["counters"] or {}).items()
    moved = {name: [span[0] + attempt * 10**13, span[1] + attempt * 10**13] for name, span in spans}
    return {**later, "attempt": attempt, "counters": moved}


class FakeRunView:
    """A run of which one row may be changed, without copying the others."""

    def __init__(self, run: FakeRun, identity: str, end: str) -> None:
        self._run = copy.copy(run)
        self._run.results = list(run.results)
        place = next(
            index for index, row in enumerate(run.results) if row["id"] == identity and row["end"] == end
        )
        self.row = pickle.loads(pickle.dumps(run.results[place]))
        self._run.results[place] = self.row
        self._identity = identity
        self._pair = [
            row
            for row in self._run.results
            if row is self.row or (row["id"], row["end"]) == (identity, _other(end))
        ]

    def verdict(self, identity: str) -> dict[str, Any]:
        """Return one verdict; a test's rests on its own two rows, and the others need not be judged again."""
        narrow = copy.copy(self._run)
        if identity == self._identity:
            narrow.asked = [line for line in narrow.asked if line["id"] == identity]
            narrow.results = self._pair
        return next(one for one in narrow.judge() if one["id"] == identity)


def _other(end: str) -> str:
    return "server" if end == "client" else "client"
