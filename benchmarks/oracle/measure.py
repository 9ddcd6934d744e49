"""Judge healthy and spoilt runs with an earlier commit's judge and with today's, and compare each line.

python benchmarks/oracle/measure.py [--cases 2000] [--seed 0] [--values 24] [--new CHECKOUT] [--old COMMIT]

Prints a table of the differences. The exit status is 1 if one is not listed in allowed.yml, or is worse.
"""

from __future__ import annotations

import argparse
import fnmatch
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import cases
import yaml

#: The last commit before the judge was rebuilt.
OLD = "020e35cf"
PLUGINS = "collections/ansible_collections/railyard/fabric/plugins"
GOOD = ("pass", "recorded", "not_applicable")
COMPARED = ("floor", "ceiling", "observed", "attempts", "reproduced")
ALLOWED = Path(__file__).with_name("allowed.yml")

Json = dict[str, Any]


class Difference(NamedTuple):
    """A line on which the judges differ.

    Attributes:
        line: `spoilt`, `other` for a line whose rows are as they were, `run` for exit status and crashes.
        old: outcome and cause class by the old judge, or the exit status.
        new: the same by the new one.
        fields: the numbers that differ where outcome and cause do not.
        what: what was spoilt.
        base: the run in which it was.
    """

    line: str
    old: str
    new: str
    fields: str
    what: str
    base: str

    def worse(self) -> bool:
        """Tell whether no reason can allow it: what was not good is good now, or the judge crashes."""
        if self.new.startswith("crash"):
            return not self.old.startswith("crash")
        if self.line == "run":
            return self.new == "exit status 0"
        was, now = (one.partition(" ")[0] in GOOD for one in (self.old, self.new))
        lost = self.line == "other" and self.old.startswith("crash")
        return now and not was and not lost

    def allowed_by(self, entry: Json) -> bool:
        """Tell whether an entry of allowed.yml is of this difference."""
        return all(
            fnmatch.fnmatchcase(value, str(entry.get(key, default)))
            for key, value, default in zip(self._fields, self, ("spoilt", "", "", "", "*", "*"), strict=True)
        )


def outcome(line: Json | None) -> str:
    """Return a line's outcome and cause class as one text."""
    return " ".join(str(line[key]) for key in ("outcome", "cause_class") if line.get(key)) if line else "no line"


def differences(old: Json, new: Json, base: str, changes: list[Json]) -> Iterator[Difference]:
    """Yield in what two answers to one case differ."""
    what = {target: one["what"] for one in changes for target in one["target"]}
    every = " + ".join(one["what"] for one in changes) or "nothing"
    if len(changes) > 1:
        every = f"{len(changes)} changes"
    ends = [one.get("lost") or f"exit status {one['exit_status']}" for one in (old, new)]
    if ends[0] != ends[1] and "exit status None" not in ends:
        yield Difference("run", *ends, "", every, base)
    if "lost" in old and "lost" in new:
        return
    mine, its = (one.get("lines", {}) for one in (old, new))
    for identity in {**mine, **its}:
        one, other = mine.get(identity), its.get(identity)
        if one == other:
            continue
        line = "spoilt" if identity in what else "other"
        texts = [found.get("lost") or outcome(seen) for found, seen in ((old, one), (new, other))]
        fields = [key for key in COMPARED if one and other and one.get(key) != other.get(key)]
        if texts[0] != texts[1] or fields:
            named = "" if texts[0] != texts[1] else " ".join(fields)
            yield Difference(line, *texts, named, what.get(identity, every), base)


def extract(commit: str, target: Path) -> Path:
    """Write a commit's collection below a folder and return what goes on its PYTHONPATH."""
    command = ["git", "-C", str(cases.ROOT), "archive", commit, PLUGINS]
    packed = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(target, filter="data")
    return target / "collections"


