"""What the documents point at is there: a map with a wrong street is worse than none."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
from railyard import cli
from railyard.base.paths import repo_root
from railyard.lab import cli as lab_cli

ROOT = repo_root()
PLUGINS = ROOT / "collections/ansible_collections/railyard/fabric/plugins"
TOOLS = ROOT / "tools/railyard"
LIST = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
ALL = subprocess.run(LIST, cwd=ROOT, capture_output=True, text=True, check=True)
TEXTS = {name: (ROOT / name).read_text(encoding="utf-8") for name in ALL.stdout.split()}
ARCHITECTURE = TEXTS["docs/architecture.md"]
# Where a user reads what to type.
TOLD = ("README.md", *(name for name in TEXTS if name.startswith(("docs/", "inventories/"))))
OURS = re.compile(
    r"(F|T|benchmarks|collections|docs|inventories|molecule|playbooks|plugins|roles|tests|tools"
    r"|(module|plugin)_utils)/"
)
# What a user makes, or is to put a name into.
MADE = re.compile(r"inventories/(mine|pair)|.*\.\.\.|.*//")


def named_paths(text: str) -> set[str]:
    """Return what is in backticks or in a link and is a path of this tree."""
    found = {one for one in re.findall(r"`([\w./-]+)`", text) if OURS.match(one)}
    return found | set(re.findall(r"\]\((?!http)([\w./-]+)(?:#[\w-]+)?\)", text))


def there(path: str) -> Path:
    """Return where a path with one of the documents' short prefixes is."""
    short = {"F": PLUGINS, "T": TOOLS, "module_utils": PLUGINS / "module_utils"}
    short["plugin_utils"], short["plugins"] = PLUGINS / "plugin_utils", PLUGINS
    first, _, rest = path.partition("/")
    return short[first] / rest if first in short else ROOT / path


@pytest.mark.parametrize("document", TEXTS)
def test_every_path_in_a_document_exists(document: str) -> None:
    here = (ROOT / document).parent
    paths = [path for path in named_paths(TEXTS[document]) if not MADE.match(path)]
    assert [one for one in paths if not there(one).exists() and not (here / one).exists()] == []


@pytest.mark.parametrize("document", TEXTS)
def test_every_block_of_code_has_its_beginning_and_its_end(document: str) -> None:
    fences = re.findall(r"^ *```(.*)$", TEXTS[document], flags=re.MULTILINE)
    assert len(fences) % 2 == 0
    assert set(fences[1::2]) <= {""}, "an end has no name of a language"


def packages(folder: Path) -> set[str]:
    """Return the names of the folders with Python right below one."""
    return {path.parent.name for path in folder.glob("*/*.py")}


ROWS = re.findall(r"^\| `([FT]/[\w/]+)` \| (.*?) \| (.*?) \|", ARCHITECTURE, re.MULTILINE)


def test_every_package_has_its_row_and_every_row_its_package() -> None:
    tree = [f"{home}/{name}" for home in ("F/module_utils", "F/plugin_utils", "T")
            for name in packages(there(f"{home}/"))]  # fmt: skip
    for package in [*tree]:
        # One that holds packages alone has a row for each of them.
        if {path.name for path in there(package).glob("*.py")} == {"__init__.py"}:
            tree.remove(package)
            tree += [f"{package}/{name}" for name in packages(there(package))]
    assert sorted(package for package, _words, _entry in ROWS) == sorted(tree)


(PICTURE,) = re.findall(r"```\n( a person.*?)```", ARCHITECTURE, re.DOTALL)


def test_every_package_is_in_the_picture_and_nothing_else() -> None:
    drawn = " ".join(re.findall(r"^ │ {8}([a-z_ ]+?) *│", PICTURE, re.MULTILINE)).split()
    assert sorted(drawn) == sorted(["cli", *(package.split("/")[-1] for package, _words, _entry in ROWS)])


@pytest.mark.parametrize(("package", "words"), [row[:2] for row in ROWS])
def test_a_row_names_the_packages_within_its_package(package: str, words: str) -> None:
    assert set(re.findall(r"`(\w+)/`", words)) == packages(there(package))


