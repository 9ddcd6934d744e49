"""What this machine is and allows, found by probing; nothing here changes it."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from railyard.lab.process import LabError

# Program → Debian/Ubuntu package that has it.
NEEDED = {
    "mmdebstrap": "mmdebstrap",
    "slirp4netns": "slirp4netns",
    "ip": "iproute2",
    "tc": "iproute2",
    "iptables": "iptables",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}
# The same, for labs with nodes of one type.
NEEDED_BY_KIND = {
    "container": {"podman": "podman", "crun": "crun"},
    "vm": {"qemu-system-x86_64": "qemu-system-x86", "qemu-img": "qemu-utils", "mke2fs": "e2fsprogs"},
}
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_NOFILE_WANTED = 1_048_576
_NPROC_WANTED = 8192
# Mounts a fresh cgroup2 where the host's is a mixture that podman refuses; the host's own mounts stay as they
# are, since the shell runs in a mount namespace of its own. "$@" is podman and its arguments.
_FRESH_CGROUP2 = (
    "unshare",
    "--mount",
    "--propagation",
    "private",
    "sh",
    "-c",
    'umount -R /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec "$@"',
    "sh",
)


@dataclass(frozen=True)
class Host:
    """What was found.

    Attributes:
        hybrid_cgroups: /sys/fs/cgroup is not a plain cgroup2 mount.
        systemd: systemd runs this host, so podman may ask it for scopes.
        nofile, nproc, memlock_bytes: limits a node may have; -1 is unlimited.
    """

    hybrid_cgroups: bool
    systemd: bool
    nofile: int
    nproc: int
    memlock_bytes: int

    def podman(self, *arguments: str) -> list[str]:
        """Return the argv that runs podman here, in a private mount namespace where the host asks for one."""
        argv = ["podman"]
        if not self.systemd:
            argv.append("--cgroup-manager=cgroupfs")
        argv.extend(arguments)
        return [*_FRESH_CGROUP2, *argv] if self.hybrid_cgroups else argv


def probe() -> Host:
    """Look at this machine; `limits` follow the hard limits of the caller, which a container cannot raise."""
    return Host(
        hybrid_cgroups=not Path("/sys/fs/cgroup/cgroup.controllers").exists(),
        systemd=Path("/run/systemd/system").is_dir(),
        nofile=_bounded(resource.RLIMIT_NOFILE, _NOFILE_WANTED),
        nproc=_bounded(resource.RLIMIT_NPROC, _NPROC_WANTED),
        memlock_bytes=_bounded(resource.RLIMIT_MEMLOCK, None),
    )


def _bounded(kind: int, wanted: int | None) -> int:
    hard = resource.getrlimit(kind)[1]
    if hard == resource.RLIM_INFINITY:
        return -1 if wanted is None else wanted
    return hard if wanted is None else min(hard, wanted)


#: All containers are root's, which has so many. systemd and its services took 118 in 16 containers.
_INSTANCES, _INSTANCES_EACH = Path("/proc/sys/fs/inotify/max_user_instances"), 8


def missing_packages(kinds: Iterable[str]) -> list[str]:
    """Return the Debian packages that nodes of these kinds still need."""
    search = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    needed = dict(NEEDED)
    for kind in kinds:
        needed.update(NEEDED_BY_KIND[kind])
    missing = sorted({package for tool, package in needed.items() if shutil.which(tool, path=search) is None})
    if not _KEYRING.exists():  # Ubuntu has it as a package
        missing.append("debian-archive-keyring")
    return missing


def require_tools(kinds: Iterable[str]) -> None:
    """Raise LabError with the one command that installs what nodes of these kinds still need."""
    missing = missing_packages(kinds)
    if missing:
        raise LabError(
            f"programs are missing that the lab needs (packages {', '.join(missing)})",
            f"sudo apt-get update && sudo apt-get install --no-install-recommends {' '.join(missing)}",
        )


def require_room(containers: int) -> None:
    """Raise LabError where the kernel has no room for so many containers' systemd."""
    try:
        most = int(_INSTANCES.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return
    wanted = _INSTANCES_EACH * containers
    if wanted > most:
        raise LabError(
            f"{containers} containers need some {wanted} inotify instances, and this host allows {most}",
            f"sudo sysctl -w fs.inotify.max_user_instances={2 * wanted}",
        )


def become_root(arguments: Sequence[str]) -> None:
    """Start this lab command again through sudo unless we are root already; does not return then.

    Args:
        arguments: what follows `railyard lab` on the command line.
    """
    # sbin holds ip, tc and iptables, and is not on every user's PATH.
    os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
    if os.geteuid() == 0:
        return
    again = [sys.executable, "-m", "railyard.lab.cli", *arguments]
    if shutil.which("sudo") is None:
        raise LabError(
            "the lab makes namespaces and links, which only root may", f"as root: {' '.join(again)}"
        )
    ask = [] if sys.stdin.isatty() else ["--non-interactive"]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvp("sudo", ["sudo", *ask, "--", *again])  # noqa: S606 - a shell is what we do not want


def give_to_caller(*paths: Path) -> None:
    """Let the person who called sudo own these files: ansible-playbook, run without sudo, reads the key."""
    uid, gid = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
    if os.geteuid() != 0 or not uid or not gid:
        return
    for path in paths:
        os.chown(path, int(uid), int(gid), follow_symlinks=False)
