"""`railyard validate --fabric`: the fabric is read before and after the tests.

Error counters that grow then belong to a known load, and not to whatever ran on the nodes before. The second
reading also has the paths of the pairs that the tests found to be slow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet import capture as parser
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet_capture import Capture, Command
from ansible_collections.railyard.fabric.plugins.module_utils.subnet.commands import MOST_PATHS
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.rejudge import Judged
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import documents, fabric_rows, model
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.model import Report
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.slow_pairs import (
    SlowPair,
    find_slow_pairs,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import paths, run_file
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.names import Place
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.run_file import PathRecord, RunFabric
from rich.text import Text

from railyard.base import output, terminal
from railyard.base.errors import BAD_INPUT, UserError
from railyard.fabric import command, live, text
from railyard.fabric.command import Read, Tested, Written
from railyard.fabric.wanted import Wanted
from railyard.operate import ansible_args
from railyard.operate.commands import HandOver, checked_inventory

_FIRST, _SECOND = "ibqueryerrors.1.txt", "ibqueryerrors.2.txt"
#: So many findings are in the run's report; the fabric's page has all.
_MOST_FINDINGS = 60


def validate(
    wanted: Wanted,
    argv: Sequence[str],
    run_tests: Callable[[str, Mapping[str, str], HandOver], int],
    hand_over: HandOver | None = None,
) -> int:
    """Read the fabric, run the tests, read the fabric again, and judge what came of it.

    Args:
        wanted: the options; counters are read once each time.
        argv: options for ansible-playbook.
        run_tests: validates with this run id and these passwords, hands the judged run over, and returns its
            exit status.
        hand_over: gets the judged run, the fabric's result in it.

    Returns:
        1 where the tests or the fabric failed, else 3 where a part of either is not known, else 0; what the
        tests returned where their input was wrong.

    Raises:
        UserError: wrong input (exit status 2); the fabric could not be read before the tests (3), and nothing
            was tested; or after them (3, or 1 where the tests failed).
    """
    arguments = ansible_args.parse(argv)
    inventory = checked_inventory(wanted.inventory, arguments.limit)
    command.refuse_others(inventory)
    run = run_folder.new_run_id()
    kept: list[tuple[Judged, Report]] = []

    def keep(_run_dir: Path, found: Judged, report: Report) -> None:
        kept.append((found, report))

    if arguments.only_lists:
        return run_tests(run, {}, keep)
    passwords = ansible_args.ask_passwords(arguments)
    out = output.console()
    # Of it, only the counters and the ports of the rails are used.
    before = live.read_live(inventory, wanted, arguments, out, passwords, with_partitions=False)
    tested = run_tests(run, passwords, keep)
    if tested == BAD_INPUT:
        return tested
    run_dir = wanted.reports_dir / inventory.cluster / run
    judged, of_tests = kept[0] if kept else (None, None)
    pairs = find_slow_pairs(judged.verdicts, judged.findings.suspects) if judged else []
    places = _find_port_guids(wanted, inventory, before) if pairs else {}
    try:
        after = live.read_live(
            inventory, wanted, arguments, out, passwords, _list_guids(pairs[:MOST_PATHS], places)
        )
    except UserError as error:
        # The tests have their result by then, which a fabric that cannot be read must not hide.
        if hand_over and judged is not None and of_tests is not None:
            hand_over(run_dir, judged, of_tests)
        status = fabric_rows.join_statuses(tested, error.exit_status)
        raise UserError(str(error), exit_status=status) from error
    told = Tested(run, lambda found: find_paths(found, pairs[:MOST_PATHS], places)) if judged else None
    reading = command.write_reading(wanted, inventory, join_counters(before, after), told)
    out.print()
    out.print(Text("The fabric, with the error counters of the time of the tests:", style="bold"))
    text.print_report(reading.report, reading.folder, out)
    if judged is not None:
        fabric = describe_fabric(reading, len(pairs))
        terminal.print_paths(fabric, out)
        run_file.write(RunFolder(run_dir), fabric)
        run_report = model.read(run_dir, judged)
        notes = documents.write_report(run_dir, run_report)
        if hand_over:
            hand_over(run_dir, judged, run_report)
        terminal.report_place(run_dir, out, notes)
    return fabric_rows.join_statuses(tested, reading.report.status)


def find_paths(
    found: Sequence[Read], pairs: Sequence[SlowPair], places: Mapping[Place, str]
) -> list[PathRecord]:
    """Return the paths of slow pairs.

    Args:
        found: the subnets after the tests.
        pairs: the pairs that were traced.
        places: the ports of their rails.
    """
    subnets = [paths.read_traces(one.capture, one.subnet.reading, one.subnet.judgement) for one in found]
    return [
        {
            "node": pair.node,
            "peer": pair.peer,
            "rail": pair.rail,
            "checks": list(pair.checks),
            "ways": [
                paths.follow_path(subnets, places, (one, pair.rail), (other, pair.rail))
                for one, other in ((pair.node, pair.peer), (pair.peer, pair.node))
            ],
        }
        for pair in pairs
    ]


def describe_fabric(reading: Written, slow_pairs: int) -> RunFabric:
    """Return what the run's folder keeps of the fabric.

    Args:
        reading: the fabric after the tests.
        slow_pairs: how many pairs were slow, of which only the first ones were traced.
    """
    report = reading.report
    times = [one.judgement.coverage.counted_s for one in report.subnets]
    numbered = sorted(
        (pair for group in report.folded for pair in group.findings),
        key=lambda pair: ("fail", "unmeasured", "warn").index(pair[1].severity),
    )
    return {
        "schema": 1,
        "folder": reading.folder.name,
        "headline": report.headline,
        "status": report.status,
        "counted_s": next((seconds for seconds in times if seconds), None),
        "findings": [
            {
                "number": number,
                "cause": one.cause,
                "severity": one.severity,
                "text": one.text,
                "inferred": one.inferred,
                "node": one.node,
                "rail": one.rail,
                "next": one.next,
            }
            for number, one in numbered[:_MOST_FINDINGS]
        ],
        "findings_left_out": max(len(numbered) - _MOST_FINDINGS, 0),
        "paths": list(report.paths),
        "paths_left_out": slow_pairs - len(report.paths),
    }


def join_counters(before: Sequence[Capture], after: Sequence[Capture]) -> list[Capture]:
    """Return the later captures with the error counters of both, the earlier ones first.

    A capture whose counterpart is missing keeps its own counters, one reading of which says nothing.
    """
    known = {(one.host, one.device, one.port): _counters(one) for one in before}
    joined = []
    for capture in after:
        earlier, later = known.get((capture.host, capture.device, capture.port)), _counters(capture)
        if earlier is not None and later is not None:
            rest = [one for one in capture.commands if one.file not in (_FIRST, _SECOND)]
            both = (earlier, later._replace(file=_SECOND))
            capture = capture._replace(commands=(*rest, *both))
        joined.append(capture)
    return joined


def _counters(capture: Capture) -> Command | None:
    return next((one for one in capture.commands if one.file == _FIRST), None)


def _find_port_guids(wanted: Wanted, inventory: Inventory, taken: Sequence[Capture]) -> dict[Place, str]:
    """Return the GUID of each rail's port, as the fabric had it before the tests."""
    expected = command.expect(wanted, inventory)
    found: dict[Place, str] = {}
    for capture in taken:
        found = {**paths.find_port_guids(parser.parse(capture), expected), **found}
    return found


def _list_guids(pairs: Sequence[SlowPair], places: Mapping[Place, str]) -> list[tuple[str, str]]:
    ends = [(places.get((pair.node, pair.rail)), places.get((pair.peer, pair.rail))) for pair in pairs]
    return [(one, other) for one, other in ends if one is not None and other is not None]
