"""`railyard lint-nccl`: what is wrong with settings of NCCL, by themselves or on an inventory's rails."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import (
    catalogue,
    env_file,
    fabric,
    lint,
    settings,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.findings import ERROR, SEVERITIES, UNKNOWN
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_all, clean_line

from railyard.base.errors import BAD_INPUT, UserError

FINE, FOUND, NOT_KNOWN = 0, 1, 3
# No list of settings is longer; what is, is another file.
_LARGEST_BYTES = 1 << 20
_FIX = "give an env file, nccl.conf, a script, a Dockerfile, or YAML"


def run(file: str, inventory: Sequence[str], nccl: str, as_json: bool) -> int:
    """Print the findings.

    Args:
        file: path, or - for standard input.
        inventory: whose rails the settings are for; may be empty.
        nccl: the version of NCCL that reads them, empty for the newest that is known.
        as_json: print one JSON object (docs/nccl.md) in place of lines.

    Returns:
        0 without an error, 1 with one, 2 where the inventory has problems, 3 where something is not known.

    Raises:
        UserError: the file is none that holds settings, or nccl is no version.
    """
    version = _version(nccl)
    text = _text(file)
    try:
        found = env_file.read(text, file)
    except settings.UnreadableError as error:
        raise UserError(f"{_named(file)}:{error.line}: {error.why}", f"correct it, or {_FIX}") from error
    if found.empty and text.strip():
        raise UserError(f"{_named(file)} holds no setting", _FIX)
    nodes: list[fabric.Node] = []
    if inventory:
        from railyard.plan import view

        plan, problems = view.plan_or_problems(list(inventory))
        if plan is None:
            view.print_problems(problems)
            return BAD_INPUT
        nodes = fabric.nodes_of(plan)
    findings = lint.lint(found, nodes, version)
    counts = Counter(one.severity for one in findings)
    result = {
        "file": file,
        "form": found.form,
        "nccl": version,
        "nodes": len(nodes) if inventory else None,
        "settings": [{"line": one.line, "name": one.name, "value": one.value} for one in found.settings],
        "findings": [asdict(one) for one in findings],
        "counts": {severity: counts[severity] for severity in SEVERITIES},
    }
    if as_json:
        print(json.dumps(clean_all(result), indent=2))
    else:
        print("\n".join(_lines(result)))
    return FOUND if counts[ERROR] else NOT_KNOWN if counts[UNKNOWN] else FINE


def _version(nccl: str) -> str:
    if not nccl:
        return catalogue.NEWEST
    try:
        catalogue.release(nccl)
    except ValueError as error:
        raise UserError(f"{nccl} is no version of NCCL", "write it as in 2.21.5") from error
    return nccl


def _named(file: str) -> str:
    return "standard input" if file == "-" else file


def _text(file: str) -> str:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(_LARGEST_BYTES + 1)
        else:
            with Path(file).open("rb") as handle:
                data = handle.read(_LARGEST_BYTES + 1)
    except OSError as error:
        raise UserError(
            f"{file} cannot be read: {error.strerror}", "name a file of settings, or -"
        ) from error
    if len(data) > _LARGEST_BYTES:
        raise UserError(f"{_named(file)} is larger than {_LARGEST_BYTES >> 20} MiB", _FIX)
    if b"\0" in data:
        raise UserError(f"{_named(file)} is a binary file", _FIX)
    return data.decode("utf-8", errors="replace")


def _lines(result: Mapping[str, Any]) -> list[str]:
    lines = []
    for one in result["findings"]:
        where = f"{_named(result['file'])}:{one['line']}"
        value = "" if one["code"] == "not_read" else f"={one['value']}"
        what = f" {one['variable']}{value}:" if one["variable"] else ""
        lines.append(clean_line(f"{where}: {one['severity']}:{what} {one['why']}"))
        lines.append(clean_line(f"    fix: {one['fix']}{_read_by(one)}"))
    counts = ", ".join(_count(number, severity) for severity, number in result["counts"].items() if number)
    count = len(result["settings"])
    nodes = "" if result["nodes"] is None else f", against the rails of {_count(result['nodes'], 'node')}"
    lines.append(
        f"{_count(count, 'setting')} for NCCL {result['nccl']}{nodes}: {counts or 'nothing to report'}"
    )
    return lines


def _read_by(one: Mapping[str, Any]) -> str:
    since, until = one["since"], one["until"]
    words = [f"since {since}"] if since else []
    words += [f"before {until}"] if until else []
    return f" (read by NCCL {' and '.join(words)})" if words else ""


def _count(number: int, what: str) -> str:
    plural = what if number == 1 or what == UNKNOWN else f"{what}s"
    return f"{number} {plural}"
