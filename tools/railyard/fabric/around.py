"""`railyard validate --fabric`: the fabric is read before and after the tests.

Error counters that grow then belong to a known load, and not to whatever ran on the nodes before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet_capture import Capture, Command
from rich.text import Text

from railyard.base import output
from railyard.base.errors import BAD_INPUT
from railyard.fabric import command, live, text
from railyard.fabric.wanted import Wanted
from railyard.operate import ansible_args
from railyard.operate.commands import checked_inventory

_FIRST, _SECOND = "ibqueryerrors.1.txt", "ibqueryerrors.2.txt"


def validate(wanted: Wanted, argv: Sequence[str], run_tests: Callable[[], int]) -> int:
    """Read the fabric, run the tests, read the fabric again, and judge what came of it.

    Args:
        wanted: the options; counters are read once each time.
        argv: options for ansible-playbook.
        run_tests: validates and returns its exit status.

    Returns:
        1 where the tests or the fabric failed, else 3 where a part of either is not known, else 0; what the
        tests returned where their input was wrong.

    Raises:
        UserError: wrong input (exit status 2), or the fabric could not be read before the tests (3): then
            nothing was tested.
    """
    arguments = ansible_args.parse(argv)
    inventory = checked_inventory(wanted.inventory, arguments.limit)
    command.refuse_others(inventory)
    if arguments.only_lists:
        return run_tests()
    out = output.console()
    before = live.read_live(inventory, wanted, arguments, out)
    tested = run_tests()
    if tested == BAD_INPUT:
        return tested
    after = live.read_live(inventory, wanted, arguments, out)
    report, folder = command.write_reading(wanted, inventory, join_counters(before, after))
    out.print()
    out.print(Text("The fabric, with the error counters of the time of the tests:", style="bold"))
    text.print_report(report, folder, out)
    statuses = {tested, report.status}
    return 1 if 1 in statuses else max(statuses)


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
