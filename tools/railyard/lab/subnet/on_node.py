"""A simulated subnet on a node of the lab: brought up, given faults, taken down.

The node is one of an inventory whose other nodes need not exist: a subnet is read from one node. On it,
`ibnetdiscover` and the like are wrappers in /usr/local/sbin, so that callers by name, such as
Ansible over SSH and sudo, reads the simulated subnet. What is installed for it is removed with it.
"""

from __future__ import annotations

import io
import shlex
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from railyard.base.paths import repo_root
from railyard.lab.process import LabError, run
from railyard.lab.subnet.faults import LiveFault
from railyard.lab.subnet.net import Net, render
from railyard.lab.topology import Node
from railyard.lab.wiring import Lab

UNIT = "railyard-subnet"
PACKAGES = ("ibsim-utils", "infiniband-diags", "opensm")
_FOLDER = "/var/lib/railyard-subnet"
_PROGRAM = f"{_FOLDER}/program.pyz"
_ADDED = f"{_FOLDER}/packages"
_TOOLS = "/usr/local/sbin"
# What the program on the node is made of.
_MODULES = (
    "__init__", "base/__init__", "base/errors", "lab/__init__", "lab/process", "lab/subnet/__init__",
    "lab/subnet/node_program", "lab/subnet/simulator",
)  # fmt: skip
_INSTALL_LIMIT_S = 600.0
# opensm's own service would start on InfiniBand hardware of this machine.
_INSTALL = """\
set -e
# A package that dpkg does not know ends with 1, which means that it is missing.
for package in "$@"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || true
  [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
systemctl mask --runtime --quiet opensm.service
export DEBIAN_FRONTEND=noninteractive
apt-get -qq -o DPkg::Lock::Timeout=300 update
apt-get -qq -y -o DPkg::Lock::Timeout=300 --no-install-recommends install $missing >/dev/null
mkdir -p "$(dirname "$ADDED")"
echo $missing >"$ADDED"
"""
_REMOVE = """\
systemctl stop "$UNIT.service" 2>/dev/null
[ ! -s "$ADDED" ] || DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 \\
  --autoremove purge $(cat "$ADDED") >/dev/null || exit
systemctl unmask --runtime --quiet opensm.service
rm -rf "$FOLDER"
"""


def bring_up(lab: Lab, node: Node, net: Net) -> None:
    """Bring a subnet up on a node that runs; one that is there is replaced.

    Raises:
        LabError: the net has no adapter of the node, or a step on the node failed.
    """
    ours = [device for device in net.adapters() if device.name.split()[0] == node.name]
    if not ours:
        raise LabError(
            f"the inventory has no node {node.name}, and a subnet is read from one of its nodes",
            f"its first adapter is {net.adapters()[0].name if net.adapters() else 'missing'}",
        )
    first, device = ours[0], ours[0].name.partition(" ")[2]
    _shell(lab, node, _INSTALL, *PACKAGES, timeout_s=_INSTALL_LIMIT_S)
    _on_node(lab, node, "systemctl", "stop", f"{UNIT}.service", check=False)
    _put(lab, node, f"{_FOLDER}/net.txt", render(net).encode())
    _put(lab, node, _PROGRAM, pack())
    serve = ["serve", _FOLDER, _TOOLS, node.name, device, first.name, f"0x{first.guid + 1:016x}"]
    begin = ["systemd-run", "--quiet", f"--unit={UNIT}", "--service-type=notify", "--collect"]
    done = _on_node(lab, node, *begin, "python3", _PROGRAM, *serve, check=False)
    if done:
        log = _on_node(
            lab, node, "journalctl", "-u", UNIT, "-n", "12", "--no-pager", "-o", "cat", check=False
        )
        raise LabError(f"{node.name}: the simulated subnet did not come up:\n{done}{log}")


def make_fault(lab: Lab, node: Node, net: Net, fault: LiveFault) -> None:
    """Make a fault in the subnet of a node, and wait until the subnet manager has seen a link change.

    Raises:
        LabError: ibsim refused it, or there is no subnet.
    """
    lines = fault.commands(net)
    sweeps = int(any(line.startswith(("Link", "Unlink")) for line in lines))
    argv = lab.kind(node).as_root(node, "python3", _PROGRAM, "send", _FOLDER, str(sweeps))
    run(argv, stdin="".join(f"{line}\n" for line in lines).encode())


def take_down(lab: Lab, node: Node) -> None:
    """Take the subnet of a node down, with all that was installed for it; there need be none."""
    _shell(lab, node, _REMOVE, timeout_s=_INSTALL_LIMIT_S)


def pack() -> bytes:
    """Pack the program of the node: a zip that Python runs."""
    buffer = io.BytesIO()
    source = repo_root() / "tools" / "railyard"
    with zipfile.ZipFile(buffer, "w") as packed:
        for module in _MODULES:
            packed.writestr(f"railyard/{module}.py", (source / f"{module}.py").read_bytes())
        entry = "from railyard.lab.subnet.node_program import main"
        packed.writestr("__main__.py", f"import sys\n{entry}\nsys.exit(main(sys.argv[1:]))\n")
    return buffer.getvalue()


def _put(lab: Lab, node: Node, path: str, content: bytes) -> None:
    folder = str(Path(path).parent)
    words = f"mkdir -p {shlex.quote(folder)} && cat > {shlex.quote(path)}"
    run(lab.kind(node).as_root(node, "sh", "-c", words), stdin=content)


def _on_node(lab: Lab, node: Node, *command: str, check: bool = True) -> str:
    """Run a command on a node; return its output, of one that succeeds without `check` its stdout alone."""
    done = run(lab.kind(node).as_root(node, *command), check=check)
    return done.stdout + (done.stderr if done.returncode else "")


def _shell(lab: Lab, node: Node, script: str, *words: str, timeout_s: float) -> None:
    environment: Mapping[str, Any] = {"ADDED": _ADDED, "FOLDER": _FOLDER, "UNIT": UNIT}
    given = [f"{name}={value}" for name, value in environment.items()]
    run(lab.kind(node).as_root(node, "env", *given, "sh", "-c", script, "sh", *words), timeout_s=timeout_s)
