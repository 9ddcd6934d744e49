"""Time limits of tasks: the usual ones, or longer where `railyard_time_factor` is set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from railyard.base import paths

ROOT = paths.repo_root()
LIMIT = re.compile(r"^ *timeout: (.+)$", re.MULTILINE)
# What they were before there was the variable.
USUAL_S = {
    "playbooks/discover.yml": [60, 60],
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
    found = {str(file.relative_to(ROOT)): LIMIT.findall(file.read_text()) for file in files}
    return {file: [text.strip('"') for text in texts] for file, texts in found.items() if texts}


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
