"""`railyard discover`: read nodes that have no inventory, and write one; or say what changed since."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils.records.bare_node import BareNode
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import files as inventory_files
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line, fold_names
from rich.console import Console

from railyard.base import options, output
from railyard.base.errors import BAD_INPUT, UserError
from railyard.base.options import Wrong
from railyard.discover import found as found_file
from railyard.discover import hosts as who
from railyard.discover import present, run
from railyard.discover.diff import differences
from railyard.discover.files import GENERATED, render
from railyard.discover.model import Named, Options, Question
from railyard.discover.survey import survey
from railyard.discover.wanted import Wanted
from railyard.new_inventory import command as writing
from railyard.new_inventory import nodes as new_nodes
from railyard.operate import ansible_args
from railyard.operate.ansible_args import AnsibleArguments
from railyard.plan import view

OK, DIFFERENT, INCOMPLETE = 0, 1, 3
# Option → least, most, and what to write.
_BOUNDS = {
    "listen_s": (1, 300, "write seconds, as 6"),
    "limit_s": (5, 3600, "write seconds, as 60"),
}
# What an inventory can be written as; looked for before any node is contacted.
_FILES = (
    "hosts.yml",
    "README.md",
    found_file.FILE,
    *(f"group_vars/all/{name}.yml" for name in ("fabric", "connection", "rdma", "gpus")),
)
_UNANSWERED = (
    "\nNothing is written: only you can decide this. On a terminal and without --yes, discover asks."
)
_UNANSWERABLE = "\nNothing is written. Fix what is named above, and call the command again."
_ONLY_WRITING = ("output", "hosts_from", "keep_addresses", "yes", "force")


def discover(wanted: Wanted, argv: Sequence[str]) -> int:
    """Read the nodes; write the inventory, or print the differences.

    Args:
        wanted: what was typed.
        argv: Ansible's options.

    Returns:
        0, 1 where --diff found differences, 2 with open questions, 3 where a node or something about one is
        not known.

    Raises:
        UserError: bad input; no node was contacted.
    """
    arguments = ansible_args.parse(argv)
    _check(wanted, arguments)
    settings = run.Settings(arguments, wanted.link_up, wanted.listen_s, wanted.limit_s)
    out = output.console()
    if wanted.diff:
        return _compare(wanted, settings, out)
    target = writing.absolute(wanted.output or Path())
    if not wanted.force:
        _refuse_existing(target, _FILES)
    meant = who.find(wanted.nodes or [], wanted.hosts_from, arguments.user)
    reading = run.read(meant, settings, out)
    if reading.interrupted:
        out.print("Interrupted; nothing is written.", style="yellow")
        return INCOMPLETE
    if not reading.nodes:
        present.failures(reading.failed, out)
        out.print("No node could be read; nothing is written.", style="red")
        return INCOMPLETE
    return _write(wanted, target, meant, reading, out)


def _check(wanted: Wanted, arguments: AnsibleArguments) -> None:
    """Refuse options that are wrong or do not fit together, before anything is read.

    Raises:
        UserError: with everything that is wrong.
    """
    wrong: list[Wrong] = options.out_of_range(wanted, _BOUNDS)
    if arguments.limit is not None:
        wrong.append(("--limit", "the nodes are named without an option", "name them as NODES"))
    if arguments.user is not None and not new_nodes.is_login_name(arguments.user):
        wrong.append(
            ("--user", f"{arguments.user!r} is not a user name", "write one without blanks, as ubuntu")
        )
    if wanted.diff:
        wrong += [
            (options.flag(name), "it has no meaning with --diff, which writes nothing", "leave it out")
            for name in _ONLY_WRITING
            if getattr(wanted, name)
        ]
        if not wanted.inventory:
            wrong.append(("--diff", "no inventory is named", "add -i with the inventory's folder"))
    else:
        if wanted.inventory:
            wrong.append(("--inventory", "it belongs to --diff", "add --diff, or use --hosts-from"))
        if wanted.output is None:
            wrong.append(
                ("--output", "no folder is named", "add -o with the folder to write, as -o inventories/mine")
            )
        if not wanted.nodes and wanted.hosts_from is None:
            wrong.append(("NODES", "no node is named", "name nodes, as 'gpu[001-032]', or use --hosts-from"))
    if wrong:
        raise options.refused(wrong, "on the command line; no node was contacted")


def _write(wanted: Wanted, target: Path, meant: who.Hosts, reading: run.Reading, out: Console) -> int:
    known, remarks = name_nodes(meant.hosts, reading.nodes)
    answers: dict[str, str] = {}
    found = survey(reading.nodes, known, Options(wanted.keep_addresses, answers))
    while not wanted.yes and sys.stdin.isatty() and (open_one := _answerable(found.questions)) is not None:
        answers[str(open_one.key)] = ask(open_one, out)
        found = survey(reading.nodes, known, Options(wanted.keep_addresses, answers))
    found.not_known += _silent(meant.hosts, reading, "not in the inventory")
    found.oddities += [*remarks, *meant.remarks]
    present.rails(found, out)
    present.listed("Assumed:", found.assumed, out)
    present.listed("Look at these:", found.oddities, out, "yellow")
    present.listed("Not known:", found.not_known, out, "yellow")
    present.failures(reading.failed, out)
    if found.questions:
        present.questions(found.questions, out)
        out.print(_UNANSWERABLE if _answerable(found.questions) is None else _UNANSWERED, style="red")
        return BAD_INPUT
    files = render(found)
    if not wanted.force:
        _refuse_existing(target, files)
    writing.write(target, files, into_existing=True, generated=GENERATED)
    out.print(f"\nWritten: {target}")
    for name in files:
        out.print(f"  {name}")
    out.print(f"Next: railyard plan -i {shlex.quote(str(target))}")
    return INCOMPLETE if found.not_known else OK


def _answerable(questions: Sequence[Question]) -> Question | None:
    return next((one for one in questions if one.key is not None and one.candidates), None)


def ask(question: Question, out: Console) -> str:
    """Ask a person for one of the candidates, until one is chosen.

    Raises:
        UserError: no node answers.
    """
    present.questions([question], out)
    while True:
        try:
            answer = input(f"1 to {len(question.candidates)}: ").strip()
        except EOFError as error:
            raise UserError("a question was not answered; nothing is written", "call it again") from error
        if answer.isdecimal() and 1 <= int(answer) <= len(question.candidates):
            return question.candidates[int(answer) - 1]
        out.print("Type the number of one of them.")


def _silent(hosts: Sequence[who.Host], reading: run.Reading, outcome: str) -> list[str]:
    """Return what is not known since nodes did not answer; `outcome` is what became of these nodes."""
    failed = [host.key for host in hosts if host.key in reading.failed]
    texts = [f"{fold_names(failed)}: not read, and {outcome}"] if failed else []
    return [*texts, *(f"{key}: what its ports heard: {reason}" for key, reason in reading.unheard.items())]


def name_nodes(
    hosts: Sequence[who.Host], nodes: Mapping[str, BareNode]
) -> tuple[dict[str, Named], list[str]]:
    """Give each node its name: the user's, else what the node calls itself, else one made of its address.

    Returns:
        Key → the node's name; a sentence for each node that could not be called as it calls itself.
    """
    taken = {host.name for host in hosts if host.name is not None}
    known, remarks = {}, []
    for host in hosts:
        if host.key not in nodes:
            continue
        name = host.name
        if name is None:
            reported = (nodes[host.key]["hostname"] or "").partition(".")[0]
            name = reported
            if reported in taken or not new_nodes.is_free_name(reported):
                name = "node-" + re.sub("[^0-9A-Za-z]+", "-", host.key).strip("-")
                remarks.append(
                    f"{host.key} calls itself {clean_line(reported) or 'nothing'}, which is another node's "
                    f"name or not a name; it is {name} here. Give its line a name with --hosts-from"
                )
            taken.add(name)
        known[host.key] = Named(host.key, name, host.address, host.user)
    return known, remarks


def _compare(wanted: Wanted, settings: run.Settings, out: Console) -> int:
    sources = list(wanted.inventory or [])
    plan, problems = view.plan_or_problems(sources)
    if plan is None:
        view.print_problems(problems)
        return BAD_INPUT
    meant = who.of_inventory(sources, wanted.nodes or [], settings.ansible.user)
    if strangers := [host.key for host in meant.hosts if host.key not in plan["nodes"]]:
        what = f"{fold_names(strangers)}: the inventory plans no rails for it"
        raise UserError(what, f"name hosts of its group {new_nodes.GROUP}")
    reading = run.read(meant, settings, out)
    if reading.interrupted:
        out.print("Interrupted.", style="yellow")
        return INCOMPLETE
    if not reading.nodes:
        present.failures(reading.failed, out)
        out.print("No node could be read; nothing was compared.", style="red")
        return INCOMPLETE
    found = differences(plan, reading.nodes, _found_before(sources, out))
    present.differences(found, out)
    present.listed("Not known:", _silent(meant.hosts, reading, "not compared"), out, "yellow")
    present.failures(reading.failed, out)
    if reading.failed or reading.unheard:
        return INCOMPLETE
    return DIFFERENT if found else OK


def _found_before(sources: Sequence[str], out: Console) -> str | None:
    """Return what an earlier discovery found, where the inventory has it."""
    for folder in inventory_files.source_folders(sources):
        path = os.path.join(folder, found_file.FILE)
        if os.path.isfile(path) and inventory_files.check_readable(path) is None:
            return inventory_files.read_text(path)
    out.print(
        f"The inventory has no {found_file.FILE}, which discover writes: a swapped card, a renamed RDMA "
        "device and a new port show only where the inventory names them.",
        style="yellow",
    )
    return None


def _refuse_existing(target: Path, names: Iterable[str]) -> None:
    there = [name for name in names if (target / name).exists() or (target / name).is_symlink()]
    if there:
        raise UserError(
            f"{target} has {', '.join(there)} already",
            "name another folder, compare with --diff -i, or add --force to overwrite them",
        )
