# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Import outputs of tools as a run folder, which can be compared but is never proven.

The paths `NODE/PEER/RAIL/TOOL.txt` define sender, receiver and rail. The files go
through the same parsers as all others and become rows of one end without counters, which no judge trusts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import TESTS
from ansible_collections.railyard.fabric.plugins.module_utils.measure import outliers, perftest_lat, sockperf
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.perftest.run import GBPS_PER_UNIT
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import action_base, provenance
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

#: A tool's test of one rail alone; of ping's two the round trip.
_CHECKS = {one.tool: one for one in TESTS if one.asked == "alone" and not one.wanted}
_MOST_BYTES = 16 << 20
#: sockperf's default message size, which its output does not contain.
_SOCKPERF_BYTES = 14


class OutputError(ValueError):
    """Outputs cannot become a run; one message a line."""


class _Output(NamedTuple):
    """One file: its path below the folder, its bytes, its row, and remarks about its numbers."""

    name: str
    data: bytes
    row: dict[str, Any]
    remarks: list[str]


def make(source: Path, inventory: Inventory, reports_dir: Path) -> RunFolder:
    """Write the run folder of the outputs in a folder.

    Args:
        source: the folder of the outputs.
        inventory: whose plan and policy it is; validated.
        reports_dir: the folder of all clusters' runs.

    Raises:
        OutputError: a file is of no known node, rail or test, or its tool's output cannot be read.
        PolicyError, RunFolderError: the policy is none, or the folder cannot be written.
    """
    plan, manifest = action_base.start_documents(inventory)
    run = run_folder.new_run_id()
    fabrics = {node.name: action_base.plain(node.fabric) for node in inventory.selected_nodes()}
    order = requests.work_order(run, plan, fabrics, manifest["policy"], [])
    lines = requests.asked_lines(plan, order)
    asked = {(line["node"], line["peer"], line["rail"], line["check"]): line for line in lines}
    outputs, problems = [], []
    for path in sorted(source.glob("**/*.txt")):
        try:
            outputs.append(_read(source, path, asked))
        except (OutputError, OSError, registry.NotThisTool) as error:
            problems.append(f"{path}: {error}")
    if problems or not outputs:
        raise OutputError("\n".join(problems) or f"{source} has no file NODE/PEER/RAIL/TOOL.txt")
    manifest[provenance.IMPORTED] = [
        {"file": one.name, "sha256": hashlib.sha256(one.data).hexdigest(), "remarks": one.remarks}
        for one in outputs
    ]
    manifest["asked"] = requests.fingerprint(lines)
    folder = run_folder.create(reports_dir, inventory.cluster, run, manifest)
    folder.forget_secret()
    folder.write(run_folder.PLAN, run_folder.pretty(plan))
    folder.write(run_folder.WORK_ORDER, run_folder.pretty(order))
    folder.append(run_folder.ASKED, lines)
    started = folder.manifest()["start"]["at"]
    folder.append(run_folder.RESULTS, [{**one.row, "run": run, "started": started} for one in outputs])
    for one in outputs:
        kept = folder.path / "raw" / one.name
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(one.data)
    folder.finish("completed")
    return folder


def _read(source: Path, path: Path, asked: Mapping[tuple[Any, ...], Mapping[str, Any]]) -> _Output:
    name = path.relative_to(source)
    places, check = name.parts[:-1], _CHECKS.get(path.stem)
    if check is None:
        raise OutputError(f"no test is called {path.stem}; one of: {', '.join(sorted(_CHECKS))}")
    line = asked.get((*places, check.name))
    if line is None:
        raise OutputError(f"the inventory plans no {check.name} for {'/'.join(places)} (NODE/PEER/RAIL)")
    with path.open("rb") as stream:
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise OutputError(f"larger than {_MOST_BYTES} bytes, no output")
    parser = "perftest" if check.rdma else check.tool
    found = registry.parse(parser, data.decode("utf-8", errors="replace"))
    error = found["error"]
    if len(found["outputs"]) != 1 or (error is not None and error["class"] != "truncated"):
        raise OutputError(error["message"] if error else f"{len(found['outputs'])} runs, one is wanted")
    metrics, conditions = _READERS[parser](found["outputs"][0], check.tool)
    number = next(key for key in outliers.METRICS if key in check.client)
    if not metrics.get(number):
        raise OutputError(f"it does not contain the {check.title}")
    nothing = ("tool_version", "netdev", "hca", "address", "gid_index", "gid_type", "window_s", "counters")
    row = {
        **dict.fromkeys((*nothing, "message_bytes", "qps", "mtu_bytes", "active_mtu_bytes", "error")),
        **{key: line[key] for key in ("schema", "id", "check", "tool", "node", "peer", "rail", "direction")},
        **{key: value for key, value in conditions.items() if value is not None},
        "end": "client",
        "host": line["node"],
        "status": "measured",
        "metrics": {key: value for key, value in metrics.items() if value is not None},
        "proof": "unproven",
        "proof_reason": "Railyard did not measure it",
        "raw": {"file": f"raw/{name}", "name": path.name},
    }
    cut = [f"an excerpt: {error['message']}"] if error else []
    notes = [*cut, *_remarks(row, found["outputs"][0])]
    return _Output(str(name), data, row, [f"{' '.join(places)} {check.tool}: {one}" for one in notes])


