"""SSH keys of a lab: one pair for the controller, one host key per node, made here and trusted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils.atomic_files import write_file

from railyard.lab.process import run
from railyard.lab.topology import Node

USER = "railyard"
# Long enough for a loaded two-core machine, short enough that a hung node is named soon.
CONNECT_TIMEOUT_S = 10


@dataclass(frozen=True)
class Keys:
    """The folder `.lab/<name>/ssh` and what is in it."""

    folder: Path

    @property
    def private(self) -> Path:
        """The controller's private key."""
        return self.folder / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        """Host keys of all nodes, by address and by name."""
        return self.folder / "known_hosts"

    def host_key(self, node: str) -> Path:
        """The private host key of one node."""
        return self.folder / "hosts" / node

    def ssh_argv(self, node: Node, *command: str) -> list[str]:
        """Return the ssh call that reaches a node; the user's own ssh configuration plays no part."""
        options = (
            f"UserKnownHostsFile={self.known_hosts}",
            "StrictHostKeyChecking=yes",
            "IdentitiesOnly=yes",
            "BatchMode=yes",
            f"ConnectTimeout={CONNECT_TIMEOUT_S}",
        )
        given = [word for option in options for word in ("-o", option)]
        return ["ssh", "-F", "none", "-i", str(self.private), *given, f"{USER}@{node.address}", *command]


def public_half(private: Path) -> Path:
    """Return the file of the public key that belongs to a private one."""
    return private.with_name(f"{private.name}.pub")


def ensure(folder: Path, nodes: Iterable[Node]) -> Keys:
    """Make what is missing or damaged of a lab's keys; a key that works stays."""
    keys = Keys(folder)
    (folder / "hosts").mkdir(parents=True, exist_ok=True)
    for path in (folder, folder / "hosts"):
        path.chmod(0o700)
    _ensure_pair(keys.private, "railyard lab controller")
    lines = []
    for node in nodes:
        public = _ensure_pair(keys.host_key(node.name), f"railyard lab node {node.name}")
        kind, key = public.split()[:2]
        lines.append(f"{node.address},{node.name} {kind} {key}\n")
    write_file(str(keys.known_hosts), "".join(lines), 0o644)
    return keys


def _ensure_pair(private: Path, comment: str) -> str:
    """Return the public half; a private key that ssh-keygen cannot read is made anew."""
    public = public_half(private)
    if private.exists():
        derived = run(["ssh-keygen", "-y", "-P", "", "-f", str(private)], check=False)
        if derived.returncode == 0 and derived.stdout.strip():
            public.write_text(derived.stdout, encoding="utf-8")
            return derived.stdout
    # In a folder of its own first: a kill between the two files must not leave half a pair.
    making = private.with_name(f".{private.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(mode=0o700)
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(making / "key")])
    os.replace(making / "key.pub", public)
    os.replace(making / "key", private)
    making.rmdir()
    return public.read_text(encoding="utf-8")
