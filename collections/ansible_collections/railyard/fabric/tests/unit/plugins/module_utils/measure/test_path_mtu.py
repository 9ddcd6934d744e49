# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for a path's MTU."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.measure import (
    path_mtu,
)


@pytest.mark.parametrize("true_bytes", [576, 577, 1499, 1500, 1501, 4000, 8999])
def test_the_search_finds_the_largest_size_that_passes(true_bytes: int) -> None:
    asked = []

    def passes(size: int) -> bool:
        asked.append(size)
        return size <= true_bytes

    assert path_mtu.largest_passing(passes, 9000) == true_bytes
    assert max(asked) < 9000
    # 13 halvings of 8,424 sizes, and the three that are tried first.
    assert len(asked) <= 16


def test_an_mtu_of_1500_is_found_at_once_and_nothing_passing_is_none() -> None:
    asked: list[int] = []
    assert path_mtu.largest_passing(lambda size: asked.append(size) or size <= 1500, 9000) == 1500
    assert asked == [576, 1500, 1501]
    assert path_mtu.largest_passing(lambda _size: False, 9000) is None


class Path:
    """A path of a small MTU, or none, that loses the packets whose numbers are named."""

    def __init__(self, mtu_bytes: int = 9000, lost: range | tuple[int, ...] = ()) -> None:
        self.mtu_bytes = mtu_bytes
        self.lost = lost
        self.number = 0
        self.asked: list[tuple[int, int]] = []

    def probe(self, size_bytes: int, count: int) -> int:
        self.asked.append((size_bytes, count))
        numbers = range(self.number, self.number + count)
        self.number += count
        return sum(number not in self.lost and size_bytes <= self.mtu_bytes for number in numbers)


def test_a_path_that_loses_packets_is_not_one_of_a_small_mtu() -> None:
    assert path_mtu.search(Path().probe, 9000, 5) == (9000, 5, 5)
    assert path_mtu.search(Path(lost=(0, 3)).probe, 9000, 5) == (9000, 5, 3)
    # All of the first batch was lost by chance: what the search then found is compared with a second one.
    assert path_mtu.search(Path(lost=range(5)).probe, 9000, 5) == (9000, 10, 5)
    # A packet that is lost while a size is tried does not make the size too large.
    assert path_mtu.search(Path(4000, lost=(5, 8, 9)).probe, 9000, 5) == (4000, 5, 5)


def test_of_a_small_path_it_is_reported_how_many_packets_pass() -> None:
    path = Path(1500)
    assert path_mtu.search(path.probe, 9000, 5) == (1500, 5, 5)
    assert path.asked == [(9000, 5), (576, 3), (1500, 3), (1501, 3), (9000, 5), (1500, 5)]
    assert path_mtu.search(Path(500).probe, 9000, 5) is None
    # 5 and 3 and 3 and 3 and 5 were sent before the last batch, of which the first two are lost.
    assert path_mtu.search(Path(1500, lost=(19, 20)).probe, 9000, 5) == (1500, 5, 3)
