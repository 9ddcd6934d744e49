"""Options of Ansible are directly behind the verbs that run it, and mean what they mean to Ansible."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import pytest
from railyard import cli
from railyard.base import ansible_options
from railyard.operate import ansible_args, commands, quick, verify
from support.programs import railyard

VERBS = {
    "site": ["site"],
    "provision": ["provision"],
    "validate": ["validate"],
    "validate --quick": ["validate", "--quick"],
    "sweep": ["sweep"],
    "resume": ["resume", "lab"],
}


@pytest.fixture
def handed_on(monkeypatch):
    """Return a function that runs the command and returns what would be handed on to Ansible."""
    seen: list[Sequence[str]] = []

    def note(place: int):
        def noted(*args, **_options):
            seen.append(args[place])
            return 0

        return noted

    monkeypatch.setattr(commands, "operate", note(2))
    monkeypatch.setattr(quick, "quick", note(1))
    monkeypatch.setattr(verify, "verify", note(1))

    def run(*argv: str) -> list[str]:
        assert cli.app(list(argv), standalone_mode=False) == 0
        return list(seen.pop())

    return run


def test_the_options_are_those_of_ansible_s_own_parser():
    expected = {
        frozenset(action.option_strings): (
            action.nargs == 0,
            isinstance(action, argparse._AppendAction) or action.dest == "module_path",
        )
        for action in ansible_args._parser()._actions
        # Railyard's own -i; -v is counted.
        if action.dest not in ("inventory", "verbosity")
    }
    known = {
        frozenset(one.names): (one.metavar is None, one.is_repeatable) for one in ansible_options.OPTIONS
    }
    assert known == expected


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_that_runs_ansible_takes_them(handed_on, verb):
    words = ["-K", "-k", "-u", "me", "-l", "gpu1", "-f", "5", "-e", "a=b c", "-e", "@v.yml", "-vv", "--check"]
    more = ["--diff", "--become-method", "su", "--become-user=admin", "--tags", "x,y"]
    argv = handed_on(*VERBS[verb], *words, "-i", "inventories/lab", *more)
    meant = ansible_args._parser().parse_args(argv)
    assert vars(meant) == vars(ansible_args._parser().parse_args([*words, *more]))
    assert (meant.ask_pass, meant.become_ask_pass, meant.remote_user, meant.subset) == (
        True,
        True,
        "me",
        "gpu1",
    )
    assert (meant.forks, meant.extra_vars[0], meant.verbosity) == (5, "a=b c", 2)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        # The letters of -i and -h inside a value are no options.
        (["-uadmin", "-efoo=high"], {"remote_user": "admin", "extra_vars": ["foo=high"]}),
        (["-bKl", "gpu1"], {"become": True, "become_ask_pass": True, "subset": "gpu1"}),
        (["-l", "gpu1", "--", "--limit", "gpu2"], {"subset": "gpu2"}),
        (["--limit=-x"], {"subset": "-x"}),
        (["--ssh-common-args", "-J bastion"], {"ssh_common_args": "-J bastion"}),
    ],
)
def test_values_reach_ansible_unchanged(handed_on, words, expected):
    meant = ansible_args._parser().parse_args(handed_on("site", "-i", "inventories/lab", *words))
    assert {name: getattr(meant, name) for name in expected} == expected


def test_arguments_after_the_dashes_are_handed_on_as_before(handed_on):
    assert handed_on("site", "-i", "inventories/lab", "--", "--limit", "gpu1", "-K") == [
        "--limit",
        "gpu1",
        "-K",
    ]
    assert handed_on("verify", "-i", "inventories/lab", "--", "-k", "gid") == ["-k", "gid"]


def test_verify_keeps_pytests_letters_apart(handed_on):
    argv = handed_on("verify", "-i", "inventories/lab", "-k", "-l", "gpu1", "-u", "me", "--", "-k", "gid")
    reach, for_pytest = ansible_args.parse_reach(argv)
    assert (reach.limit, for_pytest) == ("gpu1", ["-k", "gid"])
    assert [question for _prompt, question in reach.prompts] == ["SSH password"]
    assert "--user=me" in reach.argv


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (
            ["site", "--no-such-option"],
            "Options for ansible-playbook that railyard does not have go after `--`",
        ),
        (["verify", "-x"], "Options for pytest that railyard does not have go after `--`"),
        # It would change nothing: the end state is only read.
        (["verify", "--check"], "go after `--`"),
        (["site", "--forks", "many"], "--forks: invalid"),
        (["site", "-e", "railyard_run=x"], "railyard_run is set by railyard itself"),
        (["site", "-K"], "standard input is not a terminal"),
    ],
)
def test_what_is_refused_names_the_way(argv, words):
    done = railyard(*argv, "-i", "inventories/lab")
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in " ".join(done.stderr.split()), done.stderr
    assert "Traceback" not in done.stderr
