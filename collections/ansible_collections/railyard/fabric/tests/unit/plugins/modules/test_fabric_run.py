# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fabric_run is thin: each state calls its one function with the module's arguments."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.modules import fabric_run, fabric_stage


class Control:
    """Notes its arguments."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            self.calls.append((name, *arguments))
            return True if name in ("stop", "remove") else {"changed": True, "of": name}

        return call


PARAMS = {
    "confirm": 2,
    "lease_s": 90,
    "program_sha256": "ab",
    "program_source": None,
    "controller": "me",
    "work_order": "{}",
    "deadline_s": 500,
}


@pytest.mark.parametrize(
    ("state", "call"),
    [
        ("staged", ("stage", "{}", "ab", None, "me", 90.0, True)),
        ("started", ("start", "python3", "ab", "me", 90.0, 500.0, True)),
        ("stopped", ("stop", True)),
        ("collected", ("collect", True)),
        ("absent", ("remove", True)),
    ],
)
def test_states(state: str, call: tuple[Any, ...]) -> None:
    control = Control()
    result = fabric_run.act(control, {**PARAMS, "state": state}, "python3", True)  # type: ignore[arg-type]
    assert control.calls == [call]
    assert "changed" in result


def test_every_option_is_documented_as_it_is() -> None:
    documented = yaml.safe_load(fabric_run.DOCUMENTATION)["options"]
    assert documented.keys() == fabric_run.ARGUMENTS.keys()
    for name, spec in fabric_run.ARGUMENTS.items():
        assert documented[name]["type"] == spec["type"]
        assert documented[name].get("default") == spec.get("default")
        assert documented[name].get("choices") == spec.get("choices")
        assert documented[name].get("required", False) == spec.get("required", False)
    assert fabric_run.ARGUMENTS["work_order"]["no_log"] is True


@pytest.mark.parametrize("module", [fabric_run, fabric_stage])
def test_documents_are_valid_yaml(module: Any) -> None:
    assert yaml.safe_load(module.EXAMPLES)
    for described in yaml.safe_load(module.RETURN).values():
        assert {"description", "returned", "type", "sample"} <= described.keys()
