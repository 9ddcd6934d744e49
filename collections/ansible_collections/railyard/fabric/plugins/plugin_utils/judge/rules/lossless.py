# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the lossless setting of a port, and the counters that show a violation of it. Pure.

The setting is read from the port: mlx5 has `rx_prio[p]_pause` "only if PFC was enabled on priority p" and
`rx_global_pause` only with global pause (torvalds/linux Documentation/networking/device_drivers/ethernet/
mellanox/mlx5/counters.rst). A port without either drops packets when its buffers are full, as TCP expects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_whole
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: "Sending pauses for a long period of time, reaching time out and disabling transmission of pause frames":
#: until they are sent again, drops may occur.
STORM = "ethtool.tx_pause_storm_error_events"
_ALL_DROPS = "ethtool.rx_discards_phy"
_PAUSED = re.compile(r"rx_prio([0-7])_pause\Z")
_GLOBAL = "rx_global_pause"
_DROPS = re.compile(r"ethtool\.rx_prio([0-7])_(?:discards|buf_discard|cong_discard)\Z")


class LosslessSetting(NamedTuple):
    """The traffic for which a port sends pauses instead of dropping packets.

    Attributes:
        priorities: priorities with PFC.
        everything: global pause, without priorities.
    """

    priorities: frozenset[str]
    everything: bool


def find_setting(netdev: Row | None) -> LosslessSetting:
    """Return a netdev's lossless setting, by the counters in its facts."""
    names = list((netdev or {}).get("qos_counters") or ())
    paused = (_PAUSED.match(name) for name in names)
    return LosslessSetting(frozenset(match.group(1) for match in paused if match), _GLOBAL in names)


def has_dscp(traffic_class: object) -> bool:
    """Tell whether a test's packets have a DSCP other than 0, the default class (RFC 2474).

    Packets of the default class may be dropped although another priority is lossless.
    """
    return is_whole(traffic_class) and traffic_class >> 2 > 0


def is_violated(name: str, setting: LosslessSetting, names: Iterable[str], in_class: bool) -> bool:
    """Tell whether the growth of a counter in a test violates the lossless setting.

    Args:
        name: the counter.
        setting: the port's setting.
        names: all counters that were read around the test.
        in_class: the test was an RDMA test with a DSCP (`has_dscp`), which the site maps to a priority with
            PFC.
    """
    if name == STORM:
        return True
    drops = _DROPS.match(name)
    if drops:
        return setting.everything or drops.group(1) in setting.priorities
    if name != _ALL_DROPS:
        return False
    # It includes priorities without PFC, so it is used only if there is no counter per priority.
    by_priority = any(_DROPS.match(one) for one in names)
    return setting.everything or (bool(setting.priorities) and in_class and not by_priority)


def describe_setting(setting: LosslessSetting, names: Iterable[str]) -> str:
    """Return the text for a verdict's basis: what is lossless, and whether its drops are counted."""
    if not setting.priorities and not setting.everything:
        return ""
    what = "every priority" if setting.everything else f"priority {', '.join(sorted(setting.priorities))}"
    if any(_DROPS.match(name) or name == _ALL_DROPS for name in names):
        return f"; {what} is lossless by pause frames, and no packet of it may be dropped"
    return f"; {what} is lossless by pause frames, but this port counts no drops: not judged"
