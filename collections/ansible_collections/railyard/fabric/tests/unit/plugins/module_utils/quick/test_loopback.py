# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loopback runs perftest as the port's driver needs it; a build that cannot is no fault of the port."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.measure import perftest_srd
from ansible_collections.railyard.fabric.plugins.module_utils.quick import loopback
from ansible_collections.railyard.fabric.plugins.module_utils.quick.found import Found
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from support.nodes.files import write

EFA = {"hca": "rdmap79s0:1", "driver": "efa"}


def test_efa_is_run_with_srd_and_its_only_gid() -> None:
    words = loopback.argv("rdmap79s0:1", 0, 18515, "SRD")
    assert words[words.index("-c") : words.index("-c") + 2] == ["-c", "SRD"]
    assert words[words.index("-x") : words.index("-x") + 2] == ["-x", "0"]
    assert "-c" not in loopback.argv("mlx5_0:1", 3, 18515)


def test_a_build_without_srd_is_unknown_and_not_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "#!/bin/sh\necho ' SRD connection only possible in SEND/READ verbs' >&2\nexit 1\n"
    write(tmp_path, "ib_write_bw", words, 0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    perftest_srd.why_not.cache_clear()
    found = Found()
    loopback.look({"rail0": Bound({"name": "rail0"}, hca=EFA)}, "efa", time.monotonic() + 60, found)
    assert found.wrong == found.good == []
    (words,) = found.unknown
    assert "rdmap79s0:1" in words
    assert "SEND/READ" in words
