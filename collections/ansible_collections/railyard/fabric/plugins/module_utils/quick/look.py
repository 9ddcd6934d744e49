# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the quick check of a node: rails, error counters, governor, GPUs; with a time limit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .. import bounded
from ..bounded import At
from ..facts import host, kernel_log, netdev
from ..facts.gpus import by_the_clock
from ..facts.sysfs import Reader
from ..rails.bind import Bound
from . import device_names, gpus, last_look, loopback, rails, xids
from .expectation import Expectation
from .found import Finding, Found

# With the calls of Slurm afterwards it ends within 30 s; Slurm kills its health check after 60 s.
LIMIT_S = 20.0
_IP_S = 5.0
# All queries of nvidia-smi together.
_GPU_S = 15.0
_ITEM_GOVERNOR = "governor"


class How(NamedTuple):
    """How to check.

    Attributes:
        name: the name of the check, which has a separate last check.
        folder: where last checks are stored.
        keep: whether this one is stored.
        loopback: whether each HCA is tested with itself.
        root: `/`, or a folder that looks like it.
    """

    name: str
    folder: str = last_look.FOLDER
    keep: bool = True
    loopback: bool = False
    root: str = "/"


def bounded_look(expected: Expectation, how: How, limit_s: float = LIMIT_S) -> Found:
    """Check the node with a time limit; what hangs is unknown."""
    document, why = bounded.call(lambda at: look(expected, how, at, limit_s).to_json(), limit_s)
    return unfinished(why, how, expected) if document is None else Found.from_json(document)


def unfinished(
    why: str, how: How, expected: Expectation | None, cause: tuple[str, str] = ("look", "look_unfinished")
) -> Found:
    """Return the result of a check that did not finish; earlier errors stay reported.

    Args:
        why: why it did not finish.
        how: how the node was checked.
        expected: the expected state, or None where it is unknown.
        cause: item and cause of it.
    """
    found = Found()
    found.add_unknown(why, *cause)
    with contextlib.suppress(last_look.LookError):
        last = last_look.load(how.folder, how.name)
        found.keep_earlier(last.findings if last else (), lambda one: _is_expected(one, expected))
    return found


def read_boot_id(how: How) -> str | None:
    """Return the kernel's id of this boot; None where it is unknown."""
    reader = Reader(proc_root=f"{how.root.rstrip('/')}/proc")
    return reader.text(reader.proc("sys", "kernel", "random", "boot_id"))


def look(expected: Expectation, how: How, at: At, limit_s: float) -> Found:
    """Check the node; `at` is called with what is being checked."""
    deadline = time.monotonic() + limit_s
    root = how.root.rstrip("/")
    reader = Reader(f"{root}/sys", f"{root}/proc", f"{root}/etc")
    found = Found()
    bound: dict[str, Bound] = {}
    if expected.rails:
        at("the rails")
        bound = _rails(expected, reader, found)

    def at_rest(after: int, records: list[kernel_log.Record]) -> int | None:
        at("the governor")
        _governor(expected, reader, found)
        at("the GPUs")
        left_s = max(min(_GPU_S, deadline - time.monotonic() - 1), 0)
        log_next = gpus.look(
            expected.node, expected.gpus, reader, by_the_clock(left_s), after, found, records
        )
        if how.loopback:
            at("the loopback of the HCAs")
            loopback.look(bound, expected.transport, deadline - 1, found)
        return log_next

    at("the error counters")
    _since_last(expected, bound, how, reader, found, at_rest)
    return found


def _is_expected(finding: Finding, expected: Expectation | None) -> bool:
    """Return whether the expectation still has a finding's item; True without an expectation."""
    if expected is None:
        return True
    if finding.rail:
        return any(rail["name"] == finding.rail for rail in expected.rails)
    return bool(expected.governor) if finding.item == _ITEM_GOVERNOR else True


def _rails(expected: Expectation, reader: Reader, found: Found) -> dict[str, Bound]:
    addresses: str | None = None
    try:
        addresses = bounded.ask(["ip", "-d", "-j", "addr"], _IP_S).text
    except bounded.ToolError as error:
        found.add_unknown(f"addresses: {error}", "addresses", "addresses_unread")
    known = bool(netdev.read_ip_json(addresses))
    if addresses is not None and not known:
        said = "addresses: `ip -d -j addr` gave no JSON"
        found.add_unknown(said, "addresses", "addresses_unread")
    seen = rails.facts(reader, addresses)
    bound = rails.look(expected, seen, known, found)
    if expected.transport != "tcp":
        ports = [str(port["hca"]) for port in seen["hcas"]]
        device_names.look(expected.node, ports, bound, reader, found)
    return bound


def _since_last(
    expected: Expectation,
    bound: Mapping[str, Bound],
    how: How,
    reader: Reader,
    found: Found,
    at_rest: Callable[[int, list[kernel_log.Record]], int | None],
) -> None:
    """Compare error counters and the kernel's log with the last check, and store them and the errors.

    Args:
        expected: the expected state.
        bound: the rails.
        how: how to check.
        reader: where the kernel's files are.
        found: takes the findings.
        at_rest: runs the remaining checks, with the log from a record on; takes the log's new records, and
            returns the number of the next one.
    """
    boot_id = read_boot_id(how)
    looked = False

    def hold() -> last_look.Last:
        nonlocal looked
        last = _last(how, found)
        seen = rails.counters(bound, reader.sys_root)
        now = last_look.Last(boot_id, time.clock_gettime(time.CLOCK_BOOTTIME), seen)
        if bound:
            rails.since(last, now, bound, found)
        same_boot = last if last is not None and last.boot_id == boot_id else None
        after = same_boot.log_next if same_boot else 0
        looked = True
        records: list[kernel_log.Record] = []
        log_next = at_rest(after, records)
        found.keep_earlier(last.findings if last else (), lambda one: _is_expected(one, expected))
        counted = xids.add(same_boot.xids if same_boot else xids.NONE, records)
        found.gpus["xids"] = xids.document(counted)
        return now._replace(
            log_next=after if log_next is None else log_next,
            findings=tuple(one for one in found.findings if one.is_wrong),
            xids=counted,
        )

    try:
        if not how.keep:
            hold()
            return
        with last_look.alone(how.folder, how.name):
            last_look.store(how.folder, how.name, hold())
    except last_look.LookError as error:
        found.add_unknown(f"error counters: {error}", "error_counters", "counters_unread")
        if not looked:
            at_rest(0, [])


def _last(how: How, found: Found) -> last_look.Last | None:
    try:
        return last_look.load(how.folder, how.name)
    except last_look.LookError as error:
        found.add_unknown(f"error counters: {error}", "error_counters", "counters_unread")
        return None


def _governor(expected: Expectation, reader: Reader, found: Found) -> None:
    if not expected.governor:
        return
    seen: dict[str, Any] = host.governors(reader)["governors"]
    if not seen and expected.node_class != "container":
        said = f"governor: this {expected.node_class} node has no cpufreq, {expected.governor} is expected"
        found.add_unknown(said, _ITEM_GOVERNOR, "governor_unread")
    elif seen and set(seen) != {expected.governor}:
        listed = ", ".join(f"{governor} on {count} CPUs" for governor, count in seen.items())
        said = f"governor: {listed}, {expected.governor} is expected"
        found.add_wrong(said, _ITEM_GOVERNOR, "governor_differs")
    else:
        found.good += [f"governor {expected.governor}"] if seen else []
        found.good_items.append(_ITEM_GOVERNOR)
