"""Read the end of a VM's console, and find whether its boot is stuck."""

from __future__ import annotations

import re
from pathlib import Path

_LAST_LINES = 15
# More than an emulated serial line writes in those.
_LAST_BYTES = 16384
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# Prompts that wait for a person at the console.
_PROMPTS = ("(initramfs)", "grub>", "grub rescue>")
_PANIC = "end Kernel panic - not syncing"
# systemd says more after it: whose password it would take, or that there is none.
_EMERGENCY = "You are in emergency mode"


def size_bytes(log: Path) -> int:
    """Return the size of the console's output so far."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


def last_lines(log: Path, since_bytes: int = 0) -> list[str]:
    """Return the last lines that are not empty, printable characters only.

    Args:
        log: what QEMU writes of the serial line.
        since_bytes: where to begin: skips the output of an earlier boot.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(since_bytes, size_bytes(log) - _LAST_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = [_printable(_ESCAPES.sub("", line)) for line in text.splitlines()]
    return [line for line in lines if line][-_LAST_LINES:]


def dead_end(lines: list[str]) -> str:
    """Return the line at which a boot waits for a person; "" while it may go on by itself."""
    if not lines:
        return ""
    if lines[-1].startswith(_PROMPTS) or _PANIC in lines[-1]:
        return lines[-1]
    return next((line for line in lines if _EMERGENCY in line), "")


def _printable(line: str) -> str:
    return "".join(character if character.isprintable() else " " for character in line).strip()
