"""The campaign of mutants: what it changes, that nothing stays changed, and what runs again."""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).resolve().parents[3] / "benchmarks" / "mutation"
sys.path.insert(0, str(HERE))  # where its script finds them
mutants = importlib.import_module("mutants")
SPEC = importlib.util.spec_from_file_location("mutation_campaign", HERE / "campaign.py")
campaign = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(campaign)

TWO = """
MOST = 2
def over(one: int) -> bool:
    return one > MOST
def twice(one: int) -> int:
    return 2 * one
"""


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def f(a, b):\n    x = a < b <= 1", ["a < b <= 1: < → <=", "a < b <= 1: <= → <"]),
        ("def f(a, b):\n    x = a in b is not 3",
         ["a in b is not 3: in → not in", "a in b is not 3: is not → is"]),
        ("def f(a):\n    a += a * 2", ["a += a * 2: + → -", "a * 2: * → /", "2: 2 → 3"]),
        ("def f(a, b):\n    x = g(1, f'{a + 1}' + 'a', a + 'b')", []),
        ("def f(a):\n    if not a:\n        pass",
         ["not a: without not", "not a: → True", "not a: → False"]),
        ("def f(a, b):\n    x = [one for one in a if b]", ["b: → True", "b: → False"]),
        ("def f(a, b) -> bool:\n    return a and b", ["return a and b: negated", "a and b: and → or"]),
        ("def f(a) -> bool:\n    return True", ["return True: → False"]),
        ("def f(a):\n    return a", ["return a: → None"]),
        ("def f(a):\n    'Texts.'\n    return None", []),
        ("A: int = 0.5\nB = (1, True, 'x')\n__all__ = ['A']",
         ["0.5: 0.5 → 1.5", "1: 1 → 2", "True: True → False"]),
        ("def f(a=1, *, b: 'x' = 2):\n    g(3)", ["2: 2 → 3", "1: 1 → 2"]),
        ("def f(a):\n    g(a == 1)\n    g(a == 1)", ["a == 1: == → !=", "a == 1: == → != #2"]),
    ],
)  # fmt: skip
def test_what_is_changed_and_what_is_left(source, said):
    tree = ast.parse(source)
    before, found = ast.dump(tree), mutants.mutants(tree)
    assert [one.said for one in found] == said
    for one in found:
        with one.made():
            assert ast.dump(tree) != before
        assert ast.dump(tree) == before


def test_what_a_comprehension_names_defines_nothing():
    found = mutants.mutants(ast.parse("A = [k for k in (1, 2) if k > 1]"))
    assert {one.function for one in found} == {"A"}


def test_a_mutant_is_put_into_what_is_imported_and_into_what_will_be(tmp_path, monkeypatch):
    file = tmp_path / "mutated_here.py"
    file.write_text(TWO)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    module = mutants.Module("here", file, "mutated_here")
    constant, negated = module.mutants[0], module.mutants[1]
    sys.meta_path.insert(0, mutants.Hook(module, constant))
    imported = importlib.import_module("mutated_here")
    assert (constant.function, constant.imported, imported.MOST) == ("MOST", True, 3)
    assert imported.over(4) is True
    module.put_in(negated)
    assert imported.over(4) is False
    assert file.read_text() == TWO


def test_a_result_holds_while_its_function_and_a_survivors_tests_do(tmp_path, monkeypatch):
    file = tmp_path / "module.py"
    monkeypatch.setattr(campaign, "RESULTS", tmp_path / "results.jsonl")
    monkeypatch.setattr(campaign, "EQUIVALENTS", tmp_path / "equivalents.yml")
    campaign.EQUIVALENTS.write_text("here: {twice: {'2: 2 → 3': none can tell}}")

    def states(source, tests):
        file.write_text(source)
        module, done = mutants.Module("here", file, "here"), campaign.results()
        return [campaign.state(module, one, done, tests) for one in module.mutants]

    assert states(TWO, "old") == ["", "", "", "", "", "equivalent"]
    module = mutants.Module("here", file, "here")
    with campaign.RESULTS.open("w") as lines:
        for at, one in enumerate(module.mutants[1:]):
            line = {"module": "here", "function": one.function, "mutant": one.said, "tests": "old"}
            line |= {"result": "killed" if at else "survived", "code": module.digest(one.function)}
            lines.write(json.dumps(line) + "\n")
    assert states(TWO, "old") == ["", "survived", "killed", "killed", "killed", "equivalent"]
    assert states(TWO, "new") == ["", "", "killed", "killed", "killed", "equivalent"]
    other = "# moved\n\n" + TWO.replace("2 * one", "2 * one + 1")
    assert states(other, "old")[1:3] == ["survived", "killed"]
    assert set(states(other, "old")[3:]) == {"", "equivalent"}


@pytest.mark.parametrize(("status", "word"), [(0, "survived"), (1, "killed")])
def test_what_became_of_a_mutant(status, word):
    assert campaign.forked(lambda: status, 5) == word


def test_a_mutant_that_hangs_is_ended():
    def endless():
        while True:
            pass

    assert campaign.forked(endless, 0) == "hung"


@pytest.mark.parametrize("name", campaign.MODULES)
def test_each_module_has_its_tests_and_its_equivalent_mutants(name):
    one = campaign.module(name)
    found = {Path(path).name for path in campaign._list_own_tests([one])}
    assert found == {f"test_{own}.py" for own in campaign.MODULES[name]}
    named = {(where, said) for where, all_said in campaign.equivalents_of(name).items() for said in all_said}
    assert named - {(mutant.function, mutant.said) for mutant in one.mutants} == set()


def test_equivalent_mutants_are_of_modules_in_the_campaign():
    assert yaml.safe_load(campaign.EQUIVALENTS.read_text()).keys() <= campaign.MODULES.keys()
