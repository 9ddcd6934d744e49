"""The documentation site in a browser: its search finds pages, and no request leaves the machine."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote_plus

import docs_site
import pytest
from railyard.base.paths import repo_root
from support import chromium

#: Shows the site in a frame, waits for the search's results, and hands them to the server.
FRAME = """<!doctype html>
<iframe id="site" src="/?q={query}" style="width:1280px;height:900px"></iframe>
<script>
setInterval(() => {{
  const site = document.getElementById("site").contentDocument;
  const links = [...site.querySelectorAll(".md-search-result__link")].map(link => link.href);
  if (links.length) fetch("/found", {{method: "POST", body: JSON.stringify(links)}});
}}, 200);
</script>"""


class Site(http.server.SimpleHTTPRequestHandler):
    """The files of the site, the page with the frame, and where that page reports what was found."""

    found: ClassVar[list[str]] = []
    done = threading.Event()

    def log_request(self, *_given: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        if not self.path.startswith("/frame?"):
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(FRAME.format(query=self.path.partition("?")[2]).encode())
        return None

    def do_POST(self) -> None:
        Site.found = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        Site.done.set()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the site of this tree and serve it."""
    folder: Path = tmp_path_factory.mktemp("site")
    assert docs_site.build(repo_root(), folder) == 0
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), lambda *given: Site(*given, directory=str(folder))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize(
    ("query", "page"),
    [("GID", "docs/troubleshooting"), ("MTU 9000", "docs/troubleshooting"), ("undo", "docs/undo")],
)
def test_search_finds_the_page_and_nothing_leaves_the_machine(address: str, query: str, page: str) -> None:
    Site.done.clear()
    requested = chromium.open_until(f"{address}/frame?{quote_plus(query)}", Site.done)
    found = [one.removeprefix(f"{address}/").partition("?")[0] for one in Site.found]
    assert any(one.startswith(page) for one in found[:12]), found
    assert not [one for one in found if one.startswith(docs_site.NOT_SEARCHED)]
    assert f"{address}/search/search_index.json" in requested
    assert {one for one in requested if not one.startswith((f"{address}/", "data:"))} == set()
