"""How the process of a command ends: its exit status, and in one sentence what went wrong."""

from __future__ import annotations

import errno
import io
import locale
import os
import sys
from typing import Any, NoReturn

import typer

from railyard.base import output, paths
from railyard.base.errors import BAD_INPUT, UserError

INTERRUPTED = 3
# As the shell writes the end of any program whose reader went away (`| head`): 128 + SIGPIPE.
READER_GONE = 141
_TYPER_INTERRUPTED = 130
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}

# Typer's own copy of click, or click itself, whichever this version of typer raises from.
_click_errors: Any = sys.modules[typer.BadParameter.__module__]


def run(app: typer.Typer) -> NoReturn:
    """Run a command and end the process with its exit status; what a user can put right is no traceback."""
    _take_any_locale()
    output.guard()
    # Read by Ansible's own code when it is loaded into this process.
    os.environ["ANSIBLE_CONFIG"] = str(paths.repo_root() / "ansible.cfg")
    try:
        status = app(standalone_mode=False)
        # Typer's own way to end on Ctrl-C; the contract knows no 130.
        status = _interrupted() if status == _TYPER_INTERRUPTED else status
    except Exception as error:
        status = _status_of(error)
    except SystemExit as ended:
        # Typer's own way to end when the reader went away: a 1, which means something else here.
        status = READER_GONE if isinstance(ended.__context__, BrokenPipeError) else ended.code
    except KeyboardInterrupt:
        status = _interrupted()
    sys.exit(_flushed(status if isinstance(status, int) else 0))


def _take_any_locale() -> None:
    """Work in a locale without UTF-8, which Ansible refuses; what a terminal cannot show becomes `?`."""
    if "utf" not in (locale.nl_langinfo(locale.CODESET) or "").lower():
        os.environ["LC_ALL"] = "C.UTF-8"
    if sys.getfilesystemencoding().lower() != "utf-8":
        # Settled when Python starts, so once more, now with UTF-8; the terminal keeps its own encoding.
        os.environ.update(PYTHONUTF8="1", PYTHONIOENCODING=f"{sys.stdout.encoding}:replace")
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - our own words, no shell
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _status_of(error: Exception) -> int:
    """Print what went wrong and return the exit status; internal errors are raised again."""
    # A name in the message may contain terminal control characters.
    from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean

    if isinstance(error, UserError):
        print(f"railyard: {clean(str(error))}", file=sys.stderr)
        return error.exit_status
    if isinstance(error, _click_errors.ClickException):
        error.message = clean(error.message) + _place_other_options(error)
        error.show()
        return BAD_INPUT
    if isinstance(error, BrokenPipeError):
        return READER_GONE
    if isinstance(error, typer.Abort):
        return INTERRUPTED
    if isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None:
        return _unwritable(error)
    if type(error).__name__ in ("RunFolderError", "PolicyError"):
        print(f"railyard: {clean(str(error))}", file=sys.stderr)
        return BAD_INPUT
    if type(error).__name__ == "JudgeError":
        print(f"railyard: this run cannot be judged: {clean(str(error))}", file=sys.stderr)
        return INTERRUPTED
    if isinstance(error, MemoryError):
        print("railyard: there is not enough memory; nothing is known before it is there", file=sys.stderr)
        return INTERRUPTED
    raise error


def _place_other_options(error: Any) -> str:
    """Return where to write options of other programs, for an unknown option of a verb that accepts them."""
    command = getattr(getattr(error, "ctx", None), "command", None)
    if command is None or not isinstance(error, _click_errors.NoSuchOption):
        return ""
    if not any(one.name == "args" for one in command.params):
        return ""
    reader = "pytest" if command.name == "verify" else "ansible-playbook"
    return f". Options for {reader} that railyard does not have go after `--`"


def _interrupted() -> int:
    print("railyard: interrupted before anything was done", file=sys.stderr)
    return INTERRUPTED


def _flushed(status: int) -> int:
    """Flush standard output; a closed pipe (`| head`) is not an error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_standard_output()
    except OSError as error:
        return status or _unwritable(error)
    return status


def _unwritable(error: OSError) -> int:
    """Say that standard output takes nothing more: a full disk behind `>`."""
    print(
        f"railyard: standard output cannot be written: {error.strerror}\n"
        "  fix: make room, or write it to another place",
        file=sys.stderr,
    )
    _drop_standard_output()
    return INTERRUPTED


def _drop_standard_output() -> None:
    """Send what is still waiting to nowhere: Python would try to write it once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
