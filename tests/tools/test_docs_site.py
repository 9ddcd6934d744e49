"""The site of the documents: its menu, the pages made from the code, and links that lead nowhere."""

import json
import subprocess

import docs_site
import pytest
from railyard.base.paths import repo_root

ROOT = repo_root()
INDEX = """# Documentation

## Start

| | |
|---|---|
| [Install](install.md) | how |
| [First day](first-day.md#two), [contributing](../CONTRIBUTING.md) | step by step |

## Reference

[Elsewhere](https://docs.example/one.md)
"""


def test_the_menu_is_the_index_and_what_is_made_from_the_code():
    assert docs_site.menu(INDEX, {"Reference": [{"Command line": "reference/cli.md"}]}) == [
        {"Railyard": "README.md"},
        {
            "Start": [
                {"Install": "docs/install.md"},
                {"First day": "docs/first-day.md"},
                {"Contributing": "CONTRIBUTING.md"},
            ]
        },
        {"Reference": [{"Command line": "reference/cli.md"}]},
    ]


def test_every_document_for_users_is_in_the_index():
    linked = {path for section in docs_site.menu((ROOT / docs_site.INDEX).read_text(), {})
              for entries in section.values() if isinstance(entries, list)
              for entry in entries for path in entry.values()}  # fmt: skip
    documents = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")} - {docs_site.INDEX}
    assert documents - linked == set()


def test_a_page_of_a_module_has_its_options_return_values_and_example():
    document = {
        "doc": {
            "short_description": "Set a rail",
            "description": ["Uses O(mtu) and C(ip link)."],
            "options": {
                "mtu": {
                    "type": "int",
                    "default": 9000,
                    "description": "Bytes a | b.",
                },
                "rails": {
                    "type": "list",
                    "elements": "dict",
                    "required": True,
                    "description": ["The rails."],
                    "suboptions": {"name": {"type": "str", "description": "Its name."}},
                },
            },
        },
        "return": {"changed_rails": {"type": "list", "returned": "always", "description": "Names."}},
        "examples": "- name: Set\n  railyard.fabric.rail: {}\n",
    }
    page = docs_site.plugin_page("railyard.fabric.rail", "module", document)
    assert page.startswith("# railyard.fabric.rail\n\nSet a rail.\n")
    assert "| `mtu` | int | Bytes a \\| b\\. (default: 9000) |" in page
    assert "| `rails` | list of dict | The rails\\. (required: yes) |" in page
    assert "| `rails.name` | str | Its name\\. |" in page
    assert "| `changed_rails` | list | Names\\. (returned: always) |" in page
    assert "```yaml\n- name: Set\n" in page


def test_files_that_a_document_links_to_come_along(tmp_path):
    document = ROOT / "docs" / "runs.md"
    text = "[a](schema/plan.schema.json) [b](../README.md) [c](https://docs.example/x.json) [d](missing.png)"
    assert [str(path) for path in docs_site.linked_files(ROOT, document, text)] == [
        "docs/schema/plan.schema.json"
    ]


@pytest.mark.minutes
def test_the_site_is_built_and_a_link_that_leads_nowhere_fails_the_build(tmp_path, monkeypatch, capfd):
    (tmp_path / "tree/docs").mkdir(parents=True)
    (tmp_path / "tree/README.md").write_text("# Railyard\n\n[first](docs/first.md#two-servers)\n")
    (tmp_path / "tree/docs/README.md").write_text("# Documentation\n\n## Start\n\n[First](first.md)\n")
    page = tmp_path / "tree/docs/first.md"
    page.write_text("# First\n\n## Two servers\n\nMTU 9000\n")
    subprocess.run(["git", "init", "-q", str(tmp_path / "tree")], check=True)
    monkeypatch.setattr(docs_site, "write_pages", lambda source: {})
    assert docs_site.build(tmp_path / "tree", tmp_path / "site") == 0
    index = json.loads((tmp_path / "site/search/search_index.json").read_text())
    assert any("MTU 9000" in one["text"] for one in index["docs"])
    page.write_text("# First\n\n## Three servers\n\nMTU 9000\n")
    assert docs_site.build(tmp_path / "tree", tmp_path / "site") == 1
    assert "two-servers" in capfd.readouterr().err
