"""Ansible's options on railyard's command line: verbs that run Ansible take them as ansible-playbook does.

The names are data here, since `railyard --help` must not wait for Ansible to load; a test compares them with
Ansible's own parser, which also checks the values, as it does for options after `--`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import typer

_PANEL = "Options of Ansible"


class AnsibleOption(NamedTuple):
    """One option of ansible-playbook.

    Attributes:
        names: as they are typed, the one that is passed on last.
        metavar: what its value is called; None for a switch.
        help: one line for `--help`; without it the option is taken, and not listed.
        is_repeatable: it may be given several times.
        is_reach: it says how to reach which nodes, and as whom: all that `verify` takes.
    """

    names: tuple[str, ...]
    metavar: str | None = None
    help: str = ""
    is_repeatable: bool = False
    is_reach: bool = False


def _option(
    names: str, metavar: str | None = None, text: str = "", *, repeats: bool = False, reach: bool = False
) -> AnsibleOption:
    return AnsibleOption(tuple(names.split()), metavar, text, repeats, reach)


OPTIONS = (
    _option("-K --ask-become-pass", text="Ask for sudo's password on the nodes.", reach=True),
    _option("-k --ask-pass", text="Ask for the SSH password.", reach=True),
    _option("-u --user", "USER", "Log in as this user.", reach=True),
    _option("-l --limit", "NODES", "Only these nodes.", reach=True),
    _option("-e --extra-vars", "VAR=VALUE", "Set a variable.", repeats=True, reach=True),
    _option("-f --forks", "N", "Reach so many nodes at a time.", reach=True),
    _option("-C --check", text="Change nothing; report what would change."),
    _option("-D --diff", text="Show the lines that change in files."),
    _option("-t --tags", "TAGS", "Only plays and tasks with these tags.", repeats=True),
    _option("--skip-tags", "TAGS", "All but plays and tasks with these tags.", repeats=True),
    _option("--private-key --key-file", "FILE", "Log in by this key.", reach=True),
    _option("-b --become", reach=True),
    _option("--become-method", "METHOD", "Become root by this method. Default: sudo.", reach=True),
    _option("--become-user", "USER", reach=True),
    _option(
        "--become-pass-file --become-password-file", "FILE", "Read sudo's password from a file.", reach=True
    ),
    _option("--conn-pass-file --connection-password-file", "FILE", reach=True),
    _option("-J --ask-vault-password --ask-vault-pass", text="Ask for the vault's password.", reach=True),
    _option("--vault-pass-file --vault-password-file", "FILE", repeats=True, reach=True),
    _option("--vault-id", "ID", repeats=True, reach=True),
    _option("-c --connection", "PLUGIN", reach=True),
    _option("-T --timeout", "SECONDS", reach=True),
    _option("--ssh-common-args", "ARGS", reach=True),
    _option("--ssh-extra-args", "ARGS", reach=True),
    _option("--sftp-extra-args", "ARGS", reach=True),
    _option("--scp-extra-args", "ARGS", reach=True),
    _option("-M --module-path", "PATH", repeats=True),
    _option("--start-at-task", "TASK"),
    _option("--force-handlers"),
    _option("--flush-cache"),
    _option("--list-hosts"),
    _option("--list-tasks"),
    _option("--list-tags"),
    _option("--syntax-check"),
)
_VERBOSE = "verbose"


def takes_ansible_options(
    *, reach_only: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb Ansible's options; the verb gets them in its `args`, before the arguments after `--`.

    Args:
        reach_only: only those that say how to reach which nodes, and as whom.
    """
    taken = {_key(one): one for one in OPTIONS if one.is_reach or not reach_only}

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(verb)
        def with_options(*, args: list[str] | None = None, **given: Any) -> None:
            typed = {key: given.pop(key) for key in (*taken, _VERBOSE)}
            verb(args=[*_argv(taken, typed), *(args or [])], **given)

        own = inspect.signature(verb, eval_str=True)
        more = [_parameter(key, _annotation(one), _nothing(one)) for key, one in taken.items()]
        level = typer.Option(
            "-v",
            "--verbose",
            count=True,
            help="Print more; -vvv prints more still.",
            rich_help_panel=_PANEL,
            show_default=False,
        )
        more.append(_parameter(_VERBOSE, Annotated[int, level], 0))
        parameters = [*own.parameters.values(), *more]
        with_options.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined] # read by typer
        return with_options

    return decorate


def _key(option: AnsibleOption) -> str:
    return "ansible_" + option.names[-1].lstrip("-").replace("-", "_")


def _annotation(option: AnsibleOption) -> Any:
    kind: Any = bool if option.metavar is None else list[str] | None if option.is_repeatable else str | None
    made = typer.Option(
        *option.names,
        metavar=option.metavar,
        help=option.help,
        hidden=not option.help,
        rich_help_panel=_PANEL,
        show_default=False,
    )
    return Annotated[kind, made]


def _nothing(option: AnsibleOption) -> Any:
    return False if option.metavar is None else None


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _argv(taken: Mapping[str, AnsibleOption], typed: Mapping[str, Any]) -> list[str]:
    return [
        *(word for key, one in taken.items() for word in _format_option(one, typed[key])),
        *(["-" + "v" * typed[_VERBOSE]] if typed[_VERBOSE] else []),
    ]


def _format_option(option: AnsibleOption, value: Any) -> Iterator[str]:
    name = option.names[-1]
    if option.metavar is None:
        yield from [name] if value else []
    else:
        # With `=`, so that a value may begin with `-`.
        yield from (
            f"{name}={one}" for one in (value if isinstance(value, list) else [value]) if one is not None
        )
