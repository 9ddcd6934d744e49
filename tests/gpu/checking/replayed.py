"""Give the recorded outputs to the product's node code again, and judge what it makes of them.

The kernel's files are written anew from what the archive says of the PCI bus, and each program answers what
it answered on the machine. A form that the product needs by now and the archive lacks is unmeasured.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.bounded import Ended, ToolError
from ansible_collections.railyard.fabric.plugins.module_utils.facts import gpus, kernel_log
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.gpu import facts as gpu_facts
from ansible_collections.railyard.fabric.plugins.module_utils.numeric import is_number, is_whole
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from ansible_collections.railyard.fabric.plugins.module_utils.rules import gpu as rules
from ansible_collections.railyard.fabric.plugins.module_utils.rules import ruling
from ansible_collections.railyard.fabric.plugins.module_utils.rules.gpu_rows import Node
from gpu.capture import forms, steps, tree
from gpu.checking.capture_archive import BadArchiveError, Capture
from gpu.checking.line import FAIL, GOOD, UNMEASURED, Line

# Columns whose values are words; each other column is a number, or None where the GPU does not tell it.
_WORDS = re.compile(
    r"pci|pci\.bus_id|gpu_bus_id|name|uuid|gpu_recovery_action|persistence_mode|.*\.mode\.(?:current|pending)"
    r"|.*pending|.*failure|clocks_(?:throttle|event)_reasons\..*"
)
# A value in brackets stands for none. By these words alone the GPU has no such thing; others are trouble.
_BRACKETS = re.compile(r"(?<=, )\[[A-Z][\w /]{1,60}\]", re.M)
_ABSENT = re.compile(r"\[(?:N/A|Not Supported)\]\Z", re.I)
_DISPLAY_CLASS = 0x03
_OUTCOMES = {ruling.PASS: GOOD, ruling.RECORDED: GOOD, ruling.FAIL: FAIL, ruling.UNMEASURED: UNMEASURED}
_RECORD = re.compile(r"[0-9]{1,9},([0-9]{1,19}),([0-9]{1,19}),[^;]*;(.*)")
#: A form that people paste -> the parser that takes it.
PARSERS = {
    ("nvidia-smi",): "nvidia-smi-query",
    ("nvidia-smi", "-q"): "nvidia-smi-query",
    ("dcgmi", "nvlink", "--link-status"): "dcgmi",
    ("dcgmi", "health", "-c", "-j"): "dcgmi",
    ("dcgmi", "diag", "-r", "1", "-j"): "dcgmi",
}


def lines(capture: Capture, folder: str) -> Iterator[Line]:
    """Yield what the product reads in the outputs of programs, and in the kernel's log."""
    hidden = _hidden(capture)
    if hidden:
        yield Line(UNMEASURED, "PCI bus", hidden)
    reader = _laid(capture, folder)
    facts = gpus.read(reader, _answers(capture))
    facts["errors"].pop("xids", None)
    yield from _parts(facts)
    yield from _typed("nvidia-smi --query-gpu", facts["rows"])
    yield from _find_odd_values(capture)
    yield from _pasted(capture, facts)
    yield _settings(capture, reader)
    yield _log(capture, facts)
    node = Node(steps.NODE, {}, {}, {})
    for check in rules.CHECKS:
        if check != "gpu_nic":  # no network card is in the archive
            found = rules.rule(check, node, facts)
            detail = found.detail or ", ".join(f"{name} {value}" for name, value in found.observed.items())
            yield Line(_OUTCOMES[found.outcome], f"rule {check}", detail)
    yield _quick(capture, hidden)


def _hidden(capture: Capture) -> str:
    """Say how far a container's PCI bus and its nvidia-smi are of different GPUs, or return nothing."""
    on_bus = {one["pci"] for one in capture.node["functions"] if one["class"] >> 8 == _DISPLAY_CLASS}
    listed = _listed(capture)
    if not on_bus and listed:
        return f"sysfs shows no GPU (a container?), nvidia-smi lists {len(listed)}"
    if capture.node.get("is_container") is True and listed < on_bus:
        return f"a container has {len(listed)} of the {len(on_bus)} GPUs on the bus"
    return ""


