"""Judge healthy and spoilt runs by an earlier commit's judge and this checkout's; compare each line.

python benchmarks/oracle/measure.py [--cases 2000] [--seed 0] [--values 6] [--recorded FILE...]
    [--new CHECKOUT] [--old COMMIT] [--only RUN...]

Prints the differences. The exit status is 1 if one is not listed in allowed.yml, or is worse by definition.
"""

from __future__ import annotations

import argparse
import fnmatch
import io
import itertools
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import cases
import yaml

Json = dict[str, Any]

#: The last commit before the judge was rebuilt.
OLD = "020e35cf"
PLUGINS = "collections/ansible_collections/railyard/fabric/plugins"
HERE = Path(__file__).parent
GOOD = ("pass", "recorded", "not_applicable")
NUMBERS = ("floor", "ceiling", "observed", "attempts", "reproduced")


class Difference(NamedTuple):
    """A line of which the judges differ.

    Attributes:
        line: `spoilt`; `other`, if its own rows are as they were; `run`: exit status, or no verdicts at all.
        old: outcome and cause class by the old judge; of a run its exit status, refusal or crash.
        new: the same by the new one.
        numbers: which of NUMBERS differ, where outcome and cause do not.
        what: what was spoilt.
        run: the name of the healthy run.
    """

    line: str
    old: str
    new: str
    numbers: str
    what: str
    run: str

    def is_worse(self) -> bool:
        """Tell whether no reason can allow it: a new crash, or good now where it was not."""
        if self.new.startswith("crash"):
            return not self.old.startswith("crash")
        if self.line == "run":
            return self.new == "exit status 0"
        was, now = (one.partition(" ")[0] in GOOD for one in (self.old, self.new))
        # Where the old judge gave no verdicts at all, the lines of other tests may be good.
        return now and not was and not (self.line == "other" and self.old.startswith("crash"))

    def is_of(self, entry: Json) -> bool:
        """Tell whether an entry of allowed.yml fits it: one pattern of each key's."""
        wanted = {"line": "spoilt", "numbers": "", "what": "*", "run": "*", **entry}
        patterns = {key: one if isinstance(one, list) else [one] for key, one in wanted.items()}
        return all(
            any(fnmatch.fnmatchcase(value, pattern) for pattern in patterns[key])
            for key, value in self._asdict().items()
        )


def differences(old: Json, new: Json, run: str, changes: list[Json]) -> Iterator[Difference]:
    """Yield in what two answers to a case differ; of the exit status where no line is the reason."""
    targets = {target: one["what"] for one in changes for target in one["target"]}
    every = " + ".join(one["what"] for one in changes)
    ends = [one.get("lost") or f"exit status {one['exit_status']}" for one in (old, new)]
    lines = [one.get("lines", {}) for one in (old, new)]
    unlike = [one for one in {**lines[0], **lines[1]} if lines[0].get(one) != lines[1].get(one)]
    if ends[0] != ends[1] and "exit status None" not in ends:
        found = Difference("run", *ends, "", every, run)
        if not unlike or "lost" in old or found.is_worse():
            yield found
    for identity in unlike:
        seen = [one.get(identity, {"outcome": "no line"}) for one in lines]
        words = [f"{one['outcome']} {one.get('cause_class') or ''}".strip() for one in seen]
        words = [one.get("lost") or word for one, word in zip((old, new), words, strict=True)]
        numbers = [key for key in NUMBERS if words[0] == words[1] and seen[0].get(key) != seen[1].get(key)]
        line = "spoilt" if identity in targets else "other"
        yield Difference(line, *words, " ".join(numbers), targets.get(identity, every), run)


def extract(commit: str, target: Path) -> Path:
    """Write a commit's collection below a folder, and return what is its PYTHONPATH."""
    command = ["git", "-C", str(cases.ROOT), "archive", commit, PLUGINS]
    packed = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(target, filter="data")
    return target / "collections"


