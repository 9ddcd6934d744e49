# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever the tool: only a whole result counts, and its version is the program's own word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.measure import (
    base,
)
from support.nodes.tool_session import FakeSession, refusal


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
def test_only_a_complete_result_counts(parse: Any, error_class: str) -> None:
    error = refusal(base.parse_output, FakeSession(), "ping", "words", parse)
    assert (error.error_class, error.host) == (error_class, "gpu001")
    assert error.fix


@pytest.mark.parametrize(
    ("name", "said", "version"),
    [("ib_read_lat", "Version: 6.06", "6.06"), ("iperf3", "iperf 3.12 (cJSON 1.7.15)", "3.12")],
)
def test_a_version_is_the_programs_own_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str, version: str
) -> None:
    program = tmp_path / name
    program.write_text(f"#!/bin/sh\necho '{said}'\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert base.version_of(name) == version
    assert base.version_of("no_such_tool") is None


def test_a_difference_of_versions_is_named() -> None:
    obstacle = base.version_differs("ib_write_bw", "6.06", "gpu001", "6.17", "gpu002")
    assert (obstacle.error_class, obstacle.status) == ("version_differs", "unmeasured")
    assert all(word in obstacle.message for word in ("6.06", "gpu001", "6.17", "gpu002"))
