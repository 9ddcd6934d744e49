# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check a node's rails: their facts, and their error counters since the last check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..facts import link_errors, netdev, rdma_port
from ..facts.sysfs import Reader
from ..rails.bind import Bound, bind
from ..rules import link, rdma
from ..rules.ruling import FAIL, RECORDED, UNMEASURED, Ruling
from . import last_look
from .expectation import Expectation
from .found import Found


def facts(reader: Reader, ip_json: str | None) -> dict[str, Any]:
    """Return netdevs and RDMA ports in the format of a facts row."""
    rows = netdev.read_netdevs(reader, ip_json)
    ports = rdma_port.read_hcas(reader)
    rdma_port.attach(rows, ports)
    return {"netdevs": rows, "hcas": ports}


def look(
    expected: Expectation, seen: Mapping[str, Any], addresses_known: bool, found: Found
) -> dict[str, Bound]:
    """Compare the rails with their facts.

    Args:
        expected: the expected state.
        seen: from `facts`.
        addresses_known: whether the facts' addresses were read; else they are not judged.
        found: takes the findings.

    Returns:
        Rail name -> what it is bound to.
    """
    bound = bind(expected.rails, seen)
    said: dict[str, None] = {}
    recorded: dict[str, list[str]] = {}
    good = 0
    keys = rdma.Pkeys()
    keys.add(bound.values())
    for name, one in bound.items():
        is_good = True
        for check, ruling in _rulings(expected, seen, one, keys):
            item = f"{check}/{name}"
            if check == "address" and not addresses_known:
                ruling = Ruling().unknown("facts_garbled", f"{name}: no addresses without `ip`")
            detail = ruling.detail.removeprefix(expected.node + " ")
            words = f"{ruling.cause}: {detail}"
            is_good = is_good and ruling.outcome not in (FAIL, UNMEASURED)
            # A missing netdev has no link, no address and no MTU, and is reported once.
            if ruling.outcome in (FAIL, UNMEASURED) and words not in said:
                said[words] = None
                add = found.add_wrong if ruling.outcome == FAIL else found.add_unknown
                add(words, item, str(ruling.cause), name)
            if ruling.outcome not in (FAIL, UNMEASURED):
                found.good_items.append(item)
            if ruling.outcome == RECORDED:
                recorded.setdefault(check, []).append(name)
        good += is_good
    if recorded:
        told = (f"{check} of {', '.join(names)}" for check, names in recorded.items())
        found.told.append(f"recorded, not judged: {'; '.join(told)}")
    if good == len(bound) and good:
        found.good.append(f"{good} rail{'s' if good > 1 else ''}")
    return bound


def _rulings(
    expected: Expectation, seen: Mapping[str, Any], one: Bound, keys: rdma.Pkeys
) -> Iterator[tuple[str, Ruling]]:
    for check in link.CHECKS:
        left_out = link.left_out(check, one.rail, expected.transport)
        yield check, left_out or link.rule(check, expected.node, one, expected.node_class, {})
    node = rdma.Node(expected.node, expected.transport, expected.node_class, seen["hcas"], {}, keys)
    for check in rdma.CHECKS.get(expected.transport, ()):
        yield check, rdma.rule(check, node, one)


def counters(bound: Mapping[str, Bound], sys_root: str) -> dict[str, last_look.Seen]:
    """Return the error counters of the existing rails."""
    seen = {}
    for name, one in bound.items():
        if one.netdev is None and one.hca is None:
            continue  # already reported as missing
        device = str((one.netdev or {}).get("netdev") or "")
        hca = str(one.hca["hca"]) if one.hca is not None else None
        seen[name] = last_look.Seen(device, hca, link_errors.read(device, hca, sys_root))
    return seen


def since(last: last_look.Last | None, now: last_look.Last, bound: Mapping[str, Bound], found: Found) -> None:
    """Report the growth of the error counters since the last check."""
    first = []
    grew = False
    doubts = 0
    for rail in now.rails:
        grown = last_look.grown(last, now, rail, bound[rail].rate_gbps)
        grew = grew or bool(grown.wrong)
        doubts += len(grown.unknown)
        item = f"link_errors/{rail}"
        if grown.wrong:
            found.add_wrong(f"link_errors: {rail}: {_listed(grown.wrong)}", item, "link_errors", rail)
        for words in grown.unknown:
            found.add_unknown(f"link_errors: {rail}: {words}", item, "counters_unread", rail)
        if not (grown.wrong or grown.unknown or grown.is_first):
            found.good_items.append(item)
        found.told += [f"{rail}: {_listed(grown.told)}, reported but not judged"] if grown.told else []
        first += [rail] if grown.is_first else []
    if first:
        why = "after a reboot " if last is not None and last.boot_id != now.boot_id else ""
        whose = "" if len(first) == len(now.rails) else " of " + ", ".join(first)
        found.told.append(f"first look {why}at the error counters{whose}")
    elif now.rails and not grew and not doubts and last is not None:
        minutes = max(now.uptime_s - last.uptime_s, 0.0) / 60
        found.good.append(f"no error counter grew in {minutes:.0f} min")


def _listed(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} grew by {by}" for name, by in sorted(values.items()))
