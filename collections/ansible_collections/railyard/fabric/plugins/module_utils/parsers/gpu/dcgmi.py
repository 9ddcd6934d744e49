# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dcgmi (DCGM): `diag` of 2.x to 4.x and `health -c`, as JSON (`-j`) or tables; `nvlink --link-status`."""

from __future__ import annotations

import re
from typing import Any

from .. import common, json_text
from ..common import error
from ..json_text import section

_CUT = re.compile(r'"DCGM (?:GPU )?Diagnostic"|"Overall Health"|"test_categories"|"Health Monitor Report"')
_TROUBLE = re.compile(
    r"unable to connect to host engine|Error: |host engine is not running|not supported", re.I
)
# A line that begins with Error alone may be any program's.
_NAMES_DCGM = re.compile(r"dcgm|connect to host engine", re.I)
_DISCOVERY = re.compile(r"^\| GPU ID +\| Device Information", re.M)
# Of the versions one writes "Pass" and another "PASS".
_GOOD = ("pass", "skip", "healthy")
_HEAD = re.compile(r"^\| ?Diagnostic +\| Result +\|\s*$")
_SECTION = re.compile(r"^[|+]-{3,} +(\w[\w ]{0,30}?) +-{3,}\+-{8,}[|+]\s*$")
_FOOT = re.compile(r"^\+-{8,}\+-{8,}\+\s*$")
# 4.x has a line for each GPU, older versions one for all GPUs with the same result ("Fail - GPUs: 0, 3").
_RESULT = re.compile(r"(?:(GPU ?[0-9]{1,3}): )?(Pass|Fail|Skip|Warn|Not Run)(?: - (.{1,200}))?\Z", re.I)
_OVERALL = re.compile(r"^\| Overall Health:? +(?:\| +)?(\w{1,20}) +\|\s*$")
# Lines below the test that they belong to.
_COLUMN_END, _LONGEST_INFO = 46, 4000
_LINKS = re.compile(r"^\|  NvLink Link Status  \|\s*$")
_OWNER = re.compile(r"^ +(gpuId|physicalId) ([0-9]{1,4}):\s*$")
_STATES = re.compile(r"^ +([UDX_](?: [UDX_])*)\s*$")
# The last line of the list of links.
_LEGEND = re.compile(r"^Key: Up=U, Down=D, Disabled=X, Not Supported=_\s*$")
_STATE_NAMES = {"U": "Up", "D": "Down", "X": "Disabled", "_": "Not Supported"}
_LINKS_CUT = error("truncated", "the list of links is cut: its legend, or the links of a GPU, are missing")
_REMARKS = ("Warning", "Error", "Info")


def _info(one: dict[str, Any]) -> str | None:
    """Return a result's message: a string in 2.x and 3.x, a list of strings or warnings in others."""
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


class _Table:
    """The table of `dcgmi diag` while it is read."""

    def __init__(self) -> None:
        self.tests: list[dict[str, Any]] = []
        self.category = ""
        self.in_remark = False

    def read(self, line: str) -> bool:
        """Read one line; return False when it is not part of the table."""
        section = _SECTION.match(line)
        if section:
            self.category = section.group(1)
        if section or line.startswith("+=") or not line.strip():
            return True
        name, separator, value = line.strip()[1:-1].partition("|")
        name, found = name.strip(), _RESULT.match(value.strip())
        if not separator or line.strip()[0] + line.strip()[-1] != "||":
            return False
        if self.category == "Metadata":
            return True
        self.in_remark = name.startswith(_REMARKS) or (self.in_remark and not name)
        last = self.tests[-1] if self.tests else None
        if last and self.in_remark:
            # Words are broken where the column ends.
            before = (last["info"] or "") + ("" if not name else " ")
            last["info"] = (before + value[1:_COLUMN_END])[:_LONGEST_INFO]
        elif name or (last and found):
            head = {"category": self.category, "test": name or (last or {})["test"]}
            reported = [word for word in found.group(1, 3) if word and word != "All"] if found else []
            result = found.group(2) if found else None
            self.tests.append({**head, "result": result, "info": ", ".join(reported) or None})
        else:
            return False
        return True


