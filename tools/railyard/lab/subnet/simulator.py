"""Run ibsim with subnet managers, and the tools of infiniband-diags on it.

A lab node runs this as a program of its own, so that only the standard library is used. On the controller
the simulation has a network namespace of its own: ibsim listens on abstract Unix sockets, of which there is
one set per namespace. All processes end with the one that started them, also when it is killed.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from railyard.lab.process import LabError, die_with_parent, popen

#: What is wrapped: all that a person or Railyard calls to read a subnet.
TOOLS = (
    "ibaddr", "ibhosts", "iblinkinfo", "ibnetdiscover", "ibnodes", "ibping", "ibportstate", "ibqueryerrors",
    "ibroute", "ibstat", "ibswitches", "ibtracert", "perfquery", "saquery", "sminfo", "smpquery",
)  # fmt: skip
# It names a device without an option.
_WITHOUT_OPTION = "ibstat"
#: The one device that a simulated node has, whatever the adapter is called that it stands for.
DEVICE = "ibsim0"
#: Room for 4,096 adapters; what is not used costs nothing.
_LIMITS = ("-N", "4608", "-S", "512", "-P", "40000")
_READY = "Network simulator ready"
_SWEPT = "SUBNET UP"
# It is answered by a line of its own, after the output of the command before it.
_MARK = "Verbose 0"
_ANSWER = "simulator verbose level is"
_REFUSALS = ("# ", "bad ", "unknown")
_POLL_S = 0.02
_MANAGER = "opensm-"
_TOOL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Programs:
    """Where ibsim, opensm and the tools are: in the unpacked packages' tree, or installed (`/`)."""

    tree: Path = Path("/")

    @property
    def preload(self) -> Path:
        """The library that hands a program's requests to ibsim.

        Raises:
            LabError: it is not there.
        """
        found = sorted(self.tree.glob("usr/lib/*/umad2sim/libumad2sim.so*"))
        if not found:
            raise LabError(
                f"there is no usr/lib/*/umad2sim/libumad2sim.so in {self.tree}",
                "`tools/setup --check` unpacks ibsim-utils, opensm and infiniband-diags into .cache/ibsim",
            )
        return found[0]

    def path(self, name: str) -> str:
        """Return where a program is; only its name where that is on the PATH alone."""
        for folder in ("usr/sbin", "usr/bin"):
            if (self.tree / folder / name).exists():
                return str(self.tree / folder / name)
        return name

    def environment(self, host: str | None = None) -> dict[str, str]:
        """Return what a program needs beside our variables; with `host`, to work as this adapter."""
        found = {}
        if self.tree != Path("/"):
            found["LD_LIBRARY_PATH"] = str(self.preload.parent.parent)
            found["IBPATH"] = str(self.tree / "usr/sbin")  # where ibhosts and ibswitches look for tools
        if host is not None:
            found |= {"LD_PRELOAD": str(self.preload), "SIM_HOST": host}
        return found


class Manager(NamedTuple):
    """A subnet manager to start.

    Attributes:
        host: the adapter that it runs at, by its name in the net.
        port_guid: this adapter's port.
        options: further options of opensm, such as `-k KEY`, `-p PRIORITY`, `-P PARTITIONS`.
    """

    host: str
    port_guid: int
    options: tuple[str, ...] = ()


