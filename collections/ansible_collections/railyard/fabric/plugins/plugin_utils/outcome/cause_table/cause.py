# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A row of the cause table, and what many rows tell the user to do."""

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
    """One way not to pass.

    Attributes:
        name: the id that verdicts carry as `cause_class`.
        sentence: what is wrong; verdicts put what was seen behind it.
        next: what to do, as a sentence in the imperative.
        likely: what most often makes it so; where the run shows it better, verdicts say that instead.
        command: what to type first; words in capitals (`PLACEHOLDERS`) stand for what the verdict names.
    """

    name: str
    sentence: str
    next: str
    likely: str
    command: str
