"""`railyard --help` lists every command once, in a panel, in a line that fits."""

import re

import pytest
import typer
from railyard import cli
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
