"""No string that came from a node, an inventory or a command line is ever markup, wherever it is."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import verdict
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import (
    junit,
    model,
    pages,
    prometheus,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolderError
from markdown_it import MarkdownIt
from support.runs import run_fabric
from support.runs.fake_run import RUN
from support.runs.run_builder import build_run
from tools.report.test_prometheus import parse

DOCUMENTS = ("manifest.json", "plan.json", "facts.jsonl", "results.jsonl", "obstacles.jsonl", "fabric.json")
MARK = "zq7"
#: Is in each string of the folder that the payloads are put into; its end keeps it out of paths, which
#: would be refused with most payloads.
HERE = "HeReHeRe/"
PAYLOADS = (
    f"<script>{MARK}()</script>",
    f'"><img src=x onerror={MARK}()>',
    f"]]></system-out><testcase name='{MARK}'/>&{MARK};",
    f"\u202e\u2066{MARK}\u061c\u200f\x1b[2J\x00\x07\x85\u2028\ufffe\ud800",
    f"\x1b]0;x\x07\x9b2J{MARK}\u200b\u200d\u00ad\ufeff\ufe0f\u3164\ue000\U000e0041\U000e01ef\x7f\u2029",
    f"\n\n# {MARK}\n\n- {MARK}\n\n| {MARK} | x |\n|---|---|\n```\n",
    f"[{MARK}](javascript:{MARK}) ![{MARK}](x) <{MARK}@x.y> _{MARK}_ ~~{MARK}~~ {{{{7*7}}}} {{% if x %}}",
    f"https://{MARK}.example/ 1. {MARK} \\",
)
_FORBIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\u3164\ud800-\uf8ff"
    r"\ufe0f\ufeff\ufffe\uffff\U000e0000-\U000e0fff]"
)
_VOID = {"meta", "br"}


class Strict(HTMLParser):
    """Reads a page and refuses what is not nested."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.shape: list[tuple[str, tuple[str, ...]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.shape.append((tag, tuple(name for name, _value in attrs)))
        for name, value in attrs:
            assert not name.startswith("on"), (tag, attrs)
            if name in ("href", "xlink:href", "src", "style"):
                assert MARK not in (value or ""), (tag, attrs)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def handle_comment(self, data):
        assert MARK not in data

    def unknown_decl(self, data):
        raise AssertionError(data)


def markdown_shape(text: str) -> list[str]:
    """Return the blocks of a Markdown text, and what of its lines is more than text, in order."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    found = []
    for token in parser.parse(text):
        inner = [child.type for child in token.children or () if child.type not in ("text", "text_special")]
        found += [token.type, *inner]
    return found


def texts(value, path=()):
    """Yield the way to each string of a JSON value: keys, and `*` for the places of a list."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from texts(item, (*path, key))
    elif isinstance(value, list):
        for item in value:
            yield from texts(item, (*path, "*"))


def spoil(value, path):
    """Mark the strings at the way."""
    if isinstance(value, str):
        return value + HERE
    if isinstance(value, list):
        return [spoil(item, path[1:]) for item in value]
    if isinstance(value, dict) and path and path[0] in value:
        return {**value, path[0]: spoil(value[path[0]], path[1:])}
    return value


class Folder:
    """A run folder whose documents can be spoiled one string at a time, and taken back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = {name: self._read(name) for name in DOCUMENTS if (path / name).exists()}

    def _read(self, name: str) -> list:
        text = (self.path / name).read_text(encoding="utf-8")
        return [json.loads(text)] if name.endswith(".json") else list(map(json.loads, text.splitlines()))

    def write(self, name: str, rows: list) -> None:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (self.path / name).write_text(text, encoding="utf-8")

    def ways(self):
        for name, rows in self.rows.items():
            yield from ((name, way) for way in sorted({way for row in rows for way in texts(row)}))

    def try_to_spoil(self, name: str, way: tuple[str, ...]) -> bool:
        """Mark a string for good where a run that has it can still be judged at all."""
        changed = [spoil(row, way) for row in self.rows[name]]
        self.write(name, changed)
        try:
            read = model.read(self.path)
        except (RunFolderError, verdict.JudgeError, policy.PolicyError):
            read = None
        # Where it leaves fewer questions or numbers, other strings would be shown no more.
        if read is None or sum(item.value is not None for item in read.measurements) < 40:
            self.write(name, self.rows[name])
            return False
        self.rows[name] = changed
        return True


@pytest.fixture(scope="module")
def marked(tmp_path_factory) -> Path:
    """A run with every string marked that does not keep it from being judged, and a key of the nodes."""

    def with_key(row):
        return {**row, "tools": {**row["tools"], HERE: HERE}}

    path = build_run(tmp_path_factory.mktemp("run") / "lab" / RUN, rdma=True, change_fact=with_key)
    (path / "fabric.json").write_text(json.dumps(run_fabric.sample()), encoding="utf-8")
    folder = Folder(path)
    taken = [way for way in folder.ways() if folder.try_to_spoil(*way)]
    assert len(taken) > 40, "most strings do not keep a run from being judged"
    return path


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_string_of_a_run_is_markup(marked, tmp_path, payload, monkeypatch):
    no_charts = {"charts": [], "compared_chart": None, "no_charts": "-"}
    monkeypatch.setattr(pages, "_charts", lambda _report: no_charts)
    plain = model.read(marked)
    shape, kinds = Strict(pages.html(plain)).shape, markdown_shape(pages.markdown(plain))
    folder = tmp_path / "lab" / RUN
    shutil.copytree(marked, folder)
    for name in DOCUMENTS:
        if (folder / name).exists():
            text = (folder / name).read_text(encoding="utf-8")
            (folder / name).write_text(text.replace(HERE, json.dumps(payload)[1:-1]), encoding="utf-8")
    read = model.read(folder)
    page, markdown, xml = pages.html(read), pages.markdown(read), junit.render(read)
    for text in (page, markdown, xml, prometheus.render(read)):
        assert MARK in text
        assert not _FORBIDDEN.search(text)
    # The same as with harmless strings, from the first tag to the last.
    assert Strict(page).shape == shape
    assert markdown_shape(markdown) == kinds
    Xml.fromstring(xml.encode("utf-8"))
    assert "railyard_run_complete" in parse(prometheus.render(read))
