# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that manifest, plan and planned tests are complete and consistent. Only rows may be malformed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from ansible_collections.railyard.fabric.plugins.module_utils.records import reader
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.records.reader import RefusedError
from ansible_collections.railyard.fabric.plugins.module_utils.rules import link
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_whole
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.asked_lines import AskedLines

#: manifest.json and plan.json without a `problem`; a test schedule; a line of a file; a verdict.
Manifest = Mapping[str, Any]
Plan = Mapping[str, Any]
Order = Mapping[str, Any]
Row = Mapping[str, Any]
Verdict = Mapping[str, Any]
#: Of a node or a check, names of rails or nodes.
Names = Mapping[str, set[str]]


def problem(manifest: Manifest, plan: Plan, asked: Sequence[Row]) -> str | None:
    """Return the first error that keeps a run from being judged, with the file's name, or None."""
    return next(_problems(manifest, plan, asked), None)


def _problems(manifest: Manifest, plan: Plan, asked: Sequence[Row]) -> Iterator[str]:
    for name, document in ((folder.MANIFEST, manifest), (folder.PLAN, plan)):
        if not _is_known(document):
            yield f"{name} {_describe_schema(document)}"
    if not isinstance(manifest.get("run"), str):
        yield "manifest.json has no run id"
    nodes = plan.get("nodes")
    if not isinstance(nodes, Mapping) or not all(_has_rails(node) for node in nodes.values()):
        yield "plan.json lists no nodes with named rails"
        return
    if not asked:
        yield "asked.jsonl is empty: a run without planned tests proves nothing"
    for name, node in nodes.items():
        yield from _node_problems(str(name), node)
    rails = {name: {rail["name"] for rail in node["rails"]} for name, node in nodes.items()}
    declared = {
        "bmc": {name for name, node in nodes.items() if isinstance(node.get("bmc_address"), str)},
        "gpus": {name for name, node in nodes.items() if isinstance(node.get("gpus"), Mapping)},
    }
    seen: set[str] = set()
    lines = asked if isinstance(asked, AskedLines) else AskedLines(cast("Sequence[AskedLine]", asked))
    for line in lines.doubtful(rails, lambda check: check in CHECKS and CHECKS[check].source == "test"):
        yield from _line_problems(line, rails, declared, seen)
        seen.add(str(line.get("id")))


def _describe_schema(row: Row | Manifest | Plan) -> str:
    made = f"is of schema {row.get('schema')!r}, this version reads {folder.SCHEMA}"
    return f"{made}: use the version of Railyard that made the run"


def read_asked(run: folder.RunFolder) -> list[AskedLine]:
    """Read the planned tests of a run.

    Raises:
        RunFolderError: the file cannot be read, or a line is not a planned test.
    """
    try:
        return [reader.read(AskedLine, line, folder.ASKED) for line in run.rows(folder.ASKED)[0]]
    except RefusedError as refused:
        raise folder.RunFolderError(str(refused)) from refused


def unlike(row: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    """Return the first key under which a row does not hold the wanted value, or None; True is not 1."""
    for key, value in wanted.items():
        seen = row.get(key)
        if seen != value or seen is True or seen is False:
            return key
    return None


def _is_known(document: Mapping[str, Any]) -> bool:
    """Tell whether this version can judge a document's schema."""
    schema = document.get("schema")
    return schema == folder.SCHEMA and not isinstance(schema, bool)


def _has_rails(node: object) -> bool:
    rails = node.get("rails") if isinstance(node, Mapping) else None
    return isinstance(rails, list) and all(
        isinstance(rail, Mapping) and isinstance(rail.get("name"), str) for rail in rails
    )


def _node_problems(name: str, node: Mapping[str, Any]) -> Iterator[str]:
    """Yield invalid addresses and sizes of a node's plan, which bounds and tests depend on."""
    for rail in node["rails"]:
        where = f"plan.json: {name} {rail['name']}"
        for key in ("address", "address6"):
            if rail.get(key) is not None and not _is_address(rail[key]):
                yield f"{where}: {key} is {rail[key]!r}"
        mtu = rail.get("mtu")
        if mtu is not None and (not isinstance(mtu, int) or isinstance(mtu, bool) or mtu <= 0):
            yield f"{where}: mtu is {mtu!r}"
    bmc = node.get("bmc_address")
    if bmc is not None and not _is_address(bmc):
        yield f"plan.json: {name}: bmc_address is {bmc!r}"
    gpus = node.get("gpus")
    if gpus is not None and not (isinstance(gpus, Mapping) and is_whole(gpus.get("count"))):
        yield f"plan.json: {name}: gpus is {gpus!r}"


def _is_address(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(link.parse_interface(value))
    except ValueError:
        return False


def _line_problems(line: Mapping[str, Any], rails: Names, declared: Names, seen: set[str]) -> Iterator[str]:
    identity = str(line.get("id"))
    where = f"asked.jsonl: {identity}"
    if not _is_known(line):
        yield f"{where} {_describe_schema(line)}"
    if refused := reader.refusal(AskedLine, line):
        yield f"{where}: {refused}"
        return
    if identity in seen:
        yield f"{where} is a duplicate"
    if line["check"] not in CHECKS:
        yield f"{where}: check {line['check']!r} is not known to this version"
        return
    check = CHECKS[line["check"]]
    if check.local and line["peer"] is not None:
        yield f"{where}: {check.name} is a check of one node, but peer is {line['peer']!r}"
    if not check.local and line["node"] == line["peer"]:
        yield f"{where}: {check.name} is planned between {line['node']} and itself"
    for node in [line["node"]] if check.local else [line["node"], line["peer"]]:
        if node not in rails:
            yield f"{where}: node {node!r} is not in plan.json"
        elif check.source == "node":
            if line["rail"] is not None:
                yield f"{where}: rail is {line['rail']!r}"
        elif check.of_node:
            if node not in declared[check.source] or line["rail"] is not None:
                yield f"{where}: plan.json declares no {check.title} of {node} on rail {line['rail']!r}"
        elif check.source != "sum" and line["rail"] not in rails[node]:
            yield f"{where}: {node} has no rail {line['rail']!r} in plan.json"
    parts = line.get("parts")
    if check.source == "sum" and parts is None:
        yield f"{where}: parts is missing"
    elif check.source != "sum" and parts is not None:
        yield f"{where}: {check.name} has no parts, parts is {parts!r}"
