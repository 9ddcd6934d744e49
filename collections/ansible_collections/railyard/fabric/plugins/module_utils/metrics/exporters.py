# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node_exporter a node has, or is to get: one that is there is kept and used.

Read from /proc: the command lines of processes and the sockets that listen. `root` is `/`, or a folder in
tests.
"""

from __future__ import annotations

import ipaddress
import os
import re
import shlex
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from .. import node_files
from ..state import baseline

#: The drop-in by which role node_metrics manages the distribution's service; with it, the exporter is
#: managed.
DROP_IN = "/etc/systemd/system/prometheus-node-exporter.service.d/railyard.conf"
#: The unit that writes the metrics, and the name of the file that it writes.
WRITER, METRICS_FILE = "/etc/systemd/system/railyard-metrics.service", "railyard_node.prom"
ROLE, PACKAGE = "node_metrics", "prometheus-node-exporter"
PROGRAM = f"usr/bin/{PACKAGE}"
#: The distribution's program reads this folder where no flag names another (debian/patches of the package).
DEFAULT_FOLDER = "/var/lib/prometheus/node-exporter"
_NAMES = ("node_exporter", PACKAGE)
_FLAG = re.compile(r"--?collector\.textfile\.directory(?:=(.*))?\Z", re.S)
_LISTEN = "0A"
_LOCAL = re.compile(r"((?:[0-9A-F]{8}){1,4}):([0-9A-F]{4})\Z")
#: systemd.service(5), "Command lines": how the program is started, before its path.
_START_PREFIXES = "@-:+!|"
#: Older ones have a node_exporter without --web.systemd-socket, which came with 1.5.0.
_OLD_RELEASES = {"debian": 11, "ubuntu": 22}
_MOST_BYTES = 1 << 16


class ExporterError(Exception):
    """The node's exporter cannot be used, or none can be brought; the message says why and what to do."""


class Wanted(NamedTuple):
    """What is wanted of the node.

    Attributes:
        listen: the address on which a managed exporter listens.
        port: its port.
        rail_addresses: the rails' addresses, which it must not listen on.
        textfile_folder: the folder that an exporter reads which is there; empty to find it.
        secured: whether TLS or a password is wanted.
    """

    listen: str
    port: int
    rail_addresses: Sequence[str] = ()
    textfile_folder: str = ""
    secured: bool = False


class Brought(NamedTuple):
    """What the role set up on the node earlier.

    Attributes:
        own: whether the distribution's node_exporter runs by the role's drop-in.
        metrics_files: the files that the role's writer writes, which node_exporter would serve for ever.
    """

    own: bool
    metrics_files: tuple[str, ...]


class Exporter(NamedTuple):
    """A node_exporter that runs: its process, its unit where it has one, its textfile folders."""

    pid: int
    unit: Optional[str]  # noqa: UP045 - Python 3.9, which nodes may have, evaluates it
    folders: tuple[str, ...]


class Listener(NamedTuple):
    """A TCP socket that listens."""

    address: str
    port: int
    inode: str


def choose(root: str, wanted: Wanted) -> dict[str, Any]:
    """Return whether to run a managed exporter, and where the metrics' file goes.

    Returns:
        `own`, `textfile_folder`, `socket` (whether systemd can give the managed one its socket), `notes`, and
        `has_user` (whether the package's system user exists).

    Raises:
        ExporterError: nothing can be done; nothing was changed.
    """
    _check_address(wanted)
    listeners = list(read_listeners(root))
    if not baseline.is_ours(root, DROP_IN):
        found = list(read_exporters(root))
        if found:
            return _keep(root, wanted, found, listeners)
        if os.path.exists(os.path.join(root, PROGRAM)) and not _is_brought(root):
            raise ExporterError(
                f"/{PROGRAM} is installed and not running. Fix: start prometheus-node-exporter.service, "
                "which is then kept as it is; or purge the package, so that the role installs it"
            )
    taken = _who_has(root, wanted, listeners)
    if taken:
        raise ExporterError(
            f"port {wanted.port} of {wanted.listen} is taken by {taken}. "
            "Fix: set node_metrics_port to a free port"
        )
    users = (node_files.read_text(os.path.join(root, "etc/passwd")) or "").splitlines()
    return {
        "own": True,
        "textfile_folder": DEFAULT_FOLDER,
        "socket": can_take_socket(root),
        "notes": [],
        "has_user": any(line.startswith("prometheus:") for line in users),
    }


