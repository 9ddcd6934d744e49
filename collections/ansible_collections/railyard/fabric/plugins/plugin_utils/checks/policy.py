# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`fabric_policy`: duration and load of measurements, and the thresholds that a site sets."""

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
#: Keys that a run may override, and the variable for each.
RUN_VARIABLES = {key: f"railyard_{key}" for key in ("pattern", "questions", "lease_s", "slurm_job")}
#: Keys that take one of these values.
_CHOICES = {
    "pattern": PATTERNS,
    "questions": rounds.QUESTIONS,
    "bmc_check": BMC_CHECKS,
    "collectives": ("none", "torch"),
    "collective_backend": ("gloo", "nccl"),
}
#: Keys that take a list of these values.
_LISTS = {"rdma_tests": RDMA_TESTS, "collective_operations": tuple(together.OPERATIONS)}
# Folders that are hidden from the systemd units of tools (ProtectHome, PrivateTmp).
_HIDDEN_FROM_TOOLS = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108 - refused, not used
# Each BMC is tried at each of them.
_MOST_PORTS = 8

#: `fabric_policy` as `merge` returns it: every key is present, and each value has the key's type.
Policy = Mapping[str, Any]


class PolicyError(ValueError):
    """`fabric_policy` cannot be used; `problems` holds one sentence for each fault, each naming its key."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


is_number, is_whole = numeric.is_number, numeric.is_whole


def is_pair(value: object, kind: Callable[[object], bool] = is_whole) -> TypeGuard[list[Any]]:
    """Tell whether a value is a list of two valid items: a counter before and after, an interval."""
    return isinstance(value, list) and len(value) == 2 and kind(value[0]) and kind(value[1])


def are_pairs(values: Iterable[object]) -> bool:
    """Tell whether all values are lists of two whole numbers: a fast `is_pair` for millions of values."""
    for value in values:
        if value.__class__ is list and len(value) == 2:
            one, other = value
            if one.__class__ is int is other.__class__ and 0 <= one <= other < numeric.MOST_COUNTED:
                continue
        if not is_pair(value):
            return False
    return True


def is_texts(value: object) -> TypeGuard[Sequence[str]]:
    """Tell whether a value is a list of strings; a single string is not."""
    return isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)


def apply_run_variables(user: object, variables: Mapping[str, Any]) -> object:
    """Return the inventory's policy with a run's variables applied, as `railyard sweep` sets them.

    Args:
        user: the inventory's `fabric_policy`, or None.
        variables: `RUN_VARIABLES` names those that are read; from a command line a number is a string.
    """
    own = {key: variables[name] for key, name in RUN_VARIABLES.items() if variables.get(name) is not None}
    own |= {key: int(value) for key, value in own.items() if isinstance(value, str) and value.isdecimal()}
    if not own or not isinstance(user, (Mapping, type(None))):
        return user
    return {**(user or {}), **own}


def merge(user: object) -> dict[str, Any]:
    """Apply the user's policy to the default one.

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
        raise PolicyError([f"fabric_policy must be a mapping, not {_describe_type(user)}"])
    problems: list[str] = []
    for key, value in user.items():
        if not isinstance(key, str) or key not in DEFAULT:
            problems.append(f"fabric_policy.{key} is not known; known keys: {', '.join(sorted(DEFAULT))}")
        elif found := _find_problems(key, value):
            problems += found
        else:
            merged[key] = _normalize(key, value)
    if not problems:
        problems = _check_window(merged) + _check_dependencies(merged)
    if problems:
        raise PolicyError(problems)
    return merged


def _find_problems(key: str, value: Any) -> list[str]:
    where, kind = f"fabric_policy.{key}", KEYS[key].kind
    if key == "floors":
        return _check_floors(value)
    if key in _LISTS:
        return _check_list(key, value)
    if key in _CHOICES:
        words = _CHOICES[key]
        return [] if value in words else [f"{where} must be one of {', '.join(words)}, not {value!r}"]
    if key == "bmc_tcp_ports":
        return _check_ports(value)
    if key == "collective_python":
        return _check_paths(key, [value], 1)
    if (key, value) == ("rdma_traffic_class", None) or (kind, value) == ("path", ""):
        return []
    if kind == "path":
        return _check_program_folder(key, value)
    if kind == "paths":
        return _check_paths(key, value, int(KEYS[key].most))
    if kind == "switch":
        return [] if isinstance(value, bool) else [f"{where} must be true or false, not {value!r}"]
    return _check_number(key, value)


def _normalize(key: str, value: Any) -> Any:
    """Return a valid value in the form that the tests use."""
    if key == "floors":
        return {
            str(name): {str(metric): list(both) for metric, both in of.items()} for name, of in value.items()
        }
    if key in _LISTS:
        return [str(one) for one in value]
    if (key, value) == ("bmc_check", "rmcp"):
        return "tcp"  # earlier versions sent a presence ping, and a lost datagram looked like a silent BMC
    # A tool that expects an integer may not accept 4.0.
    return int(value) if _takes_integer(key) and value is not None else value


def _takes_integer(key: str) -> bool:
    return KEYS[key].kind == "whole" or key == "rdma_traffic_class"


