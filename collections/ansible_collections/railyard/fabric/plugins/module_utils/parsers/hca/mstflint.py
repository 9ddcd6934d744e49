# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""mstflint's query of a card's flash or of an image, as it prints them: text in, one record out."""

from __future__ import annotations

import re
import typing as t

_LINE = re.compile(r"(?m)^(FW Version|FW Version\(Running\)|PSID):[ \t]+(\S+)[ \t]*$")


class Flash(t.NamedTuple):
    """What is in a flash or an image.

    Attributes:
        version: The firmware that the next reset of the card starts, or the image's; None where it is not
            told.
        running: The firmware that runs; the same where mstflint says no other.
        psid: The board that it is for.
    """

    version: str | None
    running: str | None
    psid: str | None


def parse_query(text: str) -> Flash:
    """Read `mstflint -d DEVICE query` or `mstflint -i IMAGE query`."""
    told: dict[str, str] = {}
    for key, value in _LINE.findall(text):
        told.setdefault(key, value)
    version = told.get("FW Version")
    return Flash(version, told.get("FW Version(Running)", version), told.get("PSID"))
