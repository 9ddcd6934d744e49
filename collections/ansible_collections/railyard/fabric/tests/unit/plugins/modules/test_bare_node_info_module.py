# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module bare_node_info: what it returns is documented, and what it refuses is named."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.module_utils.discover import background, node
from ansible_collections.railyard.fabric.plugins.module_utils.records import bare_node
from ansible_collections.railyard.fabric.plugins.modules import bare_node_info

BASE = {"start_beacons": False, "collect_beacons": False, "run": "r", "secret": "s", "link_up": False}


def hold(**params: Any) -> dict[str, Any]:
    return bare_node_info.hold({**BASE, "key": "n1", "longest_s": 5, **params}, check_mode=False)


def test_every_key_of_the_records_is_documented() -> None:
    told = yaml.safe_load(bare_node_info.RETURN)
    assert set(told["bare_node"]["contains"]) == set(bare_node.BareNode.__annotations__) | set(
        bare_node._BareNodeOfSome.__annotations__
    )
    port = told["bare_node"]["contains"]["ports"]["contains"]
    assert set(port) == set(bare_node.Port.__annotations__)
    heard = set(bare_node.Heard.__annotations__) | set(bare_node._HeardOfSome.__annotations__)
    assert set(told["beacons"]["contains"]) == heard


def test_this_machine_is_a_bare_node() -> None:
    found = hold()["bare_node"]
    assert bare_node.read(found)["key"] == "n1"
    assert found["beacons"] is None


@pytest.mark.parametrize("key", ["", "a\nb", "\x1b[31m", "é" * 127])
def test_a_key_that_no_beacon_can_carry_is_refused(key: str) -> None:
    with pytest.raises(bare_node_info.ReadError, match="write 1 to 253 bytes"):
        hold(key=key)


def test_a_reading_that_hangs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(_key: str, _reader: object, at: Any) -> None:
        at("cards and ports in sysfs")
        background.time.sleep(60)

    monkeypatch.setattr(node, "collect", hang)
    monkeypatch.setattr(node, "LIMIT_S", 0.5)
    with pytest.raises(bare_node_info.ReadError, match="hung at cards and ports in sysfs"):
        hold()


def test_beacons_that_no_one_sends_cannot_be_collected() -> None:
    with pytest.raises(background.CollectError, match="is gone"):
        hold(collect_beacons=True, run="never started")


def test_run_secret_and_key_make_the_address() -> None:
    one = background.Discovery("r", "s", "k")
    others = [background.Discovery(*words) for words in ("Rsk", "rSk", "rsK", ("r\0k", "s", ""))]
    assert len({one.address, *(other.address for other in others)}) == 5
    assert one.address[:1] == b"\0"
