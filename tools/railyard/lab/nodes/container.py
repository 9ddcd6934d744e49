"""Nodes of kind `container`: podman, systemd as process 1, the host's kernel."""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from pathlib import Path

from railyard.lab import cpu_tree, naming
from railyard.lab.host import Host
from railyard.lab.image import ENTRY_POINT
from railyard.lab.nodes import Condition, Link, NodeState
from railyard.lab.process import LabError, run
from railyard.lab.topology import Node
from railyard.paths import repo_root

# Readable in a node, not writable: they are this host's. /proc/sys/net is the node's own.
_READ_ONLY_SYS = ("/sys/kernel/mm", "/sys/module", "/sys/power")
_SYSRQ = Path("/proc/sysrq-trigger")
_CGROUP_ROOTS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))


class ContainerKind:
    """The containers of one lab."""

    def __init__(self, lab: str, host: Host):
        self.lab = lab
        self.host = host

    def states(self) -> dict[str, NodeState]:
        """Return what podman knows of this lab, checked against the processes that really run."""
        listing = run(
            self.host.podman(
                "ps", "--all", "--filter", f"label={naming.LABEL_LAB}={self.lab}", "--format", "json"
            )
        ).stdout
        found = {}
        for entry in json.loads(listing or "[]"):
            labels = entry.get("Labels") or {}
            name = labels.get(naming.LABEL_NODE, "")
            condition, pid = self._condition(entry)
            found[name] = NodeState(
                condition, pid, str(entry.get("Image", "")), labels.get(naming.LABEL_CHECKOUT, "")
            )
        return found

    def create(self, node: Node, image: str, seed: bytes) -> None:
        """Make the container and lay its seed over the image."""
        folder = self._folder(node.name)
        folder.mkdir(parents=True, exist_ok=True)
        self._fresh_boot(node.name)
        run(self.host.podman(*create_arguments(self.lab, node, image, folder, self.host)))
        self.reseed(node.name, seed)

    def reseed(self, name: str, seed: bytes) -> None:
        """Copy a tar over the container's root; works on a running one as well."""
        run(
            self.host.podman("cp", "--archive=false", "-", f"{naming.container(self.lab, name)}:/"),
            stdin=seed,
        )

    def start(self, name: str) -> int:
        """Start the container; its CPU files and boot id are those of a new boot."""
        self._fresh_boot(name)
        run(self.host.podman("start", naming.container(self.lab, name)))
        state = self.states().get(name, NodeState("absent"))
        if not state.pid:
            raise LabError(f"{name}: its container ended as soon as it was started", self._logs(name))
        return state.pid

    def link_commands(self, node_pid: int, link: Link) -> list[str]:
        """Return the lines that make a veth pair with its inner end in the container, down and bare."""
        return [
            f"link add {link.outer} address {link.outer_mac} mtu {link.mtu_bytes} type veth"
            f" peer name {link.netdev} address {link.mac} netns {node_pid}",
            f"link set {link.outer} master {link.bridge} up",
        ]

    def in_network(self, node_pid: int, *command: str) -> list[str]:
        """Return the argv that runs a program of this host in the container's network namespace."""
        return ["nsenter", f"--target={node_pid}", "--net", "--", *command]

    def inside(self, node_pid: int, *command: str) -> list[str]:
        """Return the argv that runs a program of the container in all of its namespaces."""
        return ["nsenter", f"--target={node_pid}", "--all", "--", *command]

    def freeze(self, name: str) -> None:
        """Freeze the container's cgroup, or stop every process of its where that cannot be done."""
        pid = self._pid(name)
        switch = _freezer(pid)
        if switch is None:
            _signal_all(pid, signal.SIGSTOP)
            return
        switch.write_text("1", encoding="ascii")
        _await_frozen(switch.with_name("cgroup.events"), "1", name)

    def thaw(self, name: str) -> None:
        """Undo `freeze`; a container that is not frozen does not notice."""
        pid = self._pid(name)
        switch = _freezer(pid)
        if switch is not None and switch.read_text(encoding="ascii").strip() == "1":
            switch.write_text("0", encoding="ascii")
            _await_frozen(switch.with_name("cgroup.events"), "0", name)
        if _is_stopped(pid):
            _signal_all(pid, signal.SIGCONT)

    def kill(self, name: str) -> None:
        """Kill process 1 and with it the container; file system and configuration stay."""
        state = self.states().get(name)
        if state is None or not state.pid:
            return
        if state.condition == "hung":
            self.thaw(name)
        container = naming.container(self.lab, name)
        run(self.host.podman("kill", "--signal", "KILL", container))
        run(self.host.podman("wait", "--condition", "stopped", container), check=False, timeout_s=20)

    def remove(self, names: list[str]) -> None:
        """Remove containers by node name, running, frozen or half made."""
        if names:
            containers = [naming.container(self.lab, name) for name in names]
            run(self.host.podman("rm", "--force", "--time", "0", "--volumes", "--ignore", *containers))

    def _folder(self, name: str) -> Path:
        return naming.lab_dir(self.lab) / "nodes" / name

    def _fresh_boot(self, name: str) -> None:
        folder = self._folder(name)
        cpu_tree.build(folder / "cpu")
        (folder / "boot_id").write_text(f"{uuid.uuid4()}\n", encoding="ascii")

    def _pid(self, name: str) -> int:
        state = self.states().get(name)
        if state is None or not state.pid:
            raise LabError(f"{name} does not run", "`railyard lab heal --all` or `railyard lab up`")
        return state.pid

    def _logs(self, name: str) -> str:
        container = naming.container(self.lab, name)
        logs = run(self.host.podman("logs", "--tail", "20", container), check=False).stdout
        return logs or f"podman logs {container}"

    def _condition(self, entry: dict[str, object]) -> tuple[Condition, int]:
        pid = int(str(entry.get("Pid") or 0))
        # After a crash of the host podman may remember a process id that is somebody else's by now.
        if entry.get("State") not in ("running", "paused") or not _belongs(pid, str(entry["Id"])):
            return "stopped", 0
        return ("hung" if _is_frozen(pid) else "running"), pid


