"""Parts of our drawings: their styles, text that is cleaned and cut to its room, boxes, and writing a file.

Colors are classes with literal values and a dark set of their own, since many programs that show SVG know no
variables.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean

from railyard.base.whole_file import whole_file

#: About the width of a character in pixels, of the styles below.
CHARACTER, CHARACTER_BOLD = 6.9, 8.1
STYLE = """
text{font:12px system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#16202b}
.title{font-size:20px;font-weight:600}.name{font-weight:600;font-size:13px}.faint{fill:#5b6876}
.ground{fill:#fff}.node{fill:#f4f6f8;stroke:#aab5c1}.leaf{fill:#e4ebf4;stroke:#7f93aa}
.net{fill:#fff;stroke:#aab5c1}.rule{stroke:#cdd5de}.line{stroke-width:3;fill:none}
"""
STYLE_DARK = """
text{fill:#e8edf2}.faint{fill:#9aa7b4}
.ground{fill:#0e1319}.node{fill:#1b242e;stroke:#4b5968}.leaf{fill:#22344a;stroke:#6b84a3}
.net{fill:#0e1319;stroke:#4b5968}.rule{stroke:#36434f}
"""


def safe(text: str) -> str:
    """Return a text escaped for the document."""
    return escape(clean(text), quote=True)


def write_text(x: float, y: float, css: str, text: str, longest: int, anchor: str = "start") -> str:
    """Return one line of text, cut to its room; the only way by which a name enters a drawing."""
    text = " ".join(clean(text).split())
    longest = int(longest * CHARACTER / CHARACTER_BOLD) if css == "name" else longest
    shown = text if len(text) <= longest else text[: max(longest - 1, 1)] + "…"
    whole = f"<title>{safe(text)}</title>" if shown != text else ""
    place = f'x="{x:g}" y="{y:g}"' + (f' text-anchor="{anchor}"' if anchor != "start" else "")
    style = f' class="{css}"' if css else ""
    return f"<text{style} {place}>{whole}{safe(shown)}</text>"


def write(text: str, file: str) -> None:
    """Write a drawing as a whole or not at all; `-` is standard output.

    Raises:
        UserError: the file cannot be written.
    """
    if file == "-":
        sys.stdout.write(text)
        return
    with whole_file(Path(file).expanduser(), 0o666 & ~_umask()) as stream:
        stream.write(text.encode())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def stack(drawings: Sequence[str]) -> str:
    """Return drawings as one, each below the one before."""
    if len(drawings) == 1:
        return drawings[0]
    y, width, parts = 0.0, 0.0, []
    for one in drawings:
        width, height = max(width, read_size(one, "width")), read_size(one, "height")
        parts.append(one.replace("<svg ", f'<svg y="{y:g}" ', 1))
        y += height
    size = f'width="{width:g}" height="{y:g}" viewBox="0 0 {width:g} {y:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def read_size(drawing: str, name: str) -> float:
    """Return a drawing's width or height in pixels."""
    return float(drawing.partition(f'{name}="')[2].partition('"')[0])
