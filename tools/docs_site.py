"""`make docs`: the documents of this repository as a site with search, in dist/docs/; it needs no network.

The site is the tracked Markdown files at their own paths, so that a link works here and there, and pages made
from the code: the command line, and the modules and filters of the collection. What the menu shows is
docs/README.md. MkDocs checks every link; one that leads nowhere ends with 1.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from antsibull_docs_parser import dom
from antsibull_docs_parser.md import to_md
from antsibull_docs_parser.parser import Context, parse

ROOT = Path(__file__).resolve().parents[1]
COLLECTION = "railyard.fabric"
INDEX = "docs/README.md"
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)")
_SLUGIFY = "!!python/object/apply:pymdownx.slugs.slugify {kwds: {case: lower}}"
#: Documents for developers: the search, which is for users, leaves them out.
NOT_SEARCHED = ("benchmarks/", "collections/", "tests/")
_NOT_IN_SEARCH = "---\nsearch:\n  exclude: true\n---\n"
_KINDS = {"module": "Modules", "filter": "Filters"}


def main() -> int:
    """Build the site, and print how to read it."""
    target = ROOT / "dist" / "docs"
    status = build(ROOT, target)
    if status == 0:
        print(f"The site is {target}. To read it with its search:")
        print(f"  python3 -m http.server --bind 127.0.0.1 --directory {target.relative_to(ROOT)} 8000")
        print("and open http://127.0.0.1:8000/ in a browser. Opened as files, its pages have no search.")
    return status


def build(root: Path, target: Path) -> int:
    """Build the site of a tree; 1 where a link leads nowhere, which MkDocs names."""
    with tempfile.TemporaryDirectory(prefix="railyard-docs-") as scratch:
        source = Path(scratch, "source")
        stage(root, source)
        made = write_pages(source)
        config = Path(scratch, "mkdocs.yml")
        nav = menu((root / INDEX).read_text(encoding="utf-8"), made)
        text = yaml.safe_dump(configuration(source, target, nav), sort_keys=False)
        # A function, which only YAML's tag can name: anchors as the forges make them.
        text = text.replace("slugify: null", f"slugify: {_SLUGIFY}")
        config.write_text(text, encoding="utf-8")
        # With --quiet it would not count the warnings that --strict is about.
        argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "-f", str(config)]
        # Its authors announce another program in a banner.
        environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
        done = subprocess.run(argv, check=False, env=environment, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr.replace(f"{source}/", ""), file=sys.stderr)
    return done.returncode


def configuration(source: Path, target: Path, nav: list[Any]) -> dict[str, Any]:
    """Return MkDocs' configuration: nothing is fetched, neither here nor by a reader's browser."""
    return {
        "site_name": "Railyard",
        "docs_dir": str(source),
        "site_dir": str(target),
        "use_directory_urls": False,
        "nav": nav,
        "theme": {
            "name": "material",
            "font": False,
            "features": ["navigation.sections", "navigation.top", "content.code.copy"],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate"},
            ],
        },
        "plugins": ["search"],
        "extra": {"generator": False},
        "markdown_extensions": [
            "tables",
            "attr_list",
            "pymdownx.superfences",
            "pymdownx.escapeall",
            {"toc": {"permalink": True, "slugify": None}},
        ],
        "validation": {
            "omitted_files": "info",
            "absolute_links": "warn",
            "unrecognized_links": "warn",
            "anchors": "warn",
        },
    }


def stage(root: Path, target: Path) -> None:
    """Copy the documents, and the files that they link to, at their own paths."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        text = (root / name).read_text(encoding="utf-8")
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        searched = not name.startswith(NOT_SEARCHED)
        place.write_text(text if searched else f"{_NOT_IN_SEARCH}{text}", encoding="utf-8")
        for linked in linked_files(root, root / name, text):
            copy = target / linked
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / linked, copy)


def linked_files(root: Path, document: Path, text: str) -> Iterator[Path]:
    """Yield the files of the repository, other than documents, that a document links to."""
    for path, _anchor in _LINK.findall(text):
        linked = (document.parent / path).resolve()
        if linked.is_file() and linked.suffix != ".md" and linked.is_relative_to(root):
            yield linked.relative_to(root)