def create_arguments(lab: str, node: Node, image: str, folder: Path, host: Host) -> list[str]:
    """Return the arguments of `podman create`.

    Args:
        lab: the lab's name.
        node: the node to make.
        image: the image's name.
        folder: this node's folder on the host, holding `cpu/` and `boot_id`.
        host: whose limits bound the container's (it cannot raise them).
    """
    memlock = host.memlock_bytes
    arguments = [
        "create",
        f"--name={naming.container(lab, node.name)}",
        f"--hostname={node.name}",
        f"--label={naming.LABEL_LAB}={lab}",
        f"--label={naming.LABEL_NODE}={node.name}",
        f"--label={naming.LABEL_CHECKOUT}={repo_root()}",
        "--pull=never",
        "--runtime=crun",
        "--privileged",
        "--systemd=always",
        "--network=none",
        "--no-hosts",
        "--pids-limit=0",
        "--log-driver=k8s-file",
        "--log-opt=max-size=1mb",
        f"--ulimit=nofile={host.nofile}:{host.nofile}",
        f"--ulimit=nproc={host.nproc}:{host.nproc}",
        f"--ulimit=memlock={memlock}:{memlock}",
        f"--volume={folder / 'cpu'}:{cpu_tree.HOST_TREE}",
        f"--volume={folder / 'boot_id'}:/proc/sys/kernel/random/boot_id:ro",
    ]
    # A byte written there acts on this host.
    if _SYSRQ.exists():
        arguments.append(f"--volume=/dev/null:{_SYSRQ}")
    trees = [str(path) for path in sorted(Path("/proc/sys").iterdir()) if path.name != "net"]
    trees.extend(path for path in _READ_ONLY_SYS if Path(path).is_dir())
    arguments.extend(f"--volume={path}:{path}:ro" for path in trees)
    return [*arguments, image, ENTRY_POINT]


def _belongs(pid: int, container_id: str) -> bool:
    try:
        return pid > 0 and container_id in Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
    except OSError:
        return False


def _freezer(pid: int) -> Path | None:
    """Return the `cgroup.freeze` of the container that `pid` is process 1 of."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        if not line.startswith("0::"):
            continue
        parts = line[len("0::/") :].split("/")
        # The container's own cgroup is the one that carries its id; systemd made the ones below it.
        own = next((i for i, part in enumerate(parts) if part.startswith("libpod-")), None)
        if own is None:
            continue
        for root in _CGROUP_ROOTS:
            switch = root.joinpath(*parts[: own + 1], "cgroup.freeze")
            if switch.exists():
                return switch
    return None


def _is_frozen(pid: int) -> bool:
    switch = _freezer(pid)
    if switch is not None and switch.read_text(encoding="ascii").strip() == "1":
        return True
    return _is_stopped(pid)


def _is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"
    except (OSError, IndexError):
        return False


def _await_frozen(events: Path, wanted: str, node: str) -> None:
    deadline = time.monotonic() + 5
    while f"frozen {wanted}" not in events.read_text(encoding="ascii"):
        if time.monotonic() > deadline:
            raise LabError(f"{node}: {events} does not reach `frozen {wanted}`", "`railyard lab up`")
        time.sleep(0.01)


def _signal_all(pid: int, number: signal.Signals) -> None:
    """Send a signal to every process in the process namespace of `pid`."""
    own = os.stat(f"/proc/{pid}/ns/pid").st_ino
    if own == os.stat("/proc/self/ns/pid").st_ino:
        raise LabError(f"process {pid} is in this host's own process namespace: no container")
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            if os.stat(f"/proc/{entry.name}/ns/pid").st_ino == own:
                os.kill(int(entry.name), number)
        except OSError:
            continue  # it ended meanwhile
