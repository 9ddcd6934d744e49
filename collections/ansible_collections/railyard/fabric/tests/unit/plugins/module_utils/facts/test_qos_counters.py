# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The counters of QoS are found among the hundreds of others that a card has."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts import qos_counters


@pytest.mark.parametrize(
    "name",
    [
        "rx_prio3_pause",
        "tx_prio3_pause",
        "rx_prio3_pause_duration",
        "rx_prio0_pause_transition",
        "rx_prio3_discards",
        "rx_prio3_buf_discard",
        "rx_prio3_cong_discard",
        "rx_prio3_marked",
        "tx_pause_ctrl_phy",
        "rx_global_pause",
        "rx_pause_prio_3",
        "tx_pause_duration_prio_7",
        "rx_pause",
        "rx_pfc_ena_frames_pri3",
        "pfc_pri3_rx_duration_us",
    ],
)
def test_flow_control_of_a_netdev_is_one(name):
    assert qos_counters.select({name: 5}, {}) == {name: 5}


@pytest.mark.parametrize(
    "name", ["rx_prio3_bytes", "rx_prio3_packets", "rx_prio8_pause", "rx_bytes", "tx0_packets", "rx_pause_x"]
)
def test_other_statistics_are_not(name):
    assert qos_counters.select({name: 5}, {}) == {}


def test_congestion_notification_is_taken_from_the_rdma_port():
    port = {
        "np_cnp_sent": 12,
        "np_ecn_marked_roce_packets": 40,
        "rp_cnp_handled": 11,
        "rp_cnp_ignored": 0,
        "out_of_sequence": 3,
        "lifespan": 10,
    }
    assert qos_counters.select({"rx_prio3_pause": 7}, port) == {
        "np_cnp_sent": 12,
        "np_ecn_marked_roce_packets": 40,
        "rp_cnp_handled": 11,
        "rp_cnp_ignored": 0,
        "rx_prio3_pause": 7,
    }


def test_a_counter_that_could_not_be_read_is_left_out():
    assert qos_counters.select({}, {"np_cnp_sent": None}) == {}