def menu(index: str, made: Mapping[str, list[Any]]) -> list[Any]:
    """Return the site's menu: the sections of the index with the documents that each links to.

    Args:
        index: the text of docs/README.md.
        made: section -> entries that are made from the code.
    """
    nav: list[Any] = [{"Railyard": "README.md"}]
    for section in re.split(r"^## ", index, flags=re.M)[1:]:
        title, _, body = section.partition("\n")
        links = re.findall(r"\[([^]]+)\]\((?!http)([^)#]+\.md)(?:#[^)]*)?\)", body)
        entries = [{name[:1].upper() + name[1:]: _from_root(path)} for name, path in links]
        nav.append({title.strip(): [*entries, *made.get(title.strip(), [])]})
    return nav


def _from_root(path: str) -> str:
    return path[3:] if path.startswith("../") else f"docs/{path}"


def write_pages(source: Path) -> dict[str, list[Any]]:
    """Write the pages made from the code, and return their entries in the menu."""
    folder = source / "reference"
    folder.mkdir()
    argv = [sys.executable, "-m", "typer", "railyard.cli", "utils", "docs", "--name", "railyard"]
    text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    (folder / "cli.md").write_text(text, encoding="utf-8")
    entries: list[Any] = [{"Command line": "reference/cli.md"}]
    roles = sorted(source.glob("roles/*/README.md"))
    entries.append({"Roles": [{path.parent.name: str(path.relative_to(source))} for path in roles]})
    for kind, title in _KINDS.items():
        pages = []
        for name, document in sorted(_documented(kind).items()):
            short = name.rpartition(".")[2]
            page = f"reference/{kind}_{short}.md"
            (source / page).write_text(plugin_page(name, kind, document), encoding="utf-8")
            pages.append({short: page})
        entries.append({title: pages})
    return {"Reference": entries}


def _documented(kind: str) -> dict[str, Any]:
    """Return what ansible-doc knows of the collection's plugins of one type."""
    listed = _ansible_doc("--list", "--type", kind, COLLECTION)
    return dict(_ansible_doc("--type", kind, *listed)) if listed else {}


def _ansible_doc(*arguments: str) -> dict[str, Any]:
    argv = [str(Path(sys.executable).parent / "ansible-doc"), "--json", *arguments]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def plugin_page(name: str, kind: str, document: Mapping[str, Any]) -> str:
    """Return the page of a module or filter, in Markdown."""
    doc = document["doc"]
    lines = [f"# {name}", "", f"{_text(doc['short_description'])}.", ""]
    for paragraph in _paragraphs(doc.get("description")):
        lines += [_text(paragraph), ""]
    lines += _table("Options", doc.get("options"), ("required", "default", "choices"))
    lines += _table("Return values", document.get("return"), ("returned",))
    if notes := _paragraphs(doc.get("notes")):
        lines += ["## Notes", "", *(f"- {_text(note)}" for note in notes), ""]
    if examples := (document.get("examples") or "").strip():
        lines += ["## Examples", "", "```yaml", examples, "```", ""]
    return "\n".join(lines)


def _table(title: str, entries: Mapping[str, Any] | None, facts: Iterable[str]) -> list[str]:
    if not entries:
        return []
    rows = [_row(key, entry, facts) for key, entry in _flat(entries)]
    return [f"## {title}", "", "| Name | Type | Meaning |", "|---|---|---|", *rows, ""]


def _flat(entries: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield entries with those below them, by their full name."""
    for name, entry in entries.items():
        yield f"{above}{name}", entry
        below = entry.get("suboptions") or entry.get("contains")
        if isinstance(below, Mapping):
            yield from _flat(below, f"{above}{name}.")


def _row(name: str, entry: Mapping[str, Any], facts: Iterable[str]) -> str:
    kind = str(entry.get("type", "str")) + (f" of {entry['elements']}" if entry.get("elements") else "")
    more = [f"{fact}: {_value(entry[fact])}" for fact in facts if entry.get(fact) not in (None, False)]
    text = " ".join(_text(one) for one in [*_paragraphs(entry.get("description"))])
    cell = " ".join([text, *(f"({one})" for one in more)]).replace("\n", " ")
    return f"| `{name}` | {kind} | {cell} |"


def _value(value: Any) -> str:
    if value is True:
        return "yes"
    return ", ".join(f"`{one}`" for one in value) if isinstance(value, list) else _text(str(value))


def _paragraphs(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])


def _text(marked: str) -> str:
    """Return Ansible's markup as Markdown."""
    paragraphs: list[dom.Paragraph] = parse(marked, Context())
    return str(to_md(paragraphs))


if __name__ == "__main__":
    sys.exit(main())
