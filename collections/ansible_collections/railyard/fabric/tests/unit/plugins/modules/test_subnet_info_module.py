# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module subnet_info: its options; what it runs is tested with module_utils/subnet/run.py."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet_capture import Capture, Command
from ansible_collections.railyard.fabric.plugins.module_utils.subnet.commands import Port
from ansible_collections.railyard.fabric.plugins.modules import subnet_info
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import captures
from support.nodes.module import FakeModule

PAIR = ["0x9c63c00300033240", "0x9c63c00300034bf8"]
OPTIONS = {"device": "mlx5_0", "port": 2, "partitions": True, "interval_s": 60.0, "paths": [PAIR]}


def test_options_are_passed_on_and_the_result_is_a_capture(monkeypatch):
    asked = []

    def read(*options):
        asked.append(options)
        command = Command(("ibnetdiscover",), "ibnetdiscover.txt", "text", "", 0, 1.0, 0.5)
        return Capture(None, "mlx5_0", 2, 1.0, (command,))

    monkeypatch.setattr(subnet_info.run, "read_subnet", read)
    result = subnet_info.read(FakeModule(OPTIONS))
    assert asked == [(Port("mlx5_0", 2), True, 60.0, [tuple(PAIR)])]
    assert result["changed"] is False
    assert captures.from_result(result["capture"], "gpu00").commands[0].stdout == "text"


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("device", "-x", "device is '-x'. Give the name of an RDMA device"),
        ("device", "mlx5_0;reboot", "device is"),
        ("device", "", "device is"),
        ("port", 0, "port is 0. Give a port from 1 to 254"),
        ("port", 255, "port is 255"),
        ("interval_s", -1.0, "interval_s is -1. Give seconds from 0 to 3600"),
        ("interval_s", float("nan"), "interval_s is nan"),
        ("paths", [PAIR[:1]], "paths has"),
        ("paths", [[*PAIR, PAIR[0]]], "paths has"),
        ("paths", [["5", "12"]], "paths has \"['5', '12']\". Give two GUIDs of ports"),
        ("paths", [[PAIR[0], PAIR[1] + ";reboot"]], "paths has"),
        ("paths", [[PAIR[0], "-G"]], "paths has"),
        ("paths", [PAIR] * 33, "paths has 33 pairs. Give at most 32"),
    ],
)
def test_options_that_cannot_be(option, value, message):
    with pytest.raises(subnet_info.OptionError) as refused:
        subnet_info.read(FakeModule({**OPTIONS, option: value}))
    assert str(refused.value).startswith(message)