def _perftest(output: Mapping[str, Any], tool: str) -> tuple[dict[str, Any], dict[str, Any]]:
    if output["test"] not in (None, tool) or output["bidirectional"] or len(output["rows"]) != 1:
        raise OutputError(f"it is no {tool} of one message size in one direction")
    row = output["rows"][0]
    conditions = {"qps": output["qps"], "active_mtu_bytes": output["mtu_bytes"]}
    conditions["message_bytes"] = row["message_bytes"]
    if tool.endswith("_lat"):
        conditions["latency_is"] = "round_trip" if "read" in tool else "one_way"
        return {name: row.get(field) for name, field in perftest_lat.FIELDS}, conditions
    return {"bandwidth_gbps": row.get("bandwidth_average_gbps")}, conditions


def _iperf3(output: Mapping[str, Any], _tool: str) -> tuple[dict[str, Any], dict[str, Any]]:
    if [way["direction"] for way in output["directions"]] not in (["forward"], [None]):
        raise OutputError("it is not of one direction, from client to server")
    (way,) = output["directions"]
    metrics = {"bandwidth_gbps": way["received_gbps"] or way["sent_gbps"], "retransmits": way["retransmits"]}
    return metrics, {"streams": output["streams"]}


def _sockperf(output: Mapping[str, Any], _tool: str) -> tuple[dict[str, Any], dict[str, Any]]:
    if output["metric"] != "one_way":
        raise OutputError("it is not one-way latency (ping-pong)")
    return {name: output.get(field) for name, field in sockperf.FIELDS}, {"latency_is": "one_way"}


def _ping(output: Mapping[str, Any], _tool: str) -> tuple[dict[str, Any], dict[str, Any]]:
    names = ("rtt_average_us", "rtt_min_us", "rtt_max_us", "rtt_mdev_us", "loss_percent")
    return {name: output[name] for name in names}, {}


_READERS = {"perftest": _perftest, "iperf3": _iperf3, "sockperf": _sockperf, "ping": _ping}


def _remarks(row: Row, output: Mapping[str, Any]) -> Iterator[str]:
    """Yield what readers of such an output are known to get wrong."""
    metrics = row["metrics"]
    if output.get("reported_unit") == "MiB/s":
        gbps = metrics["bandwidth_gbps"]
        printed = gbps / GBPS_PER_UNIT["MiB/s"]
        yield (
            f"its MB/sec are 2^20 bytes/s: {printed:.2f} are {gbps:.1f} Gbit/s, not {printed * 8e-3:.1f}; "
            "two such runs one after the other are no sum of both ports"
        )
    if row["tool"] == "iperf3" and row.get("streams") in (None, 1):
        streams = "one stream" if row.get("streams") else "the number of streams is unknown; one"
        yield f"{streams} is what a core does, and not what the link carries"
    if {"latency_average_us", "latency_p50_us"} <= metrics.keys():
        average, median = metrics["latency_average_us"], metrics["latency_p50_us"]
        yield f"its median, {median:g} µs, is compared with the other's, not its average, {average:g}"
        size = row["message_bytes"]
        text = f"{size} bytes" if size else f"an unknown size ({_SOCKPERF_BYTES} bytes by default)"
        yield f"half a round trip, of messages of {text}"
    if row["tool"] == "ping":
        yield "a whole round trip, twice what the other tools call latency"
