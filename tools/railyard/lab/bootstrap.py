"""Root file systems of Debian and Ubuntu by mmdebstrap: what one is made of, and its making, one at a time.

What kind of image becomes of it (podman's, a disk) is the business of `nodes/`.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from ansible_collections.railyard.fabric.plugins.module_utils import owner_lock

from railyard.lab import apt, naming
from railyard.lab.apt import AptSettings
from railyard.lab.process import LabError, tied

SSHD = """\
# Every exec request shows in the journal, where the tests count them.
LogLevel VERBOSE
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin no
UseDNS no
"""
# What each node has, whatever it is made of: path, mode, text.
COMMON_FILES: tuple[tuple[str, int, str], ...] = (
    ("/etc/ssh/sshd_config.d/10-railyard-lab.conf", 0o644, SSHD),
    ("/etc/sudoers.d/railyard", 0o440, "railyard ALL=(ALL) NOPASSWD: ALL\n"),
    ("/etc/default/locale", 0o644, "LANG=C.UTF-8\n"),  # sudo and sshd ask for it at each login
)
# Hooks of mmdebstrap: shell, with the new root as $1.
COMMON_SETUP = (
    'chroot "$1" useradd --uid 1000 --create-home --shell /bin/bash railyard',
    # The package makes host keys; a node gets its own, known to the controller.
    'rm -f "$1"/etc/ssh/ssh_host_*',
    'chroot "$1" systemctl enable systemd-networkd.service ssh.service',
    'chroot "$1" update-ca-certificates',
)
_LOCK = ".image.lock"
# Several builds, one behind the other, where the nodes of each are emulated.
_LOCK_PATIENCE_S = 2 * 3600.0
# mmdebstrap waits for its children when it is stopped. As process 1 of a namespace it ends them, and its
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


@dataclass(frozen=True)
class Recipe:
    """Everything that a root file system is made of; the same recipe, the same image.

    Attributes:
        suite, packages, settings: the distribution's part, and the way to it.
        files: path, mode and text of files laid over the packages.
        early_files: the same, written before any package except the essential ones.
        setup: hooks of mmdebstrap, shell with the new root as $1, run at the end.
        options: further options of mmdebstrap.
    """

    suite: str
    packages: tuple[str, ...]
    settings: AptSettings
    files: tuple[tuple[str, int, str], ...]
    setup: tuple[str, ...]
    early_files: tuple[tuple[str, int, str], ...] = ()
    options: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the recipe as one text, certificates by their hashes."""
        content = asdict(self)
        content["settings"]["certificates"] = [
            (name, hashlib.sha256(data).hexdigest()) for name, data in self.settings.certificates
        ]
        return json.dumps(content, sort_keys=True)

    def digest(self) -> str:
        """Return 16 hexadecimal digits that stand for the recipe."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:16]


def argv(recipe: Recipe, form: Literal["tar", "directory"], target: Path, staging: Path) -> list[str]:
    """Return the mmdebstrap call that makes `target`; `staging` holds what `stage` left."""
    call = [
        *_OWN_NAMESPACES,
        "mmdebstrap",
        "--variant=minbase",
        f"--format={form}",
        f"--include={','.join(recipe.packages)}",
        # Half of the time went into fsync. It stays in force on the node, whose disk is a lab's.
        "--dpkgopt=force-unsafe-io",
    ]
    call.extend(apt.key_options(recipe.suite))
    if not recipe.settings.sources:
        call.append(f"--components={recipe.settings.components.replace(' ', ',')}")
    call.extend(recipe.options)
    call.extend(f"--aptopt={option}" for option in recipe.settings.options)
    # mmdebstrap hands a hook to `sh -c`, with the new root as $1; what varies is quoted.
    if recipe.early_files:
        call.append(f'--essential-hook=cp -a {shlex.quote(str(staging / "early"))}/. "$1"/')
    # Removed first: a file may replace a link of the suite (Debian 13: /etc/default/locale).
    late = shlex.quote(str(staging / "late"))
    call.append(f'--customize-hook=cp -a --remove-destination {late}/. "$1"/')
    call.extend(f"--customize-hook={hook}" for hook in recipe.setup)
    return [*call, recipe.suite, str(target), *recipe.settings.sources]


def make(
    recipe: Recipe,
    form: Literal["tar", "directory"],
    target: Path,
    workshop: Path,
    say: Callable[[str], None],
) -> None:
    """Make a root file system at `target` (a tar or a folder), with `workshop` for all that is passing.

    Raises:
        LabError: the bootstrap failed; the message has the end of mmdebstrap's output.
    """
    staging = workshop / "files"
    for path, mode, text in recipe.early_files:
        _put(staging / "early", path, mode, text.encode())
    for path, mode, text in recipe.files:
        _put(staging / "late", path, mode, text.encode())
    for name, data in recipe.settings.certificates:
        _put(staging / "late", f"/usr/local/share/ca-certificates/{name}", 0o644, data)
    _run(argv(recipe, form, target, staging), workshop, say)


def ensure(
    name: str,
    is_there: Callable[[], bool],
    build: Callable[[Path], None],
    word: str,
    say: Callable[[str], None],
) -> str:
    """Return the name of an image, building it first where it is not there.

    Args:
        name: the image's name.
        is_there: tells whether there is one.
        build: makes it, in the empty folder that it is given.
        word: what to say before.
        say: takes it.

    Raises:
        LabError: the bootstrap failed; the message has the end of the output.
    """
    if is_there():
        return name
    with building() as workshop:
        if is_there():  # somebody else was quicker
            return name
        say(word)
        started = time.monotonic()
        build(workshop)
        say(f"image ready after {time.monotonic() - started:.0f} s")
    return name


@contextmanager
def building() -> Iterator[Path]:
    """Yield an empty folder for one build at a time; leftovers of a killed build are removed first."""
    workshop = naming.lab_root() / ".image"
    with ExitStack() as held:
        try:
            held.enter_context(_locked(_LOCK_PATIENCE_S))
        except owner_lock.LockedError as error:
            raise LabError(
                f"another image is being built: {error}",
                "wait until it is ready, or end that process",
            ) from None
        shutil.rmtree(workshop, ignore_errors=True)
        try:
            # mmdebstrap gives the root to _apt's user for downloads: the way there has to be passable.
            workshop.mkdir(mode=0o755)
            yield workshop
        finally:
            shutil.rmtree(workshop, ignore_errors=True)


def clean_up() -> None:
    """Remove what a killed build left, unless somebody builds at this moment."""
    workshop = naming.lab_root() / ".image"
    if workshop.exists():
        with suppress(owner_lock.LockedError), _locked(patience_s=0):
            shutil.rmtree(workshop, ignore_errors=True)


def _locked(patience_s: float) -> AbstractContextManager[int]:
    naming.lab_root().mkdir(parents=True, exist_ok=True)
    return owner_lock.held(naming.lab_root() / _LOCK, patience_s)


def _put(staging: Path, path: str, mode: int, data: bytes) -> None:
    target = staging / path.lstrip("/")
    # `cp -a staging/.` also carries the folders' modes into the image.
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    target.write_bytes(data)
    target.chmod(mode)


def _run(call: list[str], workshop: Path, say: Callable[[str], None]) -> None:
    lines: list[str] = []
    with tied(call, {"TMPDIR": str(workshop)}) as process:
        for raw in process.stderr or ():
            line = raw.decode(errors="replace").rstrip()
            lines.append(line)
            if line.startswith("I: ") and line.endswith("..."):
                say(f"  {line[3:].strip()}")
    if process.returncode != 0:
        tail = "\n    ".join(lines[-15:])
        raise LabError(
            f"mmdebstrap could not build the node image (exit status {process.returncode}):\n    {tail}",
            "see whether `apt-get update` works on this host: the image uses the same mirror and proxies",
        )
