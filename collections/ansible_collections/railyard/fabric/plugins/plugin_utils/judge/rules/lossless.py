# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which drops a port has promised not to have, and which of its counters show that it had them. Pure.

The promise is read from the port itself: mlx5 has `rx_prio[p]_pause` "only if PFC was enabled on priority p"
and `rx_global_pause` only with global pause (torvalds/linux Documentation/networking/device_drivers/ethernet/
mellanox/mlx5/counters.rst). A port without either drops what it has no room for, and TCP expects that.
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


class Promise(NamedTuple):
    """What a port pauses for instead of dropping it.

    Attributes:
        priorities: those with PFC.
        everything: global pause, which knows no priorities.
    """

    priorities: frozenset[str]
    everything: bool


def promise(netdev: Row | None) -> Promise:
    """Return what a netdev of the facts promises by the counters that it has."""
    names = list((netdev or {}).get("qos_counters") or ())
    paused = (_PAUSED.match(name) for name in names)
    return Promise(frozenset(match.group(1) for match in paused if match), _GLOBAL in names)


def has_dscp(traffic_class: object) -> bool:
    """Tell whether a test's packets have a DSCP other than 0, which is that of the default class (RFC 2474).

    Packets of the default class may be dropped beside a lossless priority.
    """
    return is_whole(traffic_class) and traffic_class >> 2 > 0


def is_broken(name: str, made: Promise, names: Iterable[str], in_class: bool) -> bool:
    """Tell whether the growth of a counter in a test breaks the promise.

    Args:
        name: the counter.
        made: the port's promise.
        names: all counters that were read around the test.
        in_class: the test was one of RDMA with a DSCP of its own (`has_dscp`), which the site maps to a
            priority with PFC.
    """
    if name == STORM:
        return True
    drops = _DROPS.match(name)
    if drops:
        return made.everything or drops.group(1) in made.priorities
    if name != _ALL_DROPS:
        return False
    # It counts the priorities without PFC as well: it is asked where there is no counter for each.
    by_priority = any(_DROPS.match(one) for one in names)
    return made.everything or (bool(made.priorities) and in_class and not by_priority)


def basis(made: Promise, names: Iterable[str]) -> str:
    """Return what to add to the verdict's basis: what is lossless, and whether its drops are counted."""
    if not made.priorities and not made.everything:
        return ""
    what = "every priority" if made.everything else f"priority {', '.join(sorted(made.priorities))}"
    if any(_DROPS.match(name) or name == _ALL_DROPS for name in names):
        return f"; {what} is lossless by pause frames, and no packet of it may be dropped"
    return f"; {what} is lossless by pause frames, but this port counts no drops: not judged"
