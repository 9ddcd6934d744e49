"""KVM or emulation: decided by starting a guest, since /dev/kvm alone proves nothing.

A paravirtual or half-working KVM takes a stock kernel and hangs in it. So the nodes' own kernel is started
with KVM for some seconds, without a disk: it has to come to the point where it looks for one.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils.atomic_files import read_json, write_file

from railyard.lab import naming
from railyard.lab.process import LabError, run, tied

_PROGRAM = "qemu-system-x86_64"
_DEVICE = Path("/dev/kvm")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# The kernel's last words when all of its own start is done and there is no root file system.
_ALIVE = "Unable to mount root fs"
_FIRST_SIGN_S = 4.0
_DEADLINE_S = 15.0
_WORDS = 100  # characters of a message that are quoted


@dataclass(frozen=True)
class Accelerator:
    """What runs a guest's instructions, and why this one."""

    name: str
    why: str

    @property
    def option(self) -> str:
        """QEMU's -accel."""
        return "kvm" if self.name == "kvm" else "tcg,thread=multi"

    @property
    def cpu(self) -> str:
        """QEMU's -cpu; emulated, the plainest is the quickest: libraries then use no vector instructions."""
        return "host" if self.name == "kvm" else "qemu64"

    def __str__(self) -> str:
        return "KVM" if self.name == "kvm" else f"emulation (TCG): {self.why}"


def choose(kernel: Path, say: Callable[[str], None] | None = None) -> Accelerator:
    """Return KVM if a guest with this kernel starts with it on this host, else TCG.

    The answer is kept in `.lab` for this boot of the host, this kernel and this QEMU.
    """
    if not _DEVICE.exists():
        return Accelerator("tcg", "there is no /dev/kvm")
    version = (run([_PROGRAM, "--version"]).stdout.splitlines() or ["unknown"])[0]
    key = {"boot_id": _BOOT_ID.read_text(encoding="ascii").strip(), "kernel": str(kernel), "qemu": version}
    memory = naming.lab_root() / ".accelerator.json"
    known = recall(memory, key)
    if known is not None:
        return known
    if say is not None:
        say("trying whether a guest starts with KVM here (once per boot of this machine)")
    found = decide(*_try_kvm(kernel))
    write_file(str(memory), json.dumps({"key": key, **asdict(found)}), 0o644)
    return found


def recall(memory: Path, key: dict[str, str]) -> Accelerator | None:
    """Return the answer that was found before under the same circumstances."""
    data = read_json(str(memory)) or {}
    if data.get("key") == key and data.get("name") in ("kvm", "tcg"):
        return Accelerator(data["name"], str(data.get("why")))
    return None


def decide(console: str, complaint: str) -> Accelerator:
    """Judge a trial start with KVM.

    Args:
        console: what the guest wrote to its serial console.
        complaint: what QEMU itself wrote.
    """
    if _ALIVE in console:
        return Accelerator("kvm", "a guest starts with it")
    if complaint.strip():
        last = complaint.strip().splitlines()[-1].removeprefix(f"{_PROGRAM}: ")
        return Accelerator("tcg", f"QEMU cannot use /dev/kvm ({last[:_WORDS]})")
    if console.strip():
        last = console.strip().splitlines()[-1].strip()
        return Accelerator("tcg", f"a guest hangs with the KVM of this machine, after: {last[:_WORDS]}")
    return Accelerator("tcg", "/dev/kvm is there, but a guest shows no life with it")


def _try_kvm(kernel: Path) -> tuple[str, str]:
    """Start the kernel with KVM and nothing else; return its console and QEMU's complaints."""
    call = [_PROGRAM, "-machine", "q35", "-accel", "kvm", "-cpu", "host", "-m", "256M", "-nodefaults"]
    call += ["-display", "none", "-no-reboot", "-kernel", str(kernel), "-serial", "stdio"]
    call += ["-append", "console=ttyS0 earlyprintk=serial,ttyS0,115200 panic=-1"]
    console = b""
    with tied(call, stdout=subprocess.PIPE) as process:
        try:
            if process.stdout is None or process.stderr is None:
                raise LabError("a requested pipe is missing")
            os.set_blocking(process.stdout.fileno(), False)
            began = time.monotonic()
            while process.poll() is None:
                console += process.stdout.read() or b""
                waited_s = time.monotonic() - began
                if _ALIVE.encode() in console or waited_s > (_DEADLINE_S if console else _FIRST_SIGN_S):
                    break
                time.sleep(0.1)
            console += process.stdout.read() or b""
        finally:
            process.kill()
        complaint = process.stderr.read().decode(errors="replace")
    return console.decode(errors="replace"), complaint
