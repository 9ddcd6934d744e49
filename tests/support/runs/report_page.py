# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A report's files read again: its page as tags and text, and a text that would do harm unescaped."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

MADE = ("index.html", "report.md", "junit.xml", "railyard.prom", "node_results.json")
HOSTILE = "<script>alert(1)</script>\"'&{{7*7}}\x1b[31m\u202e$x^2$|`"


class Page(HTMLParser):
    """What is in a page: its tags with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.text += data


def page_of(folder: Path) -> Page:
    """Return the page of a run folder."""
    return Page((folder / "index.html").read_text(encoding="utf-8"))
