"""Whatever is printed, by whomever: it cannot control a terminal, nor pass for a line of Railyard's."""

from __future__ import annotations

import ast
import io
import os
import pty
import re
import subprocess
import sys

import pytest
from railyard.base import output
from railyard.base.paths import repo_root
from railyard.base.progress import Progress
from railyard.operate.display import Display
from rich.live import Live
from rich.table import Table
from rich.text import Text

HOSTILE = (
    "\x1b]0;mine\x07\x1b]52;c;cm0gLXJm\x07\x1b[2J\x9b2J\u202etxt\u200b\U000e0041\ud800[red]x[/red]:smile:"
)
SHOWN = "]0;mine]52;c;cm0gLXJm2Jtxt[red]x[/red]:smile:"
FORGED = "✓ all nodes are good"
#: rich's own: colours, the cursor, what is erased, and nothing else.
COLOUR = re.compile(r"\x1b\[[0-9;]*m|\x1b\[[0-9]*[A-GK]|\x1b\[\?25[hl]|\r")
NO_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202e\U000e0041]")


@pytest.fixture
def guarded(monkeypatch):
    """Return what puts guarded streams in place, and returns what lies below standard output.

    It is called by the test: between set-up and test pytest puts its own streams back.
    """

    def begin() -> io.BytesIO:
        below = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(below, "utf-8", "replace"))
        monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO(), "utf-8", "replace"))
        output.guard()
        return below

    return begin


def test_print_and_all_that_writes_to_the_streams_is_cleaned(guarded):
    stream = guarded()
    print(HOSTILE)
    sys.stdout.write(HOSTILE + "\n")
    sys.stdout.writelines([HOSTILE, "\n"])
    assert stream.getvalue().decode() == f"{SHOWN}\n" * 3


def test_a_traceback_is_cleaned():
    program = f"from railyard.base import output; output.guard(); raise ValueError({HOSTILE!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    said = done.stderr.decode()
    assert said.endswith(f"ValueError: {SHOWN}\n")
    assert not NO_TEXT.search(said)


def test_the_console_and_print_keep_their_order(guarded):
    stream = guarded()
    out = output.console()
    for number in range(4):
        print(number, "print")
        out.print(f"{number} console")
    sys.stdout.flush()
    words = stream.getvalue().decode().split()
    assert words == [word for number in "0123" for word in (number, "print", number, "console")]


@pytest.mark.parametrize("is_terminal", [False, True])
def test_the_console_shows_text_and_no_markup(guarded, monkeypatch, is_terminal):
    if is_terminal:
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("FORCE_COLOR", "1")
    stream = guarded()
    out = output.console()
    assert out.is_terminal == is_terminal
    table = Table(HOSTILE)
    table.add_row(HOSTILE)
    table.add_row(Text(HOSTILE, style="red"))
    for what in (HOSTILE, Text(HOSTILE, style="bold"), table):
        out.print(what)
    said = COLOUR.sub("", stream.getvalue().decode())
    assert said.count("[red]x[/red]:smile:") == 5
    assert not NO_TEXT.search(said)


