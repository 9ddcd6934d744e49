"""The linter of language finds a word where a person reads it, and nowhere else."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from railyard.base.paths import repo_root

ROOT = repo_root()
RULES = """
functions = {{ exact = ["of"], suffix = ["_told"] }}
exempt = {exempt}

[[word]]
find = "told"
write = "reported"

[[word]]
find = "(bear|borne) out"
write = "confirm"
"""


def load_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("plain_lint", ROOT / "tools/plain_lint.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["plain_lint"] = module
    spec.loader.exec_module(module)
    return module


lint = load_module()


def rules(tmp_path: Path, exempt: str = "[]"):
    path = tmp_path / "words.toml"
    path.write_text(RULES.format(exempt=exempt), encoding="utf-8")
    return lint.load_rules(path)


def lines(tmp_path: Path, path: str, text: str, **more: str) -> list[tuple[int, str]]:
    hits = lint.find_hits(path, text, rules(tmp_path, **more))
    return [(one.line, " ".join(one.found.split())) for one in hits if one.exemption is None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One.\n\nWhat is told here.\n", [(3, "told")]),
        ("A cause that is borne\nout by counters.\n", [(1, "borne out")]),
        ("Told at the head of a sentence.\n", [(1, "Told")]),
        ("`told` is a key, and so is\n``told``.\n", []),
        ("```\ntold\n```\n\n  ```yaml\n  - told\n  ```\n", []),
        ("[the page](told.md), `a.told`, told.jsonl, retold, told-you\n", []),
        ("<!-- variables:begin -->\n| told |\n<!-- variables:end -->\n\ntold\n", [(5, "told")]),
        ("<!-- table causes -->\n| told |\n<!-- end -->\n\ntold\n", [(5, "told")]),
    ],
)
def test_markdown_is_read_without_code_and_generated_tables(
    tmp_path: Path, text: str, expected: list[tuple[int, str]]
) -> None:
    assert lines(tmp_path, "docs/page.md", text) == expected


YAML = """- name: Show what is told
  hosts: all
  vars:
    told: what was told
  tasks:
    - name: Check
      ansible.builtin.assert:
        that: told == 'told and told'
        fail_msg: >-
          Nothing {{ told }}{% if told %} was
          told.
"""
SPECS = """argument_specs:
  main:
    short_description: Plain.
    options:
      one:
        description: ["Fine.", "What it is told."]
        default: told
"""


def test_yaml_is_read_for_names_descriptions_and_messages(tmp_path: Path) -> None:
    # A folded text is one line to YAML; its hit has the line on which the text begins.
    assert lines(tmp_path, "playbooks/a.yml", YAML) == [(1, "told"), (9, "told")]
    assert lines(tmp_path, "roles/a/meta/argument_specs.yml", SPECS) == [(6, "told")]
    assert lines(tmp_path, "roles/a/templates/broken.yml", "{% told %}: [\n") == []
    comment = "one: told # told\n\n  # What is borne\n  # out.\n"
    assert lines(tmp_path, "roles/a/vars/main.yml", comment) == [(3, "borne # out")]


PYTHON = '''"""Say what is told."""

told = {"told": "a-told-b"}  # not told


DEF of(told):
    """Return.

    What it is told.
    """
    # Where it is borne
    # out by both.
    raise ValueError(f"the node told {told} of it")


DEF _was_told():
    return "told"


def test_what_is_told():
    return "retold #told"
'''.replace("DEF", "def")  # names that the lint of this file does not find


def test_python_is_read_for_docstrings_comments_messages_and_names(tmp_path: Path) -> None:
    expected = [(1, "told"), (3, "told"), (6, "def of"), (9, "told"), (11, "borne # out"), (13, "told"),
                (16, "def _was_told")]  # fmt: skip
    assert lines(tmp_path, "tools/one.py", PYTHON) == expected


def test_in_the_documentation_of_a_module_keys_and_markup_are_not_text(tmp_path: Path) -> None:
    text = "told:\n  told:\n    description: What is C(told) with O(told=V(told)).\n    told: told\n"
    assert lines(tmp_path, "plugins/modules/one.py", f'RETURN = """\n{text}"""\n') == [(5, "told")]


def test_the_strings_of_a_test_are_its_data(tmp_path: Path) -> None:
    text = 'def check():\n    """Tell."""\n    return "what it was told"  # fine\n'
    assert lines(tmp_path, "tests/test_one.py", text) == []
    # Its docstrings are read, even one of two words.
    assert lines(tmp_path, "tests/test_one.py", text.replace("Tell.", "Told that.")) == [(2, "Told")]
    assert lines(tmp_path, "tools/one.py", text) == [(3, "told")]


def test_an_exemption_holds_for_its_path_and_its_text_alone(tmp_path: Path) -> None:
    exempt = '[{path = "docs/", text = "told the truth", reason = "the usual phrase of English"}]'
    text = "She told the truth.\n\nAnd much that follows, so that the first is far enough away: it is told.\n"
    assert lines(tmp_path, "docs/a.md", text, exempt=exempt) == [(3, "told")]
    assert len(lines(tmp_path, "README.md", text, exempt=exempt)) == 2
    # The line of a function is such a text too.
    exempt = '[{path = "tools/", text = "def was_told(", reason = "the name of a key"}]'
    assert lines(tmp_path, "tools/a.py", "def was_told():\n    of_told()\n", exempt=exempt) == []
    assert lines(tmp_path, "tools/a.py", "def is_told():\n    pass\n", exempt=exempt) == [(1, "def is_told")]


@pytest.mark.parametrize(
    "text",
    [
        "not toml",
        RULES.format(exempt='[{path = "", text = "a", reason = "because"}]'),
        RULES.format(exempt='[{path = "", text = "", reason = "it is right here"}]'),
        RULES.format(exempt="[]").replace("told", "(told"),
        RULES.format(exempt="[]").replace("write", "writes"),
    ],
)
def test_a_list_that_is_wrong_is_an_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "words.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(lint.WordsError, match=r"words\.toml"):
        lint.load_rules(path)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path, text in {"a/one.md": "fine\n", "b/two.md": "fine\n", "c/three.md": "fine\n"}.items():
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(text, encoding="utf-8")
    loaded = rules(tmp_path)
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    monkeypatch.setattr(lint, "load_rules", lambda: loaded)
    monkeypatch.setattr(lint, "list_files", lambda paths: paths or ["a/one.md", "b/two.md", "c/three.md"])
    return tmp_path


def test_what_is_found_fails_with_file_line_and_replacement(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "b/two.md").write_text("fine\ntold\n", encoding="utf-8")
    assert lint.main([]) == 1
    assert "b/two.md:2: 'told': write: reported" in capsys.readouterr().out


def test_an_exemption_that_nothing_needs_must_go(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    phrase = lint.Exemption("", "told off", "the usual phrase of English")
    loaded = dataclasses.replace(lint.load_rules(), exemptions=(phrase,))
    monkeypatch.setattr(lint, "load_rules", lambda: loaded)
    assert lint.main([]) == 1
    assert "nothing needs the exemption of 'told off' in all files" in capsys.readouterr().out
    (tree / "b/two.md").write_text("told off\n", encoding="utf-8")
    assert lint.main([]) == 0


def test_every_file_that_an_exemption_names_is_there() -> None:
    real = lint.load_rules()
    assert [one.path for one in real.exemptions if not (ROOT / one.path).exists()] == []
    assert len(real.words) > 20
