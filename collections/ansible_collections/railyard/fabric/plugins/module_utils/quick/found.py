# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a quick look found, its exit status, and the one line that says it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

GOOD, WRONG, UNKNOWN = 0, 1, 3
#: How each line begins.
PREFIX = "railyard quick: "
_WORDS = {GOOD: "good", WRONG: "WRONG", UNKNOWN: "UNKNOWN"}
# A line for syslog and for Slurm's reasons; what does not fit is counted.
_MOST_CHARACTERS = 700
_ODD = re.compile(r"[^\x20-\x7e]+")


@dataclass
class Found:
    """What a look found, in words.

    Attributes:
        wrong: what is not as it should be.
        unknown: what is expected and could not be looked at.
        told: what else is worth saying.
        good: what was looked at and is as it should be.
    """

    wrong: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    good: list[str] = field(default_factory=list)

    @property
    def status(self) -> int:
        """The exit status: what could not be looked at is no good."""
        return WRONG if self.wrong else UNKNOWN if self.unknown or not self.good else GOOD

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Found:
        """Return what `document` gave."""
        return cls(
            **{key: [str(one) for one in document[key]] for key in ("wrong", "unknown", "told", "good")}
        )

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)

    def line(self, node: str) -> str:
        """Return it in one line of plain characters."""
        parts = [*self.wrong]
        parts += [f"not known: {one}" for one in self.unknown]
        if not self.wrong:
            parts += [", ".join(self.good)] if self.good else []
        parts += self.told
        said = f"{PREFIX}{node}: {_WORDS[self.status]}: " + _joined(parts or ["nothing was looked at"])
        return _ODD.sub(" ", said)


def reason(found: Found) -> str:
    """Return what is wrong, short, as a drain in Slurm gives its reason."""
    return _ODD.sub(" ", found.wrong[0])[:160].replace('"', "'")


def _joined(parts: Sequence[str]) -> str:
    """Join what fits, and count what does not."""
    said = parts[0][:_MOST_CHARACTERS]
    for place, part in enumerate(parts[1:], 1):
        if len(said) + len(part) > _MOST_CHARACTERS:
            return f"{said}; and {len(parts) - place} more"
        said += "; " + part
    return said