def _laid(capture: Capture, folder: str) -> Reader:
    """Lay out the machine's files; where a container has other GPUs than the bus, those of its nvidia-smi."""
    functions = capture.node["functions"]
    if _hidden(capture):
        listed = _listed(capture)
        functions = [one for one in functions if one["pci"] in listed] or [
            {"pci": address, "device": 0, "class": _DISPLAY_CLASS << 8, "files": {}}
            for address in sorted(listed)
        ]
    texts = [capture.node.get(name) for name in ("driver", "module")]
    driver, module = (text if isinstance(text, str) else None for text in texts)
    log = capture.forms.get(("nvidia-smi", "-q"), {}).get("text", "")
    stated = re.search(r"^Driver Version +: (\S{1,20})$", log, re.M)
    driver = driver or (stated.group(1) if stated else "0")
    return tree.lay(os.path.join(folder, "node"), functions, driver, module)


def _listed(capture: Capture) -> set[str]:
    found = re.findall(
        r"^([0-9a-f]{8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]),",
        "\n".join(one["text"] for one in capture.forms.values()), re.I | re.M,
    )  # fmt: skip
    return {address.lower()[4:] for address in found[:64]}


def _answers(capture: Capture) -> gpus.Ask:
    def ask(argv: Sequence[str]) -> Ended:
        found = capture.forms.get(tuple(argv))
        if found is None:
            raise ToolError(
                f"`{' '.join(argv)[:60]}` is not in the archive; run tests/gpu/run again", absent=True
            )
        if found["error"] is not None:
            raise ToolError(found["error"], absent=found.get("absent") is True)
        return Ended(found["status"] if found["status"] is not None else 1, found["text"])

    return ask


def _parts(facts: Mapping[str, Any]) -> Iterator[Line]:
    counts = {
        "rows": f"{len(facts['rows'])} GPUs, {max(map(len, facts['rows']), default=0)} values each",
        "remapped": "remapped rows",
        "nvlink": f"{sum(one['active'] for one in facts['nvlink'])} active links",
        "nvlink_errors": "error counters of links",
        "topology": f"{len(facts['topology'] or {})} GPUs in the matrix",
    }
    for part, count in counts.items():
        error = facts["errors"].get(part)
        if error is None:
            yield Line(GOOD, f"facts {part}", count)
        else:
            is_bad = error["class"] in (gpus.FAILED, gpus.GARBLED)
            yield Line(FAIL if is_bad else UNMEASURED, f"facts {part}", error["message"])


def _typed(what: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    """Say which values are of another type than their column."""
    odd = [
        f"{row.get('pci', row.get('pci.bus_id'))} {name} is {value!r}"
        for row in rows
        for name, value in row.items()
        if value is not None and (isinstance(value, str) if not _WORDS.fullmatch(name) else False)
    ]
    odd += [f"{name} is no value" for row in rows for name, value in row.items() if not _is_plain(value)]
    if odd:
        yield Line(FAIL, f"types of {what}", "; ".join(odd[:4]))


def _find_odd_values(capture: Capture) -> Iterator[Line]:
    """Say which values are a word of nvidia-smi for trouble, whatever the product's parser makes of it."""
    odd: dict[str, None] = {}
    for argv, one in capture.forms.items():
        if argv[1:] and argv[1].startswith("--query-"):
            odd.update(
                dict.fromkeys(word for word in _BRACKETS.findall(one["text"]) if not _ABSENT.match(word))
            )
    if odd:
        yield Line(FAIL, "words of nvidia-smi", f"values are {', '.join(odd)}")


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str) or is_number(value)


