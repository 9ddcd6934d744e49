# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of mstflint's query of a NIC's flash or of an image: text in, one record out."""

from __future__ import annotations

import re
import typing as t

_LINE = re.compile(r"(?m)^(FW Version|FW Version\(Running\)|PSID):[ \t]+(\S+)[ \t]*$")


class Flash(t.NamedTuple):
    """The content of a flash or an image.

    Attributes:
        version: The firmware after the next reset of the NIC, or the image's; None where it is not shown.
        running: The running firmware; the same as `version` where mstflint shows no other.
        psid: The board that it is for.
    """

    version: str | None
    running: str | None
    psid: str | None


def parse_query(text: str) -> Flash:
    """Read `mstflint -d DEVICE query` or `mstflint -i IMAGE query`."""
    fields: dict[str, str] = {}
    for key, value in _LINE.findall(text):
        fields.setdefault(key, value)
    version = fields.get("FW Version")
    return Flash(version, fields.get("FW Version(Running)", version), fields.get("PSID"))
