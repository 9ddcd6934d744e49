# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever the tool, only a whole result counts."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.measure import (
    base,
)
from support.nodes.tool_session import FakeSession


@pytest.mark.parametrize(
    ("parse", "error_class"),
    [
        (lambda _text: (never for never in ()).throw(ValueError("no ping")), "tool_garbage"),
        (
            lambda _text: {"valid": False, "error": {"class": "x", "message": "refused"}, "outputs": []},
            "tool_failed",
        ),
        (lambda _text: {"valid": False, "error": None, "warnings": ["torn"], "outputs": [{}]}, "tool_failed"),
        (lambda _text: {"valid": True, "error": None, "outputs": []}, "tool_failed"),
        # An old result before the new one: a wrapper that replays.
        (lambda _text: {"valid": True, "error": None, "outputs": [{}, {}]}, "tool_garbage"),
    ],
)
def test_only_a_whole_result_counts(parse: Any, error_class: str) -> None:
    with pytest.raises(MeasurementError) as found:
        base.parsed(FakeSession(), "ping", "words", parse)
    assert found.value.error_class == error_class
    assert found.value.host == "gpu001"
    assert found.value.fix
