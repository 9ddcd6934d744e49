"""The nodes' root file system: made once by mmdebstrap, kept as a podman image named by its recipe."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from railyard.lab import naming
from railyard.lab.apt import AptSettings
from railyard.lab.host import Host
from railyard.lab.process import LabError, die_with_parent, run
from railyard.lab.topology import Image

_REPOSITORY = "localhost/railyard-lab-node"
# Units that would reach out of a privileged container: the host's consoles, binary formats, debug file
# systems.
_MASKED_UNITS = (
    "console-getty.service",
    "dev-hugepages.mount",
    "getty.target",
    "proc-sys-fs-binfmt_misc.automount",
    "proc-sys-fs-binfmt_misc.mount",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-binfmt.service",
    "systemd-hwdb-update.service",
    "systemd-modules-load.service",
    "systemd-rfkill.service",
    "systemd-rfkill.socket",
)
_SSHD = """\
# Every exec request shows in the journal, where the tests count them.
LogLevel VERBOSE
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin no
UseDNS no
"""
# Coldplugging "all devices" from here would make the host's udev handle all of its hardware again: kernel
# events of anything but network devices go to every namespace.
_UDEV_TRIGGER = """\
[Service]
ExecStart=
ExecStart=-/bin/udevadm trigger --type=devices --subsystem-match=net --action=add
"""
# The entry point drops what would reach the host's kernel (podman 4 ignores --cap-drop beside --privileged).
_ENTRY = """\
#!/bin/sh
drop=-sys_module,-sys_rawio,-sys_time
exec setpriv --inh-caps "$drop" --bounding-set "$drop" /sbin/init
"""
ENTRY_POINT = "/usr/local/sbin/railyard-lab-init"
_FILES: tuple[tuple[str, int, str], ...] = (
    ("/etc/ssh/sshd_config.d/10-railyard-lab.conf", 0o644, _SSHD),
    ("/etc/systemd/system/systemd-udev-trigger.service.d/railyard-lab.conf", 0o644, _UDEV_TRIGGER),
    ("/etc/sudoers.d/railyard", 0o440, "railyard ALL=(ALL) NOPASSWD: ALL\n"),
    ("/etc/default/locale", 0o644, "LANG=C.UTF-8\n"),  # sudo and sshd ask for it at each login
    (ENTRY_POINT, 0o755, _ENTRY),
)
# mmdebstrap, told to stop, waits for its children. As process 1 of a namespace it takes them with it, and its
# mounts are gone before we remove the folder that they are in.
_OWN_NAMESPACES = (
    "unshare",
    "--mount",
    "--propagation=private",
    "--pid",
    "--fork",
    "--kill-child=SIGKILL",
    "--mount-proc",
)
# Hooks of mmdebstrap: shell, with the new root as $1.
_SETUP = (
    'chroot "$1" useradd --uid 1000 --create-home --shell /bin/bash railyard',
    # The package makes host keys; a node gets its own, known to the controller.
    'rm -f "$1"/etc/ssh/ssh_host_*',
    'chroot "$1" systemctl enable systemd-networkd.service ssh.service',
    'chroot "$1" systemctl mask ' + " ".join(_MASKED_UNITS),
    'chroot "$1" update-ca-certificates',
)


def recipe(image: Image, settings: AptSettings) -> str:
    """Return everything that the image is made of, as one text; the same text, the same image."""
    return json.dumps(
        {
            "suite": image.suite,
            "packages": image.packages,
            "sources": settings.sources,
            "options": settings.options,
            "certificates": [
                (name, hashlib.sha256(data).hexdigest()) for name, data in settings.certificates
            ],
            "files": _FILES,
            "setup": _SETUP,
        },
        sort_keys=True,
    )


def tag(image: Image, settings: AptSettings) -> str:
    """Return the image's name, whose last part is the hash of its recipe."""
    digest = hashlib.sha256(recipe(image, settings).encode()).hexdigest()
    return f"{_REPOSITORY}:{image.suite}-{digest[:16]}"


