# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is printed of nodes that could not be read."""

from __future__ import annotations

import io

from railyard.discover import present
from rich.console import Console


def printed(failed: dict[str, str]) -> list[str]:
    out = Console(file=io.StringIO(), width=400)
    present.failures(failed, out)
    return out.file.getvalue().split("\n")[1:-1]


def test_many_silent_nodes_are_one_line_and_other_reasons_stay():
    failed = {
        f"gpu{number:04d}": f"it does not answer. Fix: check that `ssh 192.0.2.{number} true` works"
        for number in range(1, 101)
    }
    lines = printed({**failed, "odd": "its host key changed. Fix: compare it"})
    assert lines == [
        "✗ 100 nodes (gpu[0001-0100]): it does not answer."
        " Fix, for gpu0001: check that `ssh 192.0.2.1 true` works",
        "✗ odd: its host key changed. Fix: compare it",
    ]


def test_three_nodes_have_a_line_each():
    failed = {f"gpu{number}": "it does not answer. Fix: look" for number in range(3)}
    assert len(printed(failed)) == 3
