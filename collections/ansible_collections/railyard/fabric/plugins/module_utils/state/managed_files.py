# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a role on a node: which of them differ from what is wanted, and what to remove.

`root` is `/` on a node and a folder in the tests. The files belong to who writes them, root on a node.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
import typing as t

from .. import atomic_files

#: Ansible shows a diff of files up to this size (`max_diff_size` in its configuration).
MAX_DIFF_BYTES = 104448
_MODE = re.compile(r"0?[0-7]{3}\Z")


class ManagedFilesError(Exception):
    """Files that cannot be managed; the message says which, and what to do."""


class Present(t.NamedTuple):
    """A regular file as it is on the node."""

    data: bytes
    mode: int
    owner: tuple[int, int]


class Plan(t.NamedTuple):
    """What to write and to remove, in this order, and the regular files that are there now, by path."""

    write: list[atomic_files.NewFile]
    remove: list[str]
    present: dict[str, Present]


def parse_mode(path: str, mode: str) -> int:
    """Return a mode as a number.

    Raises:
        ManagedFilesError: It is not written in octal digits.
    """
    if not _MODE.match(mode):
        raise ManagedFilesError(f"{path}: mode {mode!r} is no file mode. Fix: write it as '0644', in quotes")
    return int(mode, 8)


def place(root: str, path: str) -> str:
    """Return where a path of the node is.

    Raises:
        ManagedFilesError: It is not absolute, or leads elsewhere.
    """
    if path != os.path.normpath(path) or not path.startswith("/") or path == "/":
        raise ManagedFilesError(f"{path!r} is not the path of a file. Fix: write an absolute path without ..")
    return os.path.join(root, path.lstrip("/"))


def look(root: str, path: str) -> Present | None:
    """Read a regular file; None where there is none: a link is not followed, and is replaced by a file.

    Raises:
        ManagedFilesError: A folder, a device or the like is there.
    """
    where = place(root, path)
    try:
        status = os.lstat(where)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(status.st_mode):
        return None
    if not stat.S_ISREG(status.st_mode):
        raise ManagedFilesError(f"{path} is not a file. Fix: move it aside, then run again")
    with open(where, "rb") as handle:
        data = handle.read()
    return Present(data, stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid))


def files_below(root: str, folder: str) -> list[str]:
    """Return all files and links below a folder, sorted; none where there is no such folder.

    Raises:
        ManagedFilesError: It is not absolute.
    """
    where = place(root, folder.rstrip("/"))
    found = [os.path.join(parent, name) for parent, _folders, names in os.walk(where) for name in names]
    return sorted(f"{folder.rstrip('/')}/{os.path.relpath(path, where)}" for path in found)


def make_plan(root: str, wanted: t.Sequence[atomic_files.NewFile], unwanted: t.Iterable[str]) -> Plan:
    """Compare the node with what is wanted.

    Args:
        root: Where the node's files are.
        wanted: The files that are to be there, with this content, mode and owner.
        unwanted: Paths of files that are not to be there; one that is wanted as well stays.

    Raises:
        ManagedFilesError: A path is wanted twice, is not absolute, or is that of a folder or a device.
    """
    paths = [file.path for file in wanted]
    twice = sorted({path for path in paths if paths.count(path) > 1})
    if twice:
        raise ManagedFilesError(f"{twice[0]} is in `files` twice. Fix: name each file once")
    present = {}
    for path in dict.fromkeys([*paths, *unwanted]):
        found = look(root, path)
        if found is not None:
            present[path] = found
    write = [
        file for file in wanted if present.get(file.path) != Present(file.data, file.mode, _ids_of(file))
    ]
    remove = [path for path in dict.fromkeys(unwanted) if path in present and path not in paths]
    return Plan(write, remove, present)


def own_ids() -> tuple[int, int]:
    """Return the user and group that the files belong to: root's, save in tests."""
    return (0, 0) if os.geteuid() == 0 else (os.geteuid(), os.getegid())


def _ids_of(file: atomic_files.NewFile) -> tuple[int, int]:
    user, group = own_ids()
    return user, group if file.gid is None else file.gid


