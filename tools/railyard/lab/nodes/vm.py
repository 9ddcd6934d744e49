"""Nodes of kind `vm`: QEMU, a kernel of their own, modules, reboots.

A VM is a folder (`.lab/LAB/nodes/NODE`: disk, seed, console log) and a QEMU that is found by what it was
called with, never by a remembered process id. Its cables end in taps in the lab's namespace.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import shutil
import signal
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils import atomic_files

from railyard.base.paths import repo_root
from railyard.lab import naming, network, seed
from railyard.lab.apt import AptSettings
from railyard.lab.keys import Keys
from railyard.lab.nodes import (
    Condition,
    Link,
    NodeState,
    accelerator,
    vm_argv,
    vm_cables,
    vm_console,
    vm_image,
)
from railyard.lab.nodes.qmp import QmpError, ask
from railyard.lab.process import LabError, command_lines, run
from railyard.lab.seed import Content
from railyard.lab.topology import Image, Node

_RECORD = "vm.json"
# What of a node makes another VM: its size, and its place, since another place in the file has other taps.
_OF_NODE = ("memory_mib", "cpus", "position")
_POWER_OFF_S = 40.0


class VmKind:
    """The VMs of one lab."""

    # With KVM it is some seconds, under emulation on two cores that have nothing else to do half a minute. On
    # two that are shared by ten others 230 s were seen; a QEMU that ends is noticed at once.
    boot_deadline_s = 600.0
    no_faults: Mapping[str, str] = {
        "flapping_rail": "a VM's carrier is QEMU's, and stays when the cable's end goes; use a container",
        "governor": "an emulated CPU has no governor; use a container (kind: container)",
    }

    def __init__(self, lab: str):
        self.lab = lab
        self.namespace = network.Namespace(lab)
        self.keys = Keys(naming.lab_dir(lab) / "ssh")

    def ensure_image(self, image: Image, settings: AptSettings, say: Callable[[str], None]) -> str:
        """Return the image's name, building it first where it is missing, and find out what runs guests."""
        name = vm_image.ensure(image, settings, say)
        say(f"VMs run by {accelerator.choose(vm_image.folder_of(name) / 'vmlinuz', say)}")
        return name

    def remove_unused_images(self) -> list[str]:
        """Remove the images that no VM's disk lies on."""
        return vm_image.remove_unused()

    def states(self) -> dict[str, NodeState]:
        """Return the VMs that run or have a folder here."""
        found = {}
        for folder in sorted((naming.lab_dir(self.lab) / "nodes").glob("*/")):
            if any((folder / name).exists() for name in (_RECORD, vm_argv.DISK)):
                found[folder.name] = NodeState("stopped", 0, _made_of(folder), str(repo_root()))
        for pid, process in self._processes():
            folder = naming.node_dir(self.lab, process.node)
            ours = process.checkout == str(repo_root())
            found[process.node] = NodeState(
                _condition(folder / vm_argv.CONTROL) if ours else "running",
                pid,
                _made_of(folder) if ours else "",
                process.checkout,
            )
        return found

    def made_of(self, node: Node, image: str) -> str:
        """Return image, size and place."""
        return _describe(_make_record(node, image))

    def create(self, node: Node, image: str, content: Content, links: list[Link]) -> None:
        """Make the VM's folder: an overlay of the image, and the seed."""
        folder = naming.node_dir(self.lab, node.name)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        base = vm_image.folder_of(image) / "base.qcow2"
        overlay = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(base), vm_argv.DISK]
        run(overlay, folder=folder)
        loader = vm_image.folder_of(image) / vm_argv.LOADER
        if loader.exists():
            shutil.copyfile(loader, folder / vm_argv.LOADER)
        self._write_seed(node, content, links)
        # Last: without it the VM is half made.
        atomic_files.write_file(str(folder / _RECORD), json.dumps(_make_record(node, image)))

    def start(self, node: Node, links: list[Link]) -> None:
        """Make the cables and start QEMU, a daemon of its own, in the lab's namespace."""
        folder = naming.node_dir(self.lab, node.name)
        image = vm_image.folder_of(vm_image.used_by(folder / _RECORD))
        chosen = accelerator.choose(image / "vmlinuz")
        vm_cables.make(self.namespace, links)
        inside = ["nsenter", f"--net={network.namespace_path(self.namespace.name)}", "--"]
        given = None if (folder / vm_argv.LOADER).exists() else image
        run([*inside, *vm_argv.argv(self.lab, node, links, given, chosen, folder)], folder=folder)

    def plug_in(self, node: Node, links: list[Link]) -> list[str]:
        """Repair cables; a VM whose tap is gone is switched off and on, since QEMU cannot take another."""
        made = vm_cables.make(self.namespace, links)
        if vm_cables.unplugged(self.namespace, links):
            self.kill(node.name)
            self.start(node, links)
            return [link.netdev for link in links]
        return made

    def carries(self, node: Node, content: Content) -> bool:
        """Compare with the seed that the VM last started with."""
        try:
            data = (naming.node_dir(self.lab, node.name) / vm_argv.SEED).read_bytes()
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                there = {entry.name: tar.extractfile(entry) for entry in tar if entry.isfile()}
                texts = {name: file.read().decode() for name, file in there.items() if file is not None}
        except (OSError, tarfile.TarError):
            return False
        return all(texts.get(path) == text for path, (_, _, text) in content.items())

    def reseed(self, node: Node, content: Content, links: list[Link]) -> None:
        """Write a new seed and boot again: it cannot be done from inside without a login."""
        self._write_seed(node, content, links)
        self._power_off(node.name)
        self.start(node, links)

    def as_root(self, node: Node, *command: str) -> list[str]:
        """Return the ssh call that runs a command of the VM as its root."""
        return self.keys.ssh_argv(node, "sudo", "-n", "--", *(shlex.quote(word) for word in command))

    def set_carrier(self, link: Link, node: Node, *, up: bool) -> None:
        """Let QEMU take the carrier away: the guest's netdev sees what a pulled cable shows."""
        if self._pids(node.name):
            self._ask(node.name, "set_link", {"name": vm_argv.device(link), "up": up})

    def shape(self, _node: Node, link: Link, rate_gbps: float | None) -> None:
        """Shape both directions in the lab's namespace, where no reboot of the guest undoes it."""
        for end in vm_cables.senders(link):
            self.namespace.shape(end, rate_gbps)

    def rate_gbps(self, _node: Node, link: Link) -> float | None:
        """Return what is left of the node's sending."""
        return network.shaped_rate_gbps(["tc", "-n", self.namespace.name], vm_cables.senders(link)[1])

    def reset(self, name: str) -> None:
        """Press the reset button: what the guest had not flushed is lost, its QEMU and cables stay."""
        self._ask(name, "system_reset")

    def freeze(self, name: str) -> None:
        """Stop the guest's CPUs."""
        self._ask(name, "stop")

    def thaw(self, name: str) -> None:
        """Let the CPUs go on; a QEMU that was itself stopped as well."""
        for pid in self._pids(name):
            os.kill(pid, signal.SIGCONT)
        self._ask(name, "cont")

    def kill(self, name: str) -> None:
        """Kill QEMU; what the guest had flushed is on its disk."""
        for pid in self._pids(name):
            network.end_process(pid, at_once=True)

    def remove(self, names: list[str]) -> None:
        """Remove VMs: process, cables, folder."""
        for name in names:
            self.kill(name)
            folder = naming.node_dir(self.lab, name)
            position = _record(folder).get("position")
            if isinstance(position, int) and self.namespace.exists():
                vm_cables.remove(self.namespace, position)
            shutil.rmtree(folder, ignore_errors=True)

    def last_output(self, name: str) -> str:
        """Return the end of the console log."""
        log = self._console(name)
        shown = "".join(f"    {line}\n" for line in vm_console.last_lines(log))
        return f"the end of {log}:\n{shown or '    (nothing)'}" if log.exists() else ""

    def watch(self, name: str) -> Callable[[], str]:
        """Look at the console: what an earlier boot left there does not count."""
        log, since_bytes = self._console(name), vm_console.size_bytes(self._console(name))
        return lambda: vm_console.dead_end(vm_console.last_lines(log, since_bytes))

    def _write_seed(self, node: Node, content: Content, links: list[Link]) -> None:
        own = {
            "etc/hostname": (0, 0o644, f"{node.name}\n"),
            **vm_argv.link_files(links),
        }
        path = naming.node_dir(self.lab, node.name) / vm_argv.SEED
        atomic_files.write_bytes(
            str(path), seed.archive({**content, **own})
        )  # for root alone: it holds a private key

    def _console(self, name: str) -> Path:
        return naming.node_dir(self.lab, name) / vm_argv.CONSOLE

    def _power_off(self, name: str) -> None:
        """Press the button, and pull the plug when that does not help."""
        with contextlib.suppress(QmpError):
            self._ask(name, "system_powerdown")
        deadline = time.monotonic() + _POWER_OFF_S
        while time.monotonic() < deadline and self._pids(name):
            time.sleep(0.2)
        self.kill(name)

    def _ask(self, name: str, command: str, arguments: dict[str, object] | None = None) -> None:
        ask(naming.node_dir(self.lab, name) / vm_argv.CONTROL, command, arguments)

    def _processes(self) -> list[tuple[int, vm_argv.Found]]:
        all_of_them = ((pid, vm_argv.recognise(words, self.lab)) for pid, words in command_lines())
        return [(pid, process) for pid, process in all_of_them if process is not None]

    def _pids(self, name: str) -> list[int]:
        return [pid for pid, process in self._processes() if process.node == name]


def _condition(control: Path) -> Condition:
    try:
        answer = ask(control, "query-status")
    except LabError:
        return "hung"
    return "running" if answer.get("running") else "hung"


def _record(folder: Path) -> dict[str, object]:
    return atomic_files.read_json(str(folder / _RECORD)) or {}


def _made_of(folder: Path) -> str:
    """Return what a VM was made of; a half-made one of nothing, so that it is made anew."""
    if not all((folder / name).exists() for name in (vm_argv.DISK, vm_argv.SEED)):
        return ""
    return _describe(_record(folder))


def _make_record(node: Node, image: str) -> dict[str, object]:
    """Return the record of a VM made from an image today."""
    return {"image": image, **{key: getattr(node, key) for key in _OF_NODE}}


def _describe(record: Mapping[str, object]) -> str:
    return json.dumps([record.get(key) for key in ("image", *_OF_NODE)])
