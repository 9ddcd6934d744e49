# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module ends once: with its result, with a sentence, or with the traceback of a defect."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import module_end


class SayError(ValueError):
    pass


class Module:
    """Notes how it was ended; unlike Ansible's it goes on afterwards."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, dict[str, Any]]] = []

    def exit_json(self, **result: Any) -> None:
        self.ends.append(("exit", result))

    def fail_json(self, **result: Any) -> None:
        self.ends.append(("fail", result))


def raising(error: Exception) -> Any:
    def hold(_module: Any) -> dict[str, Any]:
        raise error

    return hold


def test_the_result_is_the_end() -> None:
    module = Module()
    module_end.end(module, lambda given: {"changed": given is module}, SayError)
    assert module.ends == [("exit", {"changed": True})]


@pytest.mark.parametrize("error", [SayError("Fix: this"), OSError(28, "No space left on device")])
def test_what_was_expected_is_a_sentence(error: Exception) -> None:
    module = Module()
    module_end.end(module, raising(error), SayError)
    assert module.ends == [("fail", {"msg": str(error)})]


def test_a_defect_is_not_dressed_up() -> None:
    module = Module()
    with pytest.raises(KeyError):
        module_end.end(module, raising(KeyError("rail")), SayError)
    assert module.ends == []
