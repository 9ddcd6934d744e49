"""What is handed on to Ansible: refused before it would, understood as it does."""

from __future__ import annotations

import os
import shlex

import pytest
from railyard.base.errors import UserError
from railyard.operate import ansible_args


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--no-such-option"], "--no-such-option"),
        (["-i", "other"], "before `--`"),
        (["-e", "railyard_run=x"], "railyard_run"),
        (["-e", '{"railyard_reports_dir": "/tmp"}'], "--reports-dir"),
        (["--limit"], "--limit"),
        (["playbook.yml"], "playbook.yml"),
    ],
)
def test_arguments_that_ansible_would_refuse_are_refused_before(argv, complaint):
    with pytest.raises(UserError, match=complaint) as raised:
        ansible_args.parse(argv)
    assert raised.value.exit_status == 2


def test_arguments_are_understood_as_ansible_does():
    arguments = ansible_args.parse(["-CDl", "gpu1,gpu2", "-vv", "-bK"])
    assert (arguments.check, arguments.limit, arguments.verbosity) == (True, "gpu1,gpu2", 2)
    assert [question for _, question in arguments.prompts] == ["BECOME password"]


def test_the_clean_up_reaches_the_same_nodes_and_is_not_kept_from_its_work():
    words = "--check --tags tools --limit gpu1 -e 'a=b c' -e @v.yml -u me -K --diff"
    stop = ansible_args.parse(shlex.split(words)).stop_argv
    again = ansible_args.parse(stop)
    assert not again.check
    assert again.limit == "gpu1"
    assert [question for _, question in again.prompts] == ["BECOME password"]
    assert not [word for word in stop if word.startswith(("--tags", "--check", "--diff"))]
    assert "--extra-vars=a=b c" in stop
    assert "--user=me" in stop


def test_a_prompt_without_a_terminal_is_an_error(monkeypatch):
    arguments = ansible_args.parse(["-K"])
    with open(os.devnull) as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        with pytest.raises(UserError, match="BECOME password"):
            ansible_args.ask_passwords(arguments)
