"""One run at a time on a cluster, and a reports folder that can be written, before any node is touched."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils import owner_lock

from railyard.base.errors import UserError

# Two nodes need under 1 MB, a thousand with raw archives some tens; below this a run is likely to lose rows.
_FREE_BYTES_NEEDED = 64 * 2**20


@contextmanager
def cluster_lock(reports_dir: Path, cluster: str, run: str) -> Iterator[Path]:
    """Hold `reports/<cluster>/.lock` for the time of a run.

    The kernel lets go of it when this process ends, however it ends; the file that stays means nothing.

    Yields:
        The folder `reports/<cluster>`.

    Raises:
        UserError: somebody else holds it (it says who and since when), or the folder cannot take a run.
    """
    folder = reports_dir / cluster
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _write_holder(held.enter_context(owner_lock.held(folder / ".lock", patience_s=0)), run)
            _prove_writable(folder)
        except owner_lock.LockedError as error:
            raise UserError(
                f"another run on cluster {cluster} is going on: {_holder(folder / '.lock', error)}",
                "wait for it to end, or stop it with Ctrl-C where it runs",
            ) from None
        except OSError as error:
            raise UserError(
                f"the reports folder {folder} cannot be written: {error.strerror or error}",
                "make room or give write permission, or name another folder with --reports-dir",
            ) from error
        yield folder


def _write_holder(handle: int, run: str) -> None:
    since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps({"pid": os.getpid(), "run": run, "since": since}).encode() + b"\n", 0)
    os.fsync(handle)


def _holder(file: Path, error: owner_lock.LockedError) -> str:
    try:
        holder = json.loads(file.read_bytes())
        run = f"run {holder['run']}, process {holder['pid']}, since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return f"{error}, and has not written its run there yet"
    return run if error.holder in (None, holder["pid"]) else f"{run}; {error}"


def _prove_writable(folder: Path) -> None:
    """Write, flush and remove a small file, and look at the space left; mkdir alone proves neither."""
    probe = folder / f".probe-{os.getpid()}"
    try:
        with probe.open("wb") as file:
            file.write(b"0" * 4096)
            file.flush()
            os.fsync(file.fileno())
    finally:
        probe.unlink(missing_ok=True)
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < _FREE_BYTES_NEEDED:
        raise OSError(errno.ENOSPC, f"only {free_bytes // 2**20} MiB are free, a run needs 64 MiB")
