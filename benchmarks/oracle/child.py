"""Judge run folders with the collection that stands first on sys.path; measure.py starts it.

`child.py ANSWERS SCRATCH` reads lines of JSON. `{"base", "run", "files"}` is a run folder: the lines of each file.
`{"of", "changes"}` is a case: that folder with changes, each `{"target", "edits": {FILE: {LINE: [LINES]}}}`. The
answer to a case is a line of ANSWERS. Of the judge nothing is known here but `judge_folder` and `line`.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

JUDGE = "ansible_collections.railyard.fabric.plugins.plugin_utils.judge"
#: The modules in which `judge_folder` is or was.
PLACES = (f"{JUDGE}.verdict.rejudge", f"{JUDGE}.rejudge")
#: A folder of a hundred tests takes milliseconds.
PATIENCE_S = 60
#: A judge may refuse a folder with these; anything else is a crash.
REFUSALS = ("JudgeError", "RunFolderError", "PolicyError")

Json = dict[str, Any]


def entry() -> Any:
    """Return the function that judges a folder.

    Raises:
        ModuleNotFoundError: this collection has none of PLACES.
    """
    for place in PLACES:
        try:
            return importlib.import_module(place).judge_folder
        except ModuleNotFoundError as error:
            if not place.startswith(str(error.name)):
                raise
    raise ModuleNotFoundError(f"no judge_folder in {' or '.join(PLACES)}; add its module to PLACES")


def rounded(value: Any) -> Any:
    """Return a value with numbers rounded to nine digits, so that the order of a sum does not matter."""
    if isinstance(value, dict):
        return {str(key): rounded(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(one) for one in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def line(verdict: Json) -> Json:
    """Return what is compared of a verdict; a judge with another form of verdicts is adapted here."""
    keys = ("outcome", "cause_class", "floor", "ceiling", "observed", "attempts", "reproduced")
    return {key: rounded(verdict.get(key)) for key in keys}


class Folder:
    """A healthy run folder, which is judged with changes."""

    def __init__(self, judge_folder: Any, path: Path, files: dict[str, list[str]]) -> None:
        self._judge_folder, self._path, self._files = judge_folder, path, files
        path.mkdir(parents=True)
        for name in files:
            self._write(name, {})

    def _write(self, name: str, edits: dict[str, list[str]]) -> None:
        lines = self._files[name]
        if edits:
            lines = [one for at, was in enumerate(lines) for one in edits.get(str(at), [was])]
        text = "".join(f"{one}\n" for one in lines)
        (self._path / name).write_text(text, encoding="utf-8", errors="surrogatepass")

    def once(self, changes: Sequence[Json]) -> Json:
        """Judge with these changes; a refusal and a crash are answers, too."""
        edits: dict[str, dict[str, list[str]]] = defaultdict(dict)
        for change in changes:
            for name, lines in change["edits"].items():
                edits[name].update(lines)
        for name, lines in edits.items():
            self._write(name, lines)
        signal.alarm(PATIENCE_S)
        try:
            judged = self._judge_folder(self._path)
            lines = {str(one["id"]): line(one) for one in judged.verdicts}
            return {"exit_status": judged.exit_status, "lines": lines}
        except Exception as error:
            name, last = type(error).__name__, traceback.extract_tb(error.__traceback__)[-1]
            if name in REFUSALS:
                return {"lost": f"refused {name}"}
            return {"lost": f"crash {name} in {Path(last.filename).stem}.{last.name}"}
        finally:
            signal.alarm(0)
            for name in edits:
                self._write(name, {})

    def answer(self, changes: Sequence[Json]) -> Json:
        """Judge with these changes; those with which alone there are no verdicts hide nothing of the others."""
        found = self.once(changes)
        if "lost" not in found or len(changes) == 1:
            return found
        each = [self.once([change]).get("lost") for change in changes]
        found = self.once([change for change, lost in zip(changes, each, strict=True) if not lost])
        for change, lost in zip(changes, each, strict=True):
            for target in change["target"] if lost else ():
                found.setdefault("lines", {})[target] = {"outcome": lost}
        return {**found, "exit_status": None}


def hung(_signal: int, _frame: object) -> NoReturn:
    """End a judgement that takes too long."""
    raise TimeoutError(f"not judged after {PATIENCE_S} s")


def main() -> None:
    """Judge all cases; print the CPU seconds that the judge took."""
    answers, scratch = map(Path, sys.argv[1:])
    judge_folder, folders, spent_s = entry(), {}, 0.0
    signal.signal(signal.SIGALRM, hung)
    with answers.open("w", encoding="utf-8") as out:
        for text in sys.stdin:
            case = json.loads(text)
            if "base" in case:
                path = scratch / str(len(folders)) / "made" / case["run"]
                folders[case["base"]] = Folder(judge_folder, path, case["files"])
                continue
            begun_s = time.process_time()
            found = folders[case["of"]].answer(case["changes"])
            spent_s += time.process_time() - begun_s
            out.write(json.dumps(found, sort_keys=True) + "\n")
    print(f"{spent_s:.1f}")


if __name__ == "__main__":
    main()
