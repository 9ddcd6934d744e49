"""Judge what PyTorch measured: NCCL's log by its parser, settings by lint-nccl, bandwidths by the links."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import pci_express
from ansible_collections.railyard.fabric.plugins.module_utils.numeric import is_number, is_whole
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from ansible_collections.railyard.fabric.plugins.module_utils.rails.pci_links import Link
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import slots
from gpu.checking.capture_archive import Capture
from gpu.checking.line import FAIL, GOOD, UNMEASURED, Line
from railyard.base.errors import UserError
from railyard.nccl import command

# NVLink-C2C joins these to their CPU; PCI Express does not bound them (docs of NVIDIA's Grace systems).
_C2C = re.compile(r"\bG(?:H|B)(?:10|200|300)\b")
# From the slowest GPU with ECC memory that is in use (T4: 320 GB/s by its data sheet) down by far, and up to
# more than the fastest (B200: 8 TB/s).
_MEMORY_GBYTES_PER_S = (50.0, 30_000.0)
_C2C_GBYTES_PER_S = (5.0, 900.0)
# A copy below a tenth of its link did not use it; one above it was not measured.
_LEAST_SHARE, _MOST_SHARE = 0.1, 1.02
_WAYS = ("host_to_device", "device_to_host", "device_memory")


def lines(capture: Capture, folder: str) -> Iterator[Line]:
    """Yield what was measured."""
    yield _lint(capture, folder)
    if capture.manifest.get("rehearsal"):
        yield Line(UNMEASURED, "PyTorch", "a rehearsal on the CPU: it says nothing of a GPU")
        return
    for name in ("nccl", "collective"):
        if capture.step(name)["status"] == "done":
            yield _all_reduce(capture, name)
            yield _nccl_log(capture, f"{name}.log")
    if capture.step("bandwidth")["status"] == "done":
        yield from _bandwidths(capture)


def _lint(capture: Capture, folder: str) -> Line:
    """Give the settings to lint-nccl, as settings of the release that the log names."""
    path = Path(folder) / "nccl.env"
    path.write_text(capture.texts.get("nccl.env", ""))
    release = re.search(r"NCCL version ([0-9]+\.[0-9]+\.[0-9]+)", capture.texts.get("nccl.log", ""))
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            status = command.run(str(path), [], release.group(1) if release else "", False)
    except UserError as error:
        return Line(FAIL, "lint-nccl", str(error))
    said = [line.removeprefix(f"{path}:") for line in printed.getvalue().splitlines()]
    outcome = {command.FINE: GOOD, command.FOUND: FAIL}.get(status, UNMEASURED)
    return Line(
        outcome, "lint-nccl", (said[-1] if outcome == GOOD else said[0]) if said else "it printed nothing"
    )


def _nccl_log(capture: Capture, name: str) -> Line:
    try:
        answer = registry.parse("nccl-log", capture.texts.get(name, ""))
    except registry.NotThisTool as error:
        return Line(FAIL, name, f"the parser does not take it: {error}")
    if not answer["valid"]:
        return Line(FAIL, name, answer["error"]["message"])
    output = answer["outputs"][0]
    return Line(
        GOOD, name, f"NCCL {output['nccl_version']}, {output['transport']}, {len(output['ranks'])} rank"
    )


def _all_reduce(capture: Capture, name: str) -> Line:
    found = capture.result(f"{name}.json")
    lines_ = found.get("lines") if name == "collective" else [found.get("allreduce")]
    sizes = [one for one in lines_ if _is_result(one)] if isinstance(lines_, list) else []
    wrong = [one for one in sizes if one.get("wrong") != 0]
    if not sizes:
        return Line(FAIL, f"all-reduce ({name})", "it has no results")
    if wrong:
        return Line(FAIL, f"all-reduce ({name})", f"{wrong[0].get('wrong')} numbers are wrong")
    return Line(GOOD, f"all-reduce ({name})", f"{len(sizes)} sizes, all numbers right")


def _is_result(one: object) -> bool:
    return isinstance(one, Mapping) and one.get("t") in ("size", "allreduce")


def _bandwidths(capture: Capture) -> Iterator[Line]:
    found = capture.result("bandwidth.json")
    listed = found.get("copies")
    copies = (
        {str(one.get("what")): one for one in listed if isinstance(one, Mapping)}
        if isinstance(listed, list)
        else {}
    )
    name = str(found["torch"].get("name")) if isinstance(found.get("torch"), Mapping) else ""
    for way in _WAYS:
        one = copies.get(way, {})
        moved, seconds = one.get("bytes"), one.get("seconds")
        if not is_whole(moved) or not is_number(seconds) or moved <= 0 or seconds <= 0:
            yield Line(FAIL, way, f"{moved!r} bytes in {seconds!r} s is no measurement")
            continue
        rate, bounds = moved / seconds / 1e9, _bounds(capture, way, name)
        if bounds is None:
            yield Line(
                UNMEASURED, way, f"{rate:.1f} GB/s; generation and lanes of the GPU's slot are not known"
            )
        elif not bounds[0] <= rate <= bounds[1]:
            yield Line(FAIL, way, f"{rate:.1f} GB/s is not plausible: {bounds[0]:.1f} to {bounds[1]:.1f} are")
        else:
            yield Line(GOOD, way, f"{rate:.1f} GB/s")


def _bounds(capture: Capture, way: str, name: str) -> tuple[float, float] | None:
    if way == "device_memory":
        return _MEMORY_GBYTES_PER_S
    if _C2C.search(name):
        return _C2C_GBYTES_PER_S
    rows = capture.result("nvidia_smi.json").get("rows") if "nvidia_smi.json" in capture.texts else None
    known = (
        [_link_gbytes_per_s(row) for row in rows if isinstance(row, Mapping)]
        if isinstance(rows, list)
        else []
    )
    links = [one for one in known if one is not None]
    return (_LEAST_SHARE * min(links), _MOST_SHARE * max(links)) if links else None


def _link_gbytes_per_s(row: Mapping[str, Any]) -> float | None:
    generation, lanes = row.get("pcie.link.gen.max"), row.get("pcie.link.width.max")
    # Generation 1 is the first of the speeds.
    if not is_whole(generation) or not 1 <= generation <= len(pci_express.SPEEDS_GTS):
        return None
    if lanes not in pci_express.WIDTHS:
        return None
    speed_gts = pci_express.SPEEDS_GTS[generation - 1]
    raw_gbps = slots.calculate_raw_gbps(Link(None, None, None, speed_gts, float(lanes)))
    return None if raw_gbps is None else raw_gbps / 8
