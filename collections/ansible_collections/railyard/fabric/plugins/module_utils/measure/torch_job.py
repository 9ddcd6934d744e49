# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run collectives and a training job of all nodes with torch: this node's part, and its rails' counters.

A collective over the management network or another rail gives a good number too, so the counters of the
planned rails have to confirm it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..catalogue import rdma_counters
from ..catalogue.tests import ALL_RAILS
from ..channel.errors import MeasurementError
from ..collective import operations, packed, sweep
from ..parsers import common
from ..parsers.nccl import log
from . import counters, proof
from .node_tool import Company, NodeReading, NodeTool, NodeToolSession

#: Check -> the operation that it repeats in growing sizes; the training job is not among them.
OPERATIONS = {f"collective_{name}": name for name in operations.NAMES}
#: The end of a doubt where the planned rails carried too little.
ELSEWHERE = "the collective used another network"
# To start torch on a busy node; how much longer than planned an operation takes before it counts as stalled.
_START_S, _STALLED_S = 60.0, 20.0
# A node may be late for the first test because of repeated tests elsewhere.
_LATE_S = 180.0
_GPUS = "/proc/driver/nvidia/gpus"
# The least of each rail's equal share; DDP's gradients are split into unequal pieces.
_LEAST_SHARE = 0.9
_DEBUG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}
# The keys of a size that are kept.
_POINT = ("size_bytes", "iterations", "time_us", "time_min_us", "algbw_GBps", "busbw_GBps")


class TorchJob(NodeTool):
    """One test of all nodes together."""

    name = "torch"

    def planned_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds of measuring; 0 for policies without this key."""
        return float(policy.get("collective_duration_s", 0.0))

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds after which it is certainly over, including the wait for the others."""
        return float(policy["first_rendezvous_timeout_s"]) + _LATE_S + _longest_s(policy)

    def program_of(self, check: str, policy: Mapping[str, Any]) -> str:
        """Return the interpreter that has torch."""
        return str(policy["collective_python"])

    def measure(self, session: NodeToolSession, check: str) -> NodeReading:
        """Take part in a job."""
        company, subject, backend = (
            session.company(),
            str(session.subject),
            str(session.policy["collective_backend"]),
        )
        gone = [name for name in company.nodes if name in company.absent]
        if gone:
            raise _absent(session, gone)
        wanted = [rail for rail in (*company.rails, *company.failures) if subject in (rail, ALL_RAILS)]
        for rail in wanted:
            if rail in company.failures:
                raise company.failures[rail]
        wait_s = min(company.wait_s, float(session.policy["first_rendezvous_timeout_s"]) + _LATE_S)
        processes = 1 if backend == "gloo" else _count_gpus(session)
        descriptor = packed.opened(
            {
                "task": OPERATIONS.get(check, "ddp"),
                "backend": backend,
                "node": session.own.host,
                "nodes": company.nodes,
                "processes": processes,
                "meet": [company.first, company.port],
                "secret": company.secret,
                "netdevs": [company.rails[rail].netdev for rail in wanted],
                "environment": {} if backend == "gloo" else _environment(company, wanted, subject),
                "sizes": sweep.sizes_up_to(int(session.policy["collective_most_bytes"])),
                "duration_s": float(session.policy["collective_duration_s"]),
                "wait_s": wait_s,
                "limit_s": float(session.policy["collective_duration_s"]) + _STALLED_S,
            }
        )
        before = _read(company, backend)
        try:
            argv = packed.argv(str(session.policy["collective_python"]))
            done = session.run_with(argv, wait_s + _longest_s(session.policy), descriptor)
        finally:
            os.close(descriptor)
        spans = counters.spans(before, _read(company, backend), before)
        messages = packed.lines(done.text)
        _raise_errors(session, company, messages, done.text)
        metrics, found = _read_metrics(session, messages)
        found.update({"backend": backend, "nodes": len(company.nodes), "rails": wanted})
        if backend == "nccl":
            found["transport"] = _find_transport(done.text)
        window = [done.begun_s, done.ended_s]
        lasted_s, idle = done.ended_s - done.begun_s, float(session.policy["idle_bytes_per_s"])
        reason = doubt(check, spans, found, lasted_s, idle)
        return NodeReading(
            metrics, window, spans, reason, {"collective": found, "tool_version": found["torch"]}
        )