def read_brought(root: str) -> Brought:
    """Return what the role's own units start; a unit of somebody else under their names tells nothing."""
    own = any(_is_exporter(argv) for argv in _read_our_starts(root, DROP_IN))
    written = (_metrics_file(argv) for argv in _read_our_starts(root, WRITER))
    return Brought(own, tuple(path for path in written if path is not None))


def _read_our_starts(root: str, unit: str) -> list[list[str]]:
    if not baseline.is_ours(root, unit):
        return []
    return parse_starts(node_files.read_text(os.path.join(root, unit.lstrip("/"))) or "")


def parse_starts(text: str) -> list[list[str]]:
    """Return the command lines that a unit's ExecStart= ends up with: an empty one clears the earlier."""
    starts: list[list[str]] = []
    for line in text.replace("\\\n", " ").splitlines():
        key, equals, value = line.partition("=")
        if not equals or key.strip() != "ExecStart":
            continue
        if not value.strip():
            starts = []
            continue
        try:
            starts.append(shlex.split(value.strip().lstrip(_START_PREFIXES)))
        except ValueError:
            continue  # a quote without its end: systemd does not start that either
    return starts


def _metrics_file(argv: Sequence[str]) -> str | None:
    """Return the file that the writer writes; None where it is none of the role's."""
    path = "".join(argv[argv.index("--out") + 1 :][:1]) if "--out" in argv else ""
    is_plain = os.path.isabs(path) and os.path.normpath(path) == path
    return path if is_plain and os.path.basename(path) == METRICS_FILE else None


def _is_brought(root: str) -> bool:
    """Tell whether role node_metrics brought the package, and left it when it was taken back."""
    packages = (baseline.load(root, ROLE) or {}).get("packages", {})
    return PACKAGE in packages and packages[PACKAGE] is None


def _check_address(wanted: Wanted) -> None:
    try:
        address = ipaddress.ip_address(wanted.listen)
    except ValueError as error:
        raise ExporterError(
            f"node_metrics_listen is {wanted.listen!r}, no IP address. Fix: set node_metrics_listen, or "
            "management_address, to the node's address on the management network"
        ) from error
    if address.is_unspecified:
        raise ExporterError(
            f"node_metrics_listen is {address}, which is every address, also those of the rails. "
            "Fix: set it to the node's address on the management network"
        )
    if address in _addresses(wanted.rail_addresses):
        raise ExporterError(
            f"node_metrics_listen is {address}, the address of a rail. "
            "Fix: set it to the node's address on the management network"
        )


def _addresses(texts: Sequence[str]) -> list[Any]:
    return [ipaddress.ip_interface(one).ip for one in texts]


def _keep(
    root: str, wanted: Wanted, found: Sequence[Exporter], listeners: Sequence[Listener]
) -> dict[str, Any]:
    """Return what is used of an exporter that is there."""
    named = [wanted.textfile_folder] if wanted.textfile_folder else []
    folders = named or [folder for one in found for folder in one.folders if _is_folder(root, folder)]
    who = ", ".join(f"{one.unit or 'a process'} (pid {one.pid})" for one in found)
    if not folders:
        raise ExporterError(
            f"node_exporter runs already, {who}, and reads no folder of textfiles. Fix: start it with "
            f"--collector.textfile.directory={DEFAULT_FOLDER}, or set node_metrics_textfile_folder to its "
            "folder as this node's root sees it; or remove it, so that the role installs one"
        )
    if not _is_folder(root, folders[0]):
        raise ExporterError(f"{folders[0]} is no folder. Fix: correct node_metrics_textfile_folder")
    notes = [f"node_exporter runs already, {who}: it is kept as it is, and reads {folders[0]}"]
    ports = {one.port for one in listeners for exporter in found if one.inode in _inodes(root, exporter.pid)}
    if ports and wanted.port not in ports:
        notes.append(f"It listens on port {min(ports)}: set node_metrics_port: {min(ports)} for Prometheus")
    rails = _addresses(wanted.rail_addresses)
    if any(
        one.port in ports and (_is_any(one.address) or ipaddress.ip_address(one.address) in rails)
        for one in listeners
    ):
        notes.append("It can be reached on the rails' addresses")
    if wanted.secured:
        notes.append("node_metrics_tls and node_metrics_basic_auth do not change it")
    return {"own": False, "textfile_folder": folders[0], "socket": False, "notes": notes, "has_user": True}


def _is_folder(root: str, folder: str) -> bool:
    return folder.startswith("/") and os.path.isdir(os.path.join(root, folder.lstrip("/")))


