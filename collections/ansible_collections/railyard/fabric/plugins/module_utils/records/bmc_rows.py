# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a BMC took the controller's questions: the key `bmc` of its row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict

from . import reader
from .facts import Count
from .node_rows import Positive

#: Who asks BMCs. The rows of nodes carry the node's name here.
CONTROLLER = "controller"


class _BmcOfSome(TypedDict, total=False):
    questions: Count


class Bmc(_BmcOfSome):
    """The port that was tried last, the number of tries, and the result."""

    state: Literal["answered", "refused", "silent", "no_way"]
    port: Positive


def parse(row: Mapping[str, object]) -> Bmc | None:
    """Parse a row about a BMC; None where it is invalid."""
    return reader.read_if(Bmc, row.get("bmc"))
