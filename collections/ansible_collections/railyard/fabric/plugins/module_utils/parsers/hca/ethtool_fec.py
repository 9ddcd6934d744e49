# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read `ethtool -I --show-fec NETDEV`: a link's FEC, and its counters since the driver was loaded.

As text and as JSON. Source: ethtool's netlink/fec.c. Public outputs that were tried: bnxt or mlx5 with lanes,
text and JSON (text index 30412424811), ice (20022863685), fbnic (24687691770), DGX Spark without statistics
(61925772940).
"""

from __future__ import annotations

import re
from typing import Any

from .. import common
from . import module_words

_BEGIN = re.compile(r"^\s*FEC parameters for \S{1,80}:\s*$")
_ACTIVE = re.compile(r"^\s*Active FEC encodings?:(.*)$")
_COUNTER = re.compile(r"^\s*(corrected_blocks|uncorrectable_blocks|corrected_bits): *([0-9]{1,20})\s*$")
_COUNTERS = ("corrected_blocks", "uncorrectable_blocks", "corrected_bits")


def parse(text: str) -> dict[str, Any]:
    """Parse what ethtool printed of one netdev.

    Returns:
        `active`, the encodings by ethtool's names (`RS`, `BaseR`, `None` ...); `corrected_blocks`,
        `uncorrectable_blocks` and `corrected_bits`, of all lanes together, each None where the driver or this
        version of ethtool has none.

    Raises:
        NotThisTool: it is something else, with ethtool's message where there is one.
    """
    if text.lstrip().startswith("["):
        return _of_json(text)
    lines = common.split_lines(text)
    active: list[str] | None = None
    counters: dict[str, int | None] = dict.fromkeys(_COUNTERS)
    begun = False
    for line in lines:
        begun = begun or bool(_BEGIN.match(line))
        if found := _ACTIVE.match(line):
            active = found.group(1).split()
        elif found := _COUNTER.match(line):
            counters[found.group(1)] = module_words.count(found.group(2))
    if not begun or active is None:
        raise module_words.refusal("no FEC parameters of ethtool", lines)
    return {"active": active, **counters}


def _of_json(text: str) -> dict[str, Any]:
    found = module_words.json_object(text)
    active, statistics = found.get("active"), found.get("statistics") or {}
    if not isinstance(active, list) or not isinstance(statistics, dict):
        raise common.NotThisTool("no FEC parameters in ethtool's JSON")
    counters = {}
    for name in _COUNTERS:
        one = statistics.get(name)
        counters[name] = module_words.count(one.get("total") if isinstance(one, dict) else one)
    return {"active": [str(one) for one in active], **counters}
