"""Nodes of kind `container`: podman, systemd as process 1, the host's kernel."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from railyard.base.paths import repo_root
from railyard.lab import cpu_tree, naming, network, seed
from railyard.lab.apt import AptSettings
from railyard.lab.host import Host
from railyard.lab.nodes import Condition, Link, NodeState, container_image
from railyard.lab.process import LabError, pids, read_json, run, state_of
from railyard.lab.seed import Content
from railyard.lab.topology import Image, Node

# Readable in a node, not writable: they are this host's. /proc/sys/net is the node's own.
_READ_ONLY_SYS = ("/sys/kernel/mm", "/sys/module", "/sys/power")
_SYSRQ = Path("/proc/sysrq-trigger")
# A container's own cgroup is the one that carries its id; systemd made the ones below it.
_OWN_CGROUP = re.compile(r"^0::/((?:[^/\n]+/)*?libpod-[^/\n]*)", re.MULTILINE)
_CGROUP_ROOTS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))


class ContainerKind:
    """The containers of one lab."""

    boot_deadline_s = 90.0
    no_faults: Mapping[str, str] = {"hca_gone": "a container has no RDMA device; use a VM node (kind: vm)"}

    def __init__(self, lab: str, host: Host):
        self.lab = lab
        self.host = host
        self.namespace = network.Namespace(lab)
        self._seen: dict[str, tuple[int, str]] = {}  # node → process id and container id, as last looked up

    def ensure_image(self, image: Image, settings: AptSettings, say: Callable[[str], None]) -> str:
        """Return podman's name of the image, building it first when podman does not have it."""
        return container_image.ensure(self.host, image, settings, say)

    def remove_unused_images(self) -> list[str]:
        """Remove the images that no container is made of."""
        return container_image.remove_unused(self.host) if _has_podman() else []

    def states(self) -> dict[str, NodeState]:
        """Return what podman knows of this lab, checked against the processes that really run."""
        if not _has_podman():  # a host that only ever had VMs
            return {}
        ours = f"label={naming.LABEL_LAB}={self.lab}"
        found = {}
        for entry in read_json(self.host.podman("ps", "--all", "--filter", ours, "--format", "json")):
            labels = entry.get("Labels") or {}
            name = labels.get(naming.LABEL_NODE, "")
            condition, pid = self._condition(entry)
            self._seen[name] = (pid, str(entry["Id"]))
            found[name] = NodeState(
                condition, pid, str(entry.get("Image", "")), labels.get(naming.LABEL_CHECKOUT, "")
            )
        return found

    def made_of(self, _node: Node, image: str) -> str:
        """Return the image's name: there is nothing else that would make another container."""
        return image

    def create(self, node: Node, image: str, content: Content, _links: list[Link]) -> None:
        """Make the container and lay its own files over the image."""
        folder = naming.node_dir(self.lab, node.name)
        folder.mkdir(parents=True, exist_ok=True)
        self._fresh_boot(node.name)
        run(self.host.podman(*create_arguments(self.lab, node, image, folder, self.host)))
        self._copy(node.name, content)

    def carries(self, node: Node, content: Content) -> bool:
        """Compare the files that everybody may read (the halves of keys that are public)."""
        public = [path for path, (_, mode, _) in content.items() if mode & 0o044 or path.endswith("_keys")]
        answer = run(self.as_root(node, "cat", *(f"/{path}" for path in public)), check=False).stdout
        return answer == "".join(content[path][2] for path in public)

    def reseed(self, node: Node, content: Content, _links: list[Link]) -> None:
        """Copy files over the root of a running container and let sshd read its keys again."""
        self._copy(node.name, content)
        run(self.as_root(node, "systemctl", "restart", "ssh.service"))

    def start(self, node: Node, links: list[Link]) -> None:
        """Start the container; its CPU files and boot id are those of a new boot."""
        self._fresh_boot(node.name)
        run(self.host.podman("start", naming.on_host(self.lab, node.name)))
        state = self.states().get(node.name, NodeState("absent"))
        if not state.pid:
            raise LabError(
                f"{node.name}: its container ended as soon as it was started", self.last_output(node.name)
            )
        self.plug_in(node, links)

    def plug_in(self, node: Node, links: list[Link]) -> list[str]:
        """Plug in cables that are missing or down: veth pairs, the inner end in the container."""
        pid = self._pid(node.name)
        ip = ["nsenter", f"--target={pid}", "--net", "--", "ip"]
        outer, inner = self.namespace.links(), network.links_of(ip)
        made = []
        for link in links:
            if link.outer in outer and link.netdev in inner:
                there = outer[link.outer]
                if there.get("master") != link.bridge or "UP" not in there["flags"]:
                    self.namespace.batch(
                        [f"link set {link.outer} master {link.bridge} mtu {link.mtu_bytes} up"]
                    )
                continue
            self.namespace.remove_link(link.outer)
            network.remove_link(ip, link.netdev)
            made.append(link)
        self.namespace.batch(line for link in made for line in cable(pid, link))
        return [link.netdev for link in made]

    def as_root(self, node: Node, *command: str) -> list[str]:
        """Return the argv that runs a program of the container in all of its namespaces."""
        return ["nsenter", f"--target={self._pid(node.name)}", "--all", "--", *command]

    def set_carrier(self, link: Link, _node: Node, *, up: bool) -> None:
        """Set the lab's end of the cable: the other end follows."""
        if link.outer in self.namespace.links():
            self.namespace.batch([f"link set {link.outer} {'up' if up else 'down'}"])

    def shape(self, node: Node, link: Link, rate_gbps: float | None) -> None:
        """Shape both ends of the cable."""
        self.namespace.shape(link.outer, rate_gbps)
        network.shape(self.as_root(node, "tc"), link.netdev, rate_gbps)

    def rate_gbps(self, node: Node, link: Link) -> float | None:
        """Return what the container's end is shaped to."""
        return network.shaped_rate_gbps(self.as_root(node, "tc"), link.netdev)

    def freeze(self, name: str) -> None:
        """Freeze the container's cgroup, or stop every process of its where that cannot be done."""
        pid = self._pid(name)
        if not _set_freezer(pid, "1", name):
            _signal_all(pid, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """Undo `freeze`; a container that is not frozen does not notice."""
        pid = self._pid(name)
        _set_freezer(pid, "0", name)
        if state_of(pid) == "T":
            _signal_all(pid, signal.SIGCONT)

    def kill(self, name: str) -> None:
        """Kill process 1 and with it the container; file system and configuration stay."""
        state = self.states().get(name)
        if state is None or not state.pid:
            return
        if state.condition == "hung":
            self.thaw(name)
        container = naming.on_host(self.lab, name)
        run(self.host.podman("kill", "--signal", "KILL", container))
        run(self.host.podman("wait", "--condition", "stopped", container), check=False, timeout_s=20)

    def remove(self, names: list[str]) -> None:
        """Remove containers by node name, running, frozen or half made."""
        if names:
            containers = [naming.on_host(self.lab, name) for name in names]
            run(self.host.podman("rm", "--force", "--time", "0", "--volumes", "--ignore", *containers))
        for name in names:
            shutil.rmtree(naming.node_dir(self.lab, name), ignore_errors=True)

    def _copy(self, name: str, content: Content) -> None:
        run(
            self.host.podman("cp", "--archive=false", "-", f"{naming.on_host(self.lab, name)}:/"),
            stdin=seed.archive(content),
        )

    def _fresh_boot(self, name: str) -> None:
        folder = naming.node_dir(self.lab, name)
        cpu_tree.build(folder / "cpu")
        (folder / "boot_id").write_text(f"{uuid.uuid4()}\n", encoding="ascii")

    def _pid(self, name: str) -> int:
        pid, container = self._seen.get(name, (0, ""))
        if _belongs(pid, container):
            return pid
        state = self.states().get(name)
        if state is None or not state.pid:
            raise LabError(f"{name} does not run", "`railyard lab heal --all` or `railyard lab up`")
        return state.pid

    def last_output(self, name: str) -> str:
        """Return the end of the container's log."""
        container = naming.on_host(self.lab, name)
        return run(self.host.podman("logs", "--tail", "20", container), check=False).stdout

    def watch(self, _name: str) -> Callable[[], str]:
        """See nothing: a container has no boot that could stop halfway and stay."""
        return str

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
        f"--name={naming.on_host(lab, node.name)}",
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
        # On the host's own drive, where the root is an overlay, so that a node's storage can be measured. It
        # goes with the container.
        "--volume=/data",
    ]
    # A byte written there acts on this host.
    if _SYSRQ.exists():
        arguments.append(f"--volume=/dev/null:{_SYSRQ}")
    trees = [str(path) for path in sorted(Path("/proc/sys").iterdir()) if path.name != "net"]
    trees.extend(path for path in _READ_ONLY_SYS if Path(path).is_dir())
    arguments.extend(f"--volume={path}:{path}:ro" for path in trees)
    return [*arguments, image, container_image.ENTRY_POINT]