def _check_list(key: str, value: object) -> list[str]:
    where, known = f"fabric_policy.{key}", _LISTS[key]
    if not is_texts(value):
        return [f"{where} must be a list of {', '.join(known)}, not {value!r}"]
    if not value and key == "rdma_tests":
        return [f"{where} is empty; to plan no RDMA tests, declare transport: tcp"]
    problems = [
        f"{where} lists {one!r}; known values: {', '.join(known)}" for one in value if one not in known
    ]
    twice = sorted({one for one in value if value.count(one) > 1})
    return problems + [f"{where} lists {one} twice" for one in twice]


def _check_ports(value: Any) -> list[str]:
    good = isinstance(value, list) and all(is_whole(one) and 1 <= one <= 65535 for one in value)
    if good and 1 <= len(value) <= _MOST_PORTS:
        return []
    return [f"fabric_policy.bmc_tcp_ports must list 1 to {_MOST_PORTS} TCP ports, not {value!r}"]


def _check_paths(key: str, value: Any, most: int) -> list[str]:
    where = f"fabric_policy.{key}"
    if not is_texts(value) or not isinstance(value, list) or len(value) > most:
        return [f"{where} must list at most {most} absolute paths, not {value!r}"]
    # Another spelling would be a second name for the same path, or lead to an unexpected place.
    problems = [
        f"{where} lists {path!r}; write an absolute path without `.`, `..` or a final slash, such as /data"
        for path in value
        if not path.isprintable() or not path.startswith("/") or os.path.normpath(path) != path
    ]
    return problems + [f"{where} lists {path} twice" for path in sorted(set(value)) if value.count(path) > 1]


def _check_program_folder(key: str, value: Any) -> list[str]:
    """Check a folder of programs on the nodes; tools cannot read users' folders."""
    hidden = [
        root for root in _HIDDEN_FROM_TOOLS if isinstance(value, str) and f"{value}/".startswith(f"{root}/")
    ]
    return _check_paths(key, [value], 1) or [
        f"fabric_policy.{key} is below {root}, which is hidden from tools; install below /opt or /usr/local"
        for root in hidden
    ]


def _check_dependencies(merged: Mapping[str, Any]) -> list[str]:
    """Check keys that need ib_write_bw: their tests run beside that of host memory, by the same program."""
    if "ib_write_bw" in merged["rdma_tests"]:
        return []
    return [
        f"fabric_policy.{key} needs ib_write_bw, which rdma_tests does not list"
        for key in ("gpudirect_perftest_folder", "rdma_default_class")
        if merged[key]
    ]


def _check_window(merged: Mapping[str, Any]) -> list[str]:
    """Check that the margins, which perftest leaves out at both ends, leave time to measure."""
    left_s = merged["rdma_duration_s"] - 2 * merged["rdma_margin_s"]
    if left_s >= 1:
        return []
    return [
        f"fabric_policy.rdma_duration_s {merged['rdma_duration_s']} minus twice rdma_margin_s "
        f"{merged['rdma_margin_s']} leaves {left_s} s to measure; at least 1 s is needed"
    ]


def _check_number(key: str, value: object) -> list[str]:
    where, (_default, _meaning, _kind, least, most, _to_node) = f"fabric_policy.{key}", KEYS[key]
    if not is_number(value):
        return [f"{where} must be a number, not {value!r}"]
    if _takes_integer(key) and int(value) != value:
        return [f"{where} must be a whole number, not {value!r}"]
    if not least <= value <= most:
        return [f"{where} must be within {least:g} and {most:g}, not {value!r}"]
    return []


def _check_floors(value: object) -> list[str]:
    """Check `floors`: {check: {metric: [floor, ceiling or null]}}."""
    if not isinstance(value, Mapping):
        return [f"fabric_policy.floors must be a mapping of checks, not {_describe_type(value)}"]
    boundable = sorted(name for name, check in CHECKS.items() if check.bounded)
    problems = []
    for check, metrics in value.items():
        where = f"fabric_policy.floors.{check}"
        if check not in boundable:
            problems.append(f"{where} is not a check with thresholds; these are: {', '.join(boundable)}")
        elif not isinstance(metrics, Mapping) or not metrics:
            problems.append(f"{where} must map metrics to [floor, ceiling], not {_describe_type(metrics)}")
        else:
            found = ((metric, _check_bounds(check, metric, bounds)) for metric, bounds in metrics.items())
            problems += [f"{where}.{metric} {problem}" for metric, problem in found if problem]
    return problems


def _check_bounds(check: str, metric: object, bounds: object) -> str | None:
    if metric not in CHECKS[check].bounded:
        return f"is not a metric of {check} with thresholds; these are: {', '.join(CHECKS[check].bounded)}"
    if not isinstance(bounds, (list, tuple)) or len(bounds) != 2:
        return f"must be [floor, ceiling or null], not {bounds!r}"
    floor, ceiling = bounds
    if not is_number(floor) or floor < 0:
        return f"must begin with a floor that is a number of at least 0, not {floor!r}"
    if ceiling is not None and (not is_number(ceiling) or ceiling <= 0 or ceiling < floor):
        return f"must end with a ceiling above the floor, or null, not {ceiling!r}"
    return None


def _describe_type(value: object) -> str:
    return {"NoneType": "null", "str": "text", "list": "a list", "bool": "true/false"}.get(
        type(value).__name__, type(value).__name__
    )
