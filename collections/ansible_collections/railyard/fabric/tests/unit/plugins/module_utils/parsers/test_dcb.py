# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dcb -j, by hand to the forms that its source prints, old and new."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.common import NotThisTool
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.hca import dcb, mlnx_qos


def test_pfc_of_eight_priorities():
    text = (
        '{"pfc_cap":8,"macsec_bypass":false,"delay":7,'
        '"prio_pfc":[false,false,false,true,false,false,false,false]}\n'
    )
    assert dcb.pfc(text) == [0, 0, 0, 1, 0, 0, 0, 0]


@pytest.mark.parametrize("text", ['{"dscp_prio":[[26,3],[48,6]]}', '{"dscp_prio":[[26,3," "],[48,6," "]]}'])
def test_map_of_dscp_in_both_forms(text):
    assert dcb.dscp_to_priority(text) == {"26": 3, "48": 6}


def test_no_entry_is_no_map():
    assert dcb.dscp_to_priority("{}") == {}


def test_buffers_and_flags():
    text = '{"prio_buffer":[0,0,0,1,0,0,0,0],"buffer_size":[20352,131072,0,0,0,0,0,0],"total_size":262016}'
    assert dcb.buffers(text) == ([20352, 131072, 0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0, 0])
    assert dcb.dcbx_flags('{"lld_managed":true,"ieee":true}') == ["ieee", "lld-managed"]


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (dcb.pfc, "Attribute not found: No such device\n"),
        (dcb.pfc, "[]"),
        (dcb.pfc, '{"prio_pfc":[true]}'),
        (dcb.pfc, '{"prio_pfc":[1,1,1,1,1,1,1,1]}'),
        (dcb.dscp_to_priority, '{"dscp_prio":[26]}'),
        (dcb.dscp_to_priority, '{"dscp_prio":[[26,3],[26,4]]}'),
        (dcb.buffers, '{"buffer_size":[1,2]}'),
    ],
)
def test_other_text_is_refused(read, text):
    with pytest.raises(NotThisTool):
        read(text)


def test_mlnx_qos_tells_who_is_in_charge_and_where_each_priority_is_buffered():
    text = (
        "****** WARNING: lldpad service is running and may overwrite your settings ******\n\n"
        "DCBX mode: Firmware controlled\nPriority trust state: pcp\n"
        "PFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n"
        "\tenabled     0   0   0   1   0   0   0   0   \n\tbuffer      0   0   0   1   0   0   0   0   \n"
    )
    assert mlnx_qos.dcbx_mode(text) == "firmware"
    assert mlnx_qos.buffer_of_priority(text) == [0, 0, 0, 1, 0, 0, 0, 0]
    assert mlnx_qos.has_rival(text)
    without = text.replace("Firmware", "OS").partition("\tbuffer")[0].partition("\n\n")[2]
    assert mlnx_qos.dcbx_mode(without) == "os"
    assert mlnx_qos.buffer_of_priority(without) is None
    assert not mlnx_qos.has_rival(without)