class Judges:
    """The judges, each in a process of its own, which get every line of the cases."""

    def __init__(self, places: dict[str, Path], scratch: Path) -> None:
        self._answers = {name: scratch / f"{name}.jsonl" for name in places}
        self._running = {
            name: subprocess.Popen(
                [sys.executable, "-B", str(Path(__file__).with_name("child.py")), str(self._answers[name]), str(scratch / name)],
                env={**os.environ, "PYTHONPATH": str(place)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for name, place in places.items()
        }  # fmt: skip

    def give(self, given: Json) -> None:
        """Give a line to each."""
        text = json.dumps(given) + "\n"
        for one in self._running.values():
            one.stdin.write(text)  # type: ignore[union-attr]

    def end(self) -> tuple[dict[str, str], Iterator[tuple[str, ...]]]:
        """Return the CPU seconds that each took, and the answers to each case.

        Raises:
            RuntimeError: one of them ended before its time.
        """
        said = {name: one.communicate()[0].strip() for name, one in self._running.items()}
        for name, one in self._running.items():
            if one.returncode:
                raise RuntimeError(f"the process of the {name} judge ended with status {one.returncode}")
        streams = [path.open(encoding="utf-8") for path in self._answers.values()]
        return said, zip(*streams, strict=True)


def table(found: Counter[Difference], allowed: list[Json]) -> int:
    """Print the differences by what they have in common, and return how many are not allowed."""
    groups: dict[tuple[str, ...], list[Difference]] = {}
    used, refused = set(), 0
    for one in found:
        number = next((at for at, entry in enumerate(allowed) if one.allowed_by(entry)), None)
        used |= {number}
        mark = "WORSE" if one.worse() else "not listed" if number is None else f"allowed {number + 1}"
        what = " ".join(one.what.split(" ")[:3])
        groups.setdefault((mark, one.line, one.old, one.new, one.fields, what), []).append(one)
    for key, many in sorted(groups.items(), key=lambda group: (group[0][0][:1] != "W", group[0][0], -len(group[1]))):
        count = sum(found[one] for one in many)
        refused += 0 if key[0].startswith("allowed") else count
        print(f"{count:6} {key[0]:11} {key[1]:6} {key[2]} -> {key[3]} {key[4]}")
        print(f"       {len(many)} places, as {many[0].base}: {many[0].what[:160]}")
    for number in {*range(len(allowed))} - used:
        print(f"       allowed {number + 1} fits nothing: {allowed[number]['reason']}")
    return refused


def main() -> int:
    """Compare the judges on all cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000, help="how many are drawn")
    parser.add_argument("--seed", type=int, default=0, help="what they are drawn with")
    parser.add_argument("--values", type=int, default=len(cases.VALUES), help="how many each field gets")
    parser.add_argument("--new", type=Path, default=cases.ROOT, help="another checkout")
    parser.add_argument("--old", default=OLD, help="the commit of the old judge")
    parser.add_argument("--only", nargs="+", default=[], metavar="RUN", help="spoil these runs alone")
    options = parser.parse_args()
    allowed = yaml.safe_load(ALLOWED.read_text(encoding="utf-8")) or []
    begun_s, given, bases = time.monotonic(), [], {}
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        places = {"old": extract(options.old, scratch / "commit"), "new": options.new / "collections"}
        judges = Judges(places, scratch)
        for base, changes in cases.all_cases(options.cases, options.seed, options.values, options.only):
            if base.name not in bases:
                bases[base.name] = base
                judges.give({"base": base.name, "run": base.run, "files": base.files})
            judges.give({"of": base.name, "changes": changes})
            given.append((base.name, [{**one, "edits": {}} for one in changes]))
        spent_s, answers = judges.end()
        found: Counter[Difference] = Counter()
        lines, spoilt = 0, 0
        for (base_name, changes), (old, new) in zip(given, answers, strict=True):
            lines += new.count('"outcome"')
            spoilt += sum(len(one["target"]) for one in changes)
            if not changes and '"exit_status": 0' not in old:
                print(f"{base_name} is no healthy run")
            if old != new:
                found.update(differences(json.loads(old), json.loads(new), base_name, changes))
    refused = table(found, allowed)
    print(
        f"{len(bases)} runs, {len(given)} cases with {sum(len(many) for _name, many in given)} changes: {lines} lines,"
        f" {spoilt} of them spoilt; {found.total()} differences, {refused} not allowed;"
        f" {time.monotonic() - begun_s:.0f} s, CPU s of the judges: old {spent_s['old']}, new {spent_s['new']}"
    )
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
