# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Test which names are not NCCL's."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import catalogue, env_file, other_names
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.lint import lint


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_VERSION", "NCCL_HOME", "NCCL_ROOT", "NCCL_ROOT_DIR", "NCCL_INCLUDE_DIR", "NCCL_LIB_DIR",
        "NCCL_TEST_VERSION", "NCCL_TESTS_PATH", "NV_LIBNCCL_PACKAGE", "NV_LIBNCCL_DEV_PACKAGE_VERSION",
        "nccl_exit", "nccl_out", "NCCL_GIB_VERSION", "NCCL_CFG_PATH",
    ],
)  # fmt: skip
def test_they_are_no_errors(name):
    assert other_names.is_of_others(name)
    assert lint(env_file.read(f"{name}=1\n", "x.env")) == []


@pytest.mark.parametrize("name", ["NCCL_FOO", "NCCL_IB_DISABL", "nccl_debug", "Nccl_Debug", "NCCL_VERSIN"])
def test_others_may_be_meant_for_nccl(name):
    assert not other_names.is_of_others(name)


def test_no_setting_of_nccl_is_one_of_them():
    settings = [row.name for row in catalogue.VARIABLES.values() if row.use != "other"]
    assert [name for name in settings if other_names.is_of_others(name)] == []
