# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge whether a node's BMC answers, and build the row that the controller writes for it. Pure.

The preflight has checked the BMC's address (in its subnet, on no rail, unique). That no node has the address
on a netdev is checked here with the facts.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from ansible_collections.railyard.fabric.plugins.module_utils.records import bmc_rows, failures, reader
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.records.bmc_rows import CONTROLLER, Bmc
from ansible_collections.railyard.fabric.plugins.module_utils.records.reader import AboveZero
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch.bmc_probe import (
    ANSWERED,
    NO_WAY,
    REFUSED,
    SILENT,
    Reply,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Plan, Row, unlike

CHECK = "bmc"
NONE = "none"

_CAUSES = {SILENT: "bmc_silent", NO_WAY: "bmc_no_way"}
#: A refusal is an answer from the address too.
_PRESENT = (ANSWERED, REFUSED)
_EMPTY = (
    "tool_version", "rail", "peer", "netdev", "hca", "gid_index", "gid_type", "window_s", "message_bytes",
    "qps", "mtu_bytes", "active_mtu_bytes", "counters", "raw", "error", "proof",
)  # fmt: skip


def list_bmc_addresses(asked: Iterable[AskedLine], plan: Plan) -> dict[str, str]:
    """Return node -> the BMC's address, for the tests that the controller runs."""
    return {
        str(line["node"]): str(plan["nodes"][line["node"]]["bmc_address"])
        for line in asked
        if line["check"] == CHECK and line["tool"] != NONE
    }


def build_row(line: AskedLine, address: str, reply: Reply, run: str, started: str) -> dict[str, Any]:
    """Return the result row of one BMC.

    Args:
        line: the planned test.
        address: the BMC's address.
        reply: the BMC's reply.
        run: the run id.
        started: when the test began.
    """
    there = reply.state in _PRESENT
    error = {
        "class": _CAUSES.get(reply.state),
        "message": reply.message or "",
        "host": line["node"],
        "fix": None,
    }
    return {
        **dict.fromkeys(_EMPTY),
        "schema": 1,
        "run": run,
        "end": "client",
        "host": CONTROLLER,
        **{key: line[key] for key in ("id", "check", "tool", "node", "direction")},
        "address": address,
        "started": started,
        "status": "measured" if there else "unmeasured" if reply.state == NO_WAY else "failed",
        "metrics": {"round_trip_us": reply.round_trip_us} if there else {},
        "bmc": {"state": reply.state, "port": reply.port, "questions": reply.sent},
        **({"proof": "proven"} if there else {"error": error}),
    }


def is_none_reachable(asked: Iterable[AskedLine], rows: Mapping[str, Sequence[Row]]) -> bool:
    """Tell whether none of several BMCs was reachable: then the route to them may be the reason."""
    every = (row for line in asked if line["check"] == CHECK for row in rows.get(line["id"], ()))
    states = [found["state"] for row in every if (found := bmc_rows.parse(row))]
    return len(states) > 1 and not any(state in _PRESENT for state in states)


def judge(
    asked: AskedLine,
    run: str,
    address: str,
    rows: Sequence[Row],
    owners: Mapping[str, Sequence[str]],
    all_silent: bool = False,
) -> Answer:
    """Judge a `bmc` test.

    Args:
        asked: the planned test: one node, no rail.
        run: the run id.
        address: the plan's address of the node's BMC.
        rows: the test's rows.
        owners: bare address -> the nodes that have it on a netdev.
        all_silent: no BMC of the run was reachable.

    Returns:
        pass if it accepts a connection at its address; recorded if it refuses all tried ports, as a BMC with
        only IPMI does; fail if it is silent, or if a node has its address; unmeasured if the controller has
        no route to it or did not connect; not applicable by site policy.
    """
    if asked["tool"] == NONE:
        return Answer.not_applicable("site policy: fabric_policy.bmc_check is none")
    where = f"{asked['node']}'s at {address}"
    if len(rows) != 1:
        return Answer.unmeasured("duplicate_row" if rows else "bmc_not_asked", where)
    row = rows[0]
    found = bmc_rows.parse(row)
    wanted = {
        "schema": 1, "run": run, "host": CONTROLLER, "end": "client", "address": address,
        **{key: asked[key] for key in ("check", "tool", "node", "direction")},
    }  # fmt: skip
    wrong = unlike(row, wanted)
    if wrong is not None or found is None or not _is_consistent(row, found):
        key = wrong or "bmc"
        return Answer.unmeasured("row_garbled", f"{CONTROLLER}: {key} is {row.get(key)!r}")
    answer = Answer.passed(
        {"answers": found["state"] == ANSWERED, "port": found["port"]},
        {"answers": True},
        "a declared BMC accepts a TCP connection from the controller at its own address, without a login",
    )
    if "questions" in found:
        answer.observed["questions"] = found["questions"]
    mine = sorted(owners.get(str(ipaddress.ip_address(address)), ()))
    if mine:
        return answer.failed("bmc_address_taken", f"{where} is on a netdev of {', '.join(mine)}")
    if found["state"] in _PRESENT:
        answer.observed["round_trip_us"] = row["metrics"]["round_trip_us"]
    if found["state"] == REFUSED:
        answer.recorded("a machine is at the BMC's address; it refuses all of fabric_policy.bmc_tcp_ports")
    if found["state"] in _PRESENT:
        return answer
    error = failures.error_of(row)
    message = error["message"] if error else ""
    if found["state"] == NO_WAY:
        return answer.unknown("bmc_no_way", f"{where}: {message}")
    detail = f"{where} port {found['port']}" + (f": {message}" if message else "")
    if found["state"] == SILENT and all_silent:
        detail += "; none of this run's BMCs answers, so check the route from the controller to their network"
    return answer.failed(_CAUSES[found["state"]], detail)


def _is_consistent(row: Row, found: Bmc) -> bool:
    """Tell whether a row's parts are consistent: only an answer has a time and proof."""
    state, metrics = found["state"], row.get("metrics")
    there = state in _PRESENT
    status = "measured" if there else "unmeasured" if state == NO_WAY else "failed"
    if row.get("status") != status or (row.get("proof") == "proven") is not there:
        return False
    if reader.refusal(dict[str, Annotated[float, AboveZero()]], metrics):
        return False
    return not there or ("round_trip_us" in (metrics or ()) and row.get("error") is None)
