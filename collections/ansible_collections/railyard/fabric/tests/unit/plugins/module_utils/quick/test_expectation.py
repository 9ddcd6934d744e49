# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is expected of a node: complete, or reported as wrong and ignored."""

from __future__ import annotations

import json

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.quick import expectation

RAIL = {
    "name": "rail0",
    "netdev": "ens6",
    "hca": None,
    "address": "10.0.1.1/24",
    "mtu": 9000,
    "rate_gbps": 40,
}
WHOLE = {
    "schema": 1,
    "node": "gpuserver1",
    "transport": "roce",
    "node_class": "hardware",
    "rails": [RAIL],
    "governor": "performance",
    "gpus": {"count": 8, "model": "H100"},
}


def test_what_the_controller_writes_is_read_as_it_is(tmp_path):
    path = tmp_path / "quick.json"
    path.write_text(json.dumps(WHOLE))
    found = expectation.load(str(path))
    assert found == ("gpuserver1", "roce", "hardware", [RAIL], "performance", {"count": 8, "model": "H100"})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 2}, "schema is 2"),
        ({"schema": True}, "schema is True"),
        ({"node": ""}, "node is ''"),
        ({"transport": "ethernet"}, "transport is 'ethernet'"),
        ({"node_class": None}, "node_class is None"),
        ({"rails": None}, "rails is None"),
        ({"rails": ["rail0"]}, "has no name"),
        ({"rails": [RAIL, RAIL]}, "two rails have one name"),
        ({"rails": [{**RAIL, "address": "10.0.1.1"}]}, "rail0: address is '10.0.1.1'"),
        ({"rails": [{**RAIL, "address": 167772417}]}, "rail0: address is 167772417"),
        ({"rails": [{**RAIL, "mtu": "9000"}]}, "rail0: mtu is '9000'"),
        ({"rails": [{**RAIL, "vlan": 0}]}, "rail0: vlan is 0"),
        ({"rails": [{**RAIL, "rate_gbps": 0}]}, "rail0: rate_gbps is 0"),
        ({"rails": [{**RAIL, "netdev": 6}]}, "rail0: netdev is 6"),
        ({"governor": None}, "governor is None"),
        ({"gpus": 8}, "gpus is 8"),
        ({"gpus": {}}, "count is None"),
        ({"gpus": {"count": True}}, "count is True"),
        ({"gpus": {"count": 8, "model": 100}}, "model is 100"),
        ({"gpus": {"count": 8, "nvlinks": -1}}, "nvlinks is -1"),
        ({"rails": [], "governor": "", "gpus": None}, "it expects nothing"),
    ],
)
def test_what_is_odd_is_reported(change, said):
    with pytest.raises(expectation.ExpectationError, match=said):
        expectation.parse({**WHOLE, **change})


@pytest.mark.parametrize("key", WHOLE)
def test_what_is_left_out_is_not_taken_for_not_wanted(key):
    with pytest.raises(expectation.ExpectationError, match=key):
        expectation.parse({name: value for name, value in WHOLE.items() if name != key})


@pytest.mark.parametrize(
    ("text", "said"), [("{", "not JSON"), ("[]", "no JSON object"), ("[" * 10**5, "not JSON")]
)
def test_a_file_that_is_none_is_named(tmp_path, text, said):
    path = tmp_path / "quick.json"
    path.write_text(text)
    with pytest.raises(expectation.ExpectationError, match=f"{path}: {said}"):
        expectation.load(str(path))
    with pytest.raises(expectation.ExpectationError, match="No such file"):
        expectation.load(f"{path}.gone")
