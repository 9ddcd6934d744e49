"""Judge run folders with the collection that is first on sys.path; measure.py starts it.

`child.py ANSWERS SCRATCH` reads lines of JSON. `{"base", "run", "files"}` is a run folder: the lines of each
file. `{"of", "changes"}` is a case, that folder with changes; each is `{"target", "edits"}`, and `edits` is
`{FILE: {LINE: [LINES]}}`. Its answer is a line of ANSWERS. Of the judge only `entry` and `compared` know.
"""

from __future__ import annotations

import importlib
import json
import shutil
import signal
import sys
import traceback
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

Json = dict[str, Any]

JUDGE = "ansible_collections.railyard.fabric.plugins.plugin_utils.judge"
#: The modules in which `judge_folder` is or was.
PLACES = (f"{JUDGE}.verdict.rejudge", f"{JUDGE}.rejudge")
KEYS = ("outcome", "cause_class", "floor", "ceiling", "observed", "attempts", "reproduced")
#: A judge may refuse a folder with these; anything else is a crash.
REFUSALS = ("JudgeError", "RunFolderError", "PolicyError")
#: A folder of a hundred tests takes milliseconds.
PATIENCE_S = 60


def entry() -> Any:
    """Return the function that judges a folder."""
    for place in PLACES:
        with suppress(ModuleNotFoundError):
            return importlib.import_module(place).judge_folder
    raise ModuleNotFoundError(f"no judge_folder in any of {PLACES}; add where it is to PLACES")


def compared(judged: Any) -> Any:
    """Return id -> what is compared of its verdict; a judge with another form of verdicts is adapted here."""
    lines = {str(one["id"]): {key: one.get(key) for key in KEYS} for one in judged.verdicts}
    # Nine digits, so that the order of a sum does not matter.
    return json.loads(json.dumps(lines), parse_float=lambda text: float(f"{float(text):.9g}"))


class Folder:
    """A run folder that is judged with changes."""

    def __init__(self, judge_folder: Any, path: Path, files: dict[str, list[str]]) -> None:
        self._judge_folder, self._path, self._files = judge_folder, path, files
        path.mkdir(parents=True)
        for name in files:
            self._write(name, {})

    def _write(self, name: str, edits: dict[str, list[str]]) -> None:
        lines = [one for at, was in enumerate(self._files[name]) for one in edits.get(str(at), [was])]
        (self._path / name).write_text("".join(f"{one}\n" for one in lines), encoding="utf-8")

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
            return {"exit_status": judged.exit_status, "lines": compared(judged)}
        except Exception as error:
            name, last = type(error).__name__, traceback.extract_tb(error.__traceback__)[-1]
            where = f"crash {name} in {Path(last.filename).stem}.{last.name}"
            return {"lost": f"refused {name}" if name in REFUSALS else where}
        finally:
            signal.alarm(0)
            for name in edits:
                self._write(name, {})

    def answer(self, changes: Sequence[Json]) -> Json:
        """Judge with these changes; one with which there are no verdicts hides nothing of the others."""
        found = self.once(changes)
        if "lost" not in found or len(changes) == 1:
            return found
        each = [(one, self.once([one]).get("lost")) for one in changes]
        found = self.once([one for one, lost in each if not lost])
        gone = {target: {"outcome": lost} for one, lost in each if lost for target in one["target"]}
        return {**found, "exit_status": None, "lines": found.get("lines", {}) | gone}


def hung(_signal: int, _frame: object) -> NoReturn:
    """End a judgement that takes too long."""
    raise TimeoutError(f"not judged after {PATIENCE_S} s")


def main() -> None:
    """Judge all cases."""
    answers, scratch = map(Path, sys.argv[1:])
    judge_folder = entry()
    folders: dict[str, Folder] = {}
    signal.signal(signal.SIGALRM, hung)
    with answers.open("w", encoding="utf-8") as out:
        for case in map(json.loads, sys.stdin):
            if "base" in case:
                path = scratch / case["base"] / "made"
                shutil.rmtree(path, ignore_errors=True)
                folders[case["base"]] = Folder(judge_folder, path / case["run"], case["files"])
            else:
                found = folders[case["of"]].answer(case["changes"])
                out.write(json.dumps(found, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
