# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does actions: for the module, and as a program of its own when a netdev or an RDMA device comes.

None of the settings outlives its device, so udev starts this once for each (`replay.py NAME`, beside it
`record.json`). It decides nothing: it repeats what the module did and read back. It imports nothing of
Railyard.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

SCHEMA = 1
_TIMEOUT_S = 60


@contextlib.contextmanager
def folder_made(path: str) -> Iterator[None]:
    """Have a folder of configfs while it is needed; one that was not there before is removed again."""
    made = False
    # rdma_cm is not loaded, or has no such device: then there is nothing to see in it.
    with contextlib.suppress(OSError):
        os.mkdir(path)
        made = True
    try:
        yield
    finally:
        if made:
            with contextlib.suppress(OSError):
                os.rmdir(path)


def write_value(action: Mapping[str, Any]) -> None:
    """Write to a file of the kernel's; raise OSError where it refuses."""
    with contextlib.ExitStack() as stack:
        if "folder" in action:
            stack.enter_context(folder_made(action["folder"]))
        # A kernel's file exists or not; it must not be created. The kernel's error comes on close.
        descriptor = os.open(action["path"], os.O_WRONLY | os.O_TRUNC)
        with os.fdopen(descriptor, "w", encoding="ascii") as handle:
            handle.write(action["text"])


def do(action: Mapping[str, Any]) -> str | None:
    """Do one action; return what went wrong, None when nothing did."""
    try:
        if "path" in action:
            write_value(action)
            return None
        # Started by udev, outside Ansible: there is no run_command.
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            action["argv"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{action.get('path') or ' '.join(action['argv'])}: {error}"
    if done.returncode in action["ok"]:
        return None
    said = done.stdout.decode(errors="replace").strip()
    return f"{' '.join(action['argv'])}: exit status {done.returncode}: {said[:300]}"


def due(record: Mapping[str, Any], name: str, sys_root: str = "/sys") -> list[dict[str, Any]]:
    """Return the actions of a netdev or an RDMA device that came.

    An RDMA device is a port's when the port's netdev lies on the same card, whatever it was called when the
    record was written: rdma-core, a driver or a site's own rule may have renamed it since.

    Args:
        record: `{"schema", "ports": [{"netdev", "device", "actions"}]}`.
        name: The netdev's or device's name.
        sys_root: Where sysfs is.
    """
    found: list[dict[str, Any]] = []
    for port in record["ports"]:
        devices = devices_of(port["netdev"], sys_root) or [port["device"]]
        for action in port["actions"]:
            if not action.get("device"):
                found += [action] if name == port["netdev"] else []
            elif name in devices:
                found.append(renamed(action, port["device"], name))
    return found


def devices_of(netdev: str, sys_root: str) -> list[str]:
    """Return what the RDMA devices of a netdev's card are called now."""
    try:
        return os.listdir(os.path.join(sys_root, "class/net", netdev, "device/infiniband"))
    except OSError:
        return []


def renamed(action: dict[str, Any], was: str, name: str) -> dict[str, Any]:
    """Return an action whose paths have a device's present name in the place of an earlier one."""
    moved = dict(action)
    for key in {"path", "folder"} & set(action):
        for above in ("infiniband", "rdma_cm"):
            # The folder itself ends in the name.
            moved[key] = f"{moved[key]}/".replace(f"/{above}/{was}/", f"/{above}/{name}/")[:-1]
    return moved


def main(argv: list[str]) -> int:
    """Do what is due for the device named; return 0 when all went well."""
    with open(
        os.path.join(os.path.dirname(os.path.abspath(argv[0])), "record.json"), encoding="utf-8"
    ) as handle:
        record = json.load(handle)
    if record.get("schema") != SCHEMA:
        sys.stderr.write(f"record.json is not of schema {SCHEMA}: run the role roce_qos\n")
        return 1
    actions = due(record, argv[1], record.get("sys_root", "/sys"))
    problems = [problem for problem in map(do, actions) if problem]
    for problem in problems:
        sys.stderr.write(problem + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    # No module: the status is for systemd.
    sys.exit(main(sys.argv))  # pylint: disable=ansible-bad-function
