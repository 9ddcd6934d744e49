"""Which nodes `railyard discover` is to read: names, folded names and addresses, typed or from a file.

Everything that is wrong with them is found here, all of it, before any node is contacted.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import files as inventory_files
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import reader
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.values import literal
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line

from railyard.base.errors import UserError, numbered
from railyard.new_inventory import hosts_file
from railyard.new_inventory import nodes as new_nodes

_NODES_FIX = "write names as 'gpu[001-032]' or gpu1, or addresses as 192.168.1.73"
_INI_LINE = re.compile(r"\s*(\[[^\]]+\]|.*\bansible_[a-z_]+\s*=)")
_INVENTORY_ENDINGS = (".yml", ".yaml", ".json", ".toml", ".ini")
_CARRIED = ("ansible_host", "ansible_user")
_LEFT_OUT = ("ansible_become_method", "ansible_python_interpreter")
_SSH_SECONDS_MAX = 10


@dataclass(frozen=True)
class Host:
    """A node that is to be read.

    Attributes:
        key: what it is called until its files are written: its name, or its address where only that is known.
        name: its name; None for a bare address, where the node itself says it.
        address: where to log in; None where the name is enough.
        user: whom to log in as; None for SSH's own choice.
        place: where the user named it.
    """

    key: str
    name: str | None = None
    address: str | None = None
    user: str | None = None
    place: str = ""


@dataclass(frozen=True)
class Hosts:
    """All nodes that are to be read.

    Attributes:
        hosts: in the order in which they were named.
        inventories: existing Ansible inventories that say how to reach them; none for hosts of our own.
        remarks: sentences about what of these inventories is not carried over.
    """

    hosts: Sequence[Host]
    inventories: Sequence[str] = ()
    remarks: Sequence[str] = ()


class _WrongError(Exception):
    """What is wrong with one name or address, and what to do."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what}. Fix: {fix}")


def find(names: Sequence[str], source: Path | None, user: str | None) -> Hosts:
    """Return the nodes that are meant.

    Args:
        names: names, folded names and addresses; of what `source` lists, those that are meant.
        source: `--hosts-from`: a list of nodes, or an existing Ansible inventory.
        user: whom to log in as, where a line does not say it.

    Raises:
        UserError: with everything that is wrong; no node was contacted.
    """
    if source is None:
        return Hosts(_with_user(_checked(_typed(names)), user))
    if not source.exists():
        raise UserError(
            f"--hosts-from {source}: there is no such file", "name a list of nodes or an inventory"
        )
    if _is_inventory(source):
        return of_inventory([str(source)], names, user)
    by_key = {host.key: host for host in map(_of_line, hosts_file.read(source))}
    chosen = _select(names, by_key, {}, str(source)) if names else list(by_key)
    return Hosts(_with_user(_checked(by_key[key] for key in chosen), user))


def of_inventory(sources: Sequence[str], names: Sequence[str] = (), user: str | None = None) -> Hosts:
    """Return the nodes of an existing inventory: group gpu_nodes where there is one, else all of its hosts.

    Raises:
        UserError: the inventory cannot be read, names no host, or lacks one of `names`.
    """
    found, failures = reader.open_sources([os.path.abspath(source) for source in sources], None)
    if found is None:
        texts = [f"{place}: {what}. Fix: {fix}" for place, what, fix in failures]
        raise UserError(numbered("with the inventory; no node was contacted", texts))
    everyone = {str(host.name): host for host in found.hosts("all")}
    groups = {name: [str(host.name) for host in found.hosts(name)] for name in found.group_names()}
    chosen = _select(names, everyone, groups, sources[0]) if names else groups.get(new_nodes.GROUP, [])
    chosen = chosen or ([] if names else list(everyone))
    if not chosen:
        raise UserError(f"{sources[0]} has no host", "name a list of nodes or another inventory")
    wrong = [name for name in chosen if not new_nodes.is_host_name(name)]
    if wrong:
        raise _refused(
            [f"{sources[0]}: {clean_line(name)!r} is not a host name. Fix: rename it" for name in wrong]
        )
    hosts, others = [], set()
    for name in dict.fromkeys(chosen):
        known = found.variables(everyone[name], _CARRIED)
        values = known.values
        others |= {one for one in known.names if one.startswith("ansible_")} - {*_CARRIED, *_LEFT_OUT}
        address, login = _plain(values.get("ansible_host")), _plain(values.get("ansible_user"))
        hosts.append(Host(name, name, address, login, sources[0]))
    settings = ", ".join(sorted(map(clean_line, others)))
    remarks = [
        f"{sources[0]} sets {settings}, which the new inventory does not: where the nodes are not reached "
        "without, add them to group_vars/all/connection.yml or to ~/.ssh/config"
    ]
    return Hosts(_with_user(hosts, user), list(sources), remarks if others else [])


def _plain(value: object) -> str | None:
    """Return a variable that is a plain text; an expression is Ansible's to evaluate."""
    # `str` takes off what Ansible's strings carry beside their text, which YAML has no form for.
    return str(value) if isinstance(value, str) and not any(literal(value)) else None


def _with_user(hosts: Iterable[Host], user: str | None) -> list[Host]:
    return [host if host.user or user is None else replace(host, user=user) for host in hosts]