def _pasted(capture: Capture, facts: Mapping[str, Any]) -> Iterator[Line]:
    for argv in forms.PASTED:
        name, found = " ".join(argv), capture.forms.get(argv)
        if found is None or found["error"] is not None:
            if argv[0] != "dcgmi":  # DCGM is not part of the driver
                yield Line(UNMEASURED, name, found["error"] if found else "not in the archive")
            continue
        try:
            answer = registry.parse(PARSERS[argv], found["text"])
        except registry.NotThisTool as error:
            # dcgmi has many ways to say that its service does not answer.
            is_refusal = argv[0] == "dcgmi" and found["status"] != 0
            yield Line(UNMEASURED if is_refusal else FAIL, name, f"the parser does not take it: {error}")
            continue
        if not answer["valid"]:
            # DCGM's service is often not running, and says so itself.
            is_tool = argv[0] == "dcgmi" and answer["error"]["class"] == "tool_error"
            yield Line(UNMEASURED if is_tool else FAIL, name, answer["error"]["message"])
        elif argv[0] == "nvidia-smi":
            yield _same_gpus(name, answer["outputs"][0]["gpus"], facts["rows"])
        else:
            yield Line(GOOD, name, f"{len(answer['outputs'])} outputs")


def _same_gpus(name: str, listed: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> Line:
    seen = sorted(str(one.get("pci.bus_id")).lower()[-12:] for one in listed)
    wanted = sorted(row["pci"][-12:] for row in rows)
    if seen != wanted:
        return Line(FAIL, name, f"it lists {', '.join(seen)}, --query-gpu lists {', '.join(wanted)}")
    return Line(GOOD, name, f"the same {len(seen)} GPUs")


def _settings(capture: Capture, reader: Reader) -> Line:
    """Read the GPUs' settings as gpu_info does."""
    answers = _answers(capture)

    def run(argv: Sequence[str]) -> str | None:
        try:
            return answers(argv).text
        except ToolError as error:
            return None if error.absent else ""

    found = gpu_facts.collect(reader, run, os.path.dirname(reader.sys_root))
    said = [warning for warning in found["warnings"] if warning.startswith("nvidia-smi")]
    lacking = [gpu["pci"] for gpu in found["gpus"] if gpu["settings"] is None]
    if said:
        return Line(UNMEASURED if "not found" in said[0] else FAIL, "gpu_info", said[0])
    if lacking or not found["gpus"]:
        return Line(FAIL, "gpu_info", f"no settings of {', '.join(lacking) or 'any GPU'}")
    first = found["gpus"][0]
    return Line(GOOD, "gpu_info", f"{first['name']}, {first['generation'] or 'generation not known'}")


def _log(capture: Capture, facts: dict[str, Any]) -> Line:
    """Read the kernel's records, as the product sorts them, and put that into the facts."""
    step = capture.step("kernel_log")
    facts["xids"] = None
    if step["status"] != "done":
        facts["errors"]["xids"] = {"class": gpus.ABSENT, "message": step["reason"]}
        return Line(UNMEASURED, "kernel log", step["reason"])
    told = capture.result("kernel_log.json")
    raw = told.get("records")
    if not isinstance(raw, list) or not all(isinstance(one, str) for one in raw) or "seen" not in told:
        raise BadArchiveError("kernel_log.json: records are missing or odd")
    found = [match for match in map(_RECORD.match, raw) if match]
    records = [kernel_log.Record(int(one[1]), int(one[2]) / 1e6, one[3]) for one in found]
    seen = kernel_log.sort_out(records)
    facts["xids"] = {key: told.get(key) for key in ("first", "next", "since_s")} | {"seen": seen}
    if len(found) < len(raw):
        return Line(
            FAIL, "kernel log", f"{len(raw) - len(found)} of {len(raw)} records are not in the kernel's form"
        )
    if told["seen"] != seen:
        return Line(FAIL, "kernel log", "the machine's facts have other XIDs than its records")
    return Line(GOOD, "kernel log", f"{len(raw)} records of the driver, {len(seen)} sorts of XIDs")


def _quick(capture: Capture, hidden: str) -> Line:
    if capture.step("quick")["status"] != "done":
        return Line(UNMEASURED, "railyard-quick", str(capture.step("quick")["reason"]))
    found = capture.result("quick.json")
    if hidden:
        return Line(UNMEASURED, "railyard-quick", f"{hidden}: {found.get('line')}")
    status = found.get("exit_status")
    outcome = GOOD if is_whole(status) and status == 0 else FAIL if status == 1 else UNMEASURED
    return Line(outcome, "railyard-quick", str(found.get("line")))