def _tables(lines: list[str]) -> tuple[list[dict[str, Any]], dict[str, str] | None]:
    """Read what dcgmi prints for people: (outputs, error)."""
    outputs: list[dict[str, Any]] = []
    problem: dict[str, str] | None = None
    cut = error("truncated", "the line that closes a table is missing")
    table: _Table | None = None
    closed_at = -1
    for number, line in enumerate(lines, 1):
        overall, head = _OVERALL.match(line), _HEAD.match(line)
        if head or overall:
            # A rule right above a head is the head's.
            problem = problem or (cut if table or closed_at == number - 1 else None)
            table = _Table() if head else None
            outputs.append({"health": overall and overall.group(1), "tests": table.tests if table else []})
        elif table and _FOOT.match(line):
            table, closed_at = None, number
        elif table and not table.read(line):
            problem = problem or error(
                "garbled", f"line {number}, {line[:60]!a}: this is no row of the table"
            )
    for test in (test for output in outputs for test in output["tests"]):
        test["info"] = " ".join((test["info"] or "").split()) or None
    return outputs, problem or (cut if table else None)


def _links(lines: list[str]) -> tuple[list[dict[str, Any]], dict[str, str] | None]:
    """Read `dcgmi nvlink --link-status`: (outputs, error)."""
    outputs: list[dict[str, Any]] = []
    problem: dict[str, str] | None = None
    owner: tuple[str, int] | None = None
    is_open = False
    for line in lines:
        named, states = _OWNER.match(line), _STATES.match(line)
        if _LINKS.match(line):
            problem = problem or (_LINKS_CUT if is_open else None)
            outputs.append({"health": None, "tests": [], "links": []})
            is_open, owner = True, None
        elif not is_open:
            continue
        elif named:
            problem = problem or (_LINKS_CUT if owner else None)
            owner = ("gpu" if named.group(1) == "gpuId" else "switch", int(named.group(2)))
        elif states and owner:
            outputs[-1]["links"] += [
                {"gpu": None, "switch": None, owner[0]: owner[1], "link": link, "state": _STATE_NAMES[state]}
                for link, state in enumerate(states.group(1).split())
            ]
            owner = None
        elif _LEGEND.match(line):
            problem = problem or (_LINKS_CUT if owner else None)
            is_open = False
    return outputs, problem or (_LINKS_CUT if is_open else None)


def _link_warnings(links: list[dict[str, Any]]) -> list[str]:
    """Name the links that are down."""
    return [
        f"{'GPU' if one['switch'] is None else 'NVSwitch'} "
        f"{one['gpu'] if one['switch'] is None else one['switch']}: link {one['link']} is down"
        for one in links
        if one["state"] == "Down"
    ]


def parse(text: str) -> dict[str, Any]:
    """Parse what `dcgmi diag` or `health -c` printed, with `-j` or without, or `nvlink --link-status`.

    Args:
        text: What dcgmi printed.

    Returns:
        The common object; each output holds `health` (word or None) and `tests` (a list of
        `{category, test, result, info}`); that of `nvlink` also `links`, a list of
        `{gpu, switch, link, state}`, of which either `gpu` or `switch` is None. A failed test or a link that
        is down is a complete result: `valid` does not mean that the test passed.

    Raises:
        NotThisTool: There is neither such an object, nor such a table, nor a message of dcgmi.
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
    tables, wrong = _tables(lines)
    if tables and outputs:
        warnings.append(common.not_read("a table"))
    elif tables:
        outputs, problem = tables, wrong
    linked, unlinked = _links(lines)
    if linked and outputs:
        warnings.append(common.not_read("a list of links"))
    elif linked:
        outputs, problem = linked, unlinked
    # A cell of a table, or a legend, may hold the same words.
    reported = next(
        (line for line in lines if not line.startswith(("|", "+", "Key:")) and _TROUBLE.search(line[:400])),
        None,
    )
    if found.cut is not None and _CUT.search(found.cut):
        problem = problem or error("truncated", "the JSON ends in the middle")
    elif not outputs and reported and _NAMES_DCGM.search(text):
        problem = error("tool_error", reported)
    if not outputs and problem is None and _DISCOVERY.search(text):
        problem = error("no_data", "a list of devices does not show their health")
    if not outputs and problem is None:
        raise common.refusal("no JSON or table of dcgmi diag or health", lines)
    for output in outputs:
        if output["health"] is None and not (output["tests"] or output.get("links")):
            problem = problem or error("no_data", "the report has no test and no link")
        warnings += _link_warnings(output.get("links", []))
        if any(test["result"] is None for test in output["tests"]):
            problem = problem or error("garbled", "a test has no result")
        failed = [test["test"] for test in output["tests"] if str(test["result"]).lower() not in _GOOD]
        warnings += [f"{name}: did not pass" for name in failed]
    return common.result("dcgmi", outputs, problem, warnings)
