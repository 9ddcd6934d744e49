"""What a VM's console shows of a boot that goes no further, and that nothing waits for such a boot.

The texts are written by hand to what GRUB, initramfs-tools, the kernel and systemd print.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from railyard.lab import naming, topology, wiring
from railyard.lab.nodes import NodeState, vm, vm_console
from railyard.lab.process import LabError

NO_ROOT = """\
Gave up waiting for root file system device.  Common problems:
 - Boot args (cat /proc/cmdline)
ALERT!  /dev/vda does not exist.  Dropping to a shell!
(initramfs) """
PANIC = "[    2.1] ---[ end Kernel panic - not syncing: VFS: Unable to mount root fs ]---\n"
EMERGENCY = """\
You are in emergency mode. After logging in, type "journalctl -xb" to view
system logs, "systemctl reboot" to reboot.

Cannot open access to console, the root account is locked.
See sulogin(8) man page for more details.

Press Enter to continue.
"""
GRUB = "\x1b[2J\x1b[1;1H   Minimal BASH-like line editing is supported.\r\n\r\n\x1b[12;1Hgrub> "


@pytest.mark.parametrize(
    ("said", "stands_at"),
    [
        (NO_ROOT, "(initramfs)"),
        (f"[    2.0] Call Trace:\n{PANIC}", PANIC.strip()),
        (EMERGENCY, EMERGENCY.splitlines()[0]),
        (GRUB, "grub>"),
        ("error: no such device: 1f.\r\nEntering rescue mode...\r\ngrub rescue> ", "grub rescue>"),
        # It goes on: no one has typed, and systemd came after the prompt of a hook.
        ("(initramfs) exit\n[    9.0] systemd[1]: Detected virtualization qemu.\n", ""),
        ("Booting `Debian GNU/Linux'\r\n\r\n", ""),
        ("[    1.0] Linux version 6.1.0-57-amd64\n", ""),
        ("", ""),
    ],
)
def test_a_boot_that_waits_for_a_person_differs_from_one_that_goes_on(
    tmp_path: Path, said: str, stands_at: str
) -> None:
    log = tmp_path / "console.log"
    log.write_text(said, newline="")
    assert vm_console.dead_end(vm_console.last_lines(log)) == stands_at


def test_output_of_an_earlier_boot_counts_as_little_as_a_console_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(naming, "lab_root", lambda: tmp_path)
    kind = vm.VmKind("no-lab-of-anybody")
    log = naming.node_dir("no-lab-of-anybody", "n") / "console.log"
    assert kind.watch("n")() == ""
    assert kind.last_output("n") == ""
    log.parent.mkdir(parents=True)
    log.write_text(PANIC)
    watch = kind.watch("n")
    assert watch() == ""
    with log.open("a") as file:
        file.write("[    1.0] Linux version 6.1.0-57-amd64\n")
    assert watch() == ""
    with log.open("a") as file:
        file.write(NO_ROOT)
    assert watch() == "(initramfs)"
    assert kind.last_output("n").endswith("Dropping to a shell!\n    (initramfs)\n")


def test_of_a_long_log_the_last_lines_are_read(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    log.write_text("".join(f"line {number}\n\n" for number in range(100_000)))
    assert vm_console.last_lines(log) == [f"line {number}" for number in range(99_985, 100_000)]


class Stuck:
    """A kind of node whose boot has come to a prompt."""

    boot_deadline_s = 600.0

    def states(self) -> dict[str, NodeState]:
        return {"gpuserver1": NodeState("running", 11)}

    def watch(self, _name: str) -> Callable[[], str]:
        return lambda: "(initramfs)"

    def last_output(self, _name: str) -> str:
        return "ALERT!  /dev/vda does not exist."


def test_nothing_waits_for_a_boot_that_goes_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring, "_WORD_EVERY_S", 0.0)
    monkeypatch.setattr(wiring, "_ssh_answers", lambda _address: False)
    made = wiring.Lab.from_topology(topology.load(topology.default_file()))
    lab = wiring.Lab(made.topology, made.network, {"vm": Stuck()}, made.keys)
    with pytest.raises(LabError, match=r"gpuserver1 does not come up: .* at '\(initramfs\)'") as caught:
        wiring.await_ready(lab, made.topology.nodes[0], Event())
    assert "/dev/vda does not exist" in str(caught.value)
