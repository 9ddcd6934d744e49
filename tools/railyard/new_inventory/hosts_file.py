"""A list of nodes in a file, `name address [user]` a line: what `--hosts-from` names."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import files

from railyard.base.errors import UserError, numbered
from railyard.new_inventory import nodes

LINE_FIX = "write `name address [user]`, as `gpu1 192.168.1.73 ubuntu`"
_WORDS_MAX = 3


@dataclass(frozen=True)
class ListedHost:
    """A node of the list.

    Attributes:
        name: its name; None where the line is an address alone.
        address: where to log in, an address or a name; None where the line is a name alone.
        user: whom to log in as; None where the line does not say it.
        place: `file:line`.
    """

    name: str | None
    address: str | None
    user: str | None
    place: str


def read(source: Path) -> list[ListedHost]:
    """Return the nodes of a list, in its order.

    A line is a name, an address and a user; or a name, a folded name (`gpu[001-032]`) or an address alone.
    Text after `#` is a comment.

    Raises:
        UserError: the file cannot be read, or with everything that is wrong with its lines.
    """
    found: list[ListedHost] = []
    wrong: list[str] = []
    for number, line in enumerate(lines(source), start=1):
        words = line.partition("#")[0].split()
        try:
            found += _of_line(words, f"{source}:{number}") if words else []
        except ValueError as error:
            wrong.append(f"{source}:{number}: {error}")
    if not found and not wrong:
        wrong.append(f"{source}: it names no node. Fix: {LINE_FIX}")
    if len(found) > nodes.NODES_MAX:
        wrong.append(f"{source}: it names more than {nodes.NODES_MAX} nodes. Fix: make two lists of it")
    wrong += _named_twice(found)
    if wrong:
        raise UserError(numbered("with the list of nodes; nothing was done", wrong))
    return found


def lines(source: Path) -> list[str]:
    """Return the lines of a file that a person named.

    Raises:
        UserError: it cannot be read, or not to an end.
    """
    if (wrong := files.check_readable(str(source))) is not None:
        raise UserError(f"--hosts-from {source}: {wrong}", "name a plain file")
    try:
        return source.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        fix = f"name a file that you can read, whose lines are `{LINE_FIX.split('`')[1]}`"
        raise UserError(f"--hosts-from {source}: {error.strerror}", fix) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(f"{source}:{line}: it is not UTF-8 text", "save the file as UTF-8") from error


def address_of(text: str) -> str | None:
    """Return an IP address in its usual form, None where the text is none."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        return None


def _of_line(words: list[str], place: str) -> list[ListedHost]:
    """Return the nodes of one line.

    Raises:
        ValueError: what is wrong with it, and the fix.
    """
    if len(words) > _WORDS_MAX:
        raise ValueError(
            f"a line has a name, an address and a user, and here are {len(words)} words. Fix: {LINE_FIX}"
        )
    first = words[0]
    address, user = (words[1] if len(words) > 1 else None), (words[2] if len(words) > 2 else None)
    if user is not None and not nodes.is_login_name(user):
        raise ValueError(f"{user!r} is not a user name. Fix: write one without blanks, as ubuntu")
    # ClusterShell takes the colons and brackets of an IPv6 address for something else.
    alone = address_of(first)
    named = [ListedHost(None, alone, None, place)] if alone else _names(first, place)
    if address is None:
        return named
    if named[0].name is None:
        raise ValueError(f"{first!r} is an address where the node's name belongs. Fix: {LINE_FIX}")
    if len(named) > 1:
        raise ValueError(f"{first!r} is several nodes with one address. Fix: write a line for each")
    where = address_of(address)
    if where is None and (re.fullmatch(r"[0-9.]+", address) or not nodes.is_host_name(address)):
        raise ValueError(f"{address!r} is not a valid address. Fix: {LINE_FIX}")
    return [ListedHost(named[0].name, where or address, user, place)]


def _names(text: str, place: str) -> list[ListedHost]:
    named, wrong = nodes.unfold(text, None)
    if wrong:
        _option, what, fix = wrong[0]
        raise ValueError(f"{what}. Fix: {fix}")
    return [_of_name(one.name, place) for one in named]


def _of_name(name: str, place: str) -> ListedHost:
    """Take what is an address for one: `192.168.1.[71-73]` unfolds to addresses."""
    address = address_of(name)
    # Not 10.1.0.300, which would pass for a name.
    if address is None and re.fullmatch(r"[0-9]+(\.[0-9]+)+", name):
        raise ValueError(f"{name!r} is not a valid address. Fix: {LINE_FIX}")
    return ListedHost(None if address else name, address, None, place)


def _named_twice(found: Iterable[ListedHost]) -> Iterator[str]:
    """Yield the names and addresses that two lines have, host names being the same in capitals."""
    taken: dict[tuple[str, str], ListedHost] = {}
    for host in found:
        for what, text in (("node", host.name), ("address", host.address)):
            other = taken.setdefault((what, text.lower()), host) if text is not None else host
            if other is not host:
                both = (
                    f", of {other.name} and {host.name}"
                    if what == "address" and other.name and host.name
                    else ""
                )
                first = f" (first at {other.place})" if other.place != host.place else ""
                yield f"{host.place}: {what} {text} is named twice{both}{first}. Fix: name it once"
                break
