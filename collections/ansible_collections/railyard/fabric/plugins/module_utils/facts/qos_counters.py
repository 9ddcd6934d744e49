# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters of PFC, ECN and CNP: which of a port's statistics tell that QoS is at work. Pure.

They keep the kernel's names. Sources, all torvalds/linux: Documentation/networking/device_drivers/ethernet/
mellanox/mlx5/counters.rst (priority port counters, global pause); below drivers/ infiniband/hw/mlx5/
counters.c (CNP), net/ethernet/mellanox/mlx4/en_ethtool.c, net/ethernet/broadcom/bnxt/bnxt_ethtool.c.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# ethtool's. Durations are in microseconds with mlx5 and mlx4.
_ETHTOOL = re.compile(
    r"(?:"
    # mlx5: pause frames of one priority, and what was dropped or marked for want of buffers
    r"[rt]x_prio[0-7]_(?:pause|pause_duration|pause_transition|discards|buf_discard|cong_discard|marked)"
    r"|[rt]x_pause_ctrl_phy|[rt]x_global_pause(?:_duration|_transition)?|[rt]x_pause_storm_(?:warning|error)_events"
    # mlx4
    r"|[rt]x_pause(?:_duration|_transition)?(?:_prio_[0-7])?"
    # bnxt
    r"|[rt]x_pfc_(?:ena_frames|frames)(?:_pri[0-7])?|pfc_pri[0-7]_[rt]x_(?:duration_us|transitions)"
    r")\Z"
)
# hw_counters': the end that notices (np) and the one that reacts (rp).
_HARDWARE = frozenset(
    (
        "np_cnp_sent",
        "np_ecn_marked_roce_packets",
        "rp_cnp_handled",
        "rp_cnp_ignored",
        "roce_slow_restart_cnps",
    )
)


def select(statistics: Mapping[str, Any], hw_counters: Mapping[str, Any]) -> dict[str, int]:
    """Return the counters of QoS of one port.

    Args:
        statistics: The netdev's, as `ethtool -S` names them.
        hw_counters: The RDMA port's, by file name; empty without RDMA.

    Returns:
        Counts (frames, packets) and durations by the kernel's name; empty for a driver that has none.
    """
    found = {name: value for name, value in statistics.items() if _ETHTOOL.match(name)}
    found.update({name: hw_counters[name] for name in _HARDWARE if name in hw_counters})
    return {name: value for name, value in sorted(found.items()) if isinstance(value, int)}