def bootstrap_argv(image: Image, settings: AptSettings, target: Path, staging: Path) -> list[str]:
    """Return the mmdebstrap call; `staging` holds the files of `_stage` and `target` becomes a tar."""
    argv = [
        *_OWN_NAMESPACES,
        "mmdebstrap",
        "--variant=minbase",
        "--format=tar",
        f"--include={','.join(image.packages)}",
    ]
    argv.extend(f"--aptopt={option}" for option in settings.options)
    # mmdebstrap hands a hook to `sh -c`, with the new root as $1; what varies is quoted.
    # Removed first: a file of ours may stand where a suite has a link (Debian 13: /etc/default/locale).
    argv.append(f'--customize-hook=cp -a --remove-destination {shlex.quote(str(staging))}/. "$1"/')
    argv.extend(f"--customize-hook={hook}" for hook in _SETUP)
    return [*argv, image.suite, str(target), *settings.sources]


def ensure(host: Host, image: Image, settings: AptSettings, say: Callable[[str], None]) -> str:
    """Return the image's name, building it first when podman does not have it.

    Raises:
        LabError: the bootstrap failed; the message holds the end of what mmdebstrap said.
    """
    name = tag(image, settings)
    if _exists(host, name):
        return name
    with _building() as workshop:
        if _exists(host, name):  # somebody else was quicker
            return name
        say(f"building the node image ({image.suite}, once; about a minute)")
        started = time.monotonic()
        tar = workshop / "node.tar"
        _stage(settings, workshop / "files")
        _bootstrap(bootstrap_argv(image, settings, tar, workshop / "files"), workshop, say)
        say("importing the image into podman")
        run(
            host.podman("import", "--change", f"LABEL {naming.LABEL_RECIPE}={name}", str(tar), name),
            timeout_s=600,
            environment={"TMPDIR": str(workshop)},  # what a killed import leaves goes with the workshop
        )
        say(f"image ready after {time.monotonic() - started:.0f} s")
    return name


def remove_unused(host: Host) -> list[str]:
    """Remove the images that labs have built and no node is made of; return the names of those removed."""
    listing = run(host.podman("images", "--format", "{{.Repository}}:{{.Tag}}", "--noheading")).stdout.split()
    names = [name for name in listing if name.startswith(f"{_REPOSITORY}:")]
    return [name for name in names if run(host.podman("rmi", name), check=False).returncode == 0]


def clean_up() -> None:
    """Remove what a killed build left, unless somebody builds at this moment."""
    root = naming.lab_root()
    if not (root / ".image").exists():
        return
    handle = os.open(root / ".image.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(root / ".image", ignore_errors=True)
    except BlockingIOError:
        pass
    finally:
        os.close(handle)


def _exists(host: Host, name: str) -> bool:
    return run(host.podman("image", "exists", name), check=False).returncode == 0


@contextmanager
def _building() -> Iterator[Path]:
    """Yield an empty folder to build in, while nobody else builds; what a killed build left goes first."""
    root = naming.lab_root()
    root.mkdir(parents=True, exist_ok=True)
    handle = os.open(root / ".image.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    workshop = root / ".image"
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        shutil.rmtree(workshop, ignore_errors=True)
        # mmdebstrap gives the root to _apt's user for downloads: the way there has to be passable.
        workshop.mkdir(mode=0o755)
        yield workshop
    finally:
        shutil.rmtree(workshop, ignore_errors=True)
        os.close(handle)


def _stage(settings: AptSettings, staging: Path) -> None:
    for path, mode, text in _FILES:
        _put(staging, path, mode, text.encode())
    for name, data in settings.certificates:
        _put(staging, f"/usr/local/share/ca-certificates/{name}", 0o644, data)


def _put(staging: Path, path: str, mode: int, data: bytes) -> None:
    target = staging / path.lstrip("/")
    # `cp -a staging/.` also carries the folders' modes into the image.
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    target.write_bytes(data)
    target.chmod(mode)


def _bootstrap(argv: list[str], workshop: Path, say: Callable[[str], None]) -> None:
    environment = os.environ | {"TMPDIR": str(workshop)}
    lines: list[str] = []
    with subprocess.Popen(
        argv,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
        start_new_session=True,
        preexec_fn=die_with_parent,
    ) as process:
        try:
            for line in process.stderr or ():
                lines.append(line.rstrip())
                if line.startswith("I: ") and line.rstrip().endswith("..."):
                    say(f"  {line[3:].strip()}")
        except BaseException:
            process.kill()
            if process.stderr is not None:
                process.stderr.read()  # ends when the last of them has gone
            raise
    if process.returncode != 0:
        tail = "\n    ".join(line for line in lines[-15:])
        raise LabError(
            f"mmdebstrap could not build the node image (exit status {process.returncode}):\n    {tail}",
            "see whether `apt-get update` works on this host: the image uses the same mirror and proxies",
        )