def test_every_function_that_the_map_names_is_in_the_file_that_it_names() -> None:
    texts = ARCHITECTURE + TEXTS["CONTRIBUTING.md"] + TEXTS["docs/extending.md"]
    pairs = re.findall(r"`(F/[\w/]+\.py)`,\s+`(\w+)`", texts)
    for package, _words, entry in ROWS:
        for part in entry.split(";"):
            file, *names = re.findall(r"`([\w.]+)`", part)
            pairs += [(f"{package}/{file}", name) for name in names or [""]]
    assert len(pairs) > 40
    for file, name in pairs:
        text = there(file).read_text(encoding="utf-8")
        assert re.search(rf"^ *(def {name}\(|{name}\b[^=\n]*=)" if name else "", text, re.M), (file, name)


def commands(program: str) -> list[list[str]]:
    """Return the arguments of each call of a program in the code of the documents for users."""
    found = []
    for text in (TEXTS[name] for name in TOLD):
        blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.M | re.S)
        code = [*blocks, *re.findall(r"`([^`\n]+)`", text)]
        lines = "\n".join(code).replace("\\\n", " ").splitlines()
        found += [shlex.split(one, comments=True) for one in lines if re.match(rf" *{program} ", one)]
    return found


@functools.cache
def group_of(is_lab: bool) -> Any:
    """Return the commands of railyard, or those of its lab, whose options typer takes a while to read."""
    return typer.main.get_command(lab_cli.app if is_lab else cli.app)


def options_of(words: list[str]) -> tuple[list[str], set[str]]:
    """Return a call's options before `--`, and the options that its verb has."""
    own = words[: words.index("--")] if "--" in words else words
    verb = group_of(words[1] == "lab")
    for word in words[2 if words[1] == "lab" else 1 :]:
        verb = getattr(verb, "commands", {}).get(word) or verb
    known = {option for one in verb.params for option in (*one.opts, *one.secondary_opts)}
    return [one.split("=")[0] for one in own[1:] if one.startswith("-")], known | {
        "--install-completion",
        "--help",
    }


def test_every_verb_and_option_of_railyard_in_the_docs_exists() -> None:
    told = commands("railyard")
    assert len(told) > 25
    for words in told:
        used, known = options_of(words)
        assert set(used) <= known, words


def test_every_variable_tag_and_target_in_the_docs_exists() -> None:
    told = [TEXTS[name] for name in TOLD]
    places = [*ROOT.glob("playbooks/**/*.yml"), *ROOT.glob("roles/*/*/*.yml")]
    known = "\n".join(path.read_text(encoding="utf-8") for path in places)
    variables = set(re.findall(r"(?:`|-e )((?:railyard|rail_network)_\w+)=\w", "".join(told)))
    assert len(variables) > 6
    assert [name for name in variables if not re.search(rf"\b{name}\b", known)] == []
    tags = set(re.findall(r"--tags (\w+)", "".join(told)))
    assert [tag for tag in tags if f"tags: [{tag}" not in known] == []
    targets = {words[1] for words in commands("make")}
    assert targets >= {"demo", "test", "setup"}
    made = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert targets <= set(made)


@pytest.mark.parametrize("pins", ["3.11", "3.11-develop", "3.12", "3.12-develop"])
def test_each_pin_has_the_hashes_of_its_files_and_names_no_index(pins):
    text = (ROOT / f"requirements/python{pins}.txt").read_text(encoding="utf-8")
    lines = [line for line in text.replace("\\\n", " ").splitlines() if not line.startswith("#")]
    assert len(lines) > 20
    assert [
        line for line in lines if not re.fullmatch(r"\S+==\S+( +--hash=sha256:[0-9a-f]{64})+", line)
    ] == []


@pytest.mark.parametrize("python", ["3.11", "3.12"])
def test_no_package_is_pinned_twice_for_an_interpreter(python):
    files = [ROOT / f"requirements/python{python}{part}.txt" for part in ("-build", "", "-develop")]
    names = re.findall(r"^([\w.-]+)==", "\n".join(file.read_text(encoding="utf-8") for file in files), re.M)
    assert len(names) > 60
    assert sorted(name.lower() for name in names) == sorted({name.lower() for name in names})
