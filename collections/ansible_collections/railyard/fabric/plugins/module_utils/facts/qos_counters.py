# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Select the counters of PFC, ECN and CNP from a port's statistics. Pure.

They keep the kernel's names. Sources, all torvalds/linux: Documentation/networking/device_drivers/ethernet/
mellanox/mlx5/counters.rst (priority port counters, global pause); below drivers/ infiniband/hw/mlx5/
counters.c (CNP), net/ethernet/mellanox/mlx4/en_ethtool.c, net/ethernet/broadcom/bnxt/bnxt_ethtool.c.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

# ethtool's. Durations are in microseconds with mlx5 and mlx4.
_ETHTOOL = re.compile(
    r"(?:"
    # mlx5: pause frames of one priority, and packets dropped or marked for lack of buffers
    r"[rt]x_prio[0-7]_(?:pause|pause_duration|pause_transition|discards|buf_discard|cong_discard|marked)"
    r"|[rt]x_pause_ctrl_phy|[rt]x_global_pause(?:_duration|_transition)?|[rt]x_pause_storm_(?:warning|error)_events"
    # mlx4
    r"|[rt]x_pause(?:_duration|_transition)?(?:_prio_[0-7])?"
    # bnxt
    r"|[rt]x_pfc_(?:ena_frames|frames)(?:_pri[0-7])?|pfc_pri[0-7]_[rt]x_(?:duration_us|transitions)"
    r")\Z"
)
# hw_counters: the notification point (np) and the reaction point (rp).
_HARDWARE = frozenset(
    (
        "np_cnp_sent",
        "np_ecn_marked_roce_packets",
        "rp_cnp_handled",
        "rp_cnp_ignored",
        "roce_slow_restart_cnps",
    )
)


_FRAMES = re.compile(
    r"([rt]x)_(?:prio([0-7])_pause|global_pause|pause_prio_([0-7])|pause|pfc_ena_frames_pri([0-7]))\Z"
)
_DURATION_US = re.compile(
    r"([rt]x)_(?:prio([0-7])_pause_duration|global_pause_duration|pause_duration_prio_([0-7])|pause_duration)\Z"
)
_BNXT_DURATION_US = re.compile(r"pfc_pri([0-7])_([rt]x)_duration_us\Z")
#: Pauses of the port, not of one priority.
ALL_PRIORITIES = "all"


class Pause(NamedTuple):
    """Pauses of one priority in one direction: frames, and how long sending was paused."""

    frames: int
    duration_us: Optional[int]  # noqa: UP045 - Python 3.9, which nodes may have, evaluates it


def pauses(statistics: Mapping[str, Any]) -> dict[tuple[str, str], Pause]:
    """Return the nonzero pauses by direction (`rx`: this port was paused) and priority.

    Args:
        statistics: The netdev's, as `ethtool -S` names them.
    """
    frames: dict[tuple[str, str], int] = {}
    durations_us: dict[tuple[str, str], int] = {}
    for name, value in statistics.items():
        if not isinstance(value, int):
            continue
        bnxt = _BNXT_DURATION_US.match(name)
        if bnxt:
            durations_us[bnxt.group(2), bnxt.group(1)] = value
        for pattern, found in ((_FRAMES, frames), (_DURATION_US, durations_us)):
            match = pattern.match(name)
            if match:
                priority = next(filter(None, match.groups()[1:]), ALL_PRIORITIES)
                found[match.group(1), priority] = value
    return {
        key: Pause(frames.get(key, 0), durations_us.get(key))
        for key in sorted({*frames, *durations_us})
        if frames.get(key) or durations_us.get(key)
    }


def select(statistics: Mapping[str, Any], hw_counters: Mapping[str, Any]) -> dict[str, int]:
    """Return the QoS counters of one port.

    Args:
        statistics: The netdev's, as `ethtool -S` names them.
        hw_counters: The RDMA port's, by file name; empty without RDMA.

    Returns:
        Counts (frames, packets) and durations by the kernel's name; empty for a driver that has none.
    """
    found = {name: value for name, value in statistics.items() if _ETHTOOL.match(name)}
    found.update({name: hw_counters[name] for name in _HARDWARE if name in hw_counters})
    return {name: value for name, value in sorted(found.items()) if isinstance(value, int)}
