# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions that an inventory asks for, beside the minimum versions."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.minimum_versions import (
    BELOW,
    FINE,
    NOT_KNOWN,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import wanted_versions

IMAGE = {"version": "28.39.1002", "file": "fw.bin", "sha256": "0" * 64}


@pytest.mark.parametrize(
    ("name", "value", "states"),
    [
        ("nvidia_driver_cuda", "12.8", [BELOW]),
        ("nvidia_driver_cuda", "13.1", [FINE]),
        ("nvidia_driver_cuda", None, []),
        ("nvidia_driver_pins", {"nvidia-driver": "535.261.03-1", "dkms": "3.0.10"}, [BELOW]),
        ("nvidia_driver_pins", {"cuda-drivers": "550.54.15-1"}, [NOT_KNOWN]),
        (
            "rdma_stack_firmware_wanted",
            {"ConnectX-7": "28.43.2026", "ConnectX-6 Dx": "22.43.8002"},
            [BELOW, FINE],
        ),
        ("rdma_stack_firmware_images", {"MT_0000000838": IMAGE, "MT_1": {}, "MT_2": None}, [BELOW]),
        ("rdma_stack_version", "28.39.1002", []),
    ],
)
def test_a_variable_names_versions_or_none(name: str, value: object, states: list[str]) -> None:
    assert [one.state for one in wanted_versions.compare_variable(name, value)] == states
