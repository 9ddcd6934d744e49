"""Time limits of tasks: the usual ones, or longer where `railyard_time_factor` is set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from railyard.base import paths

ROOT = paths.repo_root()
# What they were before there was the variable.
USUAL_S = {
    "playbooks/discover.yml": [60, 60],
    # 300 s for the commands, 60 s between two readings of the counters, and a minute more.
    "playbooks/fabric.yml": [420],
    "playbooks/idle.yml": [60],
    "playbooks/resume.yml": [300],
    "playbooks/tasks/collect_and_judge.yml": [300],
    "playbooks/tasks/measure.yml": [180, 60, 300],
    "playbooks/validate.yml": [60],
    "roles/quick_check/tasks/look.yml": [60],
}


def limits() -> dict[str, list[str]]:
    """Return the text of each task's time limit, by file."""
    files = [*Path(ROOT, "playbooks").rglob("*.yml"), *Path(ROOT, "roles").glob("*/tasks/*.yml")]
    found = {str(file.relative_to(ROOT)): list(limits_of(yaml.safe_load(file.read_text()))) for file in files}
    return {file: texts for file, texts in found.items() if texts}


def limits_of(node: object) -> Iterator[str]:
    """Yield the time limits of plays, blocks and tasks; a module's own option `timeout` is not meant."""
    for one in node if isinstance(node, list) else []:
        if "timeout" in one:
            yield str(one["timeout"])
        for key in ("pre_tasks", "tasks", "post_tasks", "block", "rescue", "always"):
            yield from limits_of(one.get(key))


def rendered(text: str, **variables: object) -> int:
    return Templar(loader=DataLoader(), variables=variables).template(trust_as_template(text))


@pytest.mark.parametrize("file", USUAL_S)
@pytest.mark.parametrize(("variables", "factor"), [({}, 1), ({"railyard_time_factor": "2.5"}, 2.5)])
def test_a_task_s_limit_is_as_it_was_times_the_factor(
    file: str, variables: dict[str, object], factor: float
) -> None:
    found = [rendered(text, **variables) for text in limits()[file]]
    assert found == [int(usual_s * factor) for usual_s in USUAL_S[file]]


def test_no_task_has_another_limit() -> None:
    assert set(limits()) == set(USUAL_S)
