"""Ctrl-C, SIGTERM and a lost terminal: the first asks to stop and clean up, the second ends it now."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Action = Callable[[int, FrameType | None], None] | signal.Handlers


@contextmanager
def on_stop(action: Action) -> Iterator[None]:
    """Have SIGINT, SIGTERM and SIGHUP do `action`; a SIGHUP that was ignored (nohup) stays ignored."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number, old in before.items():
        if number != signal.SIGHUP or old != signal.SIG_IGN:
            signal.signal(number, action)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


class Interrupts:
    """Counts the signals that ask us to stop, while it is open.

    Attributes:
        count: how many came; 1 = stop and clean up, 2 or more = end now.
    """

    def __init__(self) -> None:
        self.count = 0
        self._counting = on_stop(self._received)

    def __enter__(self) -> Interrupts:
        self._counting.__enter__()
        return self

    def __exit__(self, *_error: object) -> None:
        self._counting.__exit__(None, None, None)

    def _received(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