def _who_has(root: str, wanted: Wanted, listeners: Sequence[Listener]) -> str:
    """Return what else listens where the managed exporter should listen; empty for nothing."""
    for one in listeners:
        same = ipaddress.ip_address(one.address) == ipaddress.ip_address(wanted.listen)
        if one.port != wanted.port or not (same or _is_any(one.address)):
            continue
        owners = [pid for pid in _pids(root) if one.inode in _inodes(root, pid)]
        # systemd holds the socket of the managed exporter.
        if baseline.is_ours(root, DROP_IN) and any(
            pid == 1 or _is_exporter(_argv(root, pid)) for pid in owners
        ):
            continue
        named = [f"{(_argv(root, pid) or ['?'])[0]} (pid {pid})" for pid in owners]
        return ", ".join(named) or "another program"
    return ""


def _is_any(address: str) -> bool:
    return ipaddress.ip_address(address).is_unspecified


def can_take_socket(root: str) -> bool:
    """Tell whether the distribution's node_exporter takes a socket of systemd's."""
    release: dict[str, str] = {}
    for line in (node_files.read_text(os.path.join(root, "etc/os-release")) or "").splitlines():
        key, _equals, value = line.partition("=")
        release[key] = value.strip("\"'")
    major = release.get("VERSION_ID", "").partition(".")[0]
    newest_old = _OLD_RELEASES.get(release.get("ID", ""))
    return newest_old is None or not major.isdecimal() or int(major) > newest_old


def read_exporters(root: str) -> Iterator[Exporter]:
    """Yield the node_exporters that run, also those in containers that share this node's processes."""
    for pid in _pids(root):
        argv = _argv(root, pid)
        if _is_exporter(argv):
            default = argv[0] == f"/{PROGRAM}" or os.path.basename(argv[0]) == PACKAGE
            yield Exporter(pid, _unit(root, pid), textfile_folders(argv, DEFAULT_FOLDER if default else None))


def textfile_folders(argv: Sequence[str], default: str | None) -> tuple[str, ...]:
    """Return the folders that a command line names; newer versions take several, and patterns."""
    found = []
    for place, word in enumerate(argv):
        match = _FLAG.match(word)
        if match:
            value = match.group(1)
            found.append(value if value is not None else "".join(argv[place + 1 : place + 2]))
    return tuple(filter(None, found or [default or ""]))


def _is_exporter(argv: Sequence[str]) -> bool:
    return bool(argv) and os.path.basename(argv[0]) in _NAMES


def _pids(root: str) -> list[int]:
    return [int(name) for name in node_files.list_names(os.path.join(root, "proc")) if name.isdecimal()]


def _argv(root: str, pid: int) -> list[str]:
    text = node_files.read_text(os.path.join(root, "proc", str(pid), "cmdline"), _MOST_BYTES) or ""
    return text.rstrip("\0").split("\0") if text else []


def _unit(root: str, pid: int) -> str | None:
    text = node_files.read_text(os.path.join(root, "proc", str(pid), "cgroup")) or ""
    found = re.findall(r"/([^/\n]+\.service)(?:/|\n|\Z)", text)
    return found[-1] if found else None


def _inodes(root: str, pid: int) -> set[str]:
    """Return the inodes of a process's sockets."""
    folder = os.path.join(root, "proc", str(pid), "fd")
    found = set()
    for name in node_files.list_names(folder):
        try:
            target = os.readlink(os.path.join(folder, name))
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[len("socket:[") : -1])
    return found


def read_listeners(root: str) -> Iterator[Listener]:
    """Yield the TCP sockets that listen (Documentation/networking/proc_net_tcp.rst)."""
    for name in ("tcp", "tcp6"):
        text = node_files.read_text(os.path.join(root, "proc/net", name)) or ""
        for line in text.splitlines()[1:]:
            words = line.split()
            local = _LOCAL.match(words[1]) if len(words) > 9 and words[3] == _LISTEN else None
            if local:
                yield Listener(_address(local.group(1)), int(local.group(2), 16), words[9])


def _address(text: str) -> str:
    """Return an address that the kernel prints as words of its own byte order."""
    words = [int(text[place : place + 8], 16) for place in range(0, len(text), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    return socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, packed)


def read_wanted(params: Mapping[str, Any]) -> Wanted:
    """Return the parameters of module node_exporter_info."""
    return Wanted(
        params["listen"],
        params["port"],
        [one for one in params["rail_addresses"] if one],
        params["textfile_folder"] or "",
        params["secured"],
    )
