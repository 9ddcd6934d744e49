"""The one way to standard output and error: whatever is printed is text, and cannot control a terminal.

Names, messages and outputs of nodes reach a person through many places, libraries' and Python's own included.
So the two streams themselves let only text through, and `console` is the only one that colours it. Nothing
else makes a `Console`, or writes to the streams below (tests/tools/test_output.py looks for that).
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO, TextIO, cast

from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment


class PlainStream(io.TextIOWrapper):
    """Removes control characters from what is written, except newlines and tabs.

    Attributes:
        below: the stream that this one replaces.
    """

    def __init__(self, below: io.TextIOWrapper) -> None:
        # Both write through to one buffer: what is printed stays in order with what the console prints.
        super().__init__(below.buffer, below.encoding, below.errors, write_through=True)
        self.below = below

    def write(self, text: str) -> int:
        """Write the text that there is; return how many characters were taken."""
        super().write(clean(text))
        return len(text)

    def close(self) -> None:
        """Leave the buffer to the stream below."""
        self.flush()


@contextlib.contextmanager
def messages_on_stderr() -> Iterator[TextIO]:
    """Send what is printed meanwhile to standard error, so that a program can read standard output.

    Yields:
        The stream that standard output was: the place of the one JSON object.
    """
    result = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        yield result


def guard() -> None:
    """Put such streams in the place of this process's own."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, PlainStream):
            stream.flush()
            setattr(sys, name, PlainStream(stream))


class PlainConsole(Console):
    """Colours what is printed, and takes no text for markup.

    Attributes:
        outlives_reader: whether the process goes on when its reader goes away (`| head`).
    """

    outlives_reader = True

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render, with text alone in all segments but rich's own control codes."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=clean(segment.text))

    def on_broken_pipe(self) -> None:
        """Drop the rest where a run has more to do than to print; else let rich end the process."""
        if not self.outlives_reader:
            super().on_broken_pipe()
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def console(width: int | None = None, *, outlives_reader: bool = True) -> Console:
    """Return a console that never breaks lines into pieces and never guesses at numbers to colour.

    Args:
        width: columns to lay tables out in; None for the terminal's.
        outlives_reader: False where all that the command does is print.
    """
    made = PlainConsole(
        file=cast("TextIO", sys.stdout.below if isinstance(sys.stdout, PlainStream) else None),
        width=width,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
    )
    made.outlives_reader = outlives_reader
    return made


class _PlainBytes(io.RawIOBase):
    """Takes bytes of a text, in pieces of any size."""

    def __init__(self, target: TextIO) -> None:
        self._target = target
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        piece = bytes(cast("bytes", data))
        self._target.write(clean(self._decoder.decode(piece)))
        return len(piece)


def binary() -> BinaryIO:
    """Return where to write bytes that are a text: as they are, but on a terminal without what is no text."""
    return cast("BinaryIO", _PlainBytes(sys.stdout)) if sys.stdout.isatty() else sys.stdout.buffer
