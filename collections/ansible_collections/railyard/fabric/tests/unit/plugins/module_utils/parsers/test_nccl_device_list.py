# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of devices, as NCCL reads them (parseStringList, matchIfList and ncclOsFindInterfaces of 2.30.7)."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.nccl import device_list as names

PORTS = [("mlx5_0", 1), ("mlx5_1", 1), ("mlx5_1", 2), ("mlx5_10", 1)]


@pytest.mark.parametrize(
    ("value", "taken"),
    [
        ("mlx5_1", PORTS[1:]),  # a prefix
        ("=mlx5_1", PORTS[1:3]),
        ("=mlx5_1:1", PORTS[1:2]),
        ("mlx5_1:1", [PORTS[1], PORTS[3]]),
        ("^mlx5_1", PORTS[:1]),
        ("^=mlx5_1", [PORTS[0], PORTS[3]]),
        ("=mlx5_0::0:1,mlx5_10", [PORTS[0], PORTS[3]]),
        ("mlx5", PORTS),
        ("=mlx5", []),
        ("", PORTS),  # no list takes all
        ("^", PORTS),
    ],
)
def test_what_a_list_takes(value, taken):
    assert [port for port in PORTS if names.parse(value).takes(*port)] == taken


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("=^mlx5_0", "has ^ before mlx5_0"),
        ("=mlx5_0,=mlx5_1", "has = before mlx5_1"),
        ("mlx5_0 ,mlx5_1", "blank beside mlx5_0"),
        ("mlx5_0:one", "mlx5_0:one, which is no NAME"),
    ],
)
def test_what_is_not_read_as_meant(value, why):
    assert why in names.parse(value).wrong


def test_entries_that_no_device_is():
    assert names.parse("=mlx5_0:2,mlx5_1,ib0").unused(PORTS) == ["mlx5_0:2", "ib0"]
