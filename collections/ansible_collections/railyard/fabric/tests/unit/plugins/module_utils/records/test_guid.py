# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GUIDs in one form, however they were written."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.records.guid import normalize_guid


@pytest.mark.parametrize(
    "written",
    [
        "0x0002c903000e0b72",  # ibstat, `ibstat -p`
        "0x2c903000e0b72",  # opensm's log, which writes no leading zeros
        "0x0002C903000E0B72",
        "0002:c903:000e:0b72",  # sysfs node_guid, ibv_devinfo
        "0002c903:000e0b72",
        "00:02:c9:03:00:0e:0b:72",
        "0002c903000e0b72",
        0x0002C903000E0B72,  # YAML, without quotes
    ],
)
def test_one_guid_has_one_form(written):
    assert normalize_guid(written) == "0x0002c903000e0b72"


@pytest.mark.parametrize(
    "written",
    [
        "", "0x", "0x0", "0000:0000:0000:0000", "0xffffffffffffffff", "0x0002c903000e0b721", "2c903000e0b72",
        "0002:c903:000e", "0002:c903:000e:0b72:0001", "0002:c903:000e0b72", "g002:c903:000e:0b72", " 0x1",
        "0x1\n", "fe80::2:c903:e:b72", 0, -1, 2**64 - 1, 2**64, True, None, 1.5, ["0x1"],
    ],
)  # fmt: skip
def test_anything_else_is_none(written):
    assert normalize_guid(written) is None
