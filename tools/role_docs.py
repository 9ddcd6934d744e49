#!/usr/bin/env python3
"""Writes the table of variables in each role's README from its argument_specs, and checks that they agree.

    tools/role_docs.py            write the tables
    tools/role_docs.py --check    change nothing; exit 1 and say what differs

argument_specs is where a variable is described; defaults/main.yml is where it gets its value. Both name every
public variable, so that a reader finds it in either, and both are checked to be equal here.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

BEGIN = "<!-- variables:begin -->"
END = "<!-- variables:end -->"


class RoleError(Exception):
    """A role that cannot be documented; the message names the file and the fix."""


def load_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in the file, empty when the file is absent or empty.

    Raises:
        RoleError: The file holds something else, or is not YAML.
    """
    if not path.is_file():
        return {}
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise RoleError(f"{path}: not YAML: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise RoleError(f"{path}: a mapping is expected, not a {type(document).__name__}")
    return document


def read_options(role: Path) -> dict[str, dict[str, Any]]:
    """Return the options of the role's entry point `main`, by name.

    Raises:
        RoleError: The role has no argument_specs for `main`.
    """
    path = role / "meta" / "argument_specs.yml"
    try:
        options = load_yaml(path)["argument_specs"]["main"]["options"]
    except (KeyError, TypeError) as error:
        raise RoleError(f"{path}: argument_specs.main.options is missing") from error
    return dict(options or {})


def find_differences(role: Path) -> list[str]:
    """Return what differs between the role's argument_specs and its defaults, one sentence each."""
    specs = read_options(role)
    defaults = load_yaml(role / "defaults" / "main.yml")
    where = f"roles/{role.name}"
    problems = [
        f"{where}: {name} is in defaults/main.yml but not in meta/argument_specs.yml"
        for name in sorted(defaults.keys() - specs.keys())
    ]
    for name, option in sorted(specs.items()):
        if option.get("required"):
            if name in defaults:
                problems.append(f"{where}: {name} is required, so it must not have a default")
        elif name not in defaults:
            problems.append(f"{where}: {name} is in meta/argument_specs.yml but not in defaults/main.yml")
        elif "default" not in option:
            problems.append(f"{where}: {name} has a default that meta/argument_specs.yml does not say")
        elif not _same(option["default"], defaults[name]):
            problems.append(
                f"{where}: {name} is {defaults[name]!r} in defaults/main.yml, {option['default']!r} in "
                "meta/argument_specs.yml"
            )
        if not option.get("description"):
            problems.append(f"{where}: {name} has no description in meta/argument_specs.yml")
        if not name.startswith(f"{role.name}_"):
            problems.append(f"{where}: {name} does not begin with the role's name")
    return problems


def render_table(options: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the Markdown table of the options, in the order of the specs."""
    lines = ["| Variable | Type | Default | Meaning |", "|---|---|---|---|"]
    for name, option in options.items():
        kind = str(option.get("type", "str"))
        if option.get("elements"):
            kind += f" of {option['elements']}"
        if option.get("choices"):
            kind += ": " + ", ".join(f"`{choice}`" for choice in option["choices"])
        default = "required" if option.get("required") else _code(option.get("default"))
        lines.append(f"| `{name}` | {kind} | {default} | {_prose(option.get('description', ''))} |")
    return "\n".join(lines)


def place_table(readme: str, table: str, path: Path) -> str:
    """Return the README's text with the table between the markers.

    Raises:
        RoleError: A marker is missing.
    """
    if readme.count(BEGIN) != 1 or readme.count(END) != 1 or readme.index(BEGIN) > readme.index(END):
        raise RoleError(f"{path}: the table goes between one {BEGIN} and one {END}; add them")
    before, rest = readme.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def document_role(role: Path, check: bool) -> list[str]:
    """Write the role's table, or with `check` only compare; return the problems."""
    problems = find_differences(role)
    path = role / "README.md"
    if not path.is_file():
        return [*problems, f"roles/{role.name}: README.md is missing"]
    now = path.read_text(encoding="utf-8")
    wanted = place_table(now, render_table(read_options(role)), path)
    if now != wanted:
        if check:
            problems.append(f"roles/{role.name}: README.md is stale; run tools/role_docs.py")
        else:
            path.write_text(wanted, encoding="utf-8")
    return problems


def main(argv: list[str] | None = None) -> int:
    """Run for every folder in roles/; return 1 when something is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, exit 1 on a difference")
    parser.add_argument("--roles", type=Path, default=Path(__file__).resolve().parents[1] / "roles")
    arguments = parser.parse_args(argv)
    roles = sorted(path for path in arguments.roles.iterdir() if (path / "meta").is_dir())
    problems = []
    for role in roles:
        try:
            problems += document_role(role, arguments.check)
        except RoleError as error:
            problems.append(str(error))
    for problem in problems:
        print(f"role_docs: {problem}", file=sys.stderr)
    if not roles:
        print(f"role_docs: no role in {arguments.roles}", file=sys.stderr)
    return 1 if problems or not roles else 0


def _same(first: Any, second: Any) -> bool:
    """Compare two YAML values; 1, 1.0 and true are three things here, though Python calls them equal."""
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_same(first[key], second[key]) for key in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(first, str):
        # A template folded over lines at other places is the same template.
        return bool(first.split() == second.split())
    equal: bool = first == second
    return equal


def _code(value: Any) -> str:
    """Return a default as it would be written in YAML on one line, in backticks and safe inside a table."""
    if isinstance(value, str):
        text = " ".join(value.split()) or '""'
    else:
        dumped: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
        text = dumped.removesuffix("...\n").strip()
    return f"`{_escape(text)}`"


def _prose(description: Any) -> str:
    """Return a description (a text or a list of paragraphs) on one line, safe inside a table."""
    paragraphs = description if isinstance(description, list) else [description]
    return _escape(" ".join(" ".join(str(paragraph).split()) for paragraph in paragraphs))


def _escape(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text)


if __name__ == "__main__":
    sys.exit(main())
