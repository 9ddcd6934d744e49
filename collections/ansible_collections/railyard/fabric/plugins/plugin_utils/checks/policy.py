# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`fabric_policy`: how long and how hard to measure, and the bounds a site lays down itself."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from ansible_collections.railyard.fabric.plugins.module_utils import numeric
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import RDMA_TESTS
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds, together
from ansible_collections.railyard.fabric.plugins.module_utils.schedule.policy_keys import KEYS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS

DEFAULT: dict[str, Any] = {name: key.default for name, key in KEYS.items()}

BMC_CHECKS = ("tcp", "none", "rmcp")
PATTERNS = AUTO, ALL_PAIRS, K_REGULAR, RING, PER_LEAF, ACROSS_LEAVES = (
    "auto", "all_pairs", "k_regular", "ring", "per_leaf", "across_leaves"
)  # fmt: skip
#: What a run may lay over the inventory's policy, and the variable that says it.
OF_RUN = {"pattern": "railyard_pattern", "questions": "railyard_questions", "lease_s": "railyard_lease_s"}
#: Keys that take one word of these.
_WORDS = {
    "pattern": PATTERNS,
    "questions": rounds.QUESTIONS,
    "collectives": ("none", "torch"),
    "collective_backend": ("gloo", "nccl"),
}
#: Keys that list some of these, each once.
_LISTS = {"rdma_tests": RDMA_TESTS, "collective_operations": tuple(together.OPERATIONS)}
# What units of tools do not see (ProtectHome, PrivateTmp).
_UNSEEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108 - refused, not used
# A BMC is asked at each of them.
_MOST_PORTS = 8

#: `fabric_policy` as `merge` returns it: every key is there, and each value is of its kind.
Policy = Mapping[str, Any]


