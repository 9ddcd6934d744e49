"""Mutants of what gives a verdict: does a test fail for each small change of the code?

    python benchmarks/mutation/campaign.py              # what has no result yet; goes on where it was stopped
    python benchmarks/mutation/campaign.py judge/attribution/fleet  # of some modules, which several may share
    python benchmarks/mutation/campaign.py --table      # what has been found so far, and what survived

A mutant is one operator, condition, number or return of a module, changed in memory alone. It is known by
function, text and change, so that its line in results.jsonl holds while its function stays as it is; a
survivor runs again when the tests have changed. equivalents.yml names those that no test can tell apart.
Only tests that run the mutated lines are run, the module's own first. Needs Python 3.12 (`sys.monitoring`).
"""

from __future__ import annotations

import argparse
import functools
import gc
import hashlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import types
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO, Any

import pytest
import yaml
from hypothesis import HealthCheck, settings
from mutants import Hook, Module, Mutant

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS, EQUIVALENTS = HERE / "results.jsonl", HERE / "equivalents.yml"
FABRIC = Path("collections/ansible_collections/railyard/fabric")
UNIT = FABRIC / "tests/unit/plugins"
REPORT = Path("tests/tools/report")
JUDGE, BOUNDS = "plugin_utils/judge", "plugin_utils/bounds"
MEASURE, RUNNER = "module_utils/measure", "module_utils/runner"
#: The tests of which rows are trusted.
TRUSTED = ("evidence", "false_pass", "false_pass_rdma", "rdma_without_ip", "row_counters")
#: Module -> the names of its own tests' files; the others of TESTS follow.
MODULES = {
    f"{JUDGE}/verdict/verdict": ("verdict", "attempts", "forged", "fleet"),
    f"{JUDGE}/verdict/pair_tests": ("pair_tests", "verdict", "attempts", "forged"),
    f"{JUDGE}/verdict/sums": ("sums", "attempts"),
    f"{JUDGE}/verdict/node_tests": ("node_tests", "verdict", "bmc"),
    f"{JUDGE}/attribution/attempts": ("attempts",),
    f"{JUDGE}/rules/trusted_rows": TRUSTED,
    f"{JUDGE}/rules/end_rules": ("row_numbers", *TRUSTED),
    f"{JUDGE}/rules/pair_rules": ("row_counters_rdma", "row_numbers", *TRUSTED),
    f"{JUDGE}/evidence/views": TRUSTED,
    f"{BOUNDS}/bounds": ("bounds", "bounds_of_rdma"),
    f"{JUDGE}/rules/bounds_check": ("bounds_check", "bounds", "own_windows"),
    f"{BOUNDS}/slots": ("bounds_of_rdma", "bounds"),
    f"{BOUNDS}/packets": ("bounds_of_rdma", "bounds"),
    f"{JUDGE}/attribution/fleet": ("fleet",),
    f"{JUDGE}/evidence/aggregate": ("aggregate", "own_windows"),
    f"{JUDGE}/evidence/row_numbers": ("row_numbers",),
    f"{JUDGE}/evidence/formulas": ("formulas", "row_numbers", "row_counters", "plain_rules"),
    f"{JUDGE}/evidence/row_counters": ("row_counters", "row_counters_rdma", "forged"),
    "plugin_utils/outcome/answer": ("answer",),
    **{
        f"{JUDGE}/{name}": ("plain_rules", "plain")
        for name in ("rules/passing_tests", "evidence/columns/views", "evidence/columns/overlaps")
    },
    f"{MEASURE}/proof": ("proof", "port_proof", "false_pass_rdma"),
    f"{MEASURE}/outliers": ("outliers", "fleet"),
    f"{RUNNER}/confirm": ("confirm",),
}
TESTS = (UNIT / "plugin_utils",UNIT / MEASURE,
         *(UNIT / RUNNER / f"test_{name}.py" for name in ("confirm", "port_proof")),
         *(REPORT / f"test_{name}.py" for name in ("plain", "plain_rules")))  # fmt: skip
#: Whole runs, spoilt in each field in turn, take as long as all others together.
LEFT_OUT = "spoilt or dropped or garbage"
#: In one turn of the tests each test function has so many seconds for its cases.
TURN_S = 0.1
#: A mutant that hangs is ended after so many times what its tests may take.
TIMES, MOST_BYTES = 10, 4 * 2**30
OPTIONS = ("-q", "-x", "-m", "not lab", "-k", f"not ({LEFT_OUT})", "-p", "no:cacheprovider", "-p", "no:xdist",
           "-p", "no:warnings", f"--rootdir={ROOT}")  # fmt: skip


def module(name: str) -> Module:
    """Return a module by its name in MODULES."""
    dotted = ".".join((*FABRIC.parts[1:], "plugins", *name.split("/")))
    return Module(name, ROOT / FABRIC / "plugins" / f"{name}.py", dotted)


