"""Options of Ansible, read with Ansible's own definitions so that both mean the same by them."""

from __future__ import annotations

import argparse
import getpass
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import files

from railyard.base.errors import UserError

# Ansible's groups of options that say how to reach the nodes, and as whom.
_REACHING = ("connect", "runas", "vault", "fork")
# These, which nodes and which variables are what the clean-up after Ctrl-C keeps of the user's arguments.
# Not kept: tags, --check, --start-at-task and similar, which would make the clean-up do nothing.
_KEPT_BESIDES = {"subset", "extra_vars"}
_OURS = ("railyard_run", "railyard_reports_dir")


@dataclass
class AnsibleArguments:
    """The arguments for `ansible-playbook`, and what of them matters to us."""

    argv: list[str]
    limit: str | None = None
    check: bool = False
    selects_tasks: bool = False
    only_lists: bool = False
    verbosity: int = 0
    user: str | None = None
    forks: int = 0
    stop_argv: list[str] = field(default_factory=list)
    prompts: list[tuple[str, str]] = field(default_factory=list)
    """What Ansible will ask for: (a regular expression that matches its prompt, what to ask the person)."""


def parse(argv: Sequence[str]) -> AnsibleArguments:
    """Read Ansible's options: those before `--`, then what the user wrote after it.

    Raises:
        UserError: an option that `ansible-playbook` does not have, or that contradicts `railyard`'s own.
    """
    parser = _parser()
    options, rest = parser.parse_known_args(list(argv))
    if rest:
        raise UserError(
            f"ansible-playbook does not know {' '.join(rest)}",
            "see `ansible-playbook --help`; options of railyard itself go before `--`",
        )
    if options.inventory:
        raise UserError("-i is after `--`", "put it before `--`: railyard checks the inventory first")
    for path in (str(extra)[1:] for extra in options.extra_vars or [] if str(extra).startswith("@")):
        if (wrong := files.check_readable(path)) is not None:
            raise UserError(f"{path}: {wrong}", "name a plain file of variables")
    for extra in options.extra_vars or []:
        for name in _OURS:
            if re.search(rf"\b{name}\b", str(extra)):
                raise UserError(
                    f"-e {name} is set by railyard itself", "use --reports-dir for another folder"
                )
    return AnsibleArguments(
        argv=list(argv),
        limit=options.subset,
        check=options.check,
        selects_tasks=bool(
            set(options.tags or ["all"]) != {"all"} or options.skip_tags or options.start_at_task
        ),
        only_lists=options.listhosts or options.listtasks or options.listtags or options.syntax,
        verbosity=options.verbosity,
        # Ansible's own kinds of text and number go into no file.
        user=None if options.remote_user is None else str(options.remote_user),
        forks=int(options.forks),
        stop_argv=_rebuild(parser, options),
        prompts=_prompts(options),
    )


def parse_reach(argv: Sequence[str]) -> tuple[AnsibleArguments, list[str]]:
    """Split the arguments after `--` of verify: options for connection, user and hosts, and the rest.

    The rest is pytest's, and so are the letters that both know (`-c`, `-k`, `-l`, `-v`): Ansible's options of
    these are `--connection`, `--ask-pass` and `--limit`.

    Raises:
        UserError: an option of Ansible's without its value, or one that contradicts `railyard`'s own.
    """
    parser = _parser()
    parser.allow_abbrev = False
    for option in ("-c", "-k", "-l", "-v", "--verbose"):
        del parser._option_string_actions[option]
    options, rest = parser.parse_known_args(list(argv))
    if options.inventory:
        raise UserError("-i is after `--`", "put it before `--`: railyard checks the inventory first")
    reach = AnsibleArguments(_rebuild(parser, options), limit=options.subset, prompts=_prompts(options))
    return reach, rest


def ask_passwords(arguments: AnsibleArguments) -> dict[str, str]:
    """Ask for what Ansible will ask for, before it starts: it runs on a terminal of its own.

    Returns:
        Regular expression of the prompt → answer, as ansible-runner takes it. Kept in memory only.

    Raises:
        UserError: a password prompt is needed, but there is no terminal.
    """
    if arguments.prompts and not sys.stdin.isatty():
        asked = ", ".join(question for _pattern, question in arguments.prompts)
        raise UserError(
            f"a password prompt is needed ({asked}), but standard input is not a terminal",
            "use --become-password-file, --connection-password-file or --vault-password-file",
        )
    answers: dict[str, str] = {}
    ssh_password = ""
    for pattern, question in arguments.prompts:
        answer = getpass.getpass(f"{question}: ")
        if question == "SSH password":
            ssh_password = answer
        answers[pattern] = answer or ssh_password
    return answers


def _parser() -> argparse.ArgumentParser:
    from ansible.cli.arguments import option_helpers as helpers

    # Ansible's own parser class: its options carry words that only this class understands.
    class Parser(helpers.ArgumentParser):  # type: ignore[misc] # ansible-core ships no types
        def error(self, message: str) -> NoReturn:
            raise UserError(f"options of Ansible: {message}", "see `ansible-playbook --help`")

    parser: argparse.ArgumentParser = Parser(
        prog="railyard ... --", add_help=False, conflict_handler="resolve"
    )
    # The same groups, and the five options of its own, as ansible-playbook.
    for group in _REACHING:
        getattr(helpers, f"add_{group}_options")(parser)
    reaching = {action.dest for action in parser._actions}
    for group in ("verbosity", "meta", "subset", "check", "inventory", "runtask", "module"):
        getattr(helpers, f"add_{group}_options")(parser)
    # For `_rebuild`, which sees the parsed options.
    parser.set_defaults(kept=reaching | _KEPT_BESIDES)
    parser.add_argument("--syntax-check", dest="syntax", action="store_true")
    parser.add_argument("--list-tasks", dest="listtasks", action="store_true")
    parser.add_argument("--list-tags", dest="listtags", action="store_true")
    parser.add_argument("--start-at-task", dest="start_at_task")
    return parser


def _rebuild(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[str]:
    argv: list[str] = []
    for action in parser._actions:
        value: Any = getattr(options, action.dest, None)
        if action.dest not in options.kept or value == action.default or not value:
            continue
        flag = action.option_strings[-1]
        if action.nargs == 0:
            argv.append(flag)
            continue
        argv += [f"{flag}={item}" for item in (value if isinstance(value, list) else [value])]
    return argv


def _prompts(options: argparse.Namespace) -> list[tuple[str, str]]:
    prompts: list[tuple[str, str]] = []
    if options.ask_pass:
        prompts.append((r"^SSH password:\s*$", "SSH password"))
    if options.become_ask_pass:
        default = " [defaults to SSH password]" if options.ask_pass else ""
        prompts.append((r"^[A-Z]+ password(\[defaults to SSH password\])?:\s*$", f"BECOME password{default}"))
    if options.ask_vault_pass:
        prompts.append((r"^Vault password:\s*$", "Vault password"))
    vaults = [str(vault).rpartition("@") for vault in options.vault_ids or []]
    labels = [label or "default" for label, _at, source in vaults if source.startswith("prompt")]
    return prompts + [
        (rf"^Vault password \({re.escape(one)}\):\s*$", f"Vault password ({one})") for one in labels
    ]
