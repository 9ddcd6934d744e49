# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that NCCL, RCCL and UCX read: `variables.json`, and what a value of one means.

tools/nccl_catalogue.py writes there which release reads which name: from NCCL's source at each tag and, for
newer releases, from the library; RCCL's names from its source and documentation. What a variable is for is
from NVIDIA's documentation of NCCL's environment (env.rst of 2.30.7, the contents of 2.32.3's), and from the
source where that says nothing; what is left over of Amazon's plugin, from doc/efa-env-var.md of
aws-ofi-nccl. Read by `railyard lint-nccl` and by role nccl_profile, on the controller alone.
"""

from __future__ import annotations

import difflib
import ipaddress
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils.parsers.nccl import device_list as names

_CATALOGUE = json.loads(Path(__file__).with_name("variables.json").read_text(encoding="utf-8"))
#: The releases of NCCL whose names the catalogue has, oldest first.
RELEASES: tuple[str, ...] = tuple(_CATALOGUE["nccl"]["releases"])
OLDEST, NEWEST = RELEASES[0], RELEASES[-1]
#: How NCCL writes the distance of a path, nearest first. It compares case too.
LEVELS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
#: What the numbers that levels were before 2.5 mean now; what is above is the last.
OLD_LEVELS = ("LOC", "PIX", "PXB", "PHB", "SYS")
_SUBSYSTEMS = {"INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "ALLOC_HOST", "CALL"}
_SUBSYSTEMS |= {"PROXY", "NVLS", "BOOTSTRAP", "REG", "PROFILE", "RAS", "DESTROY", "ALL"}
_CHOICES = {
    "<algorithms>": {"tree", "ring", "collnet", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat"},
    "<protocols>": {"ll", "ll128", "simple"},
}
# strtoll with base 0: what it cannot read is 0, what follows the number is left.
_NUMBER = re.compile(r"[ \t]*([+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+))(.*)", re.DOTALL)
# A name is meant by one that differs from it by a letter or two, within one word: of the 305 names that came
# after 2.3.5, 19 are as near to an older one, and of these only 1 differs in one word alone and little there.
_NEAR, _NEAR_WORD = 0.9, 0.75


@dataclass(frozen=True)
class Variable:
    """A row of the catalogue.

    Attributes:
        name: with * at its end it stands for all names that begin so.
        use: `system` (NVIDIA documents it as what may stay set), `debugging` (as what may not), `internal`
            (read, but not documented), `other` (read by another program), `rccl` (read by RCCL, the library
            of AMD, and not by NCCL) or `ucx`.
        values: what it may be, as alternatives: a number, A..B, a word, or <a kind>; empty: not known.
        case: whether the words' case counts.
        default: what it is where nothing sets it, in the newest version; empty where that depends.
        since: the first release that reads it; empty: older than 2.3.5, or unknown.
        deprecated: since which release another is to be used.
        until: the first release that does not read it any more.
        instead: the name to use instead.
        left_over: since what it need not be set any more, of another program's.
        why: what it does.
        plugin: whether only plugins that come with NCCL's source read it.
        rccl: the newest ROCm release whose RCCL was seen to read it, or `documentation` where only RCCL's
            documentation of a newer one names it; empty: not read.
    """

    name: str
    use: str
    values: str = ""
    case: bool = False
    default: str = ""
    since: str = ""
    deprecated: str = ""
    until: str = ""
    instead: str = ""
    left_over: str = ""
    why: str = ""
    plugin: bool = False
    rccl: str = ""


#: name -> row, in the order of the names.
VARIABLES: dict[str, Variable] = {row["name"]: Variable(**row) for row in _CATALOGUE["variables"]}
_PREFIXES = {name[:-1]: variable for name, variable in VARIABLES.items() if name.endswith("*")}


def find(name: str) -> Variable | None:
    """Return a variable by its name; for a plugin's own, the row of all names that begin as it does."""
    found = VARIABLES.get(name)
    if found is None:
        return next((row for prefix, row in _PREFIXES.items() if name.startswith(prefix)), None)
    return found


def near(name: str) -> str | None:
    """Return the name that a misspelt one was meant to be, or None."""
    found = difflib.get_close_matches(name.upper(), VARIABLES, n=1, cutoff=_NEAR)
    return found[0] if found else None


def misspelt(name: str) -> str | None:
    """Return the name that one is a misspelling of, or None where it may be a name of its own, too."""
    meant = near(name)
    if meant is None or name.upper().replace("_", "") == meant.replace("_", ""):
        return meant
    written, words = name.upper().split("_"), meant.split("_")
    pairs = [(one, other) for one, other in zip(written, words, strict=False) if one != other]
    if len(written) != len(words) or len(pairs) != 1:
        return None
    return meant if difflib.SequenceMatcher(None, *pairs[0]).ratio() >= _NEAR_WORD else None


def describe_unknown(name: str) -> str:
    """Return why a name that is not in the catalogue is probably wrong, as a sentence without a full stop."""
    if name != name.upper() and name.upper() in VARIABLES:
        return "NCCL reads names in capitals alone"
    return f"no NCCL from {OLDEST} to {NEWEST} reads it, nor RCCL, nor a plugin that is known here"


def release(text: str) -> tuple[int, ...]:
    """Return a version as what can be compared: "2.21.5-1" is (2, 21, 5)."""
    return tuple(int(part) for part in text.split("-")[0].split("."))


def number(value: str) -> tuple[int, str]:
    """Read a number as NCCL does: what it takes it for, and what it leaves."""
    found = _NUMBER.match(value)
    if found is None:
        return 0, value
    digits = found[1].lstrip("+-")
    # C's base 0: a leading 0 makes it octal, so that 08 is 0 with a rest.
    if digits.startswith("0") and digits[1:].isdigit():
        octal = re.match("[0-7]*", digits)
        kept = octal[0] if octal else "0"
        return int(kept, 8), digits[len(kept) :] + found[2]
    return int(found[1], 0), found[2]


def wrong_value(variable: Variable, value: str) -> str | None:
    """Say what is wrong with a value, as the end of a sentence, or None.

    Empty is right of each: NCCL takes it as not set.
    """
    allowed = variable.values.split()
    if not value or not allowed or value == variable.default:
        return None
    if all(_is_numeric(one) for one in allowed):
        return _wrong_number(allowed, value)
    if len(allowed) == 1 and allowed[0] in _KINDS:
        return _KINDS[allowed[0]](value)
    if any(_fits(one, value, variable.case) for one in allowed):
        return None
    if not variable.case and any(_fits(one, value.strip(), variable.case) for one in allowed):
        return "has blanks around it, which NCCL takes as part of the value"
    words = ", ".join("MAX:N" if one == "<max>" else one for one in allowed)
    return f"is none of {words}" + (" (case counts)" if variable.case else "")


def level(value: str) -> str | None:
    """Return the distance that a value means, or None where NCCL knows no such distance."""
    if value in LEVELS:
        return value
    if value[:1].isdigit():
        return OLD_LEVELS[min(number(value)[0], len(OLD_LEVELS) - 1)]
    return None


def _is_numeric(one: str) -> bool:
    return one == "<int>" or bool(re.fullmatch(r"-?\d+(\.\.\d*)?", one))


def _wrong_number(allowed: list[str], value: str) -> str | None:
    read, rest = number(value)
    if rest == value:
        return "is no number: NCCL reads it as 0"
    if rest:
        return f"is not a number alone: NCCL reads it as {read}"
    if any(_in_span(one, read) for one in allowed):
        return None
    spans = " or ".join(
        one.replace("..", " to ") if one[-1] != "." else f"{one[:-2]} or more" for one in allowed
    )
    return f"is not {spans}"


def _in_span(one: str, read: int) -> bool:
    if one == "<int>":
        return True
    least, dots, most = one.partition("..")
    if not dots:
        return read == int(least)
    return int(least) <= read <= (int(most) if most else read)


def _fits(one: str, value: str, case: bool) -> bool:
    if one == "<max>":
        return bool(re.fullmatch(r"MAX:\d+", value, re.IGNORECASE))
    if _is_numeric(one):
        read, rest = number(value)
        return not rest and _in_span(one, read)
    return value == one if case else value.lower() == one.lower()


def _wrong_level(value: str) -> str | None:
    if level(value) is None:
        return (
            f"is no distance, so that NCCL goes on as without it; it knows {', '.join(LEVELS)} (case counts)"
        )
    return None


def _wrong_bool(value: str) -> str | None:
    return None if value.lower() in ("0", "1", "t", "f", "true", "false") else "is neither 0 nor 1"


def _wrong_network(value: str) -> str | None:
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        return "is no network in CIDR form"
    return None


def _wrong_subsystems(value: str) -> str | None:
    unknown = [one for one in value.removeprefix("^").split(",") if one.upper() not in _SUBSYSTEMS]
    return f"has {', '.join(unknown)}, which is no part of NCCL" if unknown else None


def _wrong_path(value: str) -> str | None:
    return "begins with ~, which NCCL takes as a folder's name" if value.startswith("~") else None


def _wrong_list(value: str) -> str | None:
    return names.parse(value).wrong


def _wrong_choices(kind: str, value: str) -> str | None:
    """Check [function:]a,b;function:c,... against the known names."""
    for part in value.split(";"):
        for one in part.split(":")[-1].removeprefix("^").split(","):
            if one.lower() not in _CHOICES[kind]:
                known = ", ".join(sorted(_CHOICES[kind]))
                return f"has {one or 'nothing'} where one of these is wanted: {known}"
    return None


_KINDS: dict[str, Callable[[str], str | None]] = {
    "<text>": lambda value: None,
    "<path>": _wrong_path,
    "<bool>": _wrong_bool,
    "<level>": _wrong_level,
    "<cidr>": _wrong_network,
    "<subsystems>": _wrong_subsystems,
    "<hcas>": _wrong_list,
    "<netdevs>": _wrong_list,
    "<algorithms>": lambda value: _wrong_choices("<algorithms>", value),
    "<protocols>": lambda value: _wrong_choices("<protocols>", value),
}
