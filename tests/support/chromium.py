# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A page in headless Chromium at a width: a picture of it, and whether it is wider than its window."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

#: Measures a page in a frame of a phone's width: Chromium's own window has a least width of its own.
_FRAME = """<!doctype html><body style="margin:0">
<iframe id="page" src="{page}" style="border:0;width:{width}px;height:{height}px"></iframe><script>
const frame = document.getElementById("page");
frame.onload = () => {{
  const root = frame.contentDocument.documentElement;
  document.title = `${{root.scrollWidth}} ${{root.scrollHeight}} ${{frame.contentDocument.title}}`;
  // Texts of drawings that leave the place where they are visible: the drawing, or the panel around it.
  const view = frame.contentWindow;
  for (const text of frame.contentDocument.querySelectorAll("svg text")) {{
    const svg = text.ownerSVGElement, own = text.getBoundingClientRect();
    const around = view.getComputedStyle(svg).overflow == "visible" ? svg.closest(".panel") || svg : svg;
    const place = around.getBoundingClientRect();
    const right = Math.max(place.right, svg.getBoundingClientRect().right);
    if (own.width && (own.left < place.left - 1 || own.right > right + 1)) {{
      const item = document.createElement("li");
      item.textContent = text.textContent;
      document.body.append(item);
    }}
  }}
}};
</script></body>"""


def find() -> str:
    """Return the program, or skip the test."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium is here (Debian's package chromium)")
    return found


def _argv(profile: str) -> list[str]:
    fixed = [find(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
    return [*fixed, f"--user-data-dir={profile}"]


def _run(argv: list[str]) -> str:
    with tempfile.TemporaryDirectory(prefix="railyard-chromium-") as profile:
        fixed = [*_argv(profile), "--disable-web-security", "--allow-file-access-from-files"]
        # A busy machine takes its time; what Chromium itself waits for is virtual.
        done = subprocess.run(
            [*fixed, "--virtual-time-budget=5000", *argv],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    return done.stdout


def _framed(folder: Path, page: Path, width: int, height: int) -> str:
    frame = folder / f"{page.stem}-{width}.html"
    frame.write_text(_FRAME.format(page=page.name, width=width, height=height), encoding="utf-8")
    return frame.as_uri()


def measure(page: Path, width: int) -> tuple[int, int, str]:
    """Return how wide and high a page is at a width, and its title after scripts could change it."""
    text = _dom(page, width)
    matched = re.search(r"<title>(\d+) (\d+) (.*?)</title>", text, re.DOTALL)
    if not matched:
        raise ValueError(f"Chromium printed no measure: {text[-500:]}")
    return int(matched[1]), int(matched[2]), matched[3]


def find_cut_texts(page: Path, width: int) -> list[str]:
    """Return the texts of a page's drawings that are cut off at a width."""
    return [html.unescape(found) for found in re.findall(r"<li>(.*?)</li>", _dom(page, width))]


def _dom(page: Path, width: int) -> str:
    frame = _framed(page.parent, page, width, 900)
    return _run([f"--window-size={max(width, 600)},900", "--dump-dom", frame])


def print_pages(page: Path, target: Path) -> int:
    """Print a page to a PDF, and return how many sheets it takes."""
    _run([f"--print-to-pdf={target}", page.as_uri()])
    return len(re.findall(rb"/Type\s*/Page\b", target.read_bytes()))


def picture(page: Path, target: Path, width: int, height: int) -> None:
    """Write a picture of the top of a page at a width."""
    address = page.as_uri() if width >= 600 else _framed(page.parent, page, width, height)
    _run([f"--window-size={width},{height}", f"--screenshot={target}", address])


def open_until(address: str, done: threading.Event, limit_s: float = 120) -> set[str]:
    """Keep a page open until something has happened; return every address that the page requested."""
    with tempfile.TemporaryDirectory(prefix="railyard-chromium-") as profile:
        log = Path(profile, "net.json")
        # With a port for debugging it stays open; without, headless Chromium ends when the page is loaded.
        argv = [*_argv(profile), f"--log-net-log={log}", "--remote-debugging-port=0", address]
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as browser:
            try:
                assert done.wait(limit_s), f"{address}: nothing happened within {limit_s} s"
            finally:
                browser.terminate()
                browser.wait(30)
        return _requested(log)


def _requested(log: Path) -> set[str]:
    """Return the addresses of a network log that pages requested; Chromium's own requests have no origin."""
    requested = set()
    for line in log.read_text(encoding="utf-8").splitlines():
        # An event per line. The file ends where Chromium was stopped.
        if '"initiator":' in line and line.endswith("},"):
            values = json.loads(line[:-1])["params"]
            if "url" in values and values["initiator"] != "not an origin":
                requested.add(values["url"])
    return requested
