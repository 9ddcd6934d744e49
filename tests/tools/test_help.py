"""`railyard --help` lists every command once, in a panel, in a line that fits."""

import re
import shlex

import pytest
import typer
from railyard import cli
from railyard.base.examples import EXAMPLES
from typer.testing import CliRunner

GROUP = typer.main.get_command(cli.app)
COMMANDS = sorted(GROUP.commands)


@pytest.fixture(scope="module")
def text():
    done = CliRunner().invoke(cli.app, ["--help"], env={"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"})
    assert done.exit_code == 0
    return done.stdout


def test_panels_come_in_their_order_and_no_command_is_left_over(text):
    titles = re.findall(r"╭─ (\w+) ─", text)
    assert titles == ["Options", *cli.PANELS]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_in_the_panel_that_is_named(name, text):
    panel = next(panel for panel, names in cli.PANELS.items() if name in names)
    body = text.split(f"╭─ {panel} ─")[1].split("╰")[0]
    assert re.search(rf"│ {name} +\S", body)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_first_sentence_of_a_command_is_an_imperative_that_fits_a_line(name):
    text = GROUP.commands[name].get_short_help_str(limit=200)
    assert text[0].isupper()
    assert len(text) <= 90


def list_leaves(command, path):
    """Return the names of the commands that do something: those without subcommands."""
    subcommands = getattr(command, "commands", {})
    return [leaf for name in subcommands for leaf in list_leaves(subcommands[name], [*path, name])] or [path]


def test_every_command_but_the_lab_has_an_example():
    leaves = [" ".join(path) for name in COMMANDS for path in list_leaves(GROUP.commands[name], [name])]
    assert sorted(EXAMPLES) == sorted(set(leaves) - {"lab"})


@pytest.mark.parametrize("line", [f"{name} {line}" for name in EXAMPLES for _, line in EXAMPLES[name]])
def test_an_example_has_only_options_and_arguments_that_the_command_takes(line):
    command, words = GROUP, shlex.split(line)
    context = GROUP.make_context("railyard", words[:1], resilient_parsing=True)
    while hasattr(command, "commands"):
        command, words = command.get_command(context, words[0]), words[1:]
    command.make_context("command", words, parent=context, resilient_parsing=False)
    assert f"railyard {line}" in command.epilog


@pytest.mark.parametrize("name", ["new-inventory", "estimate", "size", "simulate"])
def test_an_example_that_needs_neither_nodes_nor_files_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _, line in EXAMPLES[name]:
        folder = [str(tmp_path / "new")] if name == "new-inventory" else []
        done = CliRunner().invoke(cli.app, [name, *shlex.split(line), *folder])
        assert done.exit_code == 0, done.output
