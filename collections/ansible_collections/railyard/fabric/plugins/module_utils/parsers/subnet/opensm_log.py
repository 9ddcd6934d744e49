# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What opensm's log reports about its start: which state it took, and what it makes of its partition file.

After a parse error opensm 3.3.23 (osm_prtn_config.c, osm_prtn.c) drops the file and makes everybody a full
member of the default partition. Neither its exit status nor the state of the subnet show it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# `Nov 27 21:26:26 639098 [7F6206C0] 0x01 -> parse_part_conf: PARSE ERROR: line 2: bad PortGUID`
_LINE = re.compile(
    r"\S+ +[0-9]+ [0-9:]+ [0-9]+ \[[0-9A-Fa-f]+\] 0x[0-9A-Fa-f]{2} -> (?:(?P<function>\w+): )?(?P<text>.*)"
)
# Other files of opensm's have parse errors of another form (`PARSE ERROR: FILE:LINE: ...`).
_PARSE_ERROR = re.compile(r"PARSE ERROR(?:: | partition conf file )line [0-9]+: .*")
_FELL_BACK = "Partition configuration in error"
_STATE = re.compile(r"Entering (DISCOVERING|STANDBY|NOT-ACTIVE|MASTER) state")
_MOST_CHARACTERS = 200


class OpensmStart(NamedTuple):
    """What a start of opensm logged.

    Attributes:
        errors: parse errors of the partition file, each once, in order.
        fell_back: whether it dropped the partition file for its default.
        state: the state that it took last (`MASTER`, `STANDBY`, ...); None where it logged none.
    """

    errors: tuple[str, ...]
    fell_back: bool
    state: str | None


def parse(text: str) -> OpensmStart:
    """Read what opensm has logged since its start; the last line may be cut off."""
    errors: dict[str, None] = {}
    fell_back, state = False, None
    for line in text.splitlines():
        found = _LINE.match(line)
        message = found["text"].strip() if found else ""
        error = _PARSE_ERROR.match(message)
        if error:
            errors[error[0][:_MOST_CHARACTERS]] = None
        fell_back = fell_back or message.startswith(_FELL_BACK)
        entered = _STATE.match(message)
        state = entered[1] if entered else state
    return OpensmStart(tuple(errors), fell_back, state)
