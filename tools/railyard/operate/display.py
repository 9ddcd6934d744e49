"""Shows the progress of a run: a live block at the foot of a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.text import Text

if TYPE_CHECKING:
    from rich.live import Live

from railyard.base import output
from railyard.base.progress import Line, Progress

_STYLES = {
    "play": "bold",
    "task": "dim",
    "note": "cyan",
    "warning": "yellow",
    "failed": "red",
    "unreachable": "magenta",
    "ignored": "dim",
    "diff": "",
    "raw": "",
}
# A warning may contain a node's text: without a mark it could look like a line of Railyard.
_PREFIXES = {"play": "▸ ", "task": "  ", "note": "  ", "warning": "! "}
_STATE_SYMBOLS = {
    "running": "…",
    "ok": "✓",
    "changed": "✎",
    "skipped": "\N{EN DASH}",
    "failed": "✗",
    "unreachable": "!",
}
_HOSTS_SHOWN = 12


class Display:
    """Prints lines above a block that is redrawn in place; without a terminal the lines are all there is.

    Use it as a context manager; `show` may be called at any time while it is open.
    """

    def __init__(self, progress: Progress, console: Console | None = None):
        self.progress = progress
        self.console = console or output.console()
        self._live: Live | None = None
        self._began = time.monotonic()

    def __enter__(self) -> Display:
        if self.console.is_terminal:
            from rich.live import Live

            self._live = Live(
                console=self.console, refresh_per_second=4, transient=True, get_renderable=self._block
            )
            self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._live:
            self._live.stop()
            self._live = None

    def show(self, lines: list[Line]) -> None:
        """Print what an event was worth; on a terminal the block shows tasks and counts instead."""
        for line in lines:
            if self._live and line.style in ("task", "note"):
                continue
            prefix = _PREFIXES.get(line.style, "")
            self.console.print(Text(prefix + line.text, style=_STYLES.get(line.style, "")))

    def _block(self) -> Group:
        progress = self.progress
        seconds = int(time.monotonic() - self._began)
        head = Text.assemble(
            (f"{seconds // 60}:{seconds % 60:02d} ", "dim"), (progress.play or "starting Ansible", "bold")
        )
        if progress.task:
            head.append(f"  {progress.task}")
        rows = [head]
        if progress.tests_total:
            width = 30
            full = width * progress.tests_done // progress.tests_total
            rows.append(
                Text.assemble(
                    "  tests ",
                    ("█" * full + "░" * (width - full), "cyan"),
                    f" {progress.tests_done}/{progress.tests_total}",
                    (f" {progress.current_test}", "dim"),
                )
            )
        rows.append(self._hosts())
        return Group(*rows)

    def _hosts(self) -> Text:
        states = dict(self.progress.hosts)
        text = Text("  ")
        if len(states) <= _HOSTS_SHOWN:
            for host, state in states.items():
                text.append(f"{_STATE_SYMBOLS.get(state, '?')} {host}  ", _STYLES.get(state, ""))
            return text
        for state, count in sorted(Counter(states.values()).items()):
            text.append(f"{_STATE_SYMBOLS.get(state, '?')} {state} {count}  ", _STYLES.get(state, ""))
        return text
