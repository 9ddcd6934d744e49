#!/usr/bin/env python3
"""Write the manual page docs/railyard.1 from the options and help of the `railyard` command.

    tools/man_page.py            write it; `man -l docs/railyard.1` shows it
    tools/man_page.py --check    change nothing; exit 1 when it is out of date

A wheel installs it beside the command, where `man railyard` finds it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from railyard.cli import app

PAGE = Path(__file__).resolve().parents[1] / "docs" / "railyard.1"


def escape(text: str) -> str:
    r"""Return text as roff prints it: no `-` becomes a hyphen, no line is taken for a request.

    >>> escape("--limit-time \\ .so")
    '\\-\\-limit\\-time \\e .so'
    """
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in (".", "'") else text


def write_page(command: Any) -> str:
    """Return the manual page of a command and all its subcommands."""
    context = command.make_context("railyard", ["--version"], resilient_parsing=True)
    lines = [
        '.TH RAILYARD 1 "" "Railyard" "User Commands"',
        ".SH NAME",
        f"railyard \\- {escape(command.help)}",
        ".SH SYNOPSIS",
        ".B railyard",
        "\\fICOMMAND\\fR [\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]",
        ".SH EXIT STATUS",
        escape(command.epilog.removeprefix("Exit status: ")),
        ".SH COMMANDS",
    ]
    for name in command.list_commands(context):
        lines += write_command(command.get_command(context, name), context, name)
    return "\n".join(lines) + "\n"


def write_command(command: Any, parent: Any, path: str) -> Iterator[str]:
    """Yield the lines of a command: usage, what it does, options, exit statuses, examples."""
    context = type(parent)(command, info_name=path.rpartition(" ")[2], parent=parent)
    yield f".SS railyard {escape(' '.join([path, *command.collect_usage_pieces(context)]))}"
    yield from (escape(line.strip()) for line in (command.help or "").splitlines() if line.strip())
    for parameter in command.params:
        shown = parameter.get_help_record(context)
        if shown:
            yield ".TP"
            yield f"\\fB{escape(' '.join(shown[0].split()))}\\fR"
            yield escape(" ".join(shown[1].split()))
    for paragraph in (command.epilog or "").split("\n\n"):
        yield ".PP"
        yield escape(paragraph)
    for name, sub in getattr(command, "commands", {}).items():
        yield from write_command(sub, context, f"{path} {name}")


def main(argv: list[str] | None = None) -> int:
    """Write the page, or with `--check` return 1 when it is out of date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when it is out of date")
    check = parser.parse_args(argv).check
    page = write_page(typer.main.get_command(app))
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page:
        return 0
    if check:
        sys.stderr.write(f"{PAGE} is out of date; run: python tools/man_page.py\n")
        return 1
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
