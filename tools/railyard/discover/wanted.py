"""The arguments and options of `discover`, which the command line takes from here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option


@dataclass(frozen=True)
class Wanted:
    """What was typed; each field is an argument or an option."""

    nodes: Annotated[
        list[str] | None,
        Argument(
            metavar="NODES",
            help="Names, folded names as 'gpu[001-032]', or addresses; user@ in front where it differs.",
            show_default=False,
        ),
    ] = None
    output: Annotated[
        Path | None, Option("-o", "--output", metavar="DIR", help="Inventory folder to write.")
    ] = None
    hosts_from: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="File with one node per line (name, address, and user where it differs), or an existing "
            "Ansible inventory; NODES then select some of it.",
        ),
    ] = None
    diff: Annotated[
        bool,
        Option("--diff", help="Print what changed since the inventory of -i was written; write nothing."),
    ] = False
    inventory: Annotated[
        list[str] | None, Option("-i", "--inventory", metavar="INV", help="With --diff: the inventory.")
    ] = None
    link_up: Annotated[
        bool,
        Option(
            "--link-up",
            help="Raise ports that are down while the nodes listen, to see where their cables end; then put "
            "them down again.",
        ),
    ] = False
    keep_addresses: Annotated[
        bool, Option("--keep-addresses", help="Plan the addresses and MTUs that the rails have now.")
    ] = False
    yes: Annotated[
        bool, Option("--yes", help="Ask nothing: print open questions, and then write nothing.")
    ] = False
    force: Annotated[bool, Option("--force", help="Overwrite files that exist in DIR.")] = False
    listen_s: Annotated[int, Option(help="Seconds for which the ports listen to each other.")] = 6
    limit_s: Annotated[int, Option(help="Seconds after which a node that hangs is left alone.")] = 60
