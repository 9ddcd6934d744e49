"""What containers are made from: a podman image, named by its recipe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from railyard.lab import bootstrap, naming
from railyard.lab.apt import AptSettings
from railyard.lab.host import Host
from railyard.lab.process import run
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
    *bootstrap.COMMON_FILES,
    ("/etc/systemd/system/systemd-udev-trigger.service.d/railyard-lab.conf", 0o644, _UDEV_TRIGGER),
    (ENTRY_POINT, 0o755, _ENTRY),
)
_SETUP = (*bootstrap.COMMON_SETUP, 'chroot "$1" systemctl mask ' + " ".join(_MASKED_UNITS))


def recipe(image: Image, settings: AptSettings) -> bootstrap.Recipe:
    """Return what the image is made of."""
    return bootstrap.Recipe(image.suite, image.packages, settings, _FILES, _SETUP)


def tag(image: Image, settings: AptSettings) -> str:
    """Return the image's name, whose last part is the hash of its recipe."""
    return f"{_REPOSITORY}:{image.suite}-{recipe(image, settings).digest()}"


def ensure(host: Host, image: Image, settings: AptSettings, say: Callable[[str], None]) -> str:
    """Return the image's name, building it first when podman does not have it; see `bootstrap.ensure`."""
    name = tag(image, settings)

    def is_there() -> bool:
        return run(host.podman("image", "exists", name), check=False).returncode == 0

    def build(workshop: Path) -> None:
        tar = workshop / "node.tar"
        bootstrap.make(recipe(image, settings), "tar", tar, workshop, say)
        say("importing the image into podman")
        label = f"LABEL {naming.LABEL_RECIPE}={name}"
        run(
            host.podman("import", "--change", label, str(tar), name),
            timeout_s=600,
            environment={"TMPDIR": str(workshop)},  # what a killed import leaves goes with the workshop
        )

    word = f"building the containers' image ({image.suite}, once; about a minute)"
    return bootstrap.ensure(name, is_there, build, word, say)


def remove_unused(host: Host) -> list[str]:
    """Remove the images that labs have built and no node is made of; return the names of those removed."""
    listing = run(host.podman("images", "--format", "{{.Repository}}:{{.Tag}}", "--noheading")).stdout.split()
    names = [name for name in listing if name.startswith(f"{_REPOSITORY}:")]
    return [name for name in names if run(host.podman("rmi", name), check=False).returncode == 0]
