"""Write the tables in docs/ that are made from the code: `python -m railyard.report.made_docs [--check]`.

A table stands between `<!-- table NAME -->` and `<!-- end -->`; all around it is written by hand.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping

from ansible_collections.railyard.fabric.plugins.module_utils.schedule.policy_keys import KEYS
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import schema
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.causes import CAUSES

from railyard.base import paths

DOCS = paths.repo_root() / "docs"
NAMES = ("troubleshooting.md", "inventory.md")


def causes() -> Iterator[tuple[str, ...]]:
    """Yield the cause table's rows."""
    yield "`cause_class`", "what it means", "what to do"
    for cause in CAUSES.values():
        yield f"`{cause.name}`", cause.sentence, cause.next


def fields(of: Mapping[str, schema.Field]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of one mapping's keys."""
    yield "key", "meaning"
    for name, field in of.items():
        yield f"`{name}`", field.meaning


def policy_keys() -> Iterator[tuple[str, ...]]:
    """Yield the rows of `fabric_policy`."""
    yield "key", "default", "allowed", "meaning"
    for name, key in KEYS.items():
        allowed = {"switch": "`true`, `false`", "own": "as its meaning says"}.get(key.kind)
        shown = json.dumps(key.default).replace('"', "")
        numbers = f"{key.least:.15g} to {key.most:.15g}" + (", whole" if key.kind == "whole" else "")
        yield f"`{name}`", f"`{shown}`", allowed or numbers, key.meaning


TABLES = {
    "causes": causes,
    "fabric": lambda: fields(schema.FABRIC),
    "rail": lambda: fields(schema.RAIL),
    "frontend": lambda: fields(schema.FRONTEND),
    "network": lambda: fields(schema.NETWORK),
    "policy": policy_keys,
}


def made(text: str) -> str:
    """Return a document with each of its tables as the code has it."""
    return re.sub(
        r"<!-- table (\w+) -->\n.*?<!-- end -->\n",
        lambda found: f"<!-- table {found[1]} -->\n{_table(found[1])}<!-- end -->\n",
        text,
        flags=re.DOTALL,
    )


def _table(name: str) -> str:
    head, *rows = TABLES[name]()
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]]) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Write the documents, or with `--check` return 1 when one is not up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when one is out of date")
    check = parser.parse_args(argv).check
    status = 0
    for path in (DOCS / name for name in NAMES):
        seen = path.read_text(encoding="utf-8")
        if seen != made(seen) and check:
            sys.stderr.write(f"{path} is out of date; run: python -m railyard.report.made_docs\n")
            status = 1
        elif seen != made(seen):
            path.write_text(made(seen), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
