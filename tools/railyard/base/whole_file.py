"""A file that is written whole, or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from railyard.base.errors import UserError


@contextmanager
def whole_file(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Yield a stream whose bytes become the file `path` once the block has ended; else nothing is left.

    Raises:
        UserError: it cannot be written.
    """
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fchmod(handle, mode)
            os.fsync(handle)
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        if temporary:
            with suppress(OSError):
                os.unlink(temporary)


def unwritable(path: object, error: OSError) -> UserError:
    """Return the error of a file that cannot be written."""
    return UserError(
        f"{path} cannot be written: {error.strerror or error}", "make room, or name another place"
    )
