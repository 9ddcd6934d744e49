# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loopback runs no perftest on a port that perftest cannot use as Railyard calls it."""

from __future__ import annotations

import time

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.quick import loopback
from ansible_collections.railyard.fabric.plugins.module_utils.quick.found import Found
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound


def test_efa_is_unknown_and_not_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(*_arguments: object) -> float:
        raise ValueError("Unable to create QP")

    monkeypatch.setattr(loopback, "_measure", measure)
    found = Found()
    port = {"hca": "rdmap79s0:1", "driver": "efa"}
    loopback.look({"rail0": Bound({"name": "rail0"}, hca=port)}, "infiniband", time.monotonic() + 60, found)
    assert found.wrong == found.good == []
    (words,) = found.unknown
    assert "rdmap79s0:1" in words
    assert "driver efa" in words
