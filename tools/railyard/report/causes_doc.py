"""Write docs/troubleshooting.md from the cause table: `python -m railyard.report.causes_doc [--check]`."""

from __future__ import annotations

import argparse
import sys

from railyard.base import paths

TARGET = paths.repo_root() / "docs" / "troubleshooting.md"

_HEAD = """# Troubleshooting

Generated from the cause table, `plugin_utils/judge/causes.py`, by
`python -m railyard.report.causes_doc`: do not edit.

Every verdict that is not good carries a `cause_class`, a `cause` (the sentence below, with what was seen
behind it) and a `next` step. `fail`: it was seen to be wrong. `unmeasured`: it was asked and no number can
be trusted; see first what else failed on that node and rail, since a link that is down explains the tests
that could not run over it.

| `cause_class` | what it means | what to do |
|---|---|---|
"""


def render() -> str:
    """Return the whole document, the same for the same table."""
    from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.causes import CAUSES

    rows = [f"| `{cause.name}` | {cause.sentence} | {cause.next} |" for cause in CAUSES.values()]
    return _HEAD + "\n".join(rows) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Write the document, or with `--check` return 1 when it is not up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when it is out of date")
    if not parser.parse_args(argv).check:
        TARGET.write_text(render(), encoding="utf-8")
        return 0
    seen = TARGET.read_text(encoding="utf-8") if TARGET.exists() else ""
    if seen == render():
        return 0
    sys.stderr.write(f"{TARGET} is out of date; run: python -m railyard.report.causes_doc\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
