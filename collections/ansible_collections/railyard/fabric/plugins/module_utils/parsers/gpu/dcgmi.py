# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dcgmi (DCGM): `diag -j` of 2.x to 4.x and `health -c -j`."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.parsers import common, json_text
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.common import error
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.json_text import section

_CUT = re.compile(r'"DCGM (?:GPU )?Diagnostic"|"Overall Health"|"test_categories"|"Health Monitor Report"')
_TROUBLE = re.compile(
    r"unable to connect to host engine|Error: |host engine is not running|not supported", re.I
)
_DISCOVERY = re.compile(r"^\| GPU ID +\| Device Information", re.M)
_GOOD = ("Pass", "Skip", "Healthy")


def _info(one: dict[str, Any]) -> str | None:
    """Return a result's words: a text in 2.x and 3.x, a list of texts or of warnings in others."""
    words: list[str] = []
    for key in ("info", "warnings", "warning"):
        value = one.get(key)
        for item in value if isinstance(value, list) else [value]:
            item = item.get("warning", item.get("info")) if isinstance(item, dict) else item
            words += [item] if isinstance(item, str) and item else []
    return ", ".join(words) or None


def _list(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _tests(diag: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for category in _list(diag.get("test_categories")):
        for test in _list(category.get("tests")):
            head = {"category": _text(category.get("category")), "test": _text(test.get("name"))}
            found = _list(test.get("results")) or [section(test, "test_summary")]
            rows += [{**head, "result": _text(one.get("status")), "info": _info(one)} for one in found]
    return rows


def parse(text: str) -> dict[str, Any]:
    """Parse the JSON of `dcgmi diag -j` or `dcgmi health -c -j`.

    Args:
        text: What dcgmi printed.

    Returns:
        The common object; each output holds `health` (word or None) and `tests` (a list of
        `{category, test, result, info}`). A failed test is a whole result: `valid` says nothing of passing.

    Raises:
        NotThisTool: There is neither such an object nor a message of dcgmi.
    """
    found = json_text.find_objects(text)
    outputs: list[dict[str, Any]] = []
    problem: dict[str, str] | None = None
    warnings: list[str] = []
    for one in found.objects:
        diag = section(one, "DCGM GPU Diagnostic") or section(one, "DCGM Diagnostic")
        health = section(one, "body", "Overall Health").get("value")
        if diag:
            outputs.append({"health": None, "tests": _tests(diag)})
            if diag.get("runtime_error"):
                problem = problem or error("tool_error", str(diag["runtime_error"])[:400])
        elif isinstance(health, str):
            outputs.append({"health": health, "tests": []})
    lines = common.split_lines(found.around if found.cut is None else found.around + found.cut)
    said = next((line for line in lines if _TROUBLE.search(line[:400])), None)
    if found.cut is not None and _CUT.search(found.cut):
        problem = problem or error("truncated", "the JSON ends in the middle")
    elif not outputs and said and "dcgm" in text.lower():
        problem = error("tool_error", said)
    if not outputs and problem is None and _DISCOVERY.search(text):
        problem = error("no_data", "a list of devices says nothing of their health")
    if not outputs and problem is None:
        raise common.refusal("no JSON of dcgmi diag or health (-j)", lines)
    for output in outputs:
        if output["health"] is None and not output["tests"]:
            problem = problem or error("no_data", "the report has no test")
        if any(test["result"] is None for test in output["tests"]):
            problem = problem or error("garbled", "a test has no result")
        failed = [test["test"] for test in output["tests"] if test["result"] not in _GOOD]
        warnings += [f"{name}: did not pass" for name in failed]
    return common.result("dcgmi", outputs, problem, warnings)
