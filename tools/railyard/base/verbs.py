"""What the verbs of the command share: an option, what two options cannot both have, how a verb ends."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from railyard.base import output
from railyard.base.errors import UserError

EXIT_STATUSES = (
    "Exit status: 0 everything planned was measured, and nothing failed; 1 something failed; 2 bad input, no "
    "node was touched; 3 something planned is unmeasured, a node did not answer, or the run is incomplete."
)

Inventories = Annotated[
    list[str],
    typer.Option(
        "-i", "--inventory", metavar="INV", help="Inventory folder or file; may be given several times."
    ),
]
RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run folder, CLUSTER/RUN, a run id, or CLUSTER (its latest run)."),
]
ReportsDir = Annotated[
    Path | None,
    typer.Option(
        "--reports-dir", help="Folder for run folders. Default: $RAILYARD_REPORTS_DIR, else reports/."
    ),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object; messages go to standard error.")]

TrustInventory = Annotated[
    bool,
    typer.Option(
        "--trust-inventory",
        help="Let Ansible run the inventory's programs and plugins here, on the controller.",
    ),
]


def with_fields_of(verb: Callable[..., None], options: type) -> inspect.Signature:
    """Return a verb's signature with a dataclass's fields, each an option, in place of its `**`."""
    *own, _options = inspect.signature(verb, eval_str=True).parameters.values()
    fields = inspect.signature(options, eval_str=True).parameters.values()
    return inspect.Signature([*fields, *own])


def takes_inventory(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb that reads an inventory the option by which a person trusts the code in it."""

    @functools.wraps(verb)
    def with_trust(*, trust_inventory: bool, **options: Any) -> None:
        if options.get("inventory"):
            refuse_unwritable_ansible_home()
        if trust_inventory:
            from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import trust

            trust.trust()
        verb(**options)

    own = inspect.signature(verb, eval_str=True)
    option = inspect.Parameter(
        "trust_inventory", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=TrustInventory
    )
    parameters = [*own.parameters.values(), option]
    with_trust.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined] # read by typer
    return with_trust


def refuse_unwritable_ansible_home() -> None:
    """Refuse to begin where Ansible cannot make its folder, which it needs to read an inventory.

    Raises:
        UserError: it ends with a traceback there.
    """
    # As Ansible does it: a user without a home folder is no error here.
    home = Path(os.path.expanduser(os.environ.get("ANSIBLE_HOME", "~/.ansible")))
    # The nearest folder that exists is where Ansible would begin to make the others.
    place = next(one for one in (home, *home.absolute().parents) if one.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise UserError(
            f"Ansible cannot write its folder {home}", "set ANSIBLE_HOME to a folder that you can write"
        )


def refuse_both(as_json: bool, svg: str | None) -> None:
    """Refuse a drawing and JSON that want the same output."""
    if as_json and svg == "-":
        raise UserError("--json and --svg - both want standard output", "name a file for --svg")


@contextlib.contextmanager
def one_json_object(*, as_json: bool) -> Iterator[Callable[[dict[str, Any]], None] | None]:
    """Keep standard output for one JSON object, and send all messages to standard error.

    Yields:
        What prints the object; None where no JSON is wanted, and messages go where they always go.
    """
    if not as_json:
        yield None
        return
    with output.messages_on_stderr() as result:
        yield lambda document: print(json.dumps(document, indent=2, allow_nan=False), file=result)


def end(status: Any) -> None:
    """End the command with a status."""
    raise typer.Exit(int(status or 0))
