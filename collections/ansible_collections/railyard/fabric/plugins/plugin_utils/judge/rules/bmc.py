# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does a node's BMC answer? The row that the controller writes of it, and the verdict. Pure.

Where the BMC's address may be (in its own subnet, on no rail, no other's) the preflight has checked before;
that no node has taken it meanwhile is looked up in the facts.
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
#: A refusal comes from the address as well.
_THERE = (ANSWERED, REFUSED)
_EMPTY = (
    "tool_version", "rail", "peer", "netdev", "hca", "gid_index", "gid_type", "window_s", "message_bytes",
    "qps", "mtu_bytes", "active_mtu_bytes", "counters", "raw", "error", "proof",
)  # fmt: skip


def questions(asked: Iterable[AskedLine], plan: Plan) -> dict[str, str]:
    """Return node -> the BMC's address, for the lines that the controller is to answer."""
    return {
        str(line["node"]): str(plan["nodes"][line["node"]]["bmc_address"])
        for line in asked
        if line["check"] == CHECK and line["tool"] != NONE
    }


def row_of(line: AskedLine, address: str, reply: Reply, run: str, started: str) -> dict[str, Any]:
    """Return the result row of one BMC.

    Args:
        line: the asked line.
        address: that was asked.
        reply: what came of it.
        run: the run id.
        started: when the asking began.
    """
    there = reply.state in _THERE
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


def nobody(asked: Iterable[AskedLine], rows: Mapping[str, Sequence[Row]]) -> bool:
    """Tell whether more than one BMC was asked, and not one was there: then the way to them is in doubt."""
    every = (row for line in asked if line["check"] == CHECK for row in rows.get(line["id"], ()))
    said = [told["state"] for row in every if (told := bmc_rows.parse(row))]
    return len(said) > 1 and not any(state in _THERE for state in said)


def judge(
    asked: AskedLine,
    run: str,
    address: str,
    rows: Sequence[Row],
    owners: Mapping[str, Sequence[str]],
    all_silent: bool = False,
) -> Answer:
    """Answer a `bmc` line.

    Args:
        asked: the asked line: one node, no rail.
        run: the run id.
        address: the plan's address of the node's BMC.
        rows: the line's rows.
        owners: bare address -> the nodes that have it on a netdev.
        all_silent: no BMC of the run was there.

    Returns:
        pass when it takes a connection at its own address; recorded when it refuses all that are tried, as a
        BMC with nothing but IPMI does; fail when it is silent, or when a node has its address; unmeasured
        when the question could not leave the controller, or nobody asked it; not applicable by site policy.
    """
    if asked["tool"] == NONE:
        return Answer.not_applicable("site policy: fabric_policy.bmc_check is none")
    where = f"{asked['node']}'s at {address}"
    if len(rows) != 1:
        return Answer.unmeasured("duplicate_row" if rows else "bmc_not_asked", where)
    row = rows[0]
    told = bmc_rows.parse(row)
    wanted = {
        "schema": 1, "run": run, "host": CONTROLLER, "end": "client", "address": address,
        **{key: asked[key] for key in ("check", "tool", "node", "direction")},
    }  # fmt: skip
    wrong = unlike(row, wanted)
    if wrong is not None or told is None or not _is_told(row, told):
        key = wrong or "bmc"
        return Answer.unmeasured("row_garbled", f"{CONTROLLER}: {key} is {row.get(key)!r}")
    answer = Answer.passed(
        {"answers": told["state"] == ANSWERED, "port": told["port"]},
        {"answers": True},
        "a declared BMC takes a TCP connection at its own address, asked by the controller, without a login",
    )
    if "questions" in told:
        answer.observed["questions"] = told["questions"]
    mine = sorted(owners.get(str(ipaddress.ip_address(address)), ()))
    if mine:
        return answer.failed("bmc_address_taken", f"{where} is on a netdev of {', '.join(mine)}")
    if told["state"] in _THERE:
        answer.observed["round_trip_us"] = row["metrics"]["round_trip_us"]
    if told["state"] == REFUSED:
        answer.recorded("a machine is at the BMC's address; it refuses all of fabric_policy.bmc_tcp_ports")
    if told["state"] in _THERE:
        return answer
    error = failures.error_of(row)
    said = error["message"] if error else ""
    if told["state"] == NO_WAY:
        return answer.unknown("bmc_no_way", f"{where}: {said}")
    detail = f"{where} port {told['port']}" + (f": {said}" if said else "")
    if told["state"] == SILENT and all_silent:
        detail += (
            "; none of this run's BMCs answers, so it may be the way from the controller to their network"
        )
    return answer.failed(_CAUSES[told["state"]], detail)


def _is_told(row: Row, told: Bmc) -> bool:
    """Tell whether a row's parts fit together: an answer has its time and proof, and nothing else has."""
    state, metrics = told["state"], row.get("metrics")
    there = state in _THERE
    status = "measured" if there else "unmeasured" if state == NO_WAY else "failed"
    if row.get("status") != status or (row.get("proof") == "proven") is not there:
        return False
    if reader.refusal(dict[str, Annotated[float, AboveZero()]], metrics):
        return False
    return not there or ("round_trip_us" in (metrics or ()) and row.get("error") is None)