def cable(node_pid: int, link: Link) -> list[str]:
    """Return the lines of `ip -batch` that make a veth pair with its inner end in the node, down and bare."""
    return [
        f"link add {link.outer} address {link.outer_mac} mtu {link.mtu_bytes} type veth"
        f" peer name {link.netdev} address {link.mac} netns {node_pid}",
        f"link set {link.outer} master {link.bridge} up",
    ]


def _has_podman() -> bool:
    return shutil.which("podman") is not None


def _cgroups(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
    except OSError:
        return ""


def _belongs(pid: int, container_id: str) -> bool:
    return pid > 0 and container_id in _cgroups(pid)


def _freezer(pid: int) -> Path | None:
    """Return the `cgroup.freeze` of the container that `pid` is process 1 of."""
    own = _OWN_CGROUP.search(_cgroups(pid))
    switches = [root / own[1] / "cgroup.freeze" for root in _CGROUP_ROOTS] if own else []
    return next((switch for switch in switches if switch.exists()), None)


def _is_frozen(pid: int) -> bool:
    switch = _freezer(pid)
    frozen = switch is not None and switch.read_text(encoding="ascii").strip() == "1"
    return frozen or state_of(pid) == "T"


def _set_freezer(pid: int, wanted: str, node: str) -> bool:
    """Freeze (1) or thaw (0) a container and wait until it is; False where there is nothing to do it with."""
    switch = _freezer(pid)
    if switch is None:
        return False
    switch.write_text(wanted, encoding="ascii")
    events, deadline = switch.with_name("cgroup.events"), time.monotonic() + 5
    while f"frozen {wanted}" not in events.read_text(encoding="ascii"):
        if time.monotonic() > deadline:
            raise LabError(f"{node}: {events} does not reach `frozen {wanted}`", "`railyard lab up`")
        time.sleep(0.01)
    return True


def _signal_all(pid: int, number: signal.Signals) -> None:
    """Send a signal to every process in the process namespace of `pid`."""
    own = os.stat(f"/proc/{pid}/ns/pid").st_ino
    if own == os.stat("/proc/self/ns/pid").st_ino:
        raise LabError(f"process {pid} is in this host's own process namespace: no container")
    for each in pids():
        with suppress(OSError):  # it ended meanwhile
            if os.stat(f"/proc/{each}/ns/pid").st_ino == own:
                os.kill(each, number)
