"""What the verbs of the command share: an option, what two options cannot both have, how a verb ends."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from railyard.base.errors import UserError

ReportsDir = Annotated[
    Path | None,
    typer.Option(
        "--reports-dir", help="Folder for run folders. Default: $RAILYARD_REPORTS_DIR, else reports/."
    ),
]


def with_fields_of(verb: Callable[..., None], options: type) -> inspect.Signature:
    """Return a verb's signature with a dataclass's fields, each an option, in place of its `**`."""
    *own, _options = inspect.signature(verb, eval_str=True).parameters.values()
    fields = inspect.signature(options, eval_str=True).parameters.values()
    return inspect.Signature([*fields, *own])


def refuse_both(as_json: bool, svg: str | None) -> None:
    """Refuse a drawing and JSON that want the same output."""
    if as_json and svg == "-":
        raise UserError("--json and --svg - both want standard output", "name a file for --svg")


def end(status: Any) -> None:
    """End the command with a status."""
    raise typer.Exit(int(status or 0))