def _typed(names: Sequence[str]) -> Iterator[Host | str]:
    """Yield the nodes of a command line; a text where one of them is wrong."""
    for name in names:
        user, _at, rest = name.rpartition("@")
        try:
            for host in _unfolded(rest, "NODES"):
                yield replace(host, user=_user(user)) if user else host
        except _WrongError as wrong:
            yield f"NODES: {wrong}"


def _of_line(listed: hosts_file.ListedHost) -> Host:
    key = listed.name or listed.address or ""
    return Host(key, listed.name, listed.address, listed.user, listed.place)


def _is_inventory(source: Path) -> bool:
    """Tell an Ansible inventory from a list of nodes: by its ending, or as INI or a program."""
    if source.is_dir() or source.suffix in _INVENTORY_ENDINGS or inventory_files.is_program(str(source)):
        return True
    lines = hosts_file.lines(source) if source.is_file() else []
    return any(_INI_LINE.match(line.partition("#")[0]) for line in lines)


def _unfolded(name: str, place: str) -> list[Host]:
    """Return the nodes of a name, a folded name or an address.

    Raises:
        _WrongError: it is none of these.
    """
    if (address := hosts_file.address_of(name)) is not None:
        return [Host(address, None, address, place=place)]
    named, problems = new_nodes.unfold(name, None)
    if problems:
        _option, what, _fix = problems[0]
        raise _WrongError(what, _NODES_FIX)
    hosts = []
    for node in named:
        address = hosts_file.address_of(node.name)
        if address is None and re.fullmatch(r"[0-9.]+", node.name):
            raise _WrongError(f"{node.name!r} is not a valid address", _NODES_FIX)
        hosts.append(Host(address or node.name, None if address else node.name, address, place=place))
    return hosts


def _user(text: str) -> str:
    if not new_nodes.is_login_name(text):
        raise _WrongError(f"{text!r} is not a user name", "write one without blanks, as ubuntu")
    return text


def _select(
    names: Sequence[str], known: Iterable[str], groups: dict[str, list[str]], source: str
) -> list[str]:
    """Return those of the known hosts that are named, each once."""
    known, wrong, chosen = set(known), [], []
    for name in names:
        if name in groups:
            chosen += groups[name]
            continue
        try:
            keys = [host.key for host in _unfolded(name, "NODES")]
        except _WrongError as problem:
            wrong.append(f"NODES: {problem}")
            continue
        wrong += [f"NODES: {source} has no node {key}. Fix: add it there" for key in keys if key not in known]
        chosen += [key for key in keys if key in known]
    if wrong:
        raise _refused(wrong)
    return list(dict.fromkeys(chosen))


def _checked(found: Iterable[Host | str]) -> list[Host]:
    """Return the hosts where none is wrong, named twice or unknown.

    Args:
        found: hosts, and what was wrong.

    Raises:
        UserError: with everything that is wrong.
    """
    found = list(found)
    hosts = [one for one in found if isinstance(one, Host)]
    wrong = [one for one in found if isinstance(one, str)]
    if not hosts and not wrong:
        raise UserError("no node is named", f"{_NODES_FIX}, or use --hosts-from FILE")
    counts = Counter(host.key for host in hosts)
    wrong += [f"NODES: {key} is named twice. Fix: name it once" for key, times in counts.items() if times > 1]
    if len(hosts) > new_nodes.NODES_MAX:
        wrong.append(f"{len(hosts)} nodes are more than {new_nodes.NODES_MAX}. Fix: name fewer at once")
    elif not wrong:
        wrong += _unknown_names(hosts)
    if wrong:
        raise _refused(wrong)
    return hosts


def _unknown_names(hosts: Sequence[Host]) -> list[str]:
    """Return what is wrong with names that neither DNS nor the user's SSH configuration knows."""
    named = [host for host in hosts if host.address is None]
    with ThreadPoolExecutor(max_workers=32) as pool:
        known = list(pool.map(lambda host: _is_known(host.key), named))
    fix = "correct the name, add it to DNS or to ~/.ssh/config, or give the address with --hosts-from"
    return [
        f"{host.place}: neither DNS nor ~/.ssh/config knows the name {host.key}. Fix: {fix}"
        for host, is_known in zip(named, known, strict=True)
        if not is_known
    ]


def _is_known(name: str) -> bool:
    """Tell whether SSH can find a name; where that cannot be found out here, it is left to SSH itself."""
    if _resolves(name):
        return True
    try:
        argv = ["ssh", "-G", "--", name]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_SSH_SECONDS_MAX, check=True)
    except (OSError, subprocess.SubprocessError):
        return True
    settings = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    if {"proxyjump", "proxycommand"} & {key for key, value in settings.items() if value != "none"}:
        return True  # the jump host looks it up
    return settings.get("hostname", name) != name and _resolves(settings["hostname"])


def _resolves(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except OSError as error:
        # A name server that does not answer says nothing of the name.
        return getattr(error, "errno", None) not in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", None))
    except UnicodeError:
        return False
    return True


def _refused(wrong: Sequence[str]) -> UserError:
    return UserError(numbered("with the nodes; no node was contacted", wrong))