def forked(work: Callable[[], int], limit_s: float) -> str:
    """Do some work in a process of its own, silent and within so many seconds: survived, killed or hung."""
    pid = os.fork()
    if not pid:
        status, told = 70, os.fdopen(os.dup(2), "w")
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s) + 1, int(limit_s) + 2))
            resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
            signal.alarm(60 * (int(limit_s) + 1))  # for what waits and computes nothing
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nowhere, stream)
            status = work()
        except BaseException:
            traceback.print_exc(file=told)
            told.flush()
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status > pytest.ExitCode.INTERRUPTED:  # a module that cannot be imported interrupts pytest
        raise RuntimeError(f"pytest ended with {status}")
    return "hung" if status < 0 else "killed" if status else "survived"


class Trial:
    """What pytest asks instead of running the tests that it has collected: runs them for each mutant.

    Args:
        todo: module and mutant, of what runs inside functions.
        most_s: so many seconds of the processor are spent on the tests of one, the cheapest first.
        note: is called with the result of each.
    """

    def __init__(
        self, todo: Sequence[tuple[Module, Mutant]], most_s: float, note: Callable[..., None]
    ) -> None:
        self.todo, self.most_s, self.note = todo, most_s, note

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Learn which test runs which lines, then try all mutants."""
        files = {str(one.file): one.name for one, _mutant in self.todo}
        with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
            if forked(lambda: _learn(session, files, file), 3600) != "survived":
                raise SystemExit("tests fail without a mutant")
            file.seek(0)
            seconds, covered = json.load(file)
        gc.freeze()  # what a child does not touch is not copied
        for one, mutant in self.todo:
            by_line = covered.get(one.name, {})
            tests = {test for line in mutant.lines for test in by_line.get(str(line), ())}
            # All test functions take turns: what is different tells more than what is alike.
            own = [f"test_{name}.py" for name in MODULES[one.name]]
            spent_s: dict[object, float] = defaultdict(float)
            ranked = []
            for at in sorted(tests, key=lambda at: seconds[at]):
                item = session.items[at]
                case = item.parent, getattr(item, "originalname", "")
                spent_s[case] += seconds[at]
                ranked.append((spent_s[case] // TURN_S, item.path.name not in own, seconds[at], at))
            order = [at for *_rank, at in sorted(ranked)]
            took_s = list(accumulate(seconds[at] for at in order))
            order = [at for at, so_far_s in zip(order, took_s, strict=True) if so_far_s <= self.most_s]
            items = [session.items[at] for at in order]
            # B023 is waived: `forked` calls it before the loop goes on.
            self.note(one, mutant, forked(lambda: _run(session, items, one, mutant), TIMES * self.most_s))  # noqa: B023
        return True


def _run(session: pytest.Session, items: Sequence[pytest.Item], of: Module, mutant: Mutant) -> int:
    of.put_in(mutant)
    for item, following in pairwise([*items, None]):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return 1
    return 0


def _learn(session: pytest.Session, files: dict[str, str], told: IO[str]) -> int:
    """Tell what seconds of the processor each test takes, and module -> line -> the tests that run it."""
    codes = [one.__code__ for one in gc.get_objects() if isinstance(one, types.FunctionType)]
    codes = [code for code in codes if code.co_filename in files]
    for code in codes:  # grows
        codes += [one for one in code.co_consts if isinstance(one, types.CodeType)]
    lines: dict[str, dict[int, list[int]]] = {name: {} for name in files.values()}
    seconds: list[float] = []
    watch = sys.monitoring

    def ran(code: types.CodeType, line: int) -> object:
        lines[files[code.co_filename]].setdefault(line, []).append(len(seconds))
        return watch.DISABLE

    watch.use_tool_id(watch.COVERAGE_ID, "mutation")
    watch.register_callback(watch.COVERAGE_ID, watch.events.LINE, ran)
    for code in codes:
        watch.set_local_events(watch.COVERAGE_ID, code, watch.events.LINE)
    for item, following in pairwise([*session.items, None]):
        watch.restart_events()
        before = time.process_time()
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        seconds.append(round(time.process_time() - before, 4))
    json.dump((seconds, lines), told)
    told.flush()
    return min(session.testsfailed, 1)


def _run_imported(of: Module, mutant: Mutant) -> int:
    """Run a module's own tests with the module imported from mutated code."""
    sys.meta_path.insert(0, Hook(of, mutant))
    return pytest.main([*OPTIONS, *_list_own_tests([of])])


def _list_own_tests(modules: Iterable[Module]) -> list[str]:
    names = dict.fromkeys(name for one in modules for name in MODULES[one.name])
    return [str(path) for name in names for of in (UNIT, REPORT) for path in of.rglob(f"test_{name}.py")]