def doubt(
    check: str,
    spans: Mapping[str, Sequence[int | None]],
    job: Mapping[str, Any],
    lasted_s: float,
    idle_bytes_per_s: float,
) -> str | None:
    """Return why the counters do not confirm a job, or None.

    The traffic of a node in a ring (`operations.rails_factor`) has to show on the job's rails, and not on the
    others. In a tree, or where switches aggregate (SHARP), it is less: with NCCL half of it is required, and
    its channels decide how much more there is. An all-to-all always has all of it.

    Args:
        check: a check of the catalogue.
        spans: `RAIL.COUNTER` -> before, after, for all rails.
        job: the row's `collective`: `rails`, `moved_bytes`, `backend`, and for NCCL `transport`.
        lasted_s: how long the job took.
        idle_bytes_per_s: the allowed other traffic of a rail.
    """
    nccl, rails, moved = job["backend"] == "nccl", list(job["rails"]), float(job["moved_bytes"])
    least, most = (moved / 2, math.inf) if nccl else (moved, float(job.get("most_bytes", moved)))
    if OPERATIONS.get(check) == operations.ALLTOALL:
        least = moved
    idle = proof.Allowance(idle_bytes_per_s, lasted_s).idle_bytes
    grown: dict[str, float] = {}
    for name, (before, after) in spans.items():
        if before is None or after is None or after < before or after in proof.SATURATED:
            return f"{name} is absent, saturated, or decreased"
        grown[name] = (after - before) * rdma_counters.unit_bytes(name.rpartition(".")[2])
    of_ports = {
        rail: pair
        for rail in rails
        if (
            pair := rdma_counters.port_bytes(
                name[len(rail) + 1 :] for name in grown if name.startswith(f"{rail}.")
            )
        )
    }
    if nccl and job.get("transport") == "Socket" and of_ports:
        return f"NCCL used sockets instead of RDMA: {ELSEWHERE}"
    for way in (0, 1):
        # NCCL over RDMA shows in the ports, else in the netdevs.
        ways = [of_ports.get(rail, rdma_counters.NETDEV_BYTES)[way] for rail in rails]
        names = [f"{rail}.{counter}" for rail, counter in zip(rails, ways)]  # noqa: B905 - Python 3.9
        total = sum(grown.get(name, 0.0) for name in names)
        if total < least:
            return f"{' and '.join(names)} grew by {total:.0f}, less than {least:.0f} bytes: {ELSEWHERE}"
        if total > rdma_counters.NETDEV.bytes_factor * most + idle * len(rails):
            return (
                f"{' and '.join(names)} grew by {total:.0f}, the job explains {most:.0f} bytes: other traffic"
            )
        for name in names if not nccl and "sizes" in job else ():
            if grown.get(name, 0.0) < _LEAST_SHARE * least / len(rails):
                return f"{name} grew by {grown.get(name, 0.0):.0f}, less than its share: {ELSEWHERE}"
    for name, bytes_ in grown.items():
        planned = name.rpartition(".")[0] in rails
        if not planned and bytes_ > proof.OTHER_RAILS_SHARE * moved + idle:
            return f"{name} grew by {bytes_:.0f} meanwhile: other traffic, or traffic of the job"
    return None


def _longest_s(policy: Mapping[str, Any]) -> float:
    return _START_S + _STALLED_S + 4 * float(policy["collective_duration_s"])


def _count_gpus(session: NodeToolSession) -> int:
    try:
        return len(os.listdir(_GPUS))
    except OSError:
        raise session.own.error(
            "tool_missing",
            f"the NVIDIA driver shows no GPU on {session.own.host}, which nccl needs",
            "load the driver (role nvidia_driver), or set fabric_policy.collective_backend to gloo",
        ) from None


def _environment(company: Company, rails: Sequence[str], subject: str) -> dict[str, str]:
    """Return NCCL's settings: a single rail is named exactly; for all rails the node's settings apply."""
    if subject == ALL_RAILS:
        return _DEBUG
    if rails[0] in company.hcas:
        return {**_DEBUG, "NCCL_IB_HCA": "=" + company.hcas[rails[0]]}
    return {**_DEBUG, "NCCL_SOCKET_IFNAME": "=" + company.rails[rails[0]].netdev}


def _find_transport(text: str) -> str | None:
    """Return the network that NCCL's log reports, or None."""
    try:
        transport = log.parse(text)["outputs"][0]["transport"]
    except (common.NotThisTool, IndexError):
        return None
    return None if transport is None else str(transport)