@contextlib.contextmanager
def copy_as_planned(root: str, plan: Plan, folder: str) -> t.Iterator[str | None]:
    """Make a copy of a folder as it will be, for as long as the block runs; None where it does not change.

    Programs that check a configuration look there before the first file is replaced.

    Raises:
        ManagedFilesError: The folder is not absolute.
        OSError: It cannot be copied.
    """
    inside = folder.rstrip("/") + "/"
    changes = [file for file in plan.write if file.path.startswith(inside)]
    gone = [path for path in plan.remove if path.startswith(inside)]
    if not changes and not gone:
        yield None
        return
    # Only root can enter it: there may be passwords in these files.
    with tempfile.TemporaryDirectory(prefix="railyard-check-") as made:
        copy = os.path.join(made, os.path.basename(folder.rstrip("/")))
        where = place(root, folder.rstrip("/"))
        if os.path.isdir(where):
            shutil.copytree(where, copy, symlinks=True)
        for path in gone:
            os.remove(os.path.join(copy, path[len(inside) :]))
        for file in changes:
            target = os.path.join(copy, file.path[len(inside) :])
            os.makedirs(os.path.dirname(target), exist_ok=True)
            # A link at this place is replaced, as `apply` does.
            with contextlib.suppress(FileNotFoundError):
                os.remove(target)
            with open(target, "wb") as handle:
                handle.write(file.data)
        yield copy


def apply(root: str, plan: Plan) -> None:
    """Write and remove files. Nothing is replaced before all new files are on disk.

    Raises:
        OSError: Its `filename` is the file that could not be written or removed.
    """
    for file in plan.write:
        make_folders(root, file.path)
    atomic_files.write_together(
        [file._replace(path=place(root, file.path)) for file in plan.write], own_ids()
    )
    for path in plan.remove:
        os.remove(place(root, path))
        atomic_files.sync_folder(os.path.dirname(place(root, path)))


def make_folders(root: str, path: str) -> None:
    """Make the missing folders above a file with mode 0755, whatever the umask; others stay as they are."""
    folder = os.path.dirname(place(root, path))
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for one in reversed(missing):
        os.mkdir(one)
        os.chmod(one, 0o755)  # noqa: S103 - as folders of /etc are


def make_diff(plan: Plan) -> list[dict[str, str]]:
    """Return what changes, an entry for each file, as Ansible shows it; another one for mode and owner.

    The content of a file that not everyone may read is a secret, and not shown.
    """
    entries = []
    for file in plan.write:
        before = plan.present.get(file.path)
        if before is None or before.data != file.data:
            is_secret = _is_secret(file.mode) or (before is not None and _is_secret(before.mode))
            entries.append(_diff_content(file.path, before and before.data, file.data, is_secret))
        ids = _ids_of(file)
        if before is not None and (before.mode, before.owner) != (file.mode, ids):
            headers = dict.fromkeys(("before_header", "after_header"), f"{file.path} (mode and owner)")
            states = {"before": _describe(before.mode, before.owner), "after": _describe(file.mode, ids)}
            entries.append({**headers, **states})
    for path in plan.remove:
        gone = plan.present[path]
        entries.append(_diff_content(path, gone.data, None, _is_secret(gone.mode)))
    return entries


def _is_secret(mode: int) -> bool:
    return not mode & stat.S_IROTH


def _describe(mode: int, owner: tuple[int, int]) -> str:
    return f"mode {mode:04o}, uid {owner[0]}, gid {owner[1]}\n"


def _diff_content(path: str, before: bytes | None, after: bytes | None, is_secret: bool) -> dict[str, str]:
    headers = {
        "before_header": path if before is not None else f"{path} (absent)",
        "after_header": path if after is not None else f"{path} (absent)",
    }
    if is_secret:
        return {**headers, "prepared": f"{path}: not everyone may read it, so it is not shown\n"}
    for side in (before or b"", after or b""):
        if b"\0" in side:
            return {**headers, "prepared": f"{path}: a binary file, which is not shown\n"}
        if len(side) > MAX_DIFF_BYTES:
            return {**headers, "prepared": f"{path}: larger than {MAX_DIFF_BYTES} bytes, not shown\n"}
    texts = [(side or b"").decode("utf-8", "replace") for side in (before, after)]
    return {**headers, "before": texts[0], "after": texts[1]}