class PolicyError(ValueError):
    """`fabric_policy` cannot be used; `problems` holds one sentence for each fault, each naming its key."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


is_number, is_whole = numeric.is_number, numeric.is_whole


def is_pair(value: object, kind: Callable[[object], bool] = is_whole) -> TypeGuard[list[Any]]:
    """Tell whether a value is a list of two of a kind: a counter before and after, an interval."""
    return isinstance(value, list) and len(value) == 2 and kind(value[0]) and kind(value[1])


def are_pairs(values: Iterable[object]) -> bool:
    """Tell whether all of these are lists of two whole numbers: `is_pair` of what a run holds millions of."""
    for value in values:
        if value.__class__ is list and len(value) == 2:
            one, other = value
            if one.__class__ is int is other.__class__ and 0 <= one <= other < numeric.MOST_COUNTED:
                continue
        if not is_pair(value):
            return False
    return True


def is_texts(value: object) -> TypeGuard[Sequence[str]]:
    """Tell whether a value is a list of texts; one text is none, though it is a sequence of them."""
    return isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)


def of_run(user: object, variables: Mapping[str, Any]) -> object:
    """Return the inventory's policy with what a run's own variables lay over it, as `railyard sweep` does.

    Args:
        user: the inventory's `fabric_policy`, or None.
        variables: those that `OF_RUN` names are read; on a command line a number is a text.
    """
    own = {key: variables[name] for key, name in OF_RUN.items() if variables.get(name) is not None}
    own |= {key: int(value) for key, value in own.items() if isinstance(value, str) and value.isdecimal()}
    if not own or not isinstance(user, (Mapping, type(None))):
        return user
    return {**(user or {}), **own}


def merge(user: object) -> dict[str, Any]:
    """Lay the user's policy over the default one.

    Args:
        user: the inventory's `fabric_policy`, or None.

    Returns:
        A new, complete policy.

    Raises:
        PolicyError: with every unknown key, wrong type and number out of range at once.
    """
    merged: dict[str, Any] = copy.deepcopy(DEFAULT)
    if user is None:
        return merged
    if not isinstance(user, Mapping):
        raise PolicyError([f"fabric_policy must be a mapping, not {_kind(user)}"])
    problems: list[str] = []
    for key, value in user.items():
        if not isinstance(key, str) or key not in DEFAULT:
            problems.append(f"fabric_policy.{key} is not known; known keys: {', '.join(sorted(DEFAULT))}")
        elif key == "floors":
            merged["floors"] = _floors(value, problems)
        elif key in _LISTS:
            found = _list_problems(key, value)
            problems += found
            merged[key] = [] if found else [str(one) for one in value]
        elif key == "bmc_check":
            if value not in BMC_CHECKS:
                problems.append(
                    f"fabric_policy.bmc_check must be one of {', '.join(BMC_CHECKS)}, not {value!r}"
                )
            # The presence ping of earlier versions: a lost datagram was a silent BMC.
            merged[key] = "tcp" if value == "rmcp" else value
        elif key in _WORDS:
            if value not in _WORDS[key]:
                problems.append(f"fabric_policy.{key} must be one of {', '.join(_WORDS[key])}, not {value!r}")
            merged[key] = value
        elif key == "bmc_tcp_ports":
            problems += _ports_problems(value)
            merged[key] = value
        elif key == "collective_python":
            problems += _paths_problems(key, [value], 1)
            merged[key] = value
        elif key == "rdma_traffic_class":
            problem = None if value is None else _number_problem(key, value, whole=True)
            problems += [problem] if problem else []
            merged[key] = value if problem or value is None else int(value)
        elif KEYS[key].kind == "path":
            problems += _folder_problems(key, value) if value != "" else []
            merged[key] = value
        elif KEYS[key].kind == "paths":
            problems += _paths_problems(key, value, int(KEYS[key].most))
            merged[key] = value
        elif KEYS[key].kind == "switch":
            if not isinstance(value, bool):
                problems.append(f"fabric_policy.{key} must be true or false, not {value!r}")
            merged[key] = value
        else:
            problem = _number_problem(key, value)
            if problem:
                problems.append(problem)
            # A tool that wants a whole number may not read 4.0.
            merged[key] = int(value) if not problem and KEYS[key].kind == "whole" else value
    if not problems:
        problems = _window_problems(merged) + _unasked_problems(merged)
    if problems:
        raise PolicyError(problems)
    return merged


def _list_problems(key: str, value: object) -> list[str]:
    where, known = f"fabric_policy.{key}", _LISTS[key]
    if not is_texts(value):
        return [f"{where} must be a list of {', '.join(known)}, not {value!r}"]
    if not value and key == "rdma_tests":
        return [f"{where} is empty: a cluster of which no RDMA is asked declares it; use transport tcp"]
    problems = [
        f"{where} lists {one!r}; these can be asked: {', '.join(known)}" for one in value if one not in known
    ]
    twice = sorted({one for one in value if value.count(one) > 1})
    return problems + [f"{where} lists {one} twice" for one in twice]


def _ports_problems(value: Any) -> list[str]:
    good = isinstance(value, list) and all(is_whole(one) and 1 <= one <= 65535 for one in value)
    if good and 1 <= len(value) <= _MOST_PORTS:
        return []
    return [f"fabric_policy.bmc_tcp_ports must list 1 to {_MOST_PORTS} TCP ports, not {value!r}"]


def _paths_problems(key: str, value: Any, most: int) -> list[str]:
    where = f"fabric_policy.{key}"
    if not is_texts(value) or not isinstance(value, list) or len(value) > most:
        return [f"{where} must list at most {most} absolute paths, not {value!r}"]
    # One that is written otherwise would be a second name of the same, or go elsewhere than it seems to.
    problems = [
        f"{where} lists {path!r}; write it absolute and plain, such as /data"
        for path in value
        if not path.isprintable() or not path.startswith("/") or os.path.normpath(path) != path
    ]
    return problems + [f"{where} lists {path} twice" for path in sorted(set(value)) if value.count(path) > 1]


def _folder_problems(key: str, value: Any) -> list[str]:
    """A program is looked for on the nodes, whose tools do not see the folders of users."""
    hidden = [root for root in _UNSEEN if isinstance(value, str) and f"{value}/".startswith(f"{root}/")]
    return _paths_problems(key, [value], 1) or [
        f"fabric_policy.{key} is below {root}, which tools do not see; install it below /opt or /usr/local"
        for root in hidden
    ]


def _unasked_problems(merged: Mapping[str, Any]) -> list[str]:
    """Some tests are measured beside that of host memory, by the same program."""
    if "ib_write_bw" in merged["rdma_tests"]:
        return []
    return [
        f"fabric_policy.{key} goes with ib_write_bw, which rdma_tests lacks"
        for key in ("gpudirect_perftest_folder", "rdma_default_class")
        if merged[key]
    ]


def _window_problems(merged: Mapping[str, Any]) -> list[str]:
    """A timed perftest leaves out the margin at both ends of a timed test; what is left must be a test."""
    left_s = merged["rdma_duration_s"] - 2 * merged["rdma_margin_s"]
    if left_s >= 1:
        return []
    return [
        f"fabric_policy.rdma_duration_s {merged['rdma_duration_s']} less twice rdma_margin_s "
        f"{merged['rdma_margin_s']} leaves {left_s} s to measure; at least 1 s must be left"
    ]


def _number_problem(key: str, value: object, whole: bool = False) -> str | None:
    _default, _meaning, kind, least, most, _to_node = KEYS[key]
    if not is_number(value):
        return f"fabric_policy.{key} must be a number, not {value!r}"
    if (whole or kind == "whole") and int(value) != value:
        return f"fabric_policy.{key} must be a whole number, not {value!r}"
    if not least <= value <= most:
        return f"fabric_policy.{key} must be within {least:g} and {most:g}, not {value!r}"
    return None


def _floors(value: object, problems: list[str]) -> dict[str, dict[str, list[float | None]]]:
    """Check `floors`: {check: {metric: [floor, ceiling or null]}}; problems are appended to the list."""
    good: dict[str, dict[str, list[float | None]]] = {}
    if not isinstance(value, Mapping):
        problems.append(f"fabric_policy.floors must be a mapping of checks, not {_kind(value)}")
        return good
    boundable = sorted(name for name, check in CHECKS.items() if check.bounded)
    for check, metrics in value.items():
        where = f"fabric_policy.floors.{check}"
        if check not in boundable:
            problems.append(f"{where} is no check that can be bounded; these can: {', '.join(boundable)}")
            continue
        if not isinstance(metrics, Mapping) or not metrics:
            problems.append(f"{where} must map metrics to [floor, ceiling], not {_kind(metrics)}")
            continue
        for metric, bounds in metrics.items():
            problem = _bounds_problem(str(check), metric, bounds)
            if problem:
                problems.append(f"{where}.{metric} {problem}")
            else:
                good.setdefault(str(check), {})[str(metric)] = list(bounds)
    return good


def _bounds_problem(check: str, metric: object, bounds: object) -> str | None:
    if metric not in CHECKS[check].bounded:
        return f"is no metric of {check} that can be bounded; these can: {', '.join(CHECKS[check].bounded)}"
    if not isinstance(bounds, (list, tuple)) or len(bounds) != 2:
        return f"must be [floor, ceiling or null], not {bounds!r}"
    floor, ceiling = bounds
    if not is_number(floor) or floor < 0:
        return f"must begin with a floor that is a number of at least 0, not {floor!r}"
    if ceiling is not None and (not is_number(ceiling) or ceiling <= 0 or ceiling < floor):
        return f"must end with a ceiling above the floor, or null, not {ceiling!r}"
    return None


def _kind(value: object) -> str:
    return {"NoneType": "null", "str": "text", "list": "a list", "bool": "true/false"}.get(
        type(value).__name__, type(value).__name__
    )
