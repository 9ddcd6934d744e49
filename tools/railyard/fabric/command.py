"""`railyard fabric`: read a whole InfiniBand fabric, judge it, and write what was found."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet import capture as parser
from ansible_collections.railyard.fabric.plugins.module_utils.records import subnet_json
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import Reading
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet_capture import Capture
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import captures, expected, judge
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Expected
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.rank_order import Subnet
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.run_file import PathRecord

from railyard.base import output
from railyard.base.errors import UserError
from railyard.fabric import documents, facts, folders, live, text, written
from railyard.fabric.wanted import Wanted
from railyard.operate import ansible_args
from railyard.operate.commands import checked_inventory, list_only
from railyard.plan import svg_parts

_INFINIBAND = "infiniband"


class Read(NamedTuple):
    """A subnet that was read: its capture, its reading and judgement."""

    capture: Capture
    subnet: Subnet


class Written(NamedTuple):
    """What was found of a fabric, and the folder that has it."""

    report: documents.Report
    folder: Path


class Tested(NamedTuple):
    """A run around which the fabric was read: its id, and what finds the paths of its slow pairs."""

    run: str
    find_paths: Callable[[Sequence[Read]], list[PathRecord]]


def run(wanted: Wanted, argv: Sequence[str]) -> int:
    """Read, judge and write.

    Returns:
        0 healthy; 1 a finding fails; 3 a part is not known.

    Raises:
        UserError: wrong input (exit status 2), or nothing could be read (3).
    """
    arguments = ansible_args.parse(argv)
    inventory = checked_inventory(wanted.inventory, arguments.limit)
    if arguments.only_lists:
        return list_only(live.PLAYBOOK, wanted.inventory, arguments)
    refuse_others(inventory)
    plan = written.check(wanted, inventory)
    quiet = wanted.as_json or wanted.svg == "-"
    out = output.console()
    if quiet:
        # What else there is to print would be in the middle of the document.
        out.quiet = True
    taken = (
        [_load(folder) for folder in wanted.captures]
        if wanted.captures
        else live.read_live(inventory, wanted, arguments, out)
    )
    report, folder = write_reading(wanted, inventory, taken)
    if wanted.svg is not None:
        svg_parts.write(svg_parts.stack([file for _inline, file in report.drawings]), wanted.svg)
    if wanted.as_json:
        print(json.dumps({**report.document, "folder": str(folder)}, indent=2))
    elif not quiet:
        text.print_report(report, folder, out)
    # Last: the reading took its time, and is complete without these files.
    for file in plan.write_files(report):
        out.print(f"Written: {file}")
    return report.status


def refuse_others(inventory: Inventory) -> None:
    """Refuse an inventory without InfiniBand.

    Raises:
        UserError: no node has it.
    """
    if not any(node.fabric.get("transport") == _INFINIBAND for node in inventory.nodes):
        raise UserError(
            f"no node of {inventory.cluster} has InfiniBand",
            "name an inventory with `transport: infiniband`, or use `railyard validate`",
        )


def expect(wanted: Wanted, inventory: Inventory) -> Expected:
    """Return what the inventory, and the facts of the cluster's runs, expect of the fabric."""
    known = facts.load_facts(wanted.reports_dir / inventory.cluster)
    return expected.from_inventory(inventory, known, _changed_at_s(inventory))


def write_reading(
    wanted: Wanted, inventory: Inventory, taken: Sequence[Capture], tested: Tested | None = None
) -> Written:
    """Judge captures and write the folder of the reading.

    Args:
        wanted: the options.
        inventory: the inventory.
        taken: a capture of each subnet.
        tested: the run around which they were taken; None for a reading by itself.

    Raises:
        UserError: nothing could be read (exit status 3), or the folder cannot be written.
    """
    cluster = wanted.reports_dir / inventory.cluster
    wants = expect(wanted, inventory)
    earlier = folders.load_earlier(cluster, min(one.started_at_s for one in taken))
    found = judge_captures(taken, wants, earlier.readings)
    report = documents.build_report(
        inventory.cluster,
        [one.subnet for one in found],
        wants,
        wanted.inventory,
        earlier.notes,
        tested.find_paths(found) if tested else (),
        tested.run if tested else None,
    )
    folder = folders.make_folder(cluster, min(one.subnet.reading.taken_at_s for one in found))
    _write_folder(folder, found, report)
    return Written(report, folder)


def judge_captures(taken: Sequence[Capture], wants: Expected, earlier: Sequence[Reading]) -> list[Read]:
    """Parse captures, drop those of a subnet that is there already, and judge the others.

    Raises:
        UserError: a capture names no device.
    """
    kept: list[tuple[Capture, Reading]] = []
    for capture in taken:
        reading = parser.parse(capture)
        if not reading.devices:
            where = f" from {capture.host}" if capture.host else ""
            why = "; ".join(problem.text for problem in reading.problems[:3]) or "its outputs are empty"
            raise UserError(
                f"nothing of the fabric could be read{where}: {why}",
                "see whether `ibnetdiscover -p` works there as root, and that a port is active",
                live.UNREADABLE,
            )
        own = _switches(reading)
        if not any(own & _switches(other) for _capture, other in kept):
            kept.append((capture, reading))
    readings = [reading for _capture, reading in kept]
    parts = judge.divide(readings, wants)
    return [
        Read(capture, Subnet(reading, judge.judge(reading, part, folders.find_previous(reading, earlier))))
        for (capture, reading), part in zip(kept, parts, strict=True)
    ]


def _switches(reading: Reading) -> set[str]:
    return {guid for guid, device in reading.devices.items() if device.kind == "switch"}


def _load(folder: Path) -> Capture:
    try:
        return captures.load(str(folder))
    except captures.CaptureError as error:
        raise UserError(str(error)) from error


def _changed_at_s(inventory: Inventory) -> float | None:
    """Return when the newest file of the inventory was changed."""
    times = []
    for source in inventory.sources:
        path = Path(source)
        for file in [path] if path.is_file() else sorted(path.rglob("*.y*ml")):
            try:
                times.append(file.stat().st_mtime)
            except OSError:
                continue
    return max(times, default=None)


def _write_folder(folder: Path, found: Sequence[Read], report: documents.Report) -> None:
    for place, one in enumerate(found, 1):
        try:
            captures.write(one.capture, str(folder / folders.numbered("capture", place)))
        except OSError as error:
            raise UserError(f"{folder} cannot be written: {error.strerror or error}", "make room") from error
        document = json.dumps(subnet_json.dump(one.subnet.reading)) + "\n"
        folders.write(folder / folders.numbered("reading.json", place), document)
    for place, (_inline, file) in enumerate(report.drawings, 1):
        folders.write(folder / folders.numbered(folders.DRAWING, place), file)
    folders.write(folder / folders.FINDINGS, json.dumps(report.document, indent=1) + "\n")
    folders.write(folder / folders.PAGE, report.page)
