"""Ctrl-C, SIGTERM and a lost terminal: the first asks to stop and clean up, the second ends it now."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Counts the signals that ask us to stop, while it is open.

    Attributes:
        count: how many came; 1 = stop and clean up, 2 or more = end now.
    """

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._received)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _received(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