class RunningManager:
    """An opensm that runs, with its log."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path):
        self.process, self.log = process, log

    def sweeps(self) -> int:
        """Return how often it has reported the subnet as up."""
        return count_sweeps(self.log.parent.parent, self.log.parent.name)

    def wait_for_sweep(self, above: int = 0, limit_s: float = 60) -> None:
        """Wait until it has reported the subnet as up more often than `above` times.

        Raises:
            LabError: it did not within `limit_s` seconds, or ended.
        """
        deadline = time.monotonic() + limit_s
        while self.sweeps() <= above:
            if self.process.poll() is not None or time.monotonic() > deadline:
                output = _read(self.log) or _read(self.log.with_name("output"))
                raise LabError(f"opensm did not bring the subnet up within {limit_s:g} s:\n{output[-800:]}")
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """End it and wait until it has."""
        _end(self.process)


class Simulation:
    """A simulated subnet, while it is open.

    Attributes:
        folder: where its files are; made if it is not there.
        programs: which programs it runs.
        prefix: what is put before a command, so that it runs where the simulation does.
    """

    def __init__(self, net: str, folder: Path, programs: Programs, *, own_namespace: bool = True):
        # ibsim and opensm work in it.
        self.folder, self.programs = folder.resolve(), programs
        self.prefix: list[str] = []
        self._net, self._own_namespace = net, own_namespace
        self._managers: list[RunningManager] = []
        self._log, self._fifo = self.folder / "ibsim.log", self.folder / "commands"
        self._ibsim: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Simulation:
        self.folder.mkdir(parents=True, exist_ok=True)
        net = self.folder / "net"
        net.write_text(self._net, encoding="utf-8", errors="surrogateescape")
        self._fifo.unlink(missing_ok=True)
        os.mkfifo(self._fifo, 0o600)
        apart = []
        if self._own_namespace:
            apart = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--"]
        # With both ends open here, ibsim's input never ends.
        commands = os.open(self._fifo, os.O_RDWR)
        try:
            with open(self._log, "wb") as log:
                self._ibsim = subprocess.Popen(
                    [*apart, self.programs.path("ibsim"), "-s", *_LIMITS, str(net)],
                    stdin=commands,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self.folder,
                    env={**os.environ, **self.programs.environment()},
                    start_new_session=True,
                    preexec_fn=die_with_parent,
                )
        finally:
            os.close(commands)
        try:
            self._await(lambda: _READY in _read(self._log), "start", 30)
            if apart:
                user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
                self.prefix = ["nsenter", f"--target={self._ibsim.pid}", *user, "--net", "--"]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        for manager in reversed(self._managers):
            manager.stop()
        self._managers.clear()
        if self._ibsim is not None:
            _end(self._ibsim)
        self._fifo.unlink(missing_ok=True)

    def command(self, line: str, limit_s: float = 10) -> str:
        """Give ibsim a command, wait until it is done, and return its output.

        Raises:
            LabError: ibsim refused it, or did not answer.
        """
        return send(self.folder, line, limit_s)

    def start_manager(self, manager: Manager, limit_s: float = 60) -> RunningManager:
        """Start a subnet manager and wait until it has brought the subnet up."""
        running = self.launch_manager(manager)
        running.wait_for_sweep(limit_s=limit_s)
        return running

    def launch_manager(self, manager: Manager) -> RunningManager:
        """Start a subnet manager without waiting for it; a second one may never be the master."""
        folder = self.folder / f"{_MANAGER}{len(self._managers) + 1}"
        folder.mkdir(exist_ok=True)
        log = folder / "opensm.log"
        # -d2: each line of the log is written at once.
        argv = [self.programs.path("opensm"), "-d2", "-f", str(log), "-g", f"0x{manager.port_guid:016x}"]
        places = {"OSM_CACHE_DIR": str(folder), "OSM_TMP_DIR": str(folder)}
        with open(folder / "output", "wb") as output:
            process = popen(
                [*self.prefix, *argv, *manager.options],
                {**self.programs.environment(manager.host), **places},
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                preexec_fn=die_with_parent,
            )
        running = RunningManager(process, log)
        self._managers.append(running)
        return running

    def write_wrappers(self, folder: Path, node: str, device: str) -> None:
        """Write the tools as a node has them: called by name, they read the simulated subnet.

        Args:
            folder: for the PATH, before all others.
            node: the node that they are to work as.
            device: its adapter where the caller names none by `-C`.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for name in TOOLS:
            program = self.programs.path(name)
            if not os.path.isabs(program):
                continue
            wrapper = folder / name
            text = wrapper_text(
                program, node, device, self.programs.environment(""), self.prefix, self.folder
            )
            wrapper.write_text(text, "utf-8")
            wrapper.chmod(0o755)

    def _await(self, is_done: Callable[[], bool], what: str, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while not is_done():
            ended = self._ibsim is None or self._ibsim.poll() is not None
            if ended or time.monotonic() > deadline:
                raise LabError(f"ibsim did not {what}:\n{_read(self._log)[-800:]}")
            time.sleep(_POLL_S)


def wrapper_text(
    program: str,
    node: str,
    device: str,
    environment: Mapping[str, str],
    prefix: list[str],
    folder: Path,
) -> str:
    """Return a shell script that runs a tool on the simulated subnet.

    ibsim has one device for each program. So `-C mlx5_1` becomes the adapter of this name of the node. Where
    a program is started the library makes a folder `sys-PID`, which a crash leaves behind: in `folder`.
    """
    words = [f"{name}={shlex.quote(value)}" for name, value in environment.items() if name != "SIM_HOST"]
    command = shlex.join([*prefix, "env"])
    option = "" if os.path.basename(program) == _WITHOUT_OPTION else f" -C {DEVICE}"
    return f"""\
#!/bin/sh
# {os.path.basename(program)} on a subnet that is SIMULATED by ibsim. Railyard's lab wrote this file.
PATH={_TOOL_PATH}
device={shlex.quote(device)}
left=$#
while [ "$left" -gt 0 ]; do
  word=$1
  shift
  left=$((left - 1))
  if [ "$word" = -C ] && [ "$left" -gt 0 ]; then
    device=$1
    shift
    left=$((left - 1))
  else
    set -- "$@" "$word"
  fi
done
cd {shlex.quote(str(folder))} || exit
exec {command} {" ".join(words)} SIM_HOST={shlex.quote(node)}" $device" {shlex.quote(program)}{option} "$@"
"""


def count_sweeps(folder: Path, manager: str = f"{_MANAGER}1") -> int:
    """Return how often a subnet manager of a simulation's folder has reported the subnet as up."""
    return _read(folder / manager / "opensm.log").count(_SWEPT)


def send(folder: Path, line: str, limit_s: float = 10) -> str:
    """Give the ibsim of a folder a command; see `Simulation.command`."""
    log, fifo = folder / "ibsim.log", folder / "commands"
    if "\n" in line:
        raise LabError(f"{line!r} is not one line")
    before = len(_read(log))
    try:
        # Without a reader it is not opened: ibsim has ended.
        with open(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK), "w", encoding="utf-8") as pipe:
            pipe.write(f"{line}\n{_MARK}\n")
    except OSError as error:
        raise LabError(f"no ibsim reads {fifo}: {error}") from None
    deadline = time.monotonic() + limit_s
    while _ANSWER not in (answer := _read(log)[before:]):
        if time.monotonic() > deadline:
            raise LabError(f"ibsim did not answer {line!r} within {limit_s:g} s")
        time.sleep(_POLL_S)
    said = answer.partition(_ANSWER)[0].replace("sim>", "").strip()
    if any(mark in said for mark in _REFUSALS) and not said.startswith("# Net status"):
        raise LabError(f"ibsim refused {line!r}: {said}")
    return said


def _read(file: Path) -> str:
    with suppress(OSError):
        return file.read_text(encoding="utf-8", errors="replace")
    return ""


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
