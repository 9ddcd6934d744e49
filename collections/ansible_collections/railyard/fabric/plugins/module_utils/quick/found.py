# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The findings of a quick check, its exit status, and its line of output.

Each finding is about an item, such as `mtu/rail0`. A wrong item stays reported, by this check and later ones,
also after a reboot, until a check of the same item is good: a reboot does not undo the growth of an error
counter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

GOOD, WRONG, UNKNOWN = 0, 1, 3
#: How each line begins.
PREFIX = "railyard quick: "
_WORDS = {GOOD: "good", WRONG: "WRONG", UNKNOWN: "UNKNOWN"}
#: Causes that only the quick check has; the others are in docs/troubleshooting.md, like those of verdicts.
OWN_CAUSES = (
    "addresses_unread",
    "counters_unread",
    "device_names_stale",
    "expectation_unusable",
    "governor_differs",
    "governor_unread",
    "look_unfinished",
    "loopback_failed",
    "slurm_unreachable",
)
#: XIDs are from the log of one boot; a reset of the GPU or a reboot clears them.
ITEM_OF_XIDS = "gpus/gpu_xid"
_EARLIER = " (found by an earlier look; no look at it has been good since)"
# The length of a line for syslog and Slurm's reasons; what does not fit is counted.
_MOST_CHARACTERS = 700
_LISTS = ("wrong", "unknown", "told", "good")
_ODD = re.compile(r"[^\x20-\x7e]+")


class Finding(NamedTuple):
    """Something that is wrong, or expected and unknown.

    Attributes:
        item: what was checked, such as `mtu/rail0`.
        cause: id in the cause table, or one of OWN_CAUSES.
        rail: the rail's name; empty where it is not about a rail.
        is_wrong: whether it is wrong; else it could not be checked.
        text: what was found.
    """

    item: str
    cause: str
    rail: str
    is_wrong: bool
    text: str

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Finding:
        """Parse a finding that was stored as JSON.

        Raises:
            KeyError, TypeError: it is invalid.
        """
        texts = [document[key] for key in ("item", "cause", "rail", "text")]
        if not all(isinstance(one, str) for one in texts) or not isinstance(document["is_wrong"], bool):
            raise TypeError("no finding")
        return cls(texts[0], texts[1], texts[2], document["is_wrong"], texts[3])


@dataclass
class Found:
    """The findings of a check.

    Attributes:
        wrong: messages about what is wrong.
        unknown: messages about what is expected and could not be checked.
        told: other messages.
        good: messages about what is good.
        findings: `wrong` and `unknown` by item, cause and rail.
        good_items: items that are good, or have no threshold.
        gpus: `xids` and `nvlinks` for the node's metrics, see `quick/trace.py`.
    """

    wrong: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    good: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list, compare=False)
    good_items: list[str] = field(default_factory=list, compare=False)
    gpus: dict[str, Any] = field(default_factory=dict, compare=False)

    def add_wrong(self, text: str, item: str, cause: str, rail: str = "") -> None:
        """Report that an item is wrong."""
        self.wrong.append(text)
        self.findings.append(Finding(item, cause, rail, True, text))

    def add_unknown(self, text: str, item: str, cause: str, rail: str = "") -> None:
        """Report that an item is expected and could not be checked."""
        self.unknown.append(text)
        self.findings.append(Finding(item, cause, rail, False, text))

    def keep_earlier(self, earlier: Iterable[Finding], is_expected: Callable[[Finding], bool]) -> None:
        """Report again what earlier checks found wrong, where this one did not find the item good.

        Args:
            earlier: stored findings.
            is_expected: whether the expectation still has a finding's item.
        """
        seen = {one.item for one in self.findings if one.is_wrong}.union(self.good_items)
        for one in earlier:
            if one.is_wrong and one.item not in seen and one.item != ITEM_OF_XIDS and is_expected(one):
                self.wrong.append(one.text + _EARLIER)
                self.findings.append(one)

    @property
    def status(self) -> int:
        """The exit status: an item that could not be checked is not good."""
        return WRONG if self.wrong else UNKNOWN if self.unknown or not self.good else GOOD

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Found:
        """Parse the result of `to_json`."""
        return cls(
            **{key: [str(one) for one in document[key]] for key in (*_LISTS, "good_items")},
            findings=[Finding.read(one) for one in document["findings"]],
            gpus=dict(document["gpus"]),
        )

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON data."""
        return {**asdict(self), "findings": [one._asdict() for one in self.findings]}

    def document(self) -> dict[str, Any]:
        """Return the output of `--json` and of module `quick_check`."""
        findings = [
            {"cause": one.cause, "rail": one.rail, "is_wrong": one.is_wrong, "text": one.text}
            for one in self.findings
        ]
        return {**{key: list(getattr(self, key)) for key in _LISTS}, "findings": findings}

    def line(self, node: str) -> str:
        """Return it in one line of printable characters."""
        parts = [*self.wrong]
        parts += [f"not known: {one}" for one in self.unknown]
        if not self.wrong:
            parts += [", ".join(self.good)] if self.good else []
        parts += self.told
        said = f"{PREFIX}{node}: {_WORDS[self.status]}: " + _joined(parts or ["nothing was checked"])
        return _ODD.sub(" ", said)


def reason(found: Found) -> str:
    """Return what is wrong, shortened, as the reason of a drain in Slurm."""
    return _ODD.sub(" ", found.wrong[0])[:160].replace('"', "'")


def _joined(parts: Sequence[str]) -> str:
    """Join what fits, and count the rest."""
    said = parts[0][:_MOST_CHARACTERS]
    for place, part in enumerate(parts[1:], 1):
        if len(said) + len(part) > _MOST_CHARACTERS:
            return f"{said}; and {len(parts) - place} more"
        said += "; " + part
    return said