def digest_of_tests() -> str:
    """Return the digest of all tests that are run, and of what they are made of."""
    made_of = (REPORT / f"{name}.py" for name in ("one_change", "column_cases"))
    places = [*TESTS, Path("tests/support"), *made_of]
    files = [file for place in places for file in (place.rglob("*.py") if place.is_dir() else [place])]
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()[:8]


def results() -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return (module, function, mutant) -> the last line of it."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    return {(one["module"], one["function"], one["mutant"]): one for one in map(json.loads, lines)}


@functools.cache
def equivalents_of(name: str) -> dict[str, dict[str, str]]:
    """Return function -> mutant -> why no test can tell it apart, of a module."""
    found: dict[str, Any] = yaml.safe_load(EQUIVALENTS.read_text(encoding="utf-8"))
    return found.get(name) or {}


def state(of: Module, mutant: Mutant, done: dict[tuple[str, str, str], Any], tests: str | None) -> str:
    """Return what is known of a mutant: killed, hung, survived, equivalent, or nothing.

    Args:
        of: its module.
        mutant: it.
        done: all results.
        tests: digest of the tests, of which a survivor's result has to be; None where any will do.
    """
    if mutant.said in equivalents_of(of.name).get(mutant.function, {}):
        return "equivalent"
    line = done.get((of.name, mutant.function, mutant.said), {})
    if line.get("code") != of.digest(mutant.function):
        return ""
    old = line["result"] == "survived" and tests is not None and line["tests"] != tests
    return "" if old else str(line["result"])


def table(modules: Iterable[Module]) -> Iterator[str]:
    """Yield the lines of README.md's tables."""
    done, kinds = results(), ("killed", "hung", "survived", "equivalent", "")
    yield "| module | mutants | killed | hung | survived | equivalent | not run | killed of the rest |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    rows, left = [], []
    for one in modules:
        found = [(mutant, state(one, mutant, done, None)) for mutant in one.mutants]
        rows.append((one.name, [sum(word == kind for _mutant, word in found) for kind in kinds]))
        said = [(mutant.function, mutant.said) for mutant, word in found if word == "survived"]
        left += [f"| {one.name} | `{where}` | `{text.replace('|', '&#124;')}` |" for where, text in said]
    rows.append(("all", [sum(column) for column in zip(*(counts for _name, counts in rows), strict=True)]))
    for name, counts in rows:
        good, of = counts[0] + counts[1], sum(counts) - counts[3]
        yield f"| {name} | {sum(counts)} | {' | '.join(map(str, counts))} | {100 * good / max(of, 1):.1f} % |"
    yield from ("", "| survivor in | function | change |", "|---|---|---|", *left)


def main() -> None:
    """Run what has no result, and append each as it comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("modules", nargs="*", help="ends of their names; all without")
    parser.add_argument("--seconds", type=float, default=2.5, help="worth of tests for one, of the processor")
    parser.add_argument("--own", action="store_true", help="run the modules' own tests alone")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    os.chdir(ROOT)
    wanted = [module(name) for name in MODULES if name.endswith(tuple(given.modules) or "")]
    if given.table:
        print(*table(wanted), sep="\n")
        return
    tests, done = f"{digest_of_tests()} {given.seconds:g} s{' own' * given.own}", results()

    def note(of: Module, mutant: Mutant, result: str) -> None:
        line = {"module": of.name, "function": mutant.function, "mutant": mutant.said, "result": result}
        line |= {"code": of.digest(mutant.function)} | ({"tests": tests} if result == "survived" else {})
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        print(f"{result:8} {of.name} {mutant.function}: {mutant.said}", file=sys.stderr, flush=True)

    todo = [(one, mutant) for one in wanted for mutant in one.mutants if not state(one, mutant, done, tests)]
    print(f"{len(todo)} of {sum(len(one.mutants) for one in wanted)} mutants to run", file=sys.stderr)
    # A slow processor is no failure of a test, and each mutant meets the same examples.
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large]
    settings.register_profile(
        "mutation", deadline=None, derandomize=True, database=None, suppress_health_check=quiet
    )
    settings.load_profile("mutation")
    inside = [(one, mutant) for one, mutant in todo if not mutant.imported]
    if inside and os.fork() == 0:
        files = _list_own_tests(wanted) if given.own else [str(place) for place in TESTS]
        os._exit(pytest.main([*OPTIONS, *files], [Trial(inside, given.seconds, note)]))
    if inside and os.wait()[1]:
        raise SystemExit("the tests could not be collected, or fail without a mutant")
    for one, mutant in todo:
        if mutant.imported:
            note(one, mutant, forked(lambda: _run_imported(one, mutant), 600))  # noqa: B023 - called at once


if __name__ == "__main__":
    main()
