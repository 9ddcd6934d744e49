# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The type of a row of the cause table, and texts that many rows share."""

from __future__ import annotations

from dataclasses import dataclass

AGAIN = "railyard validate -i INVENTORY"
RAW = "tar -xzf RUN/raw/NODE.tar.gz"
LOOK_AT_RAW = (
    "Read the tool's own output in the run folder's raw/ archive of that node, correct it, and "
    "validate again."
)


@dataclass(frozen=True)
class Cause:
    """One reason why a check did not pass.

    Attributes:
        name: the id that verdicts carry as `cause_class`.
        sentence: what is wrong; verdicts append the details.
        next: what to do, in the imperative.
        likely: the most frequent reason; verdicts replace it where the run has better evidence.
        command: the first command to type; words in capitals are `PLACEHOLDERS`.
    """

    name: str
    sentence: str
    next: str
    likely: str
    command: str