def test_a_block_that_is_redrawn_is_cleaned(guarded, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = guarded()
    out = output.console()
    with Live(Text(HOSTILE), console=out, refresh_per_second=1, transient=True) as live:
        live.refresh()
    said = COLOUR.sub("", stream.getvalue().decode())
    assert SHOWN.split("[")[0] in said
    assert not NO_TEXT.search(said)


def failed(message, **more):
    return {
        "event": "runner_on_failed",
        "event_data": {"host": "gpu1", "task": "t", "task_action": "x", "res": {"msg": message, **more}},
    }


def shown(capsys, *events, verbosity=0) -> list[str]:
    progress = Progress(verbosity=verbosity)
    with Display(progress, output.console()) as display:
        for event in events:
            display.show(progress.feed(event))
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    "event",
    [
        failed(f"x\n{FORGED}"),
        failed("", censored=f"{HOSTILE}\n{FORGED}"),
        failed("x", stderr=f"x\r{FORGED}"),
        failed("x", stdout=f"x\x85{FORGED}\u2028{FORGED}\x0b{FORGED}"),
        failed("x" + " " * 400 + FORGED),
        failed("", warnings=[f"gpu1\n{FORGED}", f"{FORGED} gpu1"]),
        {
            "event": "runner_item_on_failed",
            "event_data": {"host": "gpu1", "res": {"item": f"a\n{FORGED}", "msg": FORGED}},
        },
        {
            "event": "runner_on_unreachable",
            "event_data": {"host": "gpu1", "task": f"t\n{FORGED}", "res": {"msg": FORGED}},
        },
        {"event": "runner_on_file_diff", "stdout": f"{FORGED}\n+{FORGED}"},
        {"event": "verbose", "stdout": f"{FORGED}\n{FORGED}"},
        {"event": "warning", "stdout": f"[WARNING]: x\r\n{FORGED}"},
        {"event": "playbook_on_play_start", "event_data": {"name": f"p\n{FORGED}"}},
    ],
    ids=range(12),
)
@pytest.mark.parametrize("verbosity", [0, 1])
def test_no_text_of_a_node_looks_like_a_line_of_railyard(capsys, event, verbosity):
    if verbosity:
        event = {"stdout": f"{FORGED}\n{FORGED}", **event}
    lines = shown(capsys, event, verbosity=verbosity)
    assert any(FORGED in line for line in lines)
    for line in lines:
        assert not NO_TEXT.search(line)
        # Lines of Railyard's that begin with a mark and a blank: an outcome, a play, a task.
        assert not re.match(r" {0,2}[✓✗▸]? ?all|✓", line), line
        assert " " * 9 + FORGED not in line


def test_a_censored_result_is_cleaned(capsys):
    lines = shown(capsys, failed("", censored=HOSTILE))
    assert lines == ["gpu1: t", f"  | {SHOWN}"]


def test_a_terminal_gets_an_export_without_control_characters(tmp_path):
    """`export` writes the rows as they are to a file or a pipe, and as text to a terminal."""
    program = (
        "import sys; from railyard.base import output; output.guard()\n"
        f"text = {HOSTILE!r}.encode('utf-8', 'replace')\n"
        "for one in (text[:9], text[9:11], text[11:]): output.binary().write(one)\n"
        "t = output.binary()\nfor byte in 'é\\x9bé'.encode(): t.write(bytes([byte]))\n"
    )
    piped = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    assert b"\x1b]0;mine" in piped
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", program], stdout=theirs) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # how a terminal ends whose writer is gone
                break
            if not piece:
                break
            said += piece
        assert process.wait() == 0
    os.close(ours)
    assert not NO_TEXT.search(said.decode().replace("\r\n", "\n"))
    assert "éé" in said.decode()


def test_there_is_one_console_and_one_way_to_the_streams():
    """`print` goes through the guarded stream; what would go around it is used in one place alone."""
    around = {"Console", "__stdout__", "__stderr__"}
    found = []
    for path in sorted((repo_root() / "tools" / "railyard").rglob("*.py")):
        if path.name == "output.py":
            continue
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            name = getattr(node, "attr", getattr(node, "id", None))
            if isinstance(node, ast.Call):
                called = getattr(node.func, "attr", getattr(node.func, "id", None))
                text = ast.unparse(node)
                # To a pipe of its own a program may write what it likes.
                if called in around or text.startswith(("os.write(1,", "os.write(2,", "os.write(sys.std")):
                    found.append(f"{path}:{node.lineno}: {called}")
            elif isinstance(node, ast.Attribute) and (
                name in ("__stdout__", "__stderr__")
                or (name == "buffer" and "stdin" not in ast.unparse(node.value))
            ):
                found.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
            elif (
                isinstance(node, ast.ImportFrom)
                and node.module == "rich"
                and {one.name for one in node.names} & {"print", "print_json"}
            ):
                found.append(f"{path}:{node.lineno}: rich's print")
    assert found == []


def test_the_command_guards_its_streams():
    source = (repo_root() / "tools/railyard/base/ending.py").read_text("utf-8")
    run = next(node for node in ast.parse(source).body if getattr(node, "name", "") == "run")
    assert "output.guard()" in ast.unparse(run)
