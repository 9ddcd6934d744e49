"""The program that keeps a simulated subnet up on a lab node, and hands it faults.

serve FOLDER TOOLS NODE DEVICE MANAGER PORT_GUID   until it is ended; the net is FOLDER/net.txt
send FOLDER COUNT                                  ibsim's commands from stdin; waits until opensm has
                                                   swept COUNT more times at least
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path

from railyard.base.errors import UserError
from railyard.lab.process import LabError
from railyard.lab.subnet.simulator import TOOLS, Manager, Programs, Simulation, count_sweeps, send

_SWEEP_LIMIT_S = 60.0


def main(arguments: list[str]) -> int:
    """Run the program; return its exit status."""
    try:
        if arguments[0] == "serve":
            folder, tools, node, device, manager, guid = arguments[1:]
            _serve(Path(folder), Path(tools), node, device, Manager(manager, int(guid, 16)))
        else:
            _send(Path(arguments[1]), int(arguments[2]), sys.stdin.read().splitlines())
    except UserError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    return 0


def _serve(folder: Path, tools: Path, node: str, device: str, manager: Manager) -> None:
    # Ended by SIGTERM, it leaves no tool that would ask an ibsim that is gone.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    net = (folder / "net.txt").read_text(encoding="utf-8")
    try:
        with Simulation(net, folder, Programs(), own_namespace=False) as simulation:
            simulation.start_manager(manager)
            simulation.write_wrappers(tools, node, device)
            _report_ready()
            while True:
                signal.pause()
    finally:
        for name in TOOLS:
            (tools / name).unlink(missing_ok=True)


def _report_ready() -> None:
    """Tell systemd that the subnet is up: sd_notify(3), service type `notify`."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.connect("\0" + address[1:] if address.startswith("@") else address)
            notify.send(b"READY=1")


def _send(folder: Path, sweeps: int, lines: list[str]) -> None:
    wanted = count_sweeps(folder) + sweeps
    for line in lines:
        send(folder, line)
    deadline = time.monotonic() + _SWEEP_LIMIT_S
    while count_sweeps(folder) < wanted:
        if time.monotonic() > deadline:
            raise LabError(f"opensm did not sweep the subnet within {_SWEEP_LIMIT_S:g} s")
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