def _read(company: Company, backend: str) -> dict[str, int | None]:
    """Return `RAIL.COUNTER` -> value for the netdevs, and with NCCL for the ports too."""
    found: dict[str, int | None] = {}
    for rail, place in company.rails.items():
        seen = counters.read(place.netdev)
        found.update({f"{rail}.{name}": seen[name] for name in rdma_counters.NETDEV_BYTES})
        if backend == "nccl" and rail in company.hcas:
            port = counters.Port(company.hcas[rail])
            if port.traffic is not None and not port.traffic.netdev_shows_rdma:
                values = port.read()
                found.update({f"{rail}.{name}": values[name] for name in port.traffic.bytes})
    return found


def _raise_errors(
    session: NodeToolSession, company: Company, messages: Sequence[Mapping[str, Any]], text: str
) -> None:
    """Raise the error that a process of the job reported, or that there is no result."""
    error = next((line for line in messages if line.get("t") == "error"), None)
    host, kind = session.own.host, error and error.get("kind")
    if error is None:
        if messages and messages[-1].get("t") in ("swept", "trained"):
            return
        last = text.strip().splitlines()[-1:] or ["it printed nothing"]
        raise session.own.error(
            "tool_failed",
            f"the job on {host} ended without a result: {last[0][:300]}",
            "its complete output is in the raw archive",
        )
    message = str(error.get("message"))[:400]
    if kind == "absent":
        named = error.get("nodes")
        gone = [name for name in company.nodes if isinstance(named, list) and name in named]
        company.absent.update(gone)
        raise _absent(session, gone, message)
    if kind in ("no_torch", "no_nccl"):
        raise session.own.error(
            "tool_missing",
            message,
            "install it (benchmark_tools_extra_packages: [python3-torch]), or set "
            "fabric_policy.collective_python to an interpreter that has it, outside of home directories",
        )
    if kind == "store":
        raise session.own.error("port_taken", message, "free the port, or set fabric_policy.base_port")
    raise session.own.error(
        "collective_failed",
        f"torch on {host}: {message}",
        "see the rows of the other nodes and of the rails for a node that lost its connection",
    )


def _absent(session: NodeToolSession, gone: Sequence[str], message: str = "") -> MeasurementError:
    return session.own.error(
        "peer_absent",
        message or f"{', '.join(gone)} did not take part, and a test of all nodes needs each of them",
        "find out why they are missing, or leave them out with --limit",
    )


def _read_metrics(
    session: NodeToolSession, messages: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    began = next(line for line in messages if line.get("t") == "began")
    last = messages[-1]
    found = {
        "torch": str(began["torch"]),
        "ranks": began["ranks"],
        "processes": began["processes"],
        "moved_bytes": last["moved_bytes"],
    }
    if last["t"] == "trained":
        good = last["loss_first"] is not None and last["loss_last"] is not None
        if last["ranks_differ"] or not (good and last["loss_last"] < last["loss_first"]):
            what = (
                "the ranks ended with different parameters"
                if last["ranks_differ"]
                else "the loss went from {} to {}".format(last["loss_first"], last["loss_last"])
            )
            raise _wrong(session, what)
        keys = ("samples_per_s", "alone_samples_per_s", "efficiency_percent", "communication_percent")
        more = ("steps", "gradient_bytes", "loss_first", "loss_last")
        # Before the training the first node sends the model to all, in a tree.
        trees = 3 + math.log2(began["ranks"])
        found["most_bytes"] = round(last["moved_bytes"] + trees * last["gradient_bytes"])
        return {key: last[key] for key in keys}, {**found, **{key: last[key] for key in more}}
    sizes = [line for line in messages if line.get("t") == "size"]
    for line in sizes:
        if line["wrong"]:
            raise _wrong(session, "{wrong} numbers of {size_bytes} bytes arrived wrong".format(**line))
    metrics = {key: sizes[-1][key] for key in ("busbw_GBps", "algbw_GBps", "size_bytes")}
    found["sizes"] = [{key: line[key] for key in _POINT} for line in sizes]
    return metrics, {**found, "call": last["call"], "left_out_bytes": last["left_out_bytes"]}


def _wrong(session: NodeToolSession, what: str) -> MeasurementError:
    return session.own.error(
        "collective_wrong",
        f"{what}, on all nodes",
        "test the nodes' memory and GPUs (dcgmi diag -r 3): checksums detect errors of the network",
    )
