"""What makes one node out of the image: its addresses, keys and names, a tar laid over its root."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping

from railyard.lab.keys import Keys, public_half
from railyard.lab.topology import WAY_OUT, Node, Topology

# slirp4netns answers DNS at the third address of its network and passes questions to this host's own
# resolver.
RESOLVER = WAY_OUT.network_address + 3
_USER_ID = 1000
# path → (owner, mode, text), relative to a node's root
Content = Mapping[str, tuple[int, int, str]]


def files(topology: Topology, node: Node, keys: Keys) -> Content:
    """Return all files that are a node's own."""
    return {
        "etc/hosts": (0, 0o644, _hosts(topology)),
        "etc/machine-id": (0, 0o444, _machine_id(topology, node)),
        "etc/netplan/01-management.yaml": (0, 0o600, management_netplan(topology, node)),
        "etc/resolv.conf": (0, 0o644, f"nameserver {RESOLVER}\n"),
        **key_files(node, keys),
    }


def key_files(node: Node, keys: Keys) -> Content:
    """Return the part of `files` that has to agree with the controller's keys."""
    host_key = keys.host_key(node.name)
    wanted = {
        "etc/ssh/ssh_host_ed25519_key": (0, 0o600, host_key),
        "etc/ssh/ssh_host_ed25519_key.pub": (0, 0o644, public_half(host_key)),
        "home/railyard/.ssh/authorized_keys": (_USER_ID, 0o600, public_half(keys.private)),
    }
    return {to: (owner, mode, path.read_text("utf-8")) for to, (owner, mode, path) in wanted.items()}


def archive(content: Content) -> bytes:
    """Return `files` as a tar whose bytes depend on the content alone."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        folder = tarfile.TarInfo("home/railyard/.ssh")
        folder.type, folder.mode, folder.uid, folder.gid = tarfile.DIRTYPE, 0o700, _USER_ID, _USER_ID
        tar.addfile(folder)
        for path, (owner, mode, text) in sorted(content.items()):
            data = text.encode()
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode, entry.uid, entry.gid = len(data), mode, owner, owner
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def management_netplan(topology: Topology, node: Node) -> str:
    """Return the netplan file that an installer would have left: management only, no word about rails."""
    management = topology.management
    return (
        "# Written when this node was installed; the rails are somebody else's.\n"
        "network:\n"
        "  version: 2\n"
        "  renderer: networkd\n"
        "  ethernets:\n"
        f"    {management.netdev}:\n"
        "      dhcp4: false\n"
        "      dhcp6: false\n"
        f"      addresses: [{node.address}/{management.subnet.prefixlen}]\n"
        "      routes:\n"
        "        - to: default\n"
        f"          via: {management.gateway}\n"
    )


def _hosts(topology: Topology) -> str:
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    lines.extend(f"{node.address} {node.name}" for node in topology.nodes)
    return "\n".join(lines) + "\n"


def _machine_id(topology: Topology, node: Node) -> str:
    # Without one systemd takes the node for a first boot and resets every unit to its preset.
    return hashlib.sha256(f"railyard/{topology.name}/{node.name}".encode()).hexdigest()[:32] + "\n"
