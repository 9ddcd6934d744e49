"""Build the command line of a VM's QEMU, and recognize such a QEMU by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from railyard.lab import naming
from railyard.lab.nodes import Link
from railyard.lab.nodes.accelerator import Accelerator
from railyard.lab.topology import Node

PROGRAM = "qemu-system-x86_64"
# Names in the node's folder, which is QEMU's working folder while it starts: no path of this host is in
# an option where a comma would split it.
DISK, SEED, CONSOLE, CONTROL, PID_FILE = "disk.qcow2", "seed.tar", "console.log", "qmp.sock", "qemu.pid"
LOADER = "loader.img"
# `quiet` leaves the kernel's warnings on the console and spares an emulated serial line the rest. There is
# no attacker in an emulated machine, and mitigations cost a third of its speed.
# On a host shared by many an emulated boot takes minutes; a unit that systemd ends after its usual 90 s would
# start over for ever. Held up by its host, a kernel takes the processor's clock for unstable and asks an
# emulated chip instead, under a lock that the cards want too: perftest then cannot learn the clock's rate.
ROOT = "root=/dev/vda"
KERNEL_OPTIONS = (
    "rw console=ttyS0 quiet mitigations=off nokaslr tsc=reliable rcupdate.rcu_expedited=1"
    " systemd.default_timeout_start_sec=600"
)
# Frames arrive as on a wire, none larger than the MTU, each in one buffer. With buffers that are merged QEMU
# before 9.1 waits for ever when the guest is late to offer enough of them for a large packet, and the rail,
# or the way in, is dead.
_FRAMES = "mrg_rxbuf=off,guest_tso4=off,guest_tso6=off,guest_ufo=off,guest_ecn=off"


@dataclass(frozen=True)
class Found:
    """A QEMU that runs a lab's node."""

    node: str
    checkout: str


def tap(link: Link) -> str:
    """Return the tap of a cable: QEMU's end of it."""
    return f"{link.outer}-tap"


def device(link: Link) -> str:
    """Return QEMU's name of a cable, for `set_link`."""
    return f"link-{link.netdev}"


def argv(
    lab: str, node: Node, links: Sequence[Link], image: Path | None, accelerator: Accelerator, folder: Path
) -> list[str]:
    """Return the QEMU call of one node, to be run in `folder` and in the lab's network namespace.

    A reboot from inside boots again (there is no -no-reboot); a power-off ends QEMU.

    Args:
        lab: the lab's name.
        node: the node.
        links: its cables, management first; their taps exist.
        image: the folder of the VM image, whose vmlinuz and initrd every boot takes; None leaves the choice
            to the boot loader in `folder`.
        accelerator: what the guest's CPU is made of.
        folder: the node's folder.
    """
    call = [
        PROGRAM,
        *("-name", naming.on_host(lab, node.name)),
        *("-pidfile", str(folder / PID_FILE)),
        "-daemonize",
        *("-machine", "q35"),
        *("-accel", accelerator.option),
        *("-cpu", accelerator.cpu),
        # QEMU before 10 leaves memory barriers out of a machine that can have only one processor, though the
        # cards are emulated by another thread: now and then a card waits for ever for a word it has missed.
        *("-smp", f"cpus={node.cpus},maxcpus={max(2, node.cpus)}"),
        *("-m", f"{node.memory_mib}M"),
        "-nodefaults",
        *("-display", "none"),
        *("-chardev", f"file,id=console,path={CONSOLE},append=on"),
        *("-serial", "chardev:console"),
        *("-qmp", f"unix:{CONTROL},server=on,wait=off"),
        # In this order the guest finds them: /dev/vda, /dev/vdb. cache=unsafe: what the guest flushes is in
        # this host's page cache, and outlives QEMU, not the host.
        *_disk("disk", f"file={DISK},format=qcow2,cache=unsafe"),
        *_disk("seed", f"file={SEED},format=raw,readonly=on"),
        *("-device", "virtio-rng-pci"),
    ]
    if image is None:
        call += _disk("loader", f"file={LOADER},format=raw,readonly=on", ",bootindex=1")
    else:
        call += ["-kernel", str(image / "vmlinuz"), "-initrd", str(image / "initrd")]
        call += ["-append", f"{ROOT} {KERNEL_OPTIONS} systemd.hostname={node.name}"]
    for link in links:
        name = device(link)
        call += ["-netdev", f"tap,id={name},ifname={tap(link)},script=no,downscript=no,vhost=off"]
        # host_mtu is the largest MTU the guest may set. romfile: there is no boot from this network.
        card = f"virtio-net-pci,netdev={name},id={name}-card,mac={link.mac}"
        call += ["-device", f"{card},host_mtu={link.mtu_bytes},romfile=,{_FRAMES}"]
    return call


def _disk(name: str, drive: str, device: str = "") -> list[str]:
    """Return the options of a disk whose place among the disks is its place among the options.

    What `-drive if=virtio` makes comes after each `-device`, at any position: the boot loader's disk was
    /dev/vda for the guest, which waited for a root file system there.
    """
    return ["-drive", f"if=none,id={name},{drive}", "-device", f"virtio-blk-pci,drive={name}{device}"]


def recognise(command_line: bytes, lab: str) -> Found | None:
    """Return whose QEMU a process is by its /proc/PID/cmdline, or None if it is none of this lab's."""
    words = command_line.decode(errors="replace").split("\0")
    if Path(words[0]).name != PROGRAM:
        return None
    options = {words[i]: words[i + 1] for i in range(1, len(words) - 1)}
    prefix = naming.on_host(lab, "")
    name, pid_file = options.get("-name", ""), Path(options.get("-pidfile", "/"))
    if not name.startswith(prefix) or len(pid_file.parents) < 5:
        return None
    # CHECKOUT/.lab/LAB/nodes/NODE/qemu.pid
    return Found(name.removeprefix(prefix), str(pid_file.parents[4]))


def link_files(links: Sequence[Link]) -> dict[str, tuple[int, int, str]]:
    """Return systemd's .link files that name the node's netdevs by MAC, as a machine's firmware would.

    They sort after netplan's own (10-netplan-*), which on a real node are the first that match. The MTU is
    what a real NIC starts with; without it a rail would start with the largest that QEMU offers.
    """
    files = {}
    for link in links:
        text = f"[Match]\nDriver=virtio_net\nMACAddress={link.mac}\n\n"
        text += f"[Link]\nName={link.netdev}\nMTUBytes=1500\n"
        files[f"etc/systemd/network/90-railyard-{link.netdev}.link"] = (0, 0o644, text)
    return files