def answers(
    many: Iterator[cases.Case], places: list[Path], scratch: Path
) -> Iterator[tuple[str, list[Json], str, str]]:
    """Have each case judged by the code of each place, in processes of their own; yield both answers to each.

    Raises:
        RuntimeError: one of the processes ended before its time.
    """
    files = [scratch / f"{number}.jsonl" for number in range(len(places))]
    children = [
        subprocess.Popen(
            [sys.executable, "-B", str(HERE / "child.py"), str(file), str(scratch / file.stem)],
            env={**os.environ, "PYTHONPATH": str(place)}, stdin=subprocess.PIPE, text=True,
        )
        for file, place in zip(files, places, strict=True)
    ]  # fmt: skip
    given: dict[str, cases.Base] = {}
    asked = []
    for base, changes in many:
        lines: list[Json] = [{"of": base.name, "changes": changes}]
        if given.get(base.name) is not base:
            given[base.name] = base
            lines.insert(0, {"base": base.name, "run": base.run, "files": base.files})
        for child, line in itertools.product(children, lines):
            child.stdin.write(json.dumps(line) + "\n")  # type: ignore[union-attr]  # it is a pipe
        asked.append((base.name, [{**one, "edits": {}} for one in changes]))
    for child, place in zip(children, places, strict=True):
        child.communicate()
        if child.returncode:
            raise RuntimeError(f"the judge of {place} ended with status {child.returncode}")
    with files[0].open(encoding="utf-8") as old, files[1].open(encoding="utf-8") as new:
        for (name, changes), *both in zip(asked, old, new, strict=True):
            yield name, changes, *both


def report(found: Counter[Difference]) -> int:
    """Print the differences by what they have in common, and return how many are not allowed."""
    allowed = yaml.safe_load((HERE / "allowed.yml").read_text(encoding="utf-8")) or []
    groups: dict[tuple[str, ...], list[Difference]] = {}
    unused, refused = dict(enumerate(allowed, 1)), 0
    for one in found:
        number = next((at for at, entry in enumerate(allowed, 1) if one.is_of(entry)), 0)
        unused.pop(number, None)
        mark = "WORSE" if one.is_worse() else f"allowed {number}" if number else "NOT LISTED"
        refused += found[one] if mark.isupper() else 0
        groups.setdefault((mark, *one[:4]), []).append(one)
    for (mark, line, old, new, numbers), many in sorted(groups.items()):
        print(f"{sum(found[one] for one in many):6} {mark:10} {line:6} {old} -> {new} {numbers}")
        # Of a change of a field: check, end, field, what was done, value.
        spoilt = Counter(" ".join(one.what.split(" ")[2:4]) for one in many)
        print(f"       {', '.join(f'{field} {count}' for field, count in spoilt.most_common(8))}")
        print(f"       as in {many[0].run!r}: {many[0].what[:160]}")
    for number, entry in unused.items():
        print(f"       allowed {number} fits nothing now: {entry['reason']}")
    return refused


def main() -> int:
    """Compare the judges."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=2000, help="how many are drawn")
    parser.add_argument("--seed", type=int, default=0, help="what they are drawn with")
    parser.add_argument("--values", type=int, default=6, help=f"of {len(cases.VALUES)}, for each field")
    parser.add_argument("--recorded", type=Path, nargs="+", help="judge what record.py kept instead")
    parser.add_argument("--new", type=Path, default=cases.ROOT, help="another checkout")
    parser.add_argument("--old", default=OLD, help="the commit of the old judge")
    parser.add_argument("--only", nargs="+", default=[], metavar="RUN", help="spoil these runs alone")
    options = parser.parse_args()
    many = cases.all_cases(options.cases, options.seed, options.values, options.only)
    if options.recorded:
        many = cases.recorded(options.recorded)
    begun_s = time.monotonic()
    found: Counter[Difference] = Counter()
    count: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        codes = [extract(options.old, Path(place) / "old"), options.new.resolve() / "collections"]
        for run, changes, old, new in answers(many, codes, Path(place)):
            count += Counter(cases=1, changes=len(changes), lines=old.count('"outcome"'))
            if not changes and '"exit_status": 0' not in old and not options.recorded:
                print(f"{run!r} is no healthy run")
            if old != new:
                found.update(differences(json.loads(old), json.loads(new), run, changes))
    refused = report(found)
    took_s = time.monotonic() - begun_s
    print(f"{dict(count)} in {took_s:.0f} s: {found.total()} differences, {refused} not allowed")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
